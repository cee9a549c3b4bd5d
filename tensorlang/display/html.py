"""The few words of HTML that objects are shown with: boxes, tables, bars, strips of samples, coloured code.

Colours are of middle tone and backgrounds see-through, so that a page may be light or dark; nothing is shown
by colour alone, and what folds is ``details``, which keys open. Names of users come as plain text and are
escaped here. Knows nothing of what is shown.
"""

from __future__ import annotations

import html as _html
import re
from collections.abc import Iterable, Sequence

MANY = 400  # lines of code, after which a text is cut
BLUE, ORANGE, GREEN, VIOLET, GREY = "#2f7fd1", "#c8641b", "#3f8f46", "#8a63c9", "#808890"
_FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,monospace"
_STYLE = (
    "<style>"
    ".tl-box{font:13px/1.5 system-ui,sans-serif;max-width:70em;color:inherit}"
    f".tl-box pre{{font:12px/1.45 {_FONT};margin:.3em 0;padding:.5em .8em;overflow-x:auto;white-space:pre;"
    "background:rgba(128,128,128,.10);color:inherit;border-radius:4px}"
    ".tl-box table{border-collapse:collapse;margin:.3em 0;color:inherit}"
    ".tl-box th,.tl-box td{text-align:left;padding:.1em 1.2em .1em 0;background:none;color:inherit;"
    "border:0;vertical-align:top}"
    ".tl-box th{font-weight:600;opacity:.75}.tl-box td.n{text-align:right;font-variant-numeric:tabular-nums}"
    ".tl-box nav{display:flex;flex-wrap:wrap;gap:.2em 1.2em}.tl-box nav a{color:inherit}"
    ".tl-box details{margin:.2em 0}.tl-box summary{cursor:pointer}"
    ".tl-box pre details{margin:0}.tl-box summary:focus-visible{outline:2px solid currentColor}"
    # the marks of loops stand in the margin, so that all lines of a body begin in one column
    ".tl-box pre.tl-fold{padding-left:3ch}.tl-fold summary{list-style:none}"
    ".tl-fold summary::before{content:'▾';display:inline-block;width:2ch;margin-left:-2ch}"
    ".tl-fold details:not([open])>summary::before{content:'▸'}"
    f".tl-k{{color:{VIOLET};font-weight:600}}.tl-t{{color:{BLUE}}}.tl-n{{color:{ORANGE}}}"
    f".tl-c{{color:{GREY};font-style:italic}}"
    "</style>"
)
_PAGE = (
    '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">'
    "<style>body{{max-width:90em;margin:1em auto;padding:0 1em}}"
    "body .tl-box{{max-width:none}}"
    ".tl-box td:nth-last-child(2){{white-space:nowrap}}"
    "h2{{font:600 16px system-ui,sans-serif}}svg{{max-width:100%;height:auto}}"
    "</style><title>{title}</title></head><body>{body}{script}</body></html>\n"
)


def escape(x: object) -> str:
    """Text that may be of a user."""
    return _html.escape(str(x))


def box(title: str, *parts: str) -> str:
    """The whole of what an object shows: a title and parts, which are HTML."""
    head = f"<div><b>{escape(title)}</b></div>" if title else ""
    return f'{_STYLE}<div class="tl-box">{head}{"".join(parts)}</div>'


def page(title: str, body: str, script: str = "") -> str:
    """What an object shows as a file of its own, light or dark."""
    return _PAGE.format(title=escape(title), body=body, script=script)


def text(x: object) -> str:
    """A line of prose."""
    return f"<div>{escape(x)}</div>"


def code(x: str) -> str:
    """Plain text with its columns."""
    return f"<pre>{escape(_cut(x))}</pre>"


def details(title: str, inside: str, *, open: bool = False) -> str:
    """Something that is shown when it is asked for, by a click or the keyboard."""
    return f"<details{' open' if open else ''}><summary>{escape(title)}</summary>{inside}</details>"


class Raw(str):
    """A cell of a table that is HTML already."""

    __slots__ = ()


def table(rows: Iterable[Sequence[object]], header: Sequence[str] = ()) -> str:
    """Rows of text; numbers stand right."""
    head = f"<tr>{''.join(f'<th>{escape(h)}</th>' for h in header)}</tr>" if header else ""
    body = "".join(f"<tr>{''.join(map(_cell, r))}</tr>" for r in rows)
    return f"<table>{head}{body}</table>"


def _cell(x: object) -> str:
    if isinstance(x, int | float):
        return f'<td class="n">{escape(x)}</td>'
    return f"<td>{x if isinstance(x, Raw) else escape(x)}</td>"


def bars(rows: Iterable[tuple[str, float, str]]) -> str:
    """A bar for each (name, share of 0 to 1, note); the share is also written."""
    lines = [
        f"<tr><td>{escape(name)}</td>"
        f'<td><div style="width:14em;background:rgba(128,128,128,.18)"><div style="width:{share * 100:.1f}%;'
        f'height:.9em;background:{BLUE}"></div></div></td>'
        f'<td class="n">{share * 100:.1f} %</td><td>{escape(note)}</td></tr>'
        for name, share, note in rows
    ]
    return f"<table>{''.join(lines)}</table>"


def strip(samples: Sequence[float], middle: float, words: str) -> str:
    """The samples as ticks on a line, the middle as a longer one; ``words`` say the same."""
    low, high = min([*samples, middle]), max([*samples, middle])
    span = (high - low) or 1.0
    x = lambda v: 4 + 352 * (v - low) / span
    ticks = "".join(
        f'<line x1="{x(v):.1f}" x2="{x(v):.1f}" y1="8" y2="20" stroke="{BLUE}" stroke-opacity=".6"/>'
        # more ticks than that are a solid line
        for v in list(samples)[:1000]
    )
    return (
        f'<svg viewBox="0 0 360 28" width="360" height="28" role="img" aria-label="{escape(words)}">'
        f"<title>{escape(words)}</title>"
        f'<line x1="4" x2="356" y1="14" y2="14" stroke="currentColor" stroke-opacity=".3"/>{ticks}'
        f'<line x1="{x(middle):.1f}" x2="{x(middle):.1f}" y1="2" y2="26" stroke="{ORANGE}" '
        'stroke-width="2"/></svg>'
    )


_WORDS = re.compile(
    r"(?P<c>#[^\n]*)"
    r"|(?P<k>\b(?:def|for|in|range|if|else|while|let|assert|parallel|vectorized|unrolled|prefetch|return|out)\b)"
    r"|(?P<t>\b(?:bool|bfloat16|u?int(?:8|16|32|64)|float(?:16|32|64)|x\d+)\b)"
    r"|(?P<n>\b\d[\d_]*(?:\.\d+)?(?:e[+-]?\d+)?\b)"
)


def coloured(x: str) -> str:
    """Loop IR or Python with its words, types and numbers set apart; without a frame."""
    made, end = [], 0
    for m in _WORDS.finditer(x):
        made += [escape(x[end : m.start()]), f'<span class="tl-{m.lastgroup}">{escape(m[0])}</span>']
        end = m.end()
    return "".join([*made, escape(x[end:])])


def folded(x: str) -> str:
    """Loop IR, coloured; every loop can be folded."""
    lines = _cut(x).splitlines()
    return f'<pre class="tl-fold">{_folded(lines, 0, len(lines))}</pre>'


def _folded(lines: Sequence[str], begin: int, end: int) -> str:
    made, n = "", begin
    while n < end:
        last = _block(lines, n, end)
        # a statement that is wrapped is indented too, and is no loop
        if last > n + 1 and lines[n].rstrip().endswith(":"):
            inside = _folded(lines, n + 1, last)
            made += f"<details open><summary>{coloured(lines[n])}</summary>{inside}</details>"
            n = last
        else:
            made += f"{coloured(lines[n])}\n"
            n += 1
    return made


def _block(lines: Sequence[str], n: int, end: int) -> int:
    """Where what is indented below line ``n`` ends."""
    depth, m = _indent(lines[n]), n + 1
    while m < end and (_indent(lines[m]) > depth or not lines[m].strip()):
        m += 1
    return m


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _cut(x: str) -> str:
    lines = x.splitlines()
    return x if len(lines) <= MANY else "\n".join([*lines[:MANY], f"… {len(lines) - MANY} more lines"])
