"""Reductions over windows that read a tensor at places which are no sums, ``x[(i + k) % n] * w[k]`` or
``x[abs(i + k - 3)]``: the same with the tensor as it is found along a window in a stage of its own, which is
read at sums, as recipes of windows know it, and finds each place once and not for each tap. Decides nothing
about loops.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..core.node import intern
from ..expr import make
from ..expr.linear import reads_data
from ..expr.nodes import Expr, FloorMod, IfThenElse, Var, const_int
from ..expr.walk import preorder, rewrite, substitute, variables
from .axis import IterVar, fresh_axis
from .compute import TABLE, compute
from .exchange import anew
from .patterns import constant, step
from .reducers import Reduce
from .tensor import ComputeOp, Tensor, TensorRead

# times the iterations of the reduction have to be what the new stage has elements
AGAIN = 2


@dataclass(frozen=True, slots=True)
class _Place:
    """An index that is one of ``stride * data + dilation * tap`` alone: ``found`` of ``at``, where that runs
    over ``reach`` numbers from ``first``."""

    sum: Expr
    at: Var
    found: Expr
    first: int
    reach: int


def places_apart(op: ComputeOp) -> Tensor | None:
    """What may take the place of a reduction over windows whose places are no sums; None for all else. Not
    where a condition guards what is read.

    Measured (Zen 4, one thread): rows of 400 that are mirrored at their ends, 7 taps, 0.13 of the time, a
    circulant product of 512 0.09.
    """
    first = op.body[0]
    if type(first) is not Reduce or len(op.body) > 1 or first.condition is not None:
        return None
    if any(isinstance(e, IfThenElse) for source in first.sources for e in preorder(source)):
        return None
    reads = dict.fromkeys(e for s in first.sources for e in preorder(s) if type(e) is TensorRead)
    iterations = math.prod(constant(a.extent) or 0 for a in (*op.axis, *op.reduce_axis))
    other: dict[Expr, Expr] = {}
    for read in reads:
        new = _read_apart(op, read, iterations)
        if new is not None:
            other[read] = new
    if not other:
        return None
    made: Tensor = anew(op, (rewrite(first, other.get),)).outputs[0]
    return made


def _read_apart(op: ComputeOp, read: TensorRead, iterations: int) -> Expr | None:
    """The read of a stage that has found the places; None where they are sums, or nothing is gained."""
    places = [_place(op, i) for i in read.indices]
    shape = [n if p is None else p.reach for p, n in zip(places, read.tensor.shape, strict=True)]
    sizes = [constant(make.as_expr(n)) for n in shape]
    if not any(places) or None in sizes or AGAIN * math.prod(n or 0 for n in sizes) > iterations:
        return None

    def at(*own: Expr) -> Expr:
        found = [
            make.as_expr(i if p is None else substitute(p.found, {p.at: make.add(i, p.first)}))
            for i, p in zip(own, places, strict=True)
        ]
        return intern(TensorRead, read.tensor, tuple(found))

    stage: Tensor = compute(shape, at, name=f"{op.name}.at", tag=TABLE)
    indices = [
        i if p is None else make.sub(p.sum, p.first) for i, p in zip(read.indices, places, strict=True)
    ]
    return intern(TensorRead, stage, tuple(indices))


def _place(op: ComputeOp, index: Expr) -> _Place | None:
    """An index that an axis and a tap move together, by another way than a sum."""
    used = variables(index)
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
    n, m, begin = constant(axis.extent), constant(tap.extent), _begin(tap)
    if not n or not m or begin is None or n < abs(dilation):
        return None
    at = fresh_axis("at", make.const(1, axis.var.dtype)).var
    # as if the tap were none: where it does not cancel out, the index is of both in another way
    alone = make.mul(make.sub(at, make.mul(tap.var, dilation)), stride)
    found = substitute(index, {axis.var: alone})
    if tap.var in variables(found):
        return None
    ends = [stride * i + dilation * (begin + k) for i in (0, n - 1) for k in (0, m - 1)]
    whole = make.add(make.mul(axis.var, stride), make.mul(tap.var, dilation))
    return _Place(whole, at, found, min(ends), max(ends) - min(ends) + 1)


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


def _begin(tap: IterVar) -> int | None:
    return 0 if tap.dom is None else constant(tap.dom[0])
