"""A report as HTML: one section of text, tables and drawings, in which nothing is loaded from anywhere. Knows
reports; at most 500 kB whatever they hold, since long texts are cut and dots are thinned out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

from tensorlang.display import box, escape, page, text
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
BESIDE = 265  # pixels for the name of a feature, at most 40 letters
CORNERS, DOTS = 400, 2000  # of the curve
RED = "#c62828"

# What reports have beside boxes of other objects; colours and grounds are those of the page they stand in.
_STYLE = (
    "<style>.tl-box h2{font:600 15px system-ui,sans-serif;color:inherit;margin:1.4em 0 .4em}"
    ".tl-box th[scope]{white-space:nowrap}"
    ".tl-box td pre{margin:0;padding:0;background:none;white-space:pre-wrap}"
    ".tl-box svg{font:12px system-ui,sans-serif;max-width:100%;height:auto}</style>"
)


def document(report: Shown) -> str:
    """The section as a whole page, light or dark."""
    return page(report.result.task.name[:LONG], section(report))


def section(report: Shown) -> str:
    """Facts, curve, roofline, what the model weighs, the best schedule, what failed."""
    r = report.result
    parts = [_STYLE, _table([(title, escape(said[:LONG])) for title, said in report.facts])]
    if report.curve:
        parts.append(f"<h2>Candidates and the best so far</h2>{_curve(r.costs, r.begun, r.flops)}")
    if report.roofline is not None:
        parts.append(f"<h2>Why it is fast: its place under the roof</h2>{roof(report.roofline)}")
    if r.ranks:
        parts.append(f"<h2>What the model foresaw</h2>{_ranks([placed(pairs) for pairs in r.ranks])}")
    if report.weights:
        parts.append(f"<h2>What the cost model goes by</h2>{_bars(report.weights)}")
    if report.python:
        python = (
            report.python
            if len(report.python) <= CODE
            else report.python[:CODE] + "\n# … cut: the records have it all\n"
        )
        called = text("For a fresh schedule of the task: s = task.schedule(); apply(s)")
        parts.append(f"<h2>Best schedule</h2>{called}<pre>{escape(python)}</pre>")
    rows = [(f"{n} × {escape(status)}", f"<pre>{escape(why)}</pre>") for status, n, why in report.failures]
    failed = _table(rows)
    parts.append(f"<h2>What failed</h2>{failed if report.failures else text('Nothing.')}")
    return box(r.task.name[:LONG], *parts)


def _table(rows: Sequence[tuple[str, str]]) -> str:
    return (
        "<table>"
        + "".join(f"<tr><th scope=row>{title}</th><td>{cell}</td></tr>" for title, cell in rows)
        + "</table>"
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
        body += label(BESIDE, y + 12, escape(name[:40]), "end")
        length = (WIDTH - BESIDE - 60) * share / widest
        body += (
            f'<rect x="{BESIDE + 8}" y="{y}" width="{length:.1f}" height="15" fill="{BLUE}" opacity=".75"/>'
        )
        body += label(BESIDE + 16 + length, y + 12, f"{share:.0%}", "start")
    return svg(body, "weights of features", 20 * len(weights) + 8)


def _nice(v: float) -> float:
    """The nearest of 1, 2, 5 × a power of ten that is not larger."""
    if v <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(v))
    return next(m * power for m in (5, 2, 1) if m * power <= v * (1 + 1e-9))
