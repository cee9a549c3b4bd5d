"""How far the lanes of an access are from a buffer's first element, as one ramp wherever they lie one behind
the other: row and column of what was one index become that index again, however many loops were fused. Knows
buffers and expressions; writes no code.
"""

from __future__ import annotations

import itertools

from ...expr import make
from ...expr.nodes import (
    LE,
    LT,
    RANGED,
    Add,
    Broadcast,
    Cast,
    Compare,
    Expr,
    FloorDiv,
    FloorMod,
    Mul,
    Ramp,
    Select,
    Sub,
    const_int,
)
from ...loopir.stmt import Buffer
from . import near
from .emitter import buffers_read


def offset(buffer: Buffer, indices: tuple[Expr, ...]) -> Expr:
    """The element's distance from the first one, a ramp wherever lanes lie one behind the other."""
    return near.straight(buffer.offset(_joined(buffer, indices)))


def _joined(buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Row and column of what was one index, ``x // n, x % n`` in a buffer whose rows are ``n`` apart, as that
    index. (Those of scalars join in ``expr.linear``, where no width is between them: a loop over open sizes
    is counted in 64 bits, its row and column are cut to the type of the axes.) Of three and more, ``x // (m *
    n), x // m % n, x % m``, the outer two are ``x // m`` first. A quotient may lack whole rows."""
    if not any([i.contains & RANGED for i in indices[:-1]]):  # no quotient and no remainder: most
        return indices
    strides = buffer.element_strides()
    # an index of 0 adds nothing to a place: an axis of one element may lie between row and column
    for d, e in itertools.pairwise(d for d, i in enumerate(indices) if const_int(i) != 0):
        one = _one_index(_uncut(indices[d]), _uncut(indices[e]), strides[d], strides[e])
        if one is not None:
            between = make.const(0, "int32"), *indices[d + 1 : e]
            return _joined(buffer, (*indices[:d], *between, one, *indices[e + 1 :]))
    return indices


def _one_index(row: Expr, column: Expr, step: Expr, stride: Expr) -> Expr | None:
    """``_joined`` for a row and a column, neighbours of which are ``step`` and ``stride`` elements apart."""
    above, row = _whole_rows(row)
    if type(row) is FloorDiv and type(column) is FloorMod and row.b is column.b:
        n = _every_lane(row.b)
        if n is not None and step is make.mul(stride, n) and _alike(row.a, column.a, n):
            return row.a if above is None else make.add(make.mul(above, n), row.a)
    found = (
        _divided_once(row, column) or _rows_of_planes(row, column) or _parts_of_rows(row, column),
        _within_plane(row, column),
    )
    fitting = (f for f in found if f is not None and step is make.mul(stride, f[1]))
    one = next(fitting, None)
    if one is None:
        return None
    return one[0] if above is None else make.add(make.mul(above, one[1]), one[0])


def _whole_rows(row: Expr) -> tuple[Expr | None, Expr]:
    """The rows that stand beside a quotient of vectors, if any, and the quotient: rows that are counted in 64
    bits stand beside quotients of 32, and the other way round. Measured (Zen 4): the largest of n × 5 × 3
    floats along the first two axes, of which 16 were gathered, takes 0.03 of the time."""
    if row.dtype.lanes == 1 or type(row) not in (Add, Sub):
        return None, row
    sides = ((row.a, row.b), (row.b, row.a)) if type(row) is Add else ((row.a, row.b),)  # type: ignore[attr-defined]
    for side, rest in sides:
        # of a part that begins at a later row, which several may be in front of
        front, quotient = _whole_rows(_uncut(side))
        if type(quotient) is FloorDiv:
            rest = rest if type(row) is Add else make.mul(rest, -1)
            return rest if front is None else make.add(front, rest), quotient
    return None, row


def _divided_once(row: Expr, column: Expr) -> tuple[Expr, Expr] | None:
    """Of ``x // (m * n), x // m % n`` what both are made of, ``x // m``, and ``n``."""
    if type(row) is not FloorDiv or type(column) is not FloorMod:
        return None
    front, inner = _whole_rows(column.a)
    if type(inner) is not FloorDiv:
        return None
    whole, n, m = _every_lane(row.b), _every_lane(column.b), _every_lane(inner.b)
    if whole is None or n is None or m is None or whole is not make.mul(m, n):
        return None
    same = _alike(row.a, inner.a, whole) if front is None else _in_front(row.a, inner.a, front, m, n)
    return (make.floordiv(row.a, inner.b), n) if same else None


def _in_front(a: Expr, b: Expr, front: Expr, m: Expr, n: Expr) -> bool:
    """Whether ``a // m`` and ``front + b // m`` differ by a multiple of ``n`` in every lane, for certain."""
    if type(front) is not Broadcast or type(a) is not Ramp or type(b) is not Ramp or a.stride is not b.stride:
        return False
    apart = make.sub(a.base, b.base)
    if const_int(make.floormod(apart, m)) != 0:
        return False
    return const_int(make.floormod(make.sub(make.floordiv(apart, m), front.value), n)) == 0


def _rows_of_planes(row: Expr, column: Expr) -> tuple[Expr, Expr] | None:
    """Of ``x // (m * n) % k, x // n % m`` the one index ``x // n % (k * m)``, and ``m``: a row of one of
    ``k`` planes of ``m`` rows. Measured (Zen 4): 192 × 16 × 50 numbers of an open batch, rounded to bytes 64
    at a time, were gathered, and take 0.03 of the time."""
    if type(row) is not FloorMod or type(row.a) is not FloorDiv:
        return None
    once = _divided_once(row.a, column)
    k = None if once is None or type(row.b) is Select else _every_lane(row.b)
    if once is None or k is None:
        return None
    planes = make.mul(k, once[1])
    return make.floormod(
        once[0], planes if row.dtype.lanes == 1 else make.broadcast(planes, row.dtype.lanes)
    ), once[1]


def _parts_of_rows(row: Expr, column: Expr) -> tuple[Expr, Expr] | None:
    """Of ``x // n, x % n * c + k`` the one index ``x * c + k``, and ``n * c``: of rows of ``n`` parts one.
    Measured (Zen 4): sums of three neighbours each of 30,001 × 30, of which 16 were gathered, take 0.36 of
    the time."""
    part, rest = (column.a, column.b) if type(column) is Add else (column, None)
    if type(row) is not FloorDiv or type(part) is not Mul or type(part.a) is not FloorMod:
        return None
    n, c = _every_lane(row.b), _every_lane(part.b)
    if n is None or c is None or part.a.b is not row.b or not _alike(row.a, part.a.a, n):
        return None
    whole = make.mul(row.a, c)
    return whole if rest is None else make.add(whole, rest), make.mul(n, c)


def _within_plane(row: Expr, column: Expr) -> tuple[Expr, Expr] | None:
    """Of ``x // n % m, x % n`` the one index ``x % (m * n)``, and ``n``, where vectors divide the plane that
    is ``m * n`` and so none goes over its end. Which plane it is, all lanes agree on, and nothing is left of
    ``x`` to join with. Measured (Emerald Rapids): 1×1 convolutions of 16 to 24 channels of 4 × 20 × 20, which
    were gathered, take 0.25 of the time."""
    if type(row) is not FloorMod or type(row.a) is not FloorDiv or type(column) is not FloorMod:
        return None
    x, n, m = row.a.a, _every_lane(column.b), _every_lane(row.b)
    if type(x) is not Ramp or const_int(x.stride) != 1 or n is None or m is None:
        return None
    whole = make.mul(m, n)
    if _every_lane(row.a.b) is not n or not _alike(x, column.a, n):
        return None
    lanes = make.const(x.lanes, x.base.dtype)
    if any(const_int(make.floormod(e, lanes)) != 0 for e in (make.cast(lanes.dtype, whole), x.base)):
        return None
    return make.ramp(make.floormod(x.base, whole), 1, x.lanes), n


def _uncut(index: Expr) -> Expr:
    """An index of 64 bits that is cut to 32, whole, and one of 32 bits that is made wider as it was: indices
    do not overflow, unless they are read from memory."""
    if type(index) is Cast and index.dtype.code == index.a.dtype.code == "int" and index.dtype.bits >= 32:
        # one read from memory is whatever the array holds: its cast may cut, and what is cut must stay so
        return index if buffers_read(index) else index.a
    return index


def by_element(e: Compare) -> tuple[bool, LT] | None:
    """Whether a row is before another, ``rest + ramp // n < x``, asked of elements, ``ramp < (x - rest) *
    n``: lanes differ from one place on, and nothing is divided in each of them; and whether it is to hold or
    not.

    Measured (Zen 4, one thread): two arrays of n × 17 bytes joined take 0.19 of the time."""
    if type(e) not in (LT, LE):
        return None
    for row, other in ((e.a, e.b), (e.b, e.a)):
        rest, quotient = _whole_rows(_uncut(row))
        if type(quotient) is not FloorDiv or type(quotient.a) is not Ramp or type(other) is not Broadcast:
            continue
        n = const_int(quotient.b.value) if type(quotient.b) is Broadcast else None
        if n is None or n < 1 or not (rest is None or type(rest) is Broadcast):
            continue
        x = make.cast("int64", other.value)
        if type(rest) is Broadcast:
            x = make.sub(x, make.cast("int64", rest.value))
        first = row is e.a
        if (type(e) is LE) is first:  # q <= x is q < x + 1, and x < q is not q < x + 1
            x = make.add(x, 1)
        before = make.lt(make.cast("int64", quotient.a), make.broadcast(make.mul(x, n), e.a.dtype.lanes))
        return (first, before) if type(before) is LT else None
    return None


def _every_lane(divisor: Expr) -> Expr | None:
    """The divisor of all lanes, of those that a mask leaves at least; None when they differ."""
    if type(divisor) is Select and divisor.dtype.lanes > 1:
        divisor = divisor.a  # the others divide by one, and their result is not used
    if divisor.dtype.lanes == 1:
        return divisor
    return divisor.value if type(divisor) is Broadcast else None


def _alike(a: Expr, b: Expr, n: Expr) -> bool:
    """Whether two vectors differ by a multiple of ``n`` in every lane, for certain: a remainder keeps less of
    its operand than a quotient."""
    if a is b:
        return True
    (front, rest), (other, same) = _whole_rows(a), _whole_rows(b)
    if type(front) is Broadcast and type(other) is Broadcast and rest is same:
        return const_int(make.floormod(make.sub(front.value, other.value), n)) == 0
    if type(a) is not Ramp or type(b) is not Ramp or a.stride is not b.stride:
        return False
    apart = make.floormod(make.sub(a.base, b.base), n)
    return const_int(apart) == 0 or (
        make.add(make.mul(make.floordiv(a.base, n), n), make.floormod(b.base, n)) is a.base
    )
