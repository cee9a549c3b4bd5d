"""Joins that no kernel computes: values that are others one behind the other in memory, which are written
where they lie in them. Knows the te of a node and which nodes make and read a value; no kernels' code.

So are the channels of one image joined, layer after layer, in DenseNet and in SqueezeNet. Measured (Granite
Rapids, two threads): the copies took 7 % of the time of each.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...analysis import bytes_of, constant
from ...expr.linear import poly
from ...expr.nodes import LT, Choice, Expr, const_int
from ...runtime.arena import LINE
from ...te import ComputeOp, PlaceholderOp, Tensor
from ...te.extern import OpaqueOp
from ...te.graph import operations as te_operations
from ...te.tensor import TensorRead
from ..graph import Node, Program, Value


def joins_of(graph: Program, nodes: Sequence[Node]) -> dict[Node, list[Value]]:
    """The nodes that no kernel has to compute, with their parts in order; parts that are joins themselves
    come before. Only where all sizes are known and kernels run without anything between them: then all values
    lie in one arena."""
    if graph.rest is not None or graph.otherwise is not None or any(n.kind != "te" for n in nodes):
        return {}
    made = {v for n in nodes for v in n.outputs}
    free = made - set(graph.outputs)  # outputs lie in arrays of the caller
    found: dict[Node, list[Value]] = {}
    for n in nodes:
        parts = parts_of(n)
        if parts and len(set(parts)) == len(parts) and free.issuperset([*parts, *n.outputs]):
            found[n] = parts
            free.difference_update(parts)  # a value has one place
    return found


def parts_of(node: Node) -> list[Value]:
    """The values that the result of a node is, one behind the other in memory and each in whole cache lines;
    empty for any other node."""
    if "parts" not in node.memo:
        node.memo["parts"] = _parts(node)
    found: list[Value] = node.memo["parts"]
    return found


def _parts(node: Node) -> list[Value]:
    if node.kind != "te" or len(node.outputs) != 1:
        return []
    ops = [op for op in te_operations([t.op for t in node.results]) if not isinstance(op, PlaceholderOp)]
    op = ops[0] if len(ops) == 1 else None
    if not isinstance(op, ComputeOp) or isinstance(op, OpaqueOp) or op.reduce_axis or len(op.body) != 1:
        return []
    sizes = [constant(a.extent) for a in op.axis]
    # the first dimension of more than one element is that along which parts follow each other
    d = next((d for d, n in enumerate(sizes) if n != 1), None)
    if d is None or any(not n for n in sizes):
        return []
    pieces = _pieces(op, d, op.body[0], 0, sizes[d] or 0)
    values = {v.tensor: v for v in node.inputs if v is not None and v.data is None}
    if pieces is None or len(pieces) < 2 or not all(t in values for t in pieces):
        return []
    # kernels count on it that each value begins on a cache line
    if any((bytes_of(t) or 0) % LINE or t.dtype != op.body[0].dtype for t in pieces):
        return []
    return [values[t] for t in pieces]


def _pieces(op: ComputeOp, d: int, e: Expr, begin: int, end: int) -> list[Tensor] | None:
    """The tensors that ``e`` reads whole and in order, as the index of axis ``d`` goes from ``begin`` to
    ``end``; None for anything else."""
    own = op.axis[d].var
    if isinstance(e, Choice):
        if not isinstance(e.cond, LT) or e.cond.a is not own:
            return None
        at = const_int(e.cond.b)
        if at is None or not begin < at < end:
            return None
        first, second = _pieces(op, d, e.a, begin, at), _pieces(op, d, e.b, at, end)
        return None if first is None or second is None else first + second
    if not isinstance(e, TensorRead) or len(e.indices) != len(op.axis):
        return None
    if any(i is not a.var for k, (i, a) in enumerate(zip(e.indices, op.axis, strict=True)) if k != d):
        return None
    moved = poly(e.indices[d])
    if {t: c for t, c in moved.items() if c} != {(own,): 1} | ({(): -begin} if begin else {}):
        return None
    wanted = [end - begin if k == d else constant(a.extent) for k, a in enumerate(op.axis)]
    return [e.tensor] if [constant(n) for n in e.tensor.shape] == wanted else None
