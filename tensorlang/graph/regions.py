"""Which operators are computed by one kernel. Knows graphs; no kernels' code."""

from __future__ import annotations

from .graph import Node, Program, needed
from .kernels import Region


def regions(graph: Program, level: int = 2) -> list[Region | Node]:
    """The graph as regions and the nodes that no kernel computes, in an order in which they can run."""
    return [Region([n], list(n.outputs)) if n.kind == "te" else n for n in needed(graph.nodes, graph.outputs)]
