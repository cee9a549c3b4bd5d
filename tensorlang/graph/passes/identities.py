"""Operators whose result is their input, element by element in the same shape: a reshape to the shape that is
there, a transposition of nothing, a cast to the same type."""

from __future__ import annotations

from ...te import ComputeOp
from ...te.tensor import TensorRead
from ..graph import Node, Program, Value
from ..regions.facts import Reading, reading
from .rewrite import alike_in_shape, renewed, single


def drop_identities(graph: Program) -> Program:
    """The graph without them."""
    replaced: dict[Value, Value] = {}
    for n in graph.nodes:
        source = _source(n)
        if source is not None:
            replaced[n.outputs[0]] = source
    fixed = set(graph.outputs) if graph.rest is not None else set()
    nodes = [n for n in graph.nodes if n.outputs[0] not in replaced or n.outputs[0] in fixed]
    changed = len(nodes) < len(graph.nodes) or any(v in replaced for n in nodes for v in n.reads)
    return renewed(graph, nodes, replaced) if changed else graph


def _source(n: Node) -> Value | None:
    """The input that the node hands on; None when it does something."""
    if not single(n) or len(n.reads) != 1:
        return None
    (source,) = n.reads
    if not alike_in_shape(n.outputs[0], source):
        return None
    (made,) = n.results
    op = made.op
    if not isinstance(op, ComputeOp) or len(op.body) != 1:
        return None
    (body,) = op.body
    if isinstance(body, TensorRead) and body.tensor is source.tensor:
        return source if reading(op, body.indices) is Reading.SAME else None
    return None
