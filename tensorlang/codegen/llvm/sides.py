"""Vectors that read up to the edge of a row and beyond it, where elements are mirrored or the outermost one
is repeated: ``x[max(min(i, n - 1), 0)]`` of an open ``n``; or where the first ones follow the last, ``x[(i +
5) % n]``. On each side of a limit lanes lie one behind the other, so that a masked load for each side does
what a gather does lane by lane. Knows loads; writes no code.

Measured (Zen 4, margins of 1 of open sizes): planes of 56 × 56 0.6 to 0.77 of the time, of 28 × 28 0.5 to
0.74; with the masks of AVX2, which are vectors, 1.0 to 1.5, and so they stay gathers.
"""

from __future__ import annotations

from ...expr import linear, make
from ...expr.nodes import Add, Broadcast, Expr, FloorMod, Max, Min, Mul, Ramp, Sub, const_int
from ...loopir.stmt import Buffer, Load, load
from . import joined, near
from .emitter import Emitter

MOST = 4  # sides: of more a gather takes less


def of_sides(em: Emitter, e: Load, offsets: Expr) -> Expr | None:
    """The load as a choice among loads of neighbours; None where it is none, or one of too many, and where
    masks are dear or the ``offsets`` of lanes are numbers."""
    *rows, last = e.indices
    if not em.target.has_masks or near.lanes_of(offsets) is not None:
        return None
    if (around := _around(e)) is not None:
        return around
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
    return out if out is None or e.mask is None else _unless(e, out)


def _around(e: Load) -> Expr | None:
    """The load of places of which some lanes are beyond the end, and begin again at the start: before the end
    and behind it lanes lie one behind the other; None where they do not."""
    for d, i in enumerate(e.indices):
        rest = _rest(i)
        if rest is None or linear.wraps(rest):
            continue
        n, (lane, base) = const_int(rest.b.value), _apart(rest.a)  # type: ignore[attr-defined]
        found = near.parts(lane)
        own = None if found is None else const_int(found.base)
        if n is None or found is None or own is None or max(found.at) - min(found.at) >= n:
            continue
        first = own + min(found.at)
        begin = make.sub(make.floormod(make.add(base, first), n), first)
        sides = [make.add(lane, make.broadcast(b, lane.dtype.lanes)) for b in (begin, make.sub(begin, n))]
        places = [(*e.indices[:d], _replaced(i, rest, side), *e.indices[d + 1 :]) for side in sides]
        if not all(_in_line(e.buffer, at) for at in places):
            continue
        reads = [load(e.buffer, at) for at in places]
        out = make.if_then_else(make.lt(sides[0], rest.b), *reads)  # type: ignore[attr-defined]
        return out if e.mask is None else _unless(e, out)
    return None


def _rest(e: Expr) -> FloorMod | None:
    """The remainder by a number of vectors that an index is made of."""
    if e.dtype.lanes > 1 and isinstance(e, FloorMod) and type(e.b) is Broadcast:
        return e
    parts = e.children() if e.dtype.lanes > 1 and isinstance(e, Add | Sub | Mul) else ()
    return next((found for found in map(_rest, parts) if found is not None), None)


def _apart(e: Expr) -> tuple[Expr, Expr]:
    """A vector as one of its lanes' own places, and a scalar that is added to them."""
    zero = make.const(0, e.dtype.element)
    if type(e) is Ramp:
        return make.ramp(zero, e.stride, e.lanes), e.base
    if type(e) is Add:
        (a, x), (b, y) = _apart(e.a), _apart(e.b)
        return make.add(a, b), make.add(x, y)
    return (make.broadcast(zero, e.lanes), e.value) if type(e) is Broadcast else (e, zero)


def _in_line(buffer: Buffer, at: tuple[Expr, ...]) -> bool:
    flat = joined.offset(buffer, at)
    return type(flat) is Ramp and const_int(flat.stride) in (1, -1)


def _unless(e: Load, out: Expr) -> Expr:
    """The value where the load is asked for, 0 elsewhere."""
    assert e.mask is not None
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
