"""A graph as a drawing, and as a notebook shows it. Knows graphs; where boxes stand is ``core.drawing``'s."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..core import drawing
from ..core.drawing import Box, Flow
from .graph import Node, Program, Value


def svg(graph: Program, named: Callable[[str], str]) -> str:
    """The SVG of a graph. ``named`` puts a user's names of sizes into a text."""
    flow = Flow()

    def form(v: Value) -> str:
        return named(repr(v).removeprefix(f"{v.name}: "))

    def labelled(values: Iterable[Value]) -> dict[Value, str]:
        return {v: named(repr(v)) for v in values}

    for v in graph.inputs:
        flow.add(Box(v.name, (form(v),), f"input {named(repr(v))}", end=True), {}, [v])
    for n in graph.nodes:
        box = Box(n.op, tuple(form(v) for v in n.outputs[:3]), named(_about(n)))
        flow.add(box, labelled(n.reads), n.outputs)
    for name, v in zip(graph.output_names, graph.outputs, strict=False):
        flow.add(Box(name, (form(v),), f"output {named(repr(v))}", end=True), labelled([v]))
    return flow.svg()


def _about(n: Node) -> str:
    constants = [f"{v!r}" for v in n.reads if v.data is not None]
    attrs = [f"{k} = {str(x)[:80]}" for k, x in n.attrs.items() if x is not None]
    return "\n".join([repr(n), *constants, *attrs])


def notebook(graph: Program, text: str, named: Callable[[str], str]) -> str:
    """What a notebook shows: the drawing, and the text below it; of a large graph the text alone."""
    summary, _, _ = text.partition("\n")
    picture = "" if len(graph.nodes) > drawing.MOST_DRAWN else svg(graph, named)
    return drawing.notebook(picture, summary, text)
