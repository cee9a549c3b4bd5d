"""Inputs that say where others are read: which values they may have. For those who make inputs up, to measure
with. Knows te; no schedules."""

from __future__ import annotations

from collections.abc import Iterable

from ..arith.conditions import conjuncts
from ..expr import make
from ..expr.linear import reads_data
from ..expr.nodes import LE, LT, Expr
from ..expr.walk import preorder, variables
from ..te.graph import operations
from ..te.reducers import Reduce
from ..te.tensor import ComputeOp, PlaceholderOp, Tensor, TensorRead

Positions = dict[Tensor, tuple[Expr, bool]]


def positions(outputs: Iterable[Tensor]) -> Positions:
    """For each integer input that is read for a position of a tensor: how many there are, and whether the
    values had better rise, as the ends of rows do. ``x[I[j]]`` wants ``0 <= I[j] < len(x)``; the ends of a
    range ``P[i] <= k < P[i + 1]`` are among the numbers of k."""
    result: Positions = {}
    for op in operations([t.op for t in outputs]):
        for body in op.body if isinstance(op, ComputeOp) else ():
            for node in preorder(body):
                if type(node) is TensorRead:
                    for index, extent in zip(node.indices, node.tensor.shape, strict=True):
                        _record(result, index, extent, False)
                if isinstance(node, Reduce) and node.condition is not None:
                    _tell_ends(result, node)
    return result


def _tell_ends(found: Positions, e: Reduce) -> None:
    assert e.condition is not None
    for c in conjuncts(e.condition):
        if isinstance(c, LT | LE) and c.a.dtype.is_index and reads_data(c.a) is not reads_data(c.b):
            data, index = (c.a, c.b) if reads_data(c.a) else (c.b, c.a)
            for a in e.axes:
                if a.var in variables(index) and a.var not in variables(data):
                    _record(found, data, make.add(a.extent, 1), True)


def _record(found: Positions, e: Expr, count: Expr, rising: bool) -> None:
    if not reads_data(e):
        return
    for read in preorder(e):
        if (
            type(read) is TensorRead
            and isinstance(read.tensor.op, PlaceholderOp)
            and read.tensor.dtype.is_int
        ):
            least, before = found.get(read.tensor, (count, False))
            found[read.tensor] = (make.min_(*make.unify(least, count)), rising or before)
