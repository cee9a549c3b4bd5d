"""Reductions that find the first place where something holds, as the second half of an argmax does: the least
of ``select(holds, place, the largest number)``, with places that rise with what is reduced. The first one
found is the answer. Knows te; not where it pays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.dtype import DType
from ..expr.linear import Poly, add_to, mul_poly, poly, wraps
from ..expr.nodes import Cast, Const, Expr, Select
from ..expr.walk import variables
from .axis import IterVar
from .patterns import constant
from .reducers import MIN, Reduce, max_value
from .tensor import ComputeOp


def nowhere(op: ComputeOp) -> Const | None:
    """What a reduction gives that looks for the first place where something holds, and finds none; None for
    any other reduction. The one in front of another along its axes, taken in their order, is less."""
    first = op.body[0] if len(op.body) == 1 else None
    if type(first) is not Reduce or first.reducer is not MIN:
        return None
    found = first.sources[0]
    if first.init is not None or type(found) is not Select or type(found.b) is not Const:
        return None
    none = found.b
    if none.dtype.code != "int" or none is not max_value(none.dtype) or not _rises(found.a, first.axes):
        return None
    return none


def _rises(place: Expr, axes: Sequence[IterVar]) -> bool:
    """Whether a place is one more in the next iteration of ``axes``, counted in their order."""
    if wraps(place):
        return False
    one: Poly = {(): 1}
    begin, known = poly(place).get((), 0), True
    for axis in reversed(axes):
        extent = mul_poly(one, poly(axis.extent))
        if extent is None or _step(place, axis) != one:
            return False
        n, first = constant(axis.extent), _begin(axis)
        known = known and n is not None and first is not None
        begin += one.get((), 0) * (first or 0)
        one = extent
    if place.dtype.is_index:
        return True  # never overflows, by contract
    # behind the largest number of a narrow type comes the least
    moved = {a.var for a in axes}
    base = [m for m in poly(place) if m and all(moved.isdisjoint(variables(e)) for e in m)]
    return known and not base and _holds(place.dtype, begin, one.get((), 0))


def _step(place: Expr, axis: IterVar) -> Poly | None:
    """How far a place moves with an axis, which may be cast to a type that holds all of it, as symbolic sizes
    may; None where that is not always the same."""
    out, v = dict[Any, int](), axis.var
    for term, times in poly(place).items():
        if not any(v in variables(e) for e in term):
            continue
        only = [e for e in term if e is v or (type(e) is Cast and e.a is v and _kept(axis, e.dtype))]
        others = [e for e in term if all(e is not o for o in only)]
        if len(only) != 1 or any(v in variables(e) for e in others):
            return None
        step: Poly | None = {(): times}
        for e in others:
            step = None if step is None else mul_poly(step, poly(_size(e)))
        if step is None:
            return None
        add_to(out, step, 1)
    return out


def _size(e: Expr) -> Expr:
    """A size without its cast to a type that holds it."""
    wider = type(e) is Cast and e.a.dtype.is_index and e.dtype.is_index and e.dtype.bits >= e.a.dtype.bits
    return e.a if wider else e  # type: ignore[attr-defined]


def _begin(axis: IterVar) -> int | None:
    return None if axis.dom is None else constant(axis.dom.min)


def _kept(axis: IterVar, t: DType) -> bool:
    """Whether a type tells all values of an axis apart, in their order."""
    if t.is_index and t.bits >= axis.var.dtype.bits:
        return True
    begin, n = _begin(axis), constant(axis.extent)
    return t.is_int and begin is not None and n is not None and _holds(t, begin, n)


def _holds(t: DType, begin: int, n: int) -> bool:
    """Whether ``n`` numbers from ``begin`` on are all of a type."""
    least = 0 if t.code == "uint" else -(1 << (t.bits - 1))
    return begin >= least and begin + n - 1 < least + (1 << t.bits)
