"""The report on a function as HTML, for notebooks and as one page in which nothing is loaded from anywhere.
Knows what a report says; nothing of torch.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ...display import Raw, box, code, details, escape, table
from ...display.html import BLUE, GREY, text

if TYPE_CHECKING:
    from .explain import Break, Explanation

WIDTH = 160  # pixels of the longest bar
_PAGE = (
    ":root{color-scheme:light dark}body{margin:1.5em auto;padding:0 1.5em;max-width:72em}"
    ".tl-box h3{font-size:1.05em;margin:1.4em 0 .3em}"
)


def shown(e: Explanation) -> str:
    """The report as a part of a page."""
    parts = [text(line) for line in e.head]
    parts += _part("breaks", [_break(b) for b in e.breaks])
    if e.times:
        parts += _part("regions", [_times(e.times)])
    left = [(n, op, why or "torch does it as well") for op, (n, why) in e.left.items()]
    if left:
        parts += _part("operators in torch", [table(left, ("", "operator", "reason"))])
    parts += _part("compiled again", map(code, e.recompiled))
    if e.guards:
        many = sum(e.guards.values())
        guards = table([(n, kind) for kind, n in e.guards.items()])
        parts.append(details(f"{many} guards: what is checked before each call", guards))
    return box(e.name, *parts)


def page(e: Explanation) -> str:
    """The report as a page of its own."""
    head = f'<meta charset="utf-8"><title>{escape(e.name)}</title><style>{_PAGE}</style>'
    return f'<!DOCTYPE html><html lang="en"><head>{head}</head><body>{shown(e)}</body></html>\n'


def _part(title: str, inside: Iterable[str]) -> list[str]:
    made = list(inside)
    return [f"<h3>{escape(title)}</h3>", *made] if made else []


def _break(b: Break) -> str:
    place = f"<b>{escape(Path(b.file).name)}:{b.line}</b>"
    words = f"<div>{escape(b.reason)}</div><div>try <b>{escape(b.advice)}</b></div>"
    return f'<div style="margin:.6em 0" title="{escape(b.file)}">{place}{code(b.text)}{words}</div>'


def _times(times: list[tuple[str, int, float, float]]) -> str:
    """A row for each region, with a bar for torch and one for the engine."""
    longest = max(max(eager, here) for _, _, eager, here in times) or 1.0
    rows = [
        (
            what,
            count,
            *(Raw(f'<div style="text-align:right">{1e6 * t:.0f} µs</div>') for t in (eager, here)),
            Raw(f"<b>{eager / here:.2f}×</b>"),
            Raw(_bar(eager / longest, GREY) + _bar(here / longest, BLUE)),
        )
        for what, count, eager, here in times
    ]
    return table(rows, ("", "operators", "eager", "here", "", "eager above, here below"))


def _bar(share: float, colour: str) -> str:
    wide = max(1, round(WIDTH * share))
    return f'<div style="width:{wide}px;height:.5em;margin:.15em 0;background:{colour}"></div>'
