"""A schedule tree as a drawing: loops, storage and computations as boxes with their lines. Reads the text of
the tree; knows no schedules."""

from __future__ import annotations

import re

from .html import BLUE, GREEN, GREY, ORANGE, escape

_ROW, _STEP, _CHAR = 24, 22, 7.3  # pixels
_COLOURS = {"loop": BLUE, "storage": ORANGE, "compute": GREEN}
_LINE = re.compile(r"^([ │├└─]*)(.*?)(?:\s{2,}(.*))?$")


def tree_svg(text: str) -> str:
    """The tree as SVG; a box says in words what its colour says."""
    rows = [_LINE.match(line) for line in text.splitlines()]
    nodes = [(len(m[1]) // 3, m[2], m[3] or "") for m in rows if m is not None]
    parts: list[str] = []
    last: dict[int, int] = {}
    width = 0.0
    for n, (depth, name, note) in enumerate(nodes):
        x, y = 8 + depth * _STEP, 6 + n * _ROW
        if depth:
            above = last[depth - 1]
            parts.append(
                f'<path d="M{8 + (depth - 1) * _STEP + 8} {6 + above * _ROW + 19}V{y + 10}H{x}" fill="none" '
                'stroke="currentColor" stroke-opacity=".4"/>'
            )
        last[depth] = n
        wide = len(name) * _CHAR + 14
        colour = _COLOURS.get(name.partition(" ")[0], GREY)
        parts.append(
            f'<rect x="{x}" y="{y}" width="{wide:.0f}" height="19" rx="4" fill="{colour}" fill-opacity=".16" '
            f'stroke="{colour}"/><text x="{x + 7}" y="{y + 14}" fill="currentColor">{escape(name)}</text>'
            f'<text x="{x + wide + 10:.0f}" y="{y + 14}" fill="currentColor" fill-opacity=".75">'
            f"{escape(note)}</text>"
        )
        width = max(width, x + wide + 20 + len(note) * _CHAR)
    height = 12 + len(nodes) * _ROW
    return (
        f'<svg role="img" aria-label="schedule tree" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" '
        f'height="{height}" font-family="ui-monospace,Menlo,Consolas,monospace" font-size="12">'
        f"{''.join(parts)}</svg>"
    )
