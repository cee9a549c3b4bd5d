"""Reductions that find the first place where something holds, as the second half of an argmax does: the least
of ``select(holds, place, the largest number)``, with places that rise with what is reduced. The first one
found is the answer. Knows te; not where it pays.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..expr.linear import poly
from ..expr.nodes import Cast, Const, Expr, Select, Var
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
    one = 1
    for axis in reversed(axes):
        if _step(place, axis.var) != one:
            return False
        n = constant(axis.extent)
        if n is None and axis is not axes[0]:
            return False
        one *= n or 1
    return True


def _step(place: Expr, v: Var) -> int | None:
    """How far a place moves with a variable, which may be cast; None where that is not always the same."""
    out = 0
    for term, times in poly(place).items():
        if not any(v in variables(e) for e in term):
            continue
        (only, *others) = term
        if others or (only is not v and not (type(only) is Cast and only.a is v and only.dtype.is_int)):
            return None
        out += times
    return out
