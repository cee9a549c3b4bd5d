"""Reductions of integers whose terms depend on different axes: ``sum((a[i, k] - p) * b[k, j])`` is
``sum(a[i, k] * b[k, j]) - p * sum(b[k, j])``, of which the second has one axis. Exact, for integers wrap
around. Knows te; not on which machine it pays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any

from ..expr import make
from ..expr.nodes import Add, Expr, Mul, Sub
from ..expr.walk import substitute, variables
from .axis import REDUCE, IterVar, fresh_axis
from .compute import compute
from .patterns import is_narrow, typical
from .reducers import Reduce
from .reducers import sum as te_sum
from .tensor import ComputeOp, Tensor, reads_in

OPEN = 64  # what an open size counts as
LESS = 2  # times as many elements as another term's that the largest one has


@dataclass(frozen=True, slots=True)
class Part:
    """A term of a sum: ``outer`` factors, which do not change in it, times the sum of the ``inner`` ones for
    each of ``axes``; with a minus unless ``positive``."""

    outer: tuple[Expr, ...]
    inner: tuple[Expr, ...]
    axes: tuple[IterVar, ...]
    positive: bool

    @property
    def is_narrow(self) -> bool:
        """Whether it sums products of two reads of 8- or 16-bit integers in int32."""
        return len(self.inner) == 2 and all(is_narrow(f) for f in self.inner)

    @property
    def reads(self) -> tuple[Tensor, ...]:
        """The tensors whose elements are summed."""
        return tuple(dict.fromkeys(r.tensor for r in reads_in(self.inner)))

    @property
    def results(self) -> float:
        """How many sums there are."""
        return math.prod(typical(a.extent, OPEN) for a in self.axes)


def parts_of(op: ComputeOp) -> tuple[Part, list[Part]] | None:
    """The term of a sum of integers that has the most sums, and the others, which have less than half as many
    each, or as many of fewer factors, as those of a product of one row; None for all else."""
    first = op.body[0] if len(op.body) == 1 else None
    if type(first) is not Reduce or first.reducer.kind != "add" or first.condition is not None:
        return None
    if first.init is not None or first.dtype.code not in ("int", "uint"):
        return None
    if type(first.sources[0]) not in (Add, Sub):
        return None
    parts = [_part(op, e, positive) for e, positive in _terms(first.sources[0])]
    main = max(parts, key=lambda p: (p.results, len(p.inner)))
    others = [p for p in parts if p is not main]
    simpler = lambda p: len(p.inner) < len(main.inner) or LESS * p.results <= main.results
    if not main.inner or not all(simpler(p) for p in others):
        return None
    return main, others


def _terms(e: Expr) -> Iterable[tuple[Expr, bool]]:
    todo = [(e, True)]
    while todo:
        e, positive = todo.pop()
        if isinstance(e, Add | Sub):
            todo += [(e.b, positive is isinstance(e, Add)), (e.a, positive)]
        else:
            yield e, positive


def _part(op: ComputeOp, e: Expr, positive: bool) -> Part:
    reduced = {a.var for a in op.reduce_axis}
    factors, todo = [], [e]
    while todo:
        e = todo.pop()
        if type(e) is Mul:
            todo += [e.b, e.a]
        else:
            factors.append(e)
    inner = tuple(f for f in factors if reduced & variables(f))
    used = {v for f in inner for v in variables(f)}
    outer = tuple(f for f in factors if not reduced & variables(f))
    return Part(outer, inner, tuple(a for a in op.axis if a.var in used), positive)


def apart(
    op: ComputeOp, main: Part, others: list[Part], named: Callable[[str], str]
) -> tuple[list[ComputeOp], Expr]:
    """A definition for each sum in front of ``op``, the largest one's last, and what ``op`` is of them.
    ``named`` gives each the name that it gets for the one it asks for."""
    made: list[ComputeOp] = []

    def summed(part: Part, what: str) -> Expr:
        if not part.inner:
            terms = (make.cast(op.outputs[0].dtype, a.extent) for a in op.reduce_axis)
            return reduce(make.mul, terms)
        stage: Tensor = compute(
            tuple(a.extent for a in part.axes),
            lambda *at: sum_of(op, reduce(make.mul, part.inner), part.axes, at),
            name=named(f"{op.name}.{what}"),
            tag=op.tag if part is main else "",
        )
        assert isinstance(stage.op, ComputeOp)
        made.append(stage.op)
        return stage(*(a.var for a in part.axes))

    total: Expr | None = None
    for part in (*others, main):
        one = reduce(make.mul, part.outer, summed(part, "products" if part is main else "sums"))
        if total is None:
            total = one if part.positive else make.sub(make.const(0, one.dtype), one)
        else:
            total = make.add(total, one) if part.positive else make.sub(total, one)
    assert total is not None
    return made, total


def sum_of(op: ComputeOp, source: Expr, own: tuple[IterVar, ...], at: tuple[Any, ...]) -> Expr:
    """The sum of ``source`` over axes like those that ``op`` reduces, ``at`` a place of its ``own`` axes."""
    inner = {
        a: fresh_axis(a.name, a.extent, REDUCE, None if a.dom is None else a.dom[0]) for a in op.reduce_axis
    }
    moved = {a.var: make.as_expr(b) for a, b in zip(own, at, strict=True)}
    moved |= {a.var: b.var for a, b in inner.items()}
    total: Expr = te_sum(substitute(source, moved), axis=tuple(inner.values()))
    return total
