"""How a random graph ends with a condition: what follows in each case is a graph of its own, of the values
that are there by then, with results of other shapes. Knows ``random_graphs.Draw``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tensorlang import ops
from tensorlang.graph import Graph

from .random_elements import kind
from .random_graphs import Draw


class Branches:
    """What follows a graph once ``pivot``, its first output, is known: a graph of ``live``, its other
    outputs."""

    def __init__(self, pivot: Any, live: list[Any], cases: tuple[Graph, Graph], labels: list[str]) -> None:
        self.pivot = pivot
        self.live = live
        self.cases = cases
        self.labels = labels
        self.dims: list[Any] = []

    def graph(self, value: Any, sizes: Any) -> Graph:
        return self.cases[bool(value)]


def branched(r: Draw, size: int, labels: list[str] | None = None) -> list[float]:
    """End the graph with a condition, and both cases with outputs; how far these may be off."""
    x = r.pick(lambda v: r.exact(v) and kind(v) != "bool")
    pivot = r.call(ops.any, r.call(ops.greater, x, r.constant((), kind(x))))
    names = labels or [f"y{i}" for i in range(r.number(1, 4))]
    # the inputs go on, since they tell the sizes
    live = list(dict.fromkeys([*r.g.inputs, *(r.any() for _ in range(3))]))
    inner = [r.inside(live) for _ in range(2)]
    off = [case.finish(size // 2, names) for case in inner]
    r.g.rest = Branches(pivot, live, (inner[0].g, inner[1].g), names)
    for v in (pivot, *live):
        r.g.output(v)
    return [max(both) for both in zip(*off, strict=True)]


def parts(g: Any) -> Iterator[Any]:
    """The graph and what may follow it."""
    yield g
    if g.rest is not None:
        for case in g.rest.cases:
            yield from parts(case)
