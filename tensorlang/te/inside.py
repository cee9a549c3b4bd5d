"""Reads that certainly leave their tensor: an index that is a sum of axes times constants, not guarded, past an end. What is only possible
is left to the checks of ``bounds_check``. Knows computes; no schedules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..errors import DeclareError
from ..expr.linear import poly
from ..expr.nodes import Choice, Expr, Var, const_int
from .reducers import Reduce
from .tensor import ComputeOp, Operation, TensorRead


def refuse_reads_outside(ops: Iterable[Operation]) -> None:
    """Raises DeclareError for the first read that is certainly outside. Computes with an empty or symbolic axis are left alone."""
    for op in ops:
        if isinstance(op, ComputeOp):
            _check(op)


def _check(op: ComputeOp) -> None:
    span: dict[Var, tuple[int, int]] = {}
    for a in (*op.axis, *op.reduce_axis):
        assert a.dom is not None
        begin, n = const_int(a.dom[0]), const_int(a.dom[1])
        if begin is None or n is None or n <= 0:
            return
        span[a.var] = (begin, begin + n - 1)
    for e in op.body:
        for read in _always(e):
            for d, (index, extent) in enumerate(zip(read.indices, read.tensor.shape, strict=True)):
                ends, limit = _ends(index, span), const_int(extent)
                if ends is None or limit is None or (ends[0] >= 0 and ends[1] < limit):
                    continue
                worst = ends[0] if ends[0] < 0 else ends[1]
                raise DeclareError(
                    f"`{op.name}` reads {read}: index {d} is {worst} at one point, out of range 0..{limit}",
                    because=f"{read.tensor.name} has shape ({', '.join(map(str, read.tensor.shape))}), and {index} runs from {ends[0]} to {ends[1]}",
                    try_="te.if_then_else(te.all(0 <= i, i < n), A[i], 0) where reads past the end mean zero, or another shape or range")


def _always(e: Expr) -> Iterator[TensorRead]:
    """The reads that take place at every point."""
    seen: dict[Expr, None] = {}
    stack = [e]
    while stack:
        node = stack.pop()
        if node in seen or isinstance(node, Choice) or (isinstance(node, Reduce) and node.condition is not None):
            continue
        seen[node] = None
        if type(node) is TensorRead:
            yield node
        stack.extend(node.children())


def _ends(index: Expr, span: dict[Var, tuple[int, int]]) -> tuple[int, int] | None:
    """Smallest and largest value, both of which occur; None for an index of another form."""
    if not index.dtype.is_index:
        return None
    lo = hi = 0
    for mono, c in poly(index).items():
        if not mono:
            lo, hi = lo + c, hi + c
            continue
        ends = span.get(mono[0]) if len(mono) == 1 and type(mono[0]) is Var else None
        if ends is None:
            return None
        a, b = sorted((c * ends[0], c * ends[1]))
        lo, hi = lo + a, hi + b
    return lo, hi
