"""Vectors that read up to the edge of a row and beyond it, where elements are mirrored or the outermost one
is repeated: ``x[max(min(i, n - 1), 0)]`` of an open ``n``. On each side of a limit lanes lie one behind the
other, so that a masked load for each side does what a gather does lane by lane. Knows loads; writes no code.

Measured (Zen 4, margins of 1 of open sizes): planes of 56 × 56 0.6 to 0.77 of the time, of 28 × 28 0.5 to
0.74; with the masks of AVX2, which are vectors, 1.0 to 1.5, and so they stay gathers.
"""

from __future__ import annotations

from ...expr import linear, make
from ...expr.nodes import Add, Broadcast, Expr, Max, Min, Mul, Ramp, Sub, const_int
from ...loopir.stmt import Load, load
from . import near
from .emitter import Emitter

MOST = 4  # sides: of more a gather takes less


def of_sides(em: Emitter, e: Load, offsets: Expr) -> Expr | None:
    """The load as a choice among loads of neighbours; None where it is none, or one of too many, and where
    masks are dear or the ``offsets`` of lanes are numbers."""
    *rows, last = e.indices
    if not em.target.has_masks or near.lanes_of(offsets) is not None:
        return None
    if any(i.dtype.lanes > 1 for i in rows) or linear.wraps(last):
        return None
    left = [MOST]

    def read(index: Expr) -> Expr | None:
        limit = _limit(index)
        if limit is None:
            left[0] -= 1
            if type(index) is Broadcast:
                return make.broadcast(load(e.buffer, (*rows, index.value)), index.lanes)
            line = type(index) is Ramp and const_int(index.stride) in (1, -1)
            return load(e.buffer, (*rows, index)) if line and left[0] >= 0 else None
        a, b = (read(_replaced(index, limit, side)) for side in (limit.a, limit.b))
        if a is None or b is None or left[0] < 0:
            return None
        first = make.le(limit.a, limit.b) if type(limit) is Min else make.le(limit.b, limit.a)
        return make.if_then_else(first, a, b)

    out = read(last) if _limit(last) is not None else None
    if out is None or e.mask is None:
        return out
    return make.if_then_else(e.mask, out, make.const(False if e.dtype.is_bool else 0, e.dtype))


def _limit(e: Expr) -> Min | Max | None:
    """The outermost minimum or maximum of vectors that an index is made of."""
    if e.dtype.lanes == 1 or isinstance(e, Min | Max):
        return e if isinstance(e, Min | Max) and e.dtype.lanes > 1 else None
    parts = map(_limit, e.children()) if isinstance(e, Add | Sub | Mul) else ()
    return next((found for found in parts if found is not None), None)


def _replaced(e: Expr, limit: Expr, side: Expr) -> Expr:
    if e is limit:
        return side
    if not isinstance(e, Add | Sub | Mul | Min | Max):
        return e
    return e.with_children(*[_replaced(c, limit, side) for c in e.children()])
