"""Reads that certainly leave their tensor: an index that is a sum of axes times constants, not guarded, past an end. What is only possible
is left to the checks of ``bounds_check``. Knows computes; no schedules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ..errors import DeclareError
from ..expr.linear import poly
from ..expr.nodes import Choice, Expr, Var, const_int
from .reducers import Reduce
from .tensor import ComputeOp, Operation, TensorRead

Span = dict[Var, tuple[int, int | None]]  # the first and last value of an axis; None for a last one that is not known


def refuse_reads_outside(ops: Iterable[Operation], spans: Mapping[Operation, Span] | None = None) -> None:
    """Raises DeclareError for the first read that is certainly outside. Computes with an empty or symbolic axis are left alone, and so are
    the turns that ``spans`` leaves out of a compute."""
    for op in ops:
        if isinstance(op, ComputeOp):
            span = (spans or {}).get(op) or span_of(op)
            if any(hi is None or hi < lo for lo, hi in span.values()):
                continue
            for read, d, (lo, hi), index in outside(op, span):
                worst = lo if lo is not None and lo < 0 else hi
                raise DeclareError(
                    f"`{op.name}` reads {read}: index {d} is {worst} at one point, out of range 0..{read.tensor.shape[d]}",
                    because=f"{read.tensor.name} has shape ({', '.join(map(str, read.tensor.shape))}), and {index} runs from {lo} to {hi}",
                    try_="te.if_then_else(te.all(0 <= i, i < n), A[i], 0) where reads past the end mean zero, or another shape or range")


def span_of(op: ComputeOp) -> Span:
    """Where the axes of a compute run, as far as it is known. Empty axes end before they begin."""
    span: Span = {}
    for a in (*op.axis, *op.reduce_axis):
        assert a.dom is not None
        begin, n = const_int(a.dom[0]), const_int(a.dom[1])
        span[a.var] = (0, None) if begin is None else (begin, None if n is None else begin + n - 1)
    return span


def outside(op: ComputeOp, span: Span) -> Iterator[tuple[TensorRead, int, tuple[int | None, int | None], Expr]]:
    """The reads that leave their tensor at a point of the span, with the number of the index, its ends, and the index."""
    for e in op.body:
        for read in _always(e):
            for d, (index, extent) in enumerate(zip(read.indices, read.tensor.shape, strict=True)):
                ends, limit = _ends(index, span), const_int(extent)
                if ends is None or (limit is None and ends[0] is None):
                    continue
                if (ends[0] is not None and ends[0] < 0) or (limit is not None and ends[1] is not None and ends[1] >= limit):
                    yield read, d, ends, index


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


def _ends(index: Expr, span: Span) -> tuple[int | None, int | None] | None:
    """Smallest and largest value, both of which occur, as far as they are known; None for an index of another form."""
    if not index.dtype.is_index:
        return None
    lo: int | None = 0
    hi: int | None = 0
    for mono, c in poly(index).items():
        if not mono:
            lo, hi = lo if lo is None else lo + c, hi if hi is None else hi + c
            continue
        ends = span.get(mono[0]) if len(mono) == 1 and type(mono[0]) is Var else None
        if ends is None:
            return None
        a, b = ends if c > 0 else (ends[1], ends[0])
        lo, hi = None if lo is None or a is None else lo + c * a, None if hi is None or b is None else hi + c * b
    return lo, hi
