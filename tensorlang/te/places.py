"""Reductions over windows that read a tensor at places which are no sums, ``x[(i + k) % n] * w[k]`` or
``x[abs(i + k - 3)]``: the same with the tensor as it is found along a window in a stage of its own, which is
read at sums, as recipes of windows know it, and finds each place once and not for each tap. Decides nothing
about loops.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..arith.conditions import conjunction
from ..arith.facts import Facts
from ..core.node import intern
from ..expr import make
from ..expr.linear import reads_data
from ..expr.nodes import Expr, FloorMod, IfThenElse, Var, const_int
from ..expr.walk import preorder, rewrite, substitute, variables
from .axis import IterVar, fresh_axis
from .compute import TABLE, compute
from .exchange import anew
from .patterns import constant, step, typical
from .reducers import Reduce
from .tensor import ComputeOp, Tensor, TensorRead

# times the iterations of the reduction have to be what the new stage has elements, and what an open size
# counts as
AGAIN, OPEN = 2, 64


@dataclass(frozen=True, slots=True)
class _Place:
    """An index that is one of ``stride * data + dilation * tap`` alone: ``found`` of ``at``, where that runs
    over ``reach`` numbers from ``first``, if ``some`` are to be found."""

    sum: Expr
    at: Var
    found: Expr
    first: Expr
    reach: Expr
    some: tuple[Expr, Expr]


def place_apart(op: ComputeOp) -> Tensor | None:
    """What may take the place of a reduction over windows whose places are no sums, for the first tensor that
    is read so; None for all else. Not where a condition guards what is read.

    Measured (Zen 4, one thread): rows of 400 that are mirrored at their ends, 7 taps, 0.13 of the time, a
    circulant product of 512 0.09.
    """
    first = op.body[0]
    if type(first) is not Reduce or len(op.body) > 1 or first.condition is not None:
        return None
    if any(isinstance(e, IfThenElse) for source in first.sources for e in preorder(source)):
        return None
    reads = dict.fromkeys(e for s in first.sources for e in preorder(s) if type(e) is TensorRead)
    iterations = math.prod(typical(a.extent, OPEN) for a in (*op.axis, *op.reduce_axis))
    for read in reads:
        new = _read_apart(op, read, iterations)
        if new is not None:
            known: dict[Expr, Expr] = {read: new}
            made: Tensor = anew(op, (rewrite(first, known.get),)).outputs[0]
            return made
    return None


def _read_apart(op: ComputeOp, read: TensorRead, iterations: int) -> Expr | None:
    """The read of a stage that has found the places; None where they are sums, or nothing is gained."""
    places = [_place(op, i) for i in read.indices]
    shape = [n if p is None else p.reach for p, n in zip(places, read.tensor.shape, strict=True)]
    elements = math.prod(typical(make.as_expr(n), OPEN) for n in shape)
    if not any(places) or AGAIN * elements > iterations:
        return None

    def at(*own: Expr) -> Expr:
        found = [
            make.as_expr(i if p is None else substitute(p.found, {p.at: make.add(i, p.first)}))
            for i, p in zip(own, places, strict=True)
        ]
        one = intern(TensorRead, read.tensor, tuple(found))
        # where nothing is reduced, nothing may be read
        some = [c for p in places if p is not None for c in p.some if Facts().prove(c) is not True]
        return make.if_then_else(conjunction(some), one, make.const(0, one.dtype)) if some else one

    stage: Tensor = compute(shape, at, name=f"{op.name}.window", tag=TABLE)
    indices = [
        i if p is None else make.sub(p.sum, p.first) for i, p in zip(read.indices, places, strict=True)
    ]
    return intern(TensorRead, stage, tuple(indices))


def _place(op: ComputeOp, index: Expr) -> _Place | None:
    """An index that an axis and a tap move together, by another way than a sum."""
    used = {v for v in variables(index) if v.kind != "dim"}
    data = [a for a in op.axis if a.var in used]
    taps = [a for a in op.reduce_axis if a.var in used]
    if len(data) != 1 or len(taps) != 1 or len(used) != 2 or reads_data(index):
        return None
    (axis,), (tap,) = data, taps
    if step(index, axis) is not None and step(index, tap) is not None:
        return None
    each = (_moved(e, axis, tap) for e in preorder(index))
    moved = next((steps for steps in each if steps is not None), None)
    if moved is None or abs(moved[0]) != 1:
        return None
    stride, dilation = moved
    n, m, begin = axis.extent, tap.extent, make.as_expr(0 if tap.dom is None else tap.dom[0])
    # in a step over places, those between two are no places that are read
    known = constant(n)
    if known == 0 or constant(m) == 0 or (abs(dilation) > 1 and (known or 0) < abs(dilation)):
        return None
    at = fresh_axis("at", make.const(1, axis.var.dtype)).var
    # as if the tap were none: where it does not cancel out, the index is of both in another way
    alone = make.mul(make.sub(at, make.mul(tap.var, dilation)), stride)
    found = substitute(index, {axis.var: alone})
    if tap.var in variables(found):
        return None
    last, most = make.sub(n, 1), make.sub(m, 1)
    first = make.mul(begin, dilation)
    for steps, far in ((stride, last), (dilation, most)):
        if steps < 0:
            first = make.add(first, make.mul(far, steps))
    reach = make.add(make.add(last, make.mul(most, abs(dilation))), 1)
    whole = make.add(make.mul(axis.var, stride), make.mul(tap.var, dilation))
    return _Place(whole, at, found, first, reach, (make.le(1, n), make.le(1, m)))


def _moved(e: Expr, axis: IterVar, tap: IterVar) -> tuple[int, int] | None:
    """How far an axis and a tap move a sum of both. The rest of a division has factors as if none were
    negative: of (i - k) % 64 that of the tap is 63."""
    n, whole = (const_int(e.b), e.a) if isinstance(e, FloorMod) else (None, e)
    one, other = step(whole, axis), step(whole, tap)
    if not one or not other:
        return None
    return (_near(one, n), _near(other, n)) if n else (one, other)


def _near(factor: int, n: int) -> int:
    return factor - n if 2 * factor > n else factor
