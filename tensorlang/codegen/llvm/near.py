"""Lanes that read places near each other, of a pattern that is known: every element twice, as an image that
is enlarged reads it, rows of a few elements again and again, or the margin of an image that is mirrored or
repeated at its edge, and the pixels beside it.

The elements from the first to the last of them are loaded as they lie, in two loads that may overlap, and one
shuffle puts them where they belong. Nothing outside the first and the last is read. A gather of sixteen lanes
takes as long as sixteen loads. So is it known of which of two tensors a lane is, where rows that are joined
lie side by side in a vector, ``n % 6 < 2``: each is loaded for its own lanes. Knows indices and vectors; no
buffers and no statements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import eq, le, lt, ne

from ...expr import linear, make
from ...expr.nodes import (
    EQ,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    Cast,
    Const,
    Expr,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Ramp,
    Sub,
    const_int,
)
from . import shuffles, types
from .emitter import Emitter

MOST_ROWS = 4  # of which lanes take turns
FEWEST = 4  # lanes: fewer are loaded one by one
# times as many elements as lanes may be loaded, of few lanes and of many: so reads an image that is made
# smaller
WIDE, MANY, WIDER = 2, 8, 4
_ORDER: dict[type, Callable[[int, int], bool]] = {EQ: eq, NE: ne, LT: lt, LE: le}


@dataclass(frozen=True)
class Near:
    """Lane ``n`` is at ``base + at[n]``. With ``ends``, whole registers are loaded from the one place to the
    other, of as many lanes as the third number says."""

    base: Expr
    at: tuple[int, ...]
    ends: tuple[int, int, int] | None = None

    @property
    def first(self) -> int:
        """The first element."""
        return min(self.at) if self.ends is None else self.ends[0]

    @property
    def span(self) -> int:
        """Elements from the first to the last."""
        return (max(self.at) + 1 if self.ends is None else self.ends[1]) - self.first


def lanes_of(offsets: Expr) -> Near | None:
    """What is known of these offsets, where that is worth a shuffle."""
    found = parts(offsets) if offsets.dtype.code == "int" else None
    return found if found is not None and _worth_it(found) else None


def _worth_it(near: Near) -> bool:
    lanes = len(near.at)
    return lanes >= FEWEST and near.span <= (WIDER if lanes >= MANY else WIDE) * lanes


def apart(stride: int, lanes: int) -> Near:
    """Lanes so many elements apart."""
    return Near(make.const(0), tuple(stride * n for n in range(lanes)))


def some_of(near: Near, flags: Sequence[bool]) -> Near | None:
    """The same of the lanes that are on alone, where that is worth a shuffle: the others are where the first
    of them is, so that nothing else is read."""
    first = next(x for x, on in zip(near.at, flags, strict=True) if on)
    found = Near(near.base, tuple(x if on else first for x, on in zip(near.at, flags, strict=True)))
    return found if _worth_it(found) else None


def straight(offset: Expr) -> Expr:
    """An offset whose lanes lie one behind the other, as a ramp: so do all elements of small matrices, ``n //
    9 * 9 + n // 3 % 3 * 3 + n % 3``."""
    if offset.dtype.lanes == 1 or type(offset) in (Ramp, Broadcast) or offset.dtype.code != "int":
        return offset
    found = parts(offset)
    if found is None or any(x != found.at[0] + n for n, x in enumerate(found.at)):
        return offset
    return make.ramp(make.add(found.base, found.at[0]), 1, len(found.at))


def windows(near: Near) -> list[int]:
    """Where loads of as many neighbours as there are lanes begin, which have all of these; none where the
    lanes are nearer than that."""
    lanes, found = len(near.at), list[int]()
    last = max(near.at) + 1 - lanes
    if last <= min(near.at):
        return found
    for x in sorted(set(near.at)):
        if not found or x >= found[-1] + lanes:
            found.append(min(x, last))
    return found


def rows(near: Near) -> int:
    """Of how many rows the lanes take turns, each of which lies one behind the other; 0 where they do not, or
    where a row has few of them."""
    at = near.at
    for count in range(2, MOST_ROWS + 1):
        if len(at) % count == 0 and len(at) // count >= FEWEST:
            if all(y == x + 1 for x, y in zip(at, at[count:], strict=False)):
                return count
    return 0


def in_registers(near: Near, base: Expr, room: int | None, lanes: int) -> Near:
    """The same of a block of the stack with so much ``room``, in whole registers of so many ``lanes``. A load
    of parts of two that were just stored waits for both, and keeps the block in memory. ``base`` is what
    places count from. Measured (Zen 4, AVX2 in brackets): three planes of 20,000 floats interleaved, of which
    a vector each is on the stack, take 0.32 (0.23) of the time, colours from a sensor 0.34 (0.5), hue and
    saturation 0.72 (0.66).
    """
    zero = const_int(base)
    if room is None or zero is None or lanes < 2 or zero % lanes:
        return near
    first, end = min(near.at) // lanes * lanes, -(-(max(near.at) + 1) // lanes) * lanes
    return Near(near.base, near.at, (first, end, lanes)) if zero + first >= 0 and zero + end <= room else near


def starts(near: Near) -> tuple[int, list[int]]:
    """How many elements a load has, and where loads begin, from ``base`` on."""
    if near.ends is not None:
        first, end, lanes = near.ends
        return lanes, list(range(first, end, lanes))
    wide = 1 << (near.span.bit_length() - 1)
    first = near.first
    return wide, [first] if near.span == wide else [first, first + near.span - wide]


def picked(em: Emitter, near: Near, pieces: list[str], element: str) -> str:
    """The lanes out of what was loaded."""
    wide, begins = starts(near)
    if near.ends is not None:
        count = 1 << (len(pieces) - 1).bit_length()
        pieces = [shuffles.joined(em, [*pieces, *pieces[-1:] * (count - len(pieces))], wide, element)]
        wide *= count
    if near.span == 1:
        return em.splat(pieces[0], element, len(near.at))
    order = [
        x - begins[0] if x < begins[0] + wide else wide + x - begins[1]  # the second is there then
        for x in near.at
    ]
    piece = types.lanes_of(element, wide)
    second = pieces[1] if len(pieces) > 1 else "poison"
    return em.ins(
        f"shufflevector {piece} {pieces[0]}, {piece} {second}, <{len(order)} x i32> "
        f"{types.vector_literal('i32', order)}"
    )


def parts(e: Expr) -> Near | None:
    """An index as a scalar and a number for each lane; None where that is not known."""
    kind = type(e)
    if kind is Broadcast:
        return Near(e.value, (0,) * e.lanes)  # type: ignore[attr-defined]
    if kind is Ramp:
        step = const_int(e.stride)  # type: ignore[attr-defined]
        return None if step is None else Near(e.base, tuple(step * n for n in range(e.lanes)))  # type: ignore[attr-defined]
    if kind is Cast and e.dtype.code == e.a.dtype.code == "int":  # type: ignore[attr-defined]
        inner = parts(e.a)  # type: ignore[attr-defined]
        wide = e.dtype.with_lanes(1)
        return None if inner is None else Near(make.cast(wide, inner.base), inner.at)
    if kind in (Add, Sub):
        a, b = parts(e.a), parts(e.b)  # type: ignore[attr-defined]
        if a is None or b is None:
            return None
        sign = 1 if kind is Add else -1
        base = make.add(a.base, b.base) if kind is Add else make.sub(a.base, b.base)
        return Near(base, tuple(x + sign * y for x, y in zip(a.at, b.at, strict=True)))
    if kind in (Min, Max):
        a, b = parts(e.a), parts(e.b)  # type: ignore[attr-defined]
        apart = None if a is None or b is None else const_int(make.sub(b.base, a.base))
        if a is None or b is None or apart is None or linear.wraps(a.base):
            return None
        pick = min if kind is Min else max
        return Near(a.base, tuple(pick(x, y + apart) for x, y in zip(a.at, b.at, strict=True)))
    if kind in (Mul, FloorDiv, FloorMod) and type(e.b) is Broadcast:  # type: ignore[attr-defined]
        c, a = const_int(e.b.value), parts(e.a)  # type: ignore[attr-defined]
        if a is None or c is None or (c < 1 and kind is not Mul):
            return None
        if kind is Mul:
            return Near(make.mul(a.base, c), tuple(x * c for x in a.at))
        return _divided(a, c, kind is FloorDiv)
    return None


def _divided(a: Near, by: int, quotient: bool) -> Near | None:
    """The quotients or rests of lanes whose scalar is a multiple of the divisor, but for a number."""
    terms = dict(linear.poly(a.base))
    more = terms.pop((), 0)
    base = _shared(terms, a.base, by)
    if base is None:
        return None
    if not quotient:
        return Near(make.const(0, a.base.dtype), tuple((more + x) % by for x in a.at))
    return Near(base, tuple((more + x) // by for x in a.at))


def _shared(terms: linear.Poly, e: Expr, by: int) -> Expr | None:
    """The quotient of these terms of ``e`` where each is a multiple; the smaller one of two multiples is one
    too: the last vector of a row begins no later than a vector before its end."""
    whole: linear.Poly = {m: k // by for m, k in terms.items() if k % by == 0}
    out = linear.from_poly(whole, e.dtype)
    for mono, k in terms.items():
        if k % by == 0:
            continue
        least = mono[0] if len(mono) == 1 else None
        if not isinstance(least, Min):
            return None
        a, b = (_shared(linear.poly(x), x, by) for x in (least.a, least.b))
        if a is None or b is None:
            return None
        out = make.add(out, make.mul(make.min_(a, b), k))
    return out


def flags_of(cond: Expr) -> tuple[bool, ...] | None:
    """Whether a condition holds, for each lane; None where some lane's is not known."""
    kind = type(cond)
    if kind is Broadcast:
        value = cond.value  # type: ignore[attr-defined]
        return (bool(value.value),) * cond.dtype.lanes if type(value) is Const else None
    if kind is Not:
        inner = flags_of(cond.a)  # type: ignore[attr-defined]
        return None if inner is None else tuple(not x for x in inner)
    if kind in (And, Or):
        a, b = flags_of(cond.a), flags_of(cond.b)  # type: ignore[attr-defined]
        if a is None or b is None:
            return None
        return tuple(x and y if kind is And else x or y for x, y in zip(a, b, strict=True))
    return _compared(cond) if kind in _ORDER else None


def _compared(cond: Expr) -> tuple[bool, ...] | None:
    a, b = cond.a, cond.b  # type: ignore[attr-defined]
    if not a.dtype.element.is_index or linear.wraps(a) or linear.wraps(b):
        return None
    left, right = parts(a), parts(b)
    apart = None if left is None or right is None else const_int(make.sub(left.base, right.base))
    if left is None or right is None or apart is None:
        return None
    return tuple(_ORDER[type(cond)](x + apart, y) for x, y in zip(left.at, right.at, strict=True))
