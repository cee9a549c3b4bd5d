"""A graph as a drawing, and as a notebook shows it. Knows graphs; where boxes stand is ``core.drawing``'s."""

from __future__ import annotations

import html
from collections.abc import Callable

from ..core.drawing import Arrow, Box, drawing
from .graph import Node, Program, Value

MOST_DRAWN = 400  # operators that a notebook shows as a drawing


def svg(graph: Program, named: Callable[[str], str]) -> str:
    """The SVG of a graph. ``named`` puts a user's names of sizes into a text."""
    boxes: list[Box] = []
    arrows: list[Arrow] = []
    maker: dict[Value, int] = {}

    def form(v: Value) -> str:
        return named(repr(v).removeprefix(f"{v.name}: "))

    for v in graph.inputs:
        maker[v] = len(boxes)
        boxes.append(Box(v.name, (form(v),), f"input {named(repr(v))}", end=True))
    for n in graph.nodes:
        for v in n.reads:
            if v in maker:
                arrows.append((maker[v], len(boxes), named(repr(v))))
        maker.update(dict.fromkeys(n.outputs, len(boxes)))
        boxes.append(Box(n.op, tuple(form(v) for v in n.outputs[:3]), named(_about(n))))
    for name, v in zip(graph.output_names, graph.outputs, strict=False):
        if v in maker:
            arrows.append((maker[v], len(boxes), named(repr(v))))
        boxes.append(Box(name, (form(v),), f"output {named(repr(v))}", end=True))
    return drawing(boxes, arrows)


def _about(n: Node) -> str:
    constants = [f"{v!r}" for v in n.reads if v.data is not None]
    attrs = [f"{k} = {str(x)[:80]}" for k, x in n.attrs.items() if x is not None]
    return "\n".join([repr(n), *constants, *attrs])


def notebook(graph: Program, text: str, named: Callable[[str], str]) -> str:
    """What a notebook shows: the drawing, and the text below it; of a large graph the text alone."""
    summary, _, _ = text.partition("\n")
    picture = "" if len(graph.nodes) > MOST_DRAWN else svg(graph, named)
    shown = f'<div style="max-height:36em;overflow:auto">{picture}</div>' if picture else ""
    opened = "" if picture else " open"
    body = f"<pre>{html.escape(text)}</pre>"
    return f"<div>{shown}<details{opened}><summary>{html.escape(summary)}</summary>{body}</details></div>"
