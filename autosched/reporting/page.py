"""A report as HTML: one section of text, tables and drawings, in which nothing is loaded from anywhere. Knows
reports; at most 500 kB whatever they hold, since long texts are cut and dots are thinned out.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Any, Protocol

from tensorlang.display.plots import (
    BLUE,
    BOTTOM,
    GREY,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    label,
    line,
    roof,
    svg,
)
from tensorlang.roofline import Position

from .search_quality import placed


class Shown(Protocol):
    """What a page shows of a report: see ``TuneReport``."""

    result: Any

    @property
    def facts(self) -> list[tuple[str, str]]: ...
    @property
    def curve(self) -> list[tuple[int, float]]: ...
    @property
    def roofline(self) -> Position | None: ...
    @property
    def weights(self) -> list[tuple[str, float]]: ...
    @property
    def python(self) -> str: ...
    @property
    def failures(self) -> list[tuple[str, int, str]]: ...


LONG = 2000  # characters of a line
CODE = 100_000  # characters of a schedule
CORNERS, DOTS = 400, 2000  # of the curve
RED = "#c62828"

_DARK = "--ink:#e6eaf0;--bg:#14181f;--soft:#9aa7b8;--code:#1f2630"
_STYLE = "".join(
    f".autosched {rule}".replace(".autosched {", ".autosched{")
    for rule in (
        "{font:14px/1.5 system-ui,sans-serif;max-width:56em;margin:auto;padding:1em "
        "1.5em;--ink:#1c2330;--bg:#fff;--soft:#5b6675;--code:#f4f5f8;color:var(--ink);background:var(--bg)}",
        "h1{font-size:1.4em}",
        "h2{font-size:1.1em;margin:1.6em 0 .5em}",
        "table{border-collapse:collapse}",
        "p{margin:.3em 0;color:var(--soft)}",
        "td,.autosched th{text-align:left;vertical-align:top;padding:.15em 1em .15em 0;background:var(--bg)}",
        "th{white-space:nowrap;font-weight:600;color:var(--soft)}",
        "pre{margin:0;white-space:pre-wrap;color:var(--ink);background:var(--bg)}",
        "pre.code{background:var(--code);padding:.8em;overflow-x:auto}",
        "svg{font:12px system-ui,sans-serif;max-width:100%;height:auto}",
        "svg text{fill:var(--soft);paint-order:stroke;stroke:var(--bg);stroke-width:3px}",
    )
)
_STYLE += (
    f"@media(prefers-color-scheme:dark){{body:has(>.autosched){{background:#14181f}}.autosched{{{_DARK}}}}}"
)


def document(report: Shown) -> str:
    """The section as a whole page."""
    return (
        '<!DOCTYPE html><html lang="en"><head><meta '
        f'charset="utf-8"><title>{html.escape(report.result.task.name)[:LONG]}</title></head>'
        f"<body>{section(report)}</body></html>\n"
    )


def section(report: Shown) -> str:
    """Facts, curve, roofline, what the model weighs, the best schedule, what failed."""
    e, r = html.escape, report.result
    parts = [
        f"<h1>{e(r.task.name[:LONG])}</h1>",
        _table([(title, e(text[:LONG])) for title, text in report.facts]),
    ]
    if report.curve:
        parts.append(f"<h2>Candidates and the best so far</h2>{_curve(r.costs, r.begun, r.flops)}")
    if report.roofline is not None:
        parts.append(f"<h2>Why it is fast: its place under the roof</h2>{roof(report.roofline)}")
    if r.ranks:
        parts.append(f"<h2>What the model foresaw</h2>{_ranks([placed(pairs) for pairs in r.ranks])}")
    if report.weights:
        parts.append(f"<h2>What the cost model goes by</h2>{_bars(report.weights)}")
    if report.python:
        code = (
            report.python
            if len(report.python) <= CODE
            else report.python[:CODE] + "\n# … cut: the records have it all\n"
        )
        parts.append(
            "<h2>Best schedule</h2><p>For a fresh schedule of the task: s = task.schedule(); "
            f"apply(s)</p><pre class=code>{e(code)}</pre>"
        )
    failed = _table([(f"{n} × {e(status)}", f"<pre>{e(why)}</pre>") for status, n, why in report.failures])
    parts.append(f"<h2>What failed</h2>{failed if report.failures else '<p>Nothing.</p>'}")
    return f"<section class=autosched><style>{_STYLE}</style>{''.join(parts)}</section>"


def _table(rows: Sequence[tuple[str, str]]) -> str:
    return (
        "<table>" + "".join(f"<tr><th>{title}</th><td>{text}</td></tr>" for title, text in rows) + "</table>"
    )


def _curve(costs: Sequence[float], begun: float | None, flops: float) -> str:
    """A dot for each candidate, a tick at the bottom for each that failed, the best so far as a staircase."""

    def speed(cost: float) -> float:
        return flops / cost / 1e9 if flops else 1e-3 / cost

    n = len(costs)
    top = 1.08 * max(speed(c) for c in costs)
    floor = HEIGHT - BOTTOM

    def x(k: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (k - 0.5) / n

    def y(v: float) -> float:
        return floor - (floor - TOP) * v / top

    step = _nice(top / 4)
    body = "".join(
        line(LEFT, y(k * step), WIDTH - RIGHT, y(k * step), "rgba(128,128,128,.25)")
        + label(LEFT - 6, y(k * step) + 4, f"{k * step:.4g}", "end")
        for k in range(int(top / step) + 1)
    )
    body += "".join(
        label(x(k), floor + 18, str(k))
        for k in sorted({1, n, *range(int(_nice(n / 6)) or 1, n - n // 12, max(1, int(_nice(n / 6))))})
    )
    stride = -(-n // DOTS)
    good = "".join(
        f"M{x(k):.0f} {y(speed(c)):.0f}h0" for k, c in list(enumerate(costs, 1))[::stride] if c < math.inf
    )
    bad = "".join(f"M{x(k):.0f} {floor}v-6" for k, c in list(enumerate(costs, 1))[::stride] if c == math.inf)
    best, corners = math.inf, []
    for k, c in enumerate(costs, 1):
        if c < best:
            best = c
            corners.append((k, speed(c)))
    corners = [*corners[: -1 : -(-len(corners) // CORNERS)], corners[-1]]
    stairs = (
        f"M{x(corners[0][0]):.1f} {y(corners[0][1]):.1f}"
        + "".join(f"H{x(k):.1f}V{y(v):.1f}" for k, v in corners[1:])
        + f"H{x(n):.1f}"
    )
    body += (
        f'<path d="{good}" fill="none" stroke="{GREY}" stroke-width="5" stroke-linecap="round"/>'
        f'<path d="{bad}" fill="none" stroke="{RED}" stroke-width="2"/><path d="{stairs}" fill="none" '
        f'stroke="{BLUE}" stroke-width="2.5"/>'
    )
    if begun is not None:
        body += line(LEFT, y(speed(begun)), WIDTH - RIGHT, y(speed(begun)), GREY, ' stroke-dasharray="5 4"')
        body += label(WIDTH - RIGHT, y(speed(begun)) + 14, "the schedule it began with", "end")
    said = f"{'GFLOP/s' if flops else '1000 a second'} over trials" + (
        ": dots are candidates, red ticks those that failed" if bad else ""
    )
    return svg(body + label((WIDTH + LEFT) / 2, HEIGHT - 6, said), "best so far over trials")


def _ranks(groups: Sequence[Sequence[tuple[int, int]]]) -> str:
    """A dot for each candidate: its place by the clock over its place by the model."""
    most = max(max(place) for places in groups for place in places)
    side = HEIGHT - BOTTOM - TOP

    def x(place: float) -> float:
        return LEFT + side * (place - 0.5) / most

    def y(place: float) -> float:
        return TOP + side * (place - 0.5) / most

    dots = [p for places in groups for p in places]
    path = "".join(f"M{x(m):.0f} {y(c):.0f}h0" for m, c in dots[:: -(-len(dots) // DOTS)])
    body = line(x(0.5), y(0.5), x(most + 0.5), y(most + 0.5), GREY, ' stroke-dasharray="5 4"')
    body += f'<path d="{path}" fill="none" stroke="{BLUE}" stroke-width="5" stroke-linecap="round"/>'
    said = "place by the clock over place by the model, the fastest at the top left"
    return svg(body + label(LEFT, HEIGHT - 6, said, "start"), "ranks of the model")


def _bars(weights: Sequence[tuple[str, float]]) -> str:
    widest = max(share for _, share in weights) or 1.0
    body = ""
    for k, (name, share) in enumerate(weights):
        y = 4 + 20 * k
        body += label(150, y + 12, html.escape(name[:40]), "end")
        body += (
            f'<rect x="158" y="{y}" width="{400 * share / widest:.1f}" height="15" fill="{BLUE}" '
            'opacity=".75"/>'
        )
        body += label(166 + 400 * share / widest, y + 12, f"{share:.0%}", "start")
    return svg(body, "weights of features", 20 * len(weights) + 8)


def _nice(v: float) -> float:
    """The nearest of 1, 2, 5 × a power of ten that is not larger."""
    if v <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(v))
    return next(m * power for m in (5, 2, 1) if m * power <= v * (1 + 1e-9))
