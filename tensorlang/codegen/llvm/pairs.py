"""Neighbouring stores that belong together become one: interleaved columns, and products of two 16-bit or
four 8-bit integers in one sum.

``D[ramp(b, 2, 8)] = x; D[ramp(b + 1, 2, 8)] = y`` is one contiguous store of x and y, lane by lane; so are
four such stores of every fourth element.

``S = S + int32(A[k]) * int32(B[ramp(b, 2, 8)]); S = S + int32(A[k + 1]) * int32(B[ramp(b + 1, 2, 8)])`` is
what pmaddwd of x86 is for: the products of neighbours, summed in pairs. Four such stores of uint8 times int8
are its vpdpbusd, also where the neighbours of one lane begin among those of the lane before, as the taps of a
window do: ``A[ramp(b + k, 2, 8)]``. These sums wrap as the additions do, so every value is exact. Where such
neighbours are summed as they are, ``S = S + int32(B[ramp(b, 4, 8)])`` and so on, they are products with ones.
Two of bfloat16, added to float32, are its vdpbf16ps, which rounds each addition as a fused one does. Other
targets keep the stores.
Knows no statements but stores; it reads and writes the same elements and no others.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_

from ...core.dtype import FLOAT32, INT32, DType
from ...expr import make
from ...expr.nodes import Add, Cast, Expr, IfThenElse, Mul, Ramp, const_int, lane_of
from ...loopir.stmt import If, Load, Stmt, Store, load
from . import gathers, memory, near, shuffles, types
from .emitter import Emitter, buffers_read, read_in_lanes
from .expression import is_zero

# what is multiplied: neighbours, by the first of them; rows of lines that lie apart, which are mixed in
# registers; None: ones
Side = Load | tuple[Load, ...] | None
MIXED = 32  # lanes of lines whose bytes are mixed together
MOST = 4  # stores that become one
COUNTS = (4, 2)
WINDOWS = (1, 2, 3)  # bytes from a lane's four to those of the next, which share some
INTEGERS = ("int16", "int8", "uint8")

_SIZES = {"i32": 32, "i16": 16, "bfloat": 16}
# by the type of the sums and how many products: what is multiplied, as what the instruction takes it, its
# name by the lanes of 32 bits, and whether it takes the lanes it is added to. Which of them the processor has
# is the target's knowledge
_SUMS: dict[tuple[DType, int], tuple[tuple[str, str], str, dict[int, str], bool]] = {
    (INT32, 2): (
        ("int16", "int16"),
        "i16",
        {16: "llvm.x86.avx512.pmaddw.d.512", 8: "llvm.x86.avx2.pmadd.wd", 4: "llvm.x86.sse2.pmadd.wd"},
        False,
    ),
    (INT32, 4): (
        ("uint8", "int8"),
        "i32",
        {n: f"llvm.x86.avx512.vpdpbusd.{32 * n}" for n in (16, 8, 4)},
        True,
    ),
    (FLOAT32, 2): (
        ("bfloat16", "bfloat16"),
        "bfloat",
        {n: f"llvm.x86.avx512bf16.dpbf16ps.{32 * n}" for n in (16, 8, 4)},
        True,
    ),
}


def store_together(em: Emitter, following: Sequence[Stmt]) -> int:
    """Write the first of these statements as one store. How many they are; if none belong together, nothing
    is written."""
    first = following[0]
    if type(first) is not Store or len(first.indices) == 0 or len(following) < 2:
        return 0
    second = following[1]
    if type(second) is not Store or second.buffer is not first.buffer or second.mask is not first.mask:
        return 0
    if not all(map(is_, second.indices, first.indices)):  # columns, then; most are none
        at = _place(em, first)
        if type(at) is not Ramp or const_int(at.stride) not in COUNTS:
            return 0
    stores: list[Store] = []
    for one in following[:MOST]:
        if type(one) is not Store or one.buffer is not first.buffer or one.mask is not first.mask:
            break
        stores.append(one)
    for count in COUNTS:
        if len(stores) < count:
            continue
        group = stores[:count]
        em.at = em.depth
        if all(a is b for s in group[1:] for a, b in zip(s.indices, first.indices, strict=True)):
            done = first.mask is None and _add_products(em, group)
        else:
            done = _interleave(em, group)
        if done:
            return count
    return 0


def _place(em: Emitter, e: Load | Store) -> Expr:
    """The offset of the lanes in their buffer."""
    return memory.flat_offset(em, e.buffer, e.indices)


def _alternate(places: Sequence[Expr], strides: Sequence[int]) -> bool:
    """Whether the lanes of these offsets take turns: of two every other element, and the one behind each.
    They are so far apart as one of ``strides`` says."""
    first = places[0]
    stride = const_int(first.stride) if type(first) is Ramp else None
    return stride in strides and all(
        type(a) is Ramp
        and a.lanes == first.dtype.lanes
        and const_int(a.stride) == stride
        and const_int(make.sub(a.base, first.base)) == i  # type: ignore[attr-defined]
        for i, a in enumerate(places)
    )


# --- columns ------------------------------------------------------------------------------------------------


def _interleave(em: Emitter, stores: Sequence[Store]) -> bool:
    buffer, mask = stores[0].buffer, stores[0].mask
    at = _place(em, stores[0])
    # asked first: most neighbouring stores are none of these
    if type(at) is not Ramp or const_int(at.stride) != len(stores):
        return False
    if not _alternate([_place(em, s) for s in stores], (len(stores),)):
        return False
    if any(buffer in buffers_read(s.value) for s in stores[1:]):
        return False
    if mask is not None and (mask.dtype.lanes != at.lanes or buffer in buffers_read(mask)):
        return False
    columns = [
        memory.to_memory(em, em.value(make.broadcast(s.value, at.lanes)), buffer.dtype.with_lanes(at.lanes))
        for s in stores
    ]
    memory.store_row(
        em,
        buffer,
        at.base,
        len(stores) * at.lanes,
        _mixed(em, columns, at.lanes, types.memory_element(buffer.dtype, em.target)),
        None if mask is None else _mixed(em, [em.value(mask)] * len(stores), at.lanes, "i1"),
    )
    return True


def _mixed(em: Emitter, columns: Sequence[str], lanes: int, element: str) -> str:
    """The columns lane by lane."""
    half = len(columns) // 2  # an instruction takes two vectors
    parts = [shuffles.joined(em, list(c), lanes, element) for c in (columns[:half], columns[half:])]
    wide, order = half * lanes, [c * lanes + at for at in range(lanes) for c in range(len(columns))]
    vector = f"<{wide} x {element}>"
    if 8 * wide == gathers.BITS and element == "i8" and em.target.mixes_bytes:
        # any bytes of two registers are one instruction; LLVM, which sees the columns, takes seven. Measured
        # (Zen 5, one thread): uint8 × int8 of 16 × 3072 × 768 0.89 of the time, 32 × 128 × 512 0.97
        name, made = "llvm.x86.avx512.vpermi2var.qi.512", list[str]()
        for at in (order[:wide], order[wide:]):
            places = (vector, types.vector_literal("i8", at))
            made.append(em.call(vector, name, (vector, parts[0]), places, (vector, parts[1])))
        return shuffles.joined(em, made, wide, element)
    places_of_all = types.vector_literal("i32", order)
    return em.ins(
        f"shufflevector {vector} {parts[0]}, {vector} {parts[1]}, <{2 * wide} x i32> {places_of_all}"
    )


# --- products -----------------------------------------------------------------------------------------------


def _add_products(em: Emitter, stores: Sequence[Store]) -> bool:
    first, count = stores[0], len(stores)
    lanes, kind = first.value.dtype.lanes, first.buffer.dtype
    width = _width(lanes, _bits(em, kind, count))
    if width is None or any(s.value.dtype.lanes != lanes for s in stores):
        return False
    wanted, element, name, adds = _SUMS[kind, count]
    sides = _sides(em, stores, wanted)
    if sides is None:
        return False
    own = em.element(kind)
    vector, taken = f"<{width} x {own}>", f"<{32 * width // _SIZES[element]} x {element}>"
    old = em.value(load(first.buffer, first.indices))
    sums = []
    for at in range(0, lanes, width):
        operands = []
        for x in sides:
            read = _operand(em, x, at, width, count)
            operands.append((taken, read if element == "i32" else _as(em, read, f"<{width} x i32>", taken)))
        to = [(vector, shuffles.part(em, old, lanes, at, width, own))] if adds else []
        sums.append(em.call(vector, name[width], *to, *operands))
    total = shuffles.joined(em, sums, width, own)
    flat = _place(em, first)
    assert type(flat) is Ramp
    if not adds:
        total = em.ins(f"add <{lanes} x {own}> {old}, {total}")
    memory.store_row(em, first.buffer, flat.base, lanes, total, None)
    return True


def _width(lanes: int, bits: Sequence[int]) -> int | None:
    """The widest vector of 32-bit lanes, of so many ``bits``, of which one, two, four or so are all lanes."""
    parts = {n // 32: lanes // (n // 32) for n in bits if lanes % (n // 32) == 0}
    return next((width for width, count in parts.items() if count.bit_count() == 1), None)


def _sides(em: Emitter, stores: Sequence[Store], wanted: tuple[str, str]) -> tuple[Side, Side] | None:
    """What the first of the stores multiplies, in the order of the instruction."""
    both = products(em, stores, wanted, WINDOWS if len(stores) == MOST else ())
    if both is not None:
        found = both if both[0].dtype.element == wanted[0] else both[::-1]
        return found if tuple(x.dtype.element for x in found) == wanted else None
    x = _alone(em, stores, wanted, len(stores))
    if x is not None:
        return (x, None) if x.dtype.element == wanted[0] else (None, x)
    return _of_lines(em, stores, wanted) if len(stores) == MOST and em.target.mixes_bytes else None


def _of_lines(em: Emitter, stores: Sequence[Store], wanted: tuple[str, str]) -> tuple[Side, Side] | None:
    """The same where rows of neighbours are read from a line each."""
    lines, ones = list[Load](), list[Load]()
    for s in stores:
        added = _added(em, s)
        for e in (added.a, added.b) if type(added) is Mul else (added,):
            x = _wide(e, wanted)
            if x is None:
                return None
            (ones if x.dtype.lanes == 1 else lines).append(x)
    if len(lines) != MOST or len(ones) not in (0, MOST) or (ones and not _follow(em, ones, (MOST,))):
        return None
    first = lines[0]
    if first.dtype.lanes % MIXED or any(x.dtype != first.dtype or not _is_row(em, x) for x in lines):
        return None
    if ones and ones[0].dtype.element == first.dtype.element:
        return None
    other = ones[0] if ones else None
    return (tuple(lines), other) if first.dtype.element == wanted[0] else (other, tuple(lines))


def _is_row(em: Emitter, e: Load) -> bool:
    place = _place(em, e)
    return type(place) is Ramp and const_int(place.stride) == 1


def _operand(em: Emitter, x: Side, at: int, width: int, count: int) -> str:
    """What is multiplied in ``width`` lanes from lane ``at`` on: 32 bits of each."""
    if x is None:
        return _ones(width, count)
    if not isinstance(x, tuple):
        return _neighbours(em, x, at, width, count)
    block = at // MIXED * MIXED
    key, kind = ("mixed", x, block), f"<{MIXED} x i32>"
    whole = em.memo.get(key)
    if whole is None:
        parts = [shuffles.part(em, em.value(e), e.dtype.lanes, block, MIXED, "i8") for e in x]
        whole = _as(em, _mixed(em, parts, MIXED, "i8"), f"<{MOST * MIXED} x i8>", kind)
        em.remember(em.memo, key, whole, em.depth, frozenset([e.buffer for e in x]))
    return shuffles.part(em, whole, MIXED, at - block, width, "i32")


def _alone(em: Emitter, stores: Sequence[Store], kinds: Sequence[str], apart: int) -> Load | None:
    """What the first of these stores adds to its sums, where each adds the neighbours of what the one before
    has added, lanes so far ``apart``."""
    first, terms = stores[0], list[Load]()
    for s in stores:
        x = _wide(_added(em, s), kinds)
        if x is None or x.dtype.lanes != first.value.dtype.lanes or first.buffer.dtype is not INT32:
            return None
        terms.append(x)
    return terms[0] if _follow(em, terms, (apart,)) else None


def _ones(width: int, count: int) -> str:
    """In each of so many lanes as many ones as are summed there."""
    bits = 32 // count
    return types.splat_literal(str(sum(1 << bits * at for at in range(count))), "i32", width)


def store_rest(em: Emitter, following: Sequence[Stmt]) -> int:
    """Write the first of these statements, and those behind it that add further products of the same group
    under conditions, as one store: the last products of an open number of them, of which those that are not
    there are products with zeros. How many statements they are; 0, and nothing written, where they are
    none.

    Measured (Zen 4, one thread), uint8 × int8 of three open sizes: compiled in 0.62 of the time, 300 × 3 ×
    300 takes 0.49, 273 × 27 × 60 0.67, 49 × 30 × 200 0.83, where nothing is left 0.93 to 1.12.
    """
    first, conditions, stores = following[0], list[Expr](), list[Store]()
    for one in following[:MOST]:
        under = one.then if type(one) is If and one.orelse is None else one
        if type(under) is not Store or under.mask is not None or (under is one) is not (one is first):
            break
        stores.append(under)
        if type(one) is If:
            conditions.append(one.cond)
    if len(stores) < 2 or not em.target.has_masks or type(first) is not Store or len(first.indices) == 0:
        return 0
    em.at = em.depth
    alike = all(
        x.buffer is first.buffer and all(a is b for a, b in zip(x.indices, first.indices, strict=True))
        for x in stores
    )
    done = alike and first.buffer.dtype is INT32 and _add_rest(em, stores, conditions)
    return len(stores) if done else 0


def _add_rest(em: Emitter, stores: Sequence[Store], conditions: Sequence[Expr]) -> bool:
    first, lanes = stores[0], stores[0].value.dtype.lanes
    width = _width(lanes, em.target.summed(MOST))
    wanted, _, name, _ = _SUMS[INT32, MOST]
    row, one = _rest(em, stores, wanted)
    # of a row whole groups are there, whatever is in them
    if (
        width is None
        or row is None
        or row.mask is not None
        or row.dtype.lanes != lanes
        or const_int(row.buffer.shape[-1]) != MOST
        or const_int(row.indices[-1]) != 0
    ):
        return False
    flags = "zeroinitializer"
    for at, on in enumerate(["true", *(em.value(c) for c in conditions)]):
        flags = em.ins(f"insertelement <{MOST} x i1> {flags}, i1 {on}, i32 {at}")
    if one is None:
        four = em.ins(f"zext <{MOST} x i1> {flags} to <{MOST} x i8>")
    else:
        address = memory.pointer(em, one.buffer, _place(em, one))
        four = gathers.masked_load(em, address, flags, "i8", MOST, 1)
    some = em.splat(_as(em, four, f"<{MOST} x i8>", "i32"), "i32", width)
    old, vector, sums = em.value(load(first.buffer, first.indices)), f"<{width} x i32>", []
    for at in range(0, lanes, width):
        read = _neighbours(em, row, at, width, MOST)
        operands = (some, read) if row.dtype.element == wanted[1] else (read, some)
        given = (shuffles.part(em, old, lanes, at, width, "i32"), *operands)
        sums.append(em.call(vector, name[width], *[(vector, x) for x in given]))
    flat = _place(em, first)
    assert type(flat) is Ramp
    memory.store_row(em, first.buffer, flat.base, lanes, shuffles.joined(em, sums, width, "i32"), None)
    return True


def _rest(
    em: Emitter, stores: Sequence[Store], wanted: tuple[str, str]
) -> tuple[Load, Load | None] | tuple[None, None]:
    """The row that the first of these stores adds to its sums, and the one element that it is multiplied
    with, if it is."""
    row = _alone(em, stores, wanted, MOST)
    if row is not None:
        return row, None
    factors = [_factors(em, s, wanted) for s in stores]
    sides = None if None in factors else _in_turn(em, factors, (MOST,))  # type: ignore[arg-type]
    if sides is None or {x.dtype.element for x in sides} != set(wanted):
        return None, None
    one, row = sides if sides[0].dtype.lanes == 1 else sides[::-1]
    return (row, one) if one.dtype.lanes == 1 and one.mask is None else (None, None)


def _bits(em: Emitter, kind: DType, count: int) -> tuple[int, ...]:
    """The bits of the vectors in which so many products are added to sums of that type, the widest first."""
    if kind is INT32:
        return em.target.summed(count)
    pairs = kind is FLOAT32 and count == 2 and em.target.sums_bfloat16 and em.module.fuses
    return (512, 256, 128) if pairs else ()


def products(
    em: Emitter, stores: Sequence[Store], kinds: Sequence[str] = INTEGERS, strides: Sequence[int] = ()
) -> tuple[Load, Load] | None:
    """What the first of these stores multiplies, where each adds products of the neighbours of what the one
    before has multiplied, lane by lane, to the same sums; elements are of one of these ``kinds``. Lanes are
    as far apart as there are stores, or as one of ``strides`` says."""
    factors = []
    for s in stores:
        both = _factors(em, s, kinds)
        if both is None:
            return None
        factors.append(both)
    return _in_turn(em, factors, (len(stores), *strides))


def _factors(em: Emitter, s: Store, kinds: Sequence[str]) -> tuple[Load, Load] | None:
    """x and y of ``S = S + int32(x) * int32(y)`` with 8- or 16-bit elements read from memory, S a row of
    neighbours; the same of floats."""
    product = _added(em, s)
    if type(product) is not Mul:
        return None
    x, y = _wide(product.a, kinds), _wide(product.b, kinds)
    return None if x is None or y is None else (x, y)


def _added(em: Emitter, s: Store) -> Expr | None:
    """x of ``S = S + x``, S a row of neighbours that x does not read."""
    flat = _place(em, s)
    if (
        type(s.value) is not Add
        or type(flat) is not Ramp
        or const_int(flat.stride) != 1
        or flat.lanes != s.value.dtype.lanes
    ):
        return None
    old = load(s.buffer, s.indices)
    added = s.value.b if s.value.a is old else s.value.a if s.value.b is old else None
    return None if added is None or s.buffer in buffers_read(added) else added


def _wide(e: Expr | None, kinds: Sequence[str]) -> Load | None:
    """What is read from memory, of one of these ``kinds``, and made wider; of one element, whatever the
    lanes."""
    e = None if e is None else lane_of(e)
    x = _read(e.a) if type(e) is Cast else None
    if x is None or (x.mask is not None and x.dtype.lanes == 1) or x.dtype.element not in kinds:
        return None
    return x


def _read(e: Expr) -> Load | None:
    """What is read, also under a condition of the lanes, of which those that are off are zeros, as the last
    columns of a rest are."""
    if type(e) is Load:
        return e
    return read_in_lanes(e) if type(e) is IfThenElse and is_zero(e.b) else None


def _in_turn(
    em: Emitter, factors: Sequence[tuple[Load, Load]], strides: Sequence[int]
) -> tuple[Load, Load] | None:
    """The first of the factors, where those of the other products are its neighbours."""
    left, right = [factors[0][0]], [factors[0][1]]
    for x, y in factors[1:]:
        if not (_follow(em, [*left, x], strides) and _follow(em, [*right, y], strides)):
            x, y = y, x
            if not (_follow(em, [*left, x], strides) and _follow(em, [*right, y], strides)):
                return None
        left.append(x)
        right.append(y)
    return left[0], right[0]


def _follow(em: Emitter, loads: Sequence[Load], strides: Sequence[int]) -> bool:
    """Whether each reads the neighbour of what the one before reads, in each lane."""
    first = loads[0]
    if any(
        b.buffer is not first.buffer or b.mask is not first.mask or b.dtype.lanes != first.dtype.lanes
        for b in loads
    ):
        return False
    places = [_place(em, b) for b in loads]
    if first.dtype.lanes == 1:
        return all(const_int(make.sub(b, places[0])) == i for i, b in enumerate(places))
    return _alternate(places, strides[:1] if _on(em, first) is None else strides)


def _on(em: Emitter, e: Load) -> tuple[bool, ...] | None:
    """Which lanes are on; None where that is not known."""
    if e.mask is None:
        return (True,) * e.dtype.lanes
    return near.flags_of(em.masks.get(e.mask, e.mask))  # type: ignore[call-overload]


def _neighbours(em: Emitter, first: Load, at: int, width: int, count: int) -> str:
    """The elements of ``width`` lanes from lane ``at`` on, each with its neighbours: 32 bits of each lane."""
    place, buffer = _place(em, first), first.buffer
    stride = (const_int(place.stride) or 0) if type(place) is Ramp else 0
    base = make.add(place.base, stride * at) if type(place) is Ramp else place
    key = ("neighbours", buffer, base, stride, at, width, first.mask)
    result = em.memo.get(key)
    if result is None and stride in WINDOWS and count == MOST:
        on = _on(em, first)
        assert on is not None
        result = _overlapping(em, first, base, stride, on[at : at + width])
        em.remember(em.memo, key, result, em.depth, frozenset([buffer]))
    elif result is None:
        kind, address = f"<{width} x i32>" if type(place) is Ramp else "i32", memory.pointer(em, buffer, base)
        if first.mask is None:
            result = em.ins(f"load {kind}, ptr {address}, align {buffer.dtype.bytes}")
        else:  # of a lane that is off zeros, which add nothing
            flags = shuffles.part(em, em.value(first.mask), first.dtype.lanes, at, width, "i1")
            result = gathers.masked_load(em, address, flags, "i32", width, buffer.dtype.bytes)
        result = result if type(place) is Ramp else em.splat(result, "i32", width)
        em.remember(em.memo, key, result, em.depth, frozenset([buffer]))
    return result


def _overlapping(em: Emitter, first: Load, base: Expr, stride: int, on: Sequence[bool]) -> str:
    """Four bytes for each lane, those of a lane ``stride`` behind those of the one before: no byte is read
    that no lane has. Of lanes that are not ``on`` zeros."""
    lanes = len(on)
    if not any(on):
        return types.splat_literal("0", "i32", lanes)
    start = next(n for n in range(lanes) if on[n])
    at = [stride * (n if on[n] else start) + k for n in range(lanes) for k in range(MOST)]
    found = near.Near(base, tuple(at))
    wide, begins = near.starts(found)
    pieces = [
        em.ins(f"load <{wide} x i8>, ptr {memory.pointer(em, first.buffer, make.add(base, x))}, align 1")
        for x in begins
    ]
    result = _as(em, near.picked(em, found, pieces, "i8"), f"<{len(at)} x i8>", f"<{lanes} x i32>")
    if all(on):
        return result
    flags = types.vector_literal("i1", [int(x) for x in on])
    return em.ins(f"select <{lanes} x i1> {flags}, <{lanes} x i32> {result}, <{lanes} x i32> zeroinitializer")


def _as(em: Emitter, x: str, kind: str, wanted: str) -> str:
    return em.ins(f"bitcast {kind} {x} to {wanted}")
