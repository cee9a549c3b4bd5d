"""Reads that leave their tensor: an index that is a sum of axes times constants, not guarded, past an end.
What is certain is refused; what sizes decide is a condition on them, to be met by each call; the rest is left
to the checks of ``bounds_check``. Knows computes; no schedules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ..arith.conditions import conjuncts
from ..arith.facts import Facts
from ..errors import DeclareError
from ..expr import linear, make
from ..expr.linear import poly
from ..expr.nodes import Choice, Expr, Var, const_int
from ..expr.walk import variables
from .reducers import Reduce
from .tensor import ComputeOp, Operation, TensorRead

Span = dict[
    Var, tuple[int, int | None]
]  # the first and last value of an axis; None for a last one that is not known


def refuse_reads_outside(ops: Iterable[Operation], spans: Mapping[Operation, Span] | None = None) -> None:
    """Raises DeclareError for the first read that is certainly outside. Computes with an empty or symbolic
    axis are left alone, and so are the iterations that ``spans`` leaves out of a compute."""
    for op in ops:
        if isinstance(op, ComputeOp):
            span = (spans or {}).get(op) or span_of(op)
            # where some axis is empty nothing is read at all
            if any(hi is None or hi < lo for lo, hi in span.values()):
                continue
            for read, d, (lo, hi), index in outside(op, span):
                worst = lo if lo is not None and lo < 0 else hi
                raise DeclareError(
                    f"`{op.name}` reads {read}: index {d} is {worst} at one point, out of range "
                    f"0..{read.tensor.shape[d]}",
                    because=f"{read.tensor.name} has shape ({', '.join(map(str, read.tensor.shape))}), and "
                    f"{index} runs from {lo} to {hi}",
                    try_="te.if_then_else(te.all(0 <= i, i < n), A[i], 0) where reads past the end mean "
                    "zero, or another shape or range",
                )


def span_of(op: ComputeOp) -> Span:
    """Where the axes of a compute run, as far as it is known. Empty axes end before they begin."""
    span: Span = {}
    for a in (*op.axis, *op.reduce_axis):
        assert a.dom is not None
        begin, n = const_int(a.dom[0]), const_int(a.dom[1])
        span[a.var] = (0, None) if begin is None else (begin, None if n is None else begin + n - 1)
    return span


def outside(
    op: ComputeOp, span: Span
) -> Iterator[tuple[TensorRead, int, tuple[int | None, int | None], Expr]]:
    """The reads that leave their tensor at a point of the span, with the number of the index, its ends, and
    the index."""
    for e in op.body:
        for read in _always(e):
            for d, (index, extent) in enumerate(zip(read.indices, read.tensor.shape, strict=True)):
                ends, limit = _ends(index, span), const_int(extent)
                if ends is None or (limit is None and ends[0] is None):
                    continue
                if (ends[0] is not None and ends[0] < 0) or (
                    limit is not None and ends[1] is not None and ends[1] >= limit
                ):
                    yield read, d, ends, index


def required_inside(ops: Iterable[Operation]) -> list[tuple[Expr, str]]:
    """Conditions on sizes under which the reads of these computes stay inside their tensors, as far as
    that is not certain; with what is wrong where they do not hold. Exact: a size that breaks one reads past
    an end."""
    found: dict[Expr, str] = {}
    for op in ops:
        if isinstance(op, ComputeOp):
            for cond, why in _conditions(op):
                found.setdefault(cond, why)
    return list(found.items())


def _conditions(op: ComputeOp) -> Iterator[tuple[Expr, str]]:
    axes = (*op.axis, *op.reduce_axis)
    reads = [r for e in op.body for r in _always(e)]
    extents = [e for a in axes if a.dom is not None for e in a.dom]
    sizes = frozenset(
        v for e in (*extents, *(n for r in reads for n in r.tensor.shape)) for v in variables(e)
    )
    if not sizes:
        return  # what is certain was refused
    span = {
        a.var: (a.dom.min, make.sub(make.add(a.dom.min, a.dom.extent), 1)) for a in axes if a.dom is not None
    }
    facts = Facts(sizes=sizes)
    empty = [make.le(a.extent, 0) for a in axes if facts.prove(make.le(1, a.extent)) is not True]
    for a in axes:
        # conditions are asked for calls that compute something
        facts = facts.assume(make.le(1, a.extent))
    for read in reads:
        for d, (index, extent) in enumerate(zip(read.indices, read.tensor.shape, strict=True)):
            ends = _symbolic_ends(index, span)
            if ends is None or not any(v.kind == "loop" for v in variables(index)):
                continue
            for cond, word, end in (
                (make.lt(ends[1], extent), "up to", ends[1]),
                (make.le(0, ends[0]), "from", ends[0]),
            ):
                if facts.prove(cond) is not True:
                    for e in empty:  # where nothing is computed, nothing is read
                        cond = make.or_(cond, e)
                    yield (
                        cond,
                        (
                            f"`{op.name}` reads {read}: index {d} runs {word} {end}, and {read.tensor.name} "
                            "has shape "
                            f"({', '.join(map(str, read.tensor.shape))}"
                            f"{',' if read.tensor.ndim == 1 else ''})"
                        ),
                    )


def _symbolic_ends(index: Expr, span: Mapping[Var, tuple[Expr, Expr]]) -> tuple[Expr, Expr] | None:
    """Smallest and largest value, both of which occur; None for an index that is not a sum of axes times
    numbers and of sizes."""
    if not index.dtype.is_index:
        return None
    lo = hi = make.const(0, index.dtype)
    for mono, c in poly(index).items():
        if len(mono) == 1 and type(mono[0]) is Var and mono[0] in span:
            a, b = span[mono[0]]
            lo, hi = (
                make.add(lo, make.mul(a if c > 0 else b, c)),
                make.add(hi, make.mul(b if c > 0 else a, c)),
            )
            continue
        term: Expr = make.const(c, index.dtype)
        for atom in mono:
            if any(v.kind == "loop" for v in variables(atom)) or linear.reads_data(atom):
                return None
            term = make.mul(term, atom)
        lo, hi = make.add(lo, term), make.add(hi, term)
    return lo, hi


def _always(e: Expr) -> Iterator[TensorRead]:
    """The reads that take place at every point."""
    seen: dict[Expr, None] = {}
    stack = [e]
    while stack:
        node = stack.pop()
        # a choice guards its branches: what stands in one may never be read
        if node in seen or isinstance(node, Choice):
            continue
        if isinstance(node, Reduce) and node.condition is not None:
            tests = conjuncts(node.condition)
            if all(linear.reads_data(c) for c in tests):  # no other condition is tested before these
                stack += tests
            continue
        seen[node] = None
        if type(node) is TensorRead:
            yield node
        stack.extend(node.children())


def _ends(index: Expr, span: Span) -> tuple[int | None, int | None] | None:
    """Smallest and largest value, both of which occur, as far as they are known; None for an index of another
    form."""
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
        # a negative step turns the ends round
        a, b = ends if c > 0 else (ends[1], ends[0])
        lo, hi = (
            None if lo is None or a is None else lo + c * a,
            None if hi is None or b is None else hi + c * b,
        )
    return lo, hi
