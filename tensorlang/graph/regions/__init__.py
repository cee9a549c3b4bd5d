"""Which operators are computed by one kernel. Knows graphs and what their te reads; no kernels' code.

Operators are told apart by their te alone (``facts``), never by their names. Groups begin as single operators
and merge while that saves a pass over memory and costs no work or vectors that weigh more (``merge``).
"""

from __future__ import annotations

from ..graph import Node, Program, needed
from ..kernels import Region
from .merge import grouped

__all__ = ["regions"]


def regions(graph: Program, level: int = 2) -> list[Region | Node]:
    """The graph as regions and the nodes that no kernel computes, in an order in which they can run. At level
    0 each operator is a region."""
    nodes = needed(graph.nodes, graph.outputs)
    if level == 0:
        return [Region([n], list(n.outputs)) if n.kind == "te" else n for n in nodes]
    return grouped(graph, nodes)
