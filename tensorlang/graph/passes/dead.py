"""Nodes that no output depends on are left out."""

from __future__ import annotations

from ..graph import Program, needed
from .rewrite import renewed


def drop_dead(graph: Program) -> Program:
    """The graph without them."""
    nodes = needed(graph.nodes, graph.outputs)
    return graph if len(nodes) == len(graph.nodes) else renewed(graph, nodes)
