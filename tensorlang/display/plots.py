"""Drawings with axes: a kernel below the roof of its machine (Williams, Waterman, Patterson: "Roofline", CACM
2009), and the lines and labels that such drawings are made of. Knows nothing of kernels.
"""

from __future__ import annotations

import math
from typing import Any

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 250, 58, 14, 12, 44
BLUE, GREY = "#1f6feb", "#9aa4b2"


def svg(body: str, words: str, height: int = HEIGHT) -> str:
    """A drawing, and what it is in words."""
    return f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img" aria-label="{words}">{body}</svg>'


def label(x: float, y: float, text: str, anchor: str = "middle", more: str = "") -> str:
    """Text at a point, which is HTML already."""
    return f'<text fill="currentColor" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{text}</text>'


def line(x: float, y: float, x2: float, y2: float, colour: str, more: str = "") -> str:
    """A straight line."""
    return f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"{more}/>'


def roof(p: Any) -> str:
    """Attainable speed over operations a byte, both logarithmic: the slope of bandwidth, the flat of
    arithmetic, and the best."""
    ridge = p.peaks.flops / p.peaks.bandwidth
    low, high = math.log10(min(p.intensity, ridge) / 8), math.log10(max(p.intensity, ridge) * 8)
    bottom = math.log10(min(p.attained, p.peaks.bandwidth * 10**low)) - 0.3
    top = math.log10(max(p.peaks.flops, p.attained)) + 0.2
    decades = [
        m * 10.0**k
        for k in range(math.floor(bottom), math.ceil(top))
        for m in ((1, 2, 5) if top - bottom < 2.5 else (1,))
    ]
    floor = HEIGHT - BOTTOM

    def x(intensity: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (math.log10(intensity) - low) / (high - low)

    def y(v: float) -> float:
        return floor - (floor - TOP) * (math.log10(v) - bottom) / (top - bottom)

    body = "".join(
        line(LEFT, y(v), WIDTH - RIGHT, y(v), "currentColor", ' stroke-opacity=".15"')
        + label(LEFT - 6, y(v) + 4, f"{v / 1e9:g}", "end")
        for v in decades
        if bottom <= math.log10(v) <= top
    )
    body += "".join(
        label(x(10.0**k), floor + 18, f"{10.0**k:g}") for k in range(math.ceil(low), math.floor(high) + 1)
    )
    body += (
        f'<path d="M{x(10**low):.1f} {y(p.peaks.bandwidth * 10**low):.1f}L{x(ridge):.1f} '
        f'{y(p.peaks.flops):.1f}H{WIDTH - RIGHT}" fill="none" '
        f'stroke="{GREY}" stroke-width="2"/>'
    )
    body += label(
        WIDTH - RIGHT,
        y(p.peaks.flops) - 6,
        f"{p.peaks.flops / 1e9:.0f} GFLOP/s, {p.peaks.threads} threads",
        "end",
    )
    halfway = math.sqrt(10**low * ridge)
    body += label(
        x(halfway) - 8, y(p.peaks.bandwidth * halfway) - 8, f"{p.peaks.bandwidth / 1e9:.0f} GB/s", "end"
    )
    body += line(x(p.intensity), y(p.attained), x(p.intensity), y(p.roof), BLUE, ' stroke-dasharray="3 3"')
    body += f'<circle cx="{x(p.intensity):.1f}" cy="{y(p.attained):.1f}" r="5" fill="{BLUE}"/>'
    side, anchor = (10, "start") if x(p.intensity) < WIDTH * 0.6 else (-10, "end")
    body += label(
        x(p.intensity) + side,
        y(p.attained) + 16,
        f"{p.attained / 1e9:.1f} GFLOP/s, {p.share:.0%} of the roof",
        anchor,
    )
    return svg(
        body
        + label((WIDTH + LEFT) / 2, HEIGHT - 6, "GFLOP/s over operations for each byte of the arguments"),
        "roofline",
    )
