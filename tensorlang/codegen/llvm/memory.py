"""Loads and stores of every form: scalar, contiguous, reversed, strided, uniform, gathered; each with and
without a mask.

The element offset is computed as an expression, so that vector indices fold into one ramp. Its terms are
added to the buffer's pointer in the order in which they become known, loop by loop, and its constant last,
where it becomes part of the address of the instruction. Lanes that are masked off are not touched in memory;
loaded, they hold zero.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...core.dtype import INT64, DType
from ...expr import linear, make
from ...expr.nodes import Broadcast, Expr, FloorDiv, FloorMod, Ramp, const_int
from ...loopir.stmt import Buffer, Load, load
from . import convert, gathers, in_place, index, joined, narrowed, near, shuffles, sides, streaming, types
from .emitter import Emitter, Storage, buffers_read
from .expression import rules

_LARGEST = 2**31 - 1
LEAST_IN_WINDOW = 4  # lanes out of a vector of neighbours


@dataclass(frozen=True)
class Place:
    """Where the lanes of an access are: at ``base + stride * lane`` when ``stride`` is known, else at ``base
    + offsets[lane]``."""

    base: Expr
    stride: int | None
    offsets: Expr | None
    lanes: int


def locate(em: Emitter, buffer: Buffer, indices: tuple[Expr, ...], lanes: int) -> Place:
    """The place of ``buffer[indices]``."""
    flat = flat_offset(em, buffer, indices)
    if flat.dtype.lanes == 1:
        return Place(flat, 0, None, lanes)
    if type(flat) is Broadcast:
        return Place(flat.value, 0, None, lanes)
    if type(flat) is Ramp:
        step = const_int(flat.stride)
        if step is not None:
            return Place(flat.base, step, None, lanes)
    # Only the indices that differ between lanes are computed in every lane.
    base: Expr = make.const(0, "int64")
    offsets: Expr | None = None
    for i, stride in zip(indices, buffer.element_strides(), strict=True):
        if i.dtype.lanes == 1:
            base = make.add(base, make.mul(i, stride))
        else:
            # the instruction extends 32-bit indices with their sign itself; an unsigned one would be taken
            # for negative
            alone = const_int(stride) == 1 and i.dtype.code == "int"  # the address takes it as it is
            term = make.mul(i if alone or _fits(buffer) else make.cast("int64", i), stride)
            offsets = term if offsets is None else make.add(offsets, term)
    assert offsets is not None
    return Place(base, None, offsets, lanes)


def _row_start(buffer: Buffer, indices: tuple[Expr, ...]) -> Expr:
    """How far from the first element that is which these indices, of the first dimensions, lead to."""
    zeros = [make.const(0, "int32")] * (len(buffer.shape) - len(indices))
    return buffer.offset((*indices, *zeros))


def flat_offset(em: Emitter, buffer: Buffer, indices: tuple[Expr, ...]) -> Expr:
    """The element's distance from the first one, computed once in a kernel: it is asked for again and
    again."""
    key = (buffer, indices)
    result = em.flat.get(key)
    if result is None:
        result = em.flat[key] = joined.offset(buffer, indices)
    return result


def _fits(buffer: Buffer) -> bool:
    """Whether every offset into the buffer fits 32 bits.

    Measured on an AVX2 machine, an 8-lane gather of float32 from the first cache, sizes known at run time
    only: indices that are offsets as they stand take 0.34 ns an element in 32 bits and 0.39 in 64; those
    multiplied by a stride 0.50 and 0.46, so what symbolic sizes would allow to be narrow is left wide.
    """
    total = 1
    for extent, stride in zip(buffer.shape, buffer.element_strides(), strict=True):
        n, s = const_int(extent), const_int(stride)
        if n is None or s is None:
            return False
        total += n * max(1, abs(s))
    return total <= _LARGEST


def pointer(em: Emitter, buffer: Buffer, offset: Expr) -> str:
    """The address of the element at ``offset`` (a scalar)."""
    element, storage = types.memory_element(buffer.dtype, em.target), em.storage[buffer]
    address, constant = storage.pointer, const_int(offset)
    if constant is None:
        # the constant stays out: it becomes a displacement of the instruction, which costs nothing
        terms = dict(linear.poly(offset))
        constant = terms.pop((), 0)
        # unrolled copies differ in the constant only
        address = em.pointers.get(_key(storage.pointer, terms)) or _added(em, storage, terms, offset, element)
    if not constant:
        return address
    # what is computed ahead of a loop may not use what stands in it
    pointers = em.pointers
    for depth in range(em.at, -1, -1):
        made = pointers.get((address, constant, depth))
        if made is not None:
            return made
    found = em.ins(f"getelementptr {element}, ptr {address}, i64 {constant}")
    em.remember(pointers, (address, constant, em.at), found, em.at, frozenset())
    return found


def _key(block: str, terms: linear.Poly) -> tuple[str, frozenset[tuple[linear.Monomial, int]]]:
    """What a pointer is known by; a buffer that is allocated again has another block."""
    return block, frozenset(terms.items())


def _added(em: Emitter, storage: Storage, terms: linear.Poly, offset: Expr, element: str) -> str:
    """The pointer of a buffer moved by a sum, level by level of the loops that its terms depend on."""
    address = storage.pointer
    # by the loop in which a term becomes known: a pointer of the outer ones serves all iterations of the
    # inner
    levels: dict[int, linear.Poly] = {}
    for mono, c in terms.items():
        levels.setdefault(max(em.home(a) for a in mono), {})[mono] = c
    known: linear.Poly = {}
    for depth in sorted(levels):
        known = linear.add_poly(known, levels[depth])
        key = _key(storage.pointer, known)
        found = em.pointers.get(key)
        if found is None:
            operand = em.index(linear.from_poly(levels[depth], offset.dtype))
            # not ahead of where the buffer itself is allocated
            home = max(depth, storage.depth)
            outer, em.at = em.at, home
            found = em.ins(f"getelementptr {element}, ptr {address}, i64 {operand}")
            # a frozen address of the stack would keep its block from becoming registers
            if home < outer and storage.on_stack is None and _divided(known):
                found = em.ins(f"freeze ptr {found}")
            em.at = outer
            em.remember(em.pointers, key, found, home, buffers_read(linear.from_poly(known, offset.dtype)))
        address = found
    return address


def _divided(p: linear.Poly) -> bool:
    """Whether a sum holds quotients or remainders. An address ahead of a loop that depends on one is hidden
    from LLVM: its loop strength reduction takes such sums apart, to no end; alone that took it 60 of the 130
    ms of a 3×3 convolution, for the same inner loop."""
    return any(type(a) in (FloorDiv, FloorMod) for mono in p for a in mono)


def _align(t: DType) -> int:
    return t.bytes


def _on_stack(em: Emitter, buffer: Buffer, place: Place) -> bool:
    """Whether all lanes, masked or not, are in a block of the stack, so that a blend may take the place of a
    masked access and the block can still become registers."""
    room = em.storage[buffer].on_stack
    first = const_int(place.base)
    if room is None or first is None or place.stride is None:
        return False
    last = first + place.stride * (place.lanes - 1)
    return min(first, last) >= 0 and max(first, last) < room


def from_memory(em: Emitter, raw: str, t: DType) -> str:
    """What was loaded, as values of that type are held in registers."""
    if t.is_bool:
        return em.ins(
            f"icmp ne {types.lanes_of('i8', t.lanes)} {raw}, {types.splat_literal('0', 'i8', t.lanes)}"
        )
    return convert.widen(em, raw, t) if t.is_float and types.is_soft(t, em.target) else raw


def to_memory(em: Emitter, operand: str, t: DType) -> str:
    if t.is_bool:
        return em.ins(f"zext {types.lanes_of('i1', t.lanes)} {operand} to {types.lanes_of('i8', t.lanes)}")
    return convert.narrow(em, operand, t) if t.is_float and types.is_soft(t, em.target) else operand


def _reversed(em: Emitter, operand: str, element: str, lanes: int) -> str:
    order = types.vector_literal("i32", list(range(lanes - 1, -1, -1)))
    return em.ins(
        f"shufflevector <{lanes} x {element}> {operand}, <{lanes} x {element}> poison, <{lanes} x i32> "
        f"{order}"
    )


@rules.on(Load)
def _load(em: Emitter, e: Load) -> str:
    t = e.dtype
    if e.mask is not None and e.mask.dtype.lanes == 1:
        # one condition for all lanes is a branch: cheaper than a mask, and it spares the address too
        zero = make.const(False if t.is_bool else 0, t)
        return em.value(make.if_then_else(e.mask, load(e.buffer, e.indices), zero))
    element = types.memory_element(t, em.target)
    place = locate(em, e.buffer, e.indices, t.lanes)
    if place.offsets is not None and (apart := sides.of_sides(em, e, place.offsets)) is not None:
        return em.value(apart)
    if place.offsets is not None and (row := gathers.row_of(em, e)) is not None:
        start = pointer(em, e.buffer, _row_start(e.buffer, row.start))
        return from_memory(em, gathers.picked(em, e, row, start), t)
    if place.offsets is not None and type(flat := flat_offset(em, e.buffer, e.indices)) is Ramp:
        if (registers := gathers.far_apart(em, e, flat)) is not None:
            start = pointer(em, e.buffer, flat.base)
            return from_memory(em, gathers.spread(em, e, flat.stride, registers, start), t)
    return from_memory(em, _load_raw(em, e.buffer, place, e.mask, element, t), t)


def _load_raw(em: Emitter, buffer: Buffer, place: Place, mask: Expr | None, element: str, t: DType) -> str:
    n, align = place.lanes, _align(t)
    vector = types.lanes_of(element, n)
    if n == 1:
        return em.ins(f"load {element}, ptr {pointer(em, buffer, place.base)}, align {align}")
    # neighbours are loaded under a mask, where that is an instruction
    plain = mask is None or (
        place.stride in (1, -1) and (em.target.has_masks or _on_stack(em, buffer, place))
    )
    known = None if plain or mask is None else near.flags_of(mask)
    out = "" if known is None else _load_some(em, buffer, place, known, element, t)
    if out:
        return out
    if place.stride in (1, -1):
        low = place.base if place.stride == 1 else make.sub(place.base, n - 1)
        # a whole load from the stack cannot fault, and only such loads let ``sroa`` turn the block into
        # registers
        if mask is None or _on_stack(em, buffer, place):
            out = em.ins(f"load {vector}, ptr {pointer(em, buffer, low)}, align {align}")
            if place.stride == -1:
                out = _reversed(em, out, element, n)
            if mask is not None:
                out = em.ins(
                    f"select {types.lanes_of('i1', n)} {em.value(mask)}, {vector} {out}, {vector} "
                    "zeroinitializer"
                )
            return out
        flags = em.value(mask)
        if place.stride == -1:
            flags = _reversed(em, flags, "i1", n)
        out = gathers.masked_load(em, pointer(em, buffer, low), flags, element, n, align)
        out = _apart(em, out, vector, element, n)
        return _reversed(em, out, element, n) if place.stride == -1 else out
    if mask is None and place.stride == 0:
        one = em.ins(f"load {element}, ptr {pointer(em, buffer, place.base)}, align {align}")
        return em.splat(one, element, n)
    apart = place.stride is not None and 2 <= place.stride <= 4
    if apart and mask is None:
        return _load_strided(em, buffer, place, element, align)
    if mask is None:
        return _load_near(em, buffer, place, element, align) or _load_lanes(em, buffer, place, element, align)
    if _on_stack(em, buffer, place):
        out = _load_raw(em, buffer, place, None, element, t)
        return em.ins(
            f"select {types.lanes_of('i1', n)} {em.value(mask)}, {vector} {out}, {vector} zeroinitializer"
        )
    whole = _load_near(em, buffer, place, element, align, inside=True)
    if whole:
        return em.ins(
            f"select {types.lanes_of('i1', n)} {em.value(mask)}, {vector} {whole}, {vector} zeroinitializer"
        )
    if apart and _masks_are_cheap(em, element):
        return _load_strided(em, buffer, place, element, align, em.value(mask))
    return gathers.gathered(em, _pointers(em, buffer, place, element), em.value(mask), element, n, align)


def _masks_are_cheap(em: Emitter, element: str) -> bool:
    """Whether masked loads and shuffles take less time than a gather, of which each lane is a load."""
    return em.target.vector_bits >= 512 or (
        "avx2" in em.target.instruction_sets and element not in gathers.NARROW
    )


def _apart(em: Emitter, out: str, vector: str, element: str, n: int) -> str:
    """What a masked load gave, as an instruction of its own. LLVM 22 folds such a load into a multiply-add
    under the same mask, and where registers want it takes the two apart again as a load *without* the mask,
    which reads beyond the array (TwoAddressInstruction, three operands and zeros elsewhere, AVX-512 only).
    The fence costs no instruction."""
    if element not in ("float", "double", "half") or "avx512f" not in em.target.instruction_sets:
        return out
    return em.call(vector, f"llvm.arithmetic.fence.{types.mangle(element, n)}", (vector, out))


def _load_strided(
    em: Emitter, buffer: Buffer, place: Place, element: str, align: int, flags: str | None = None
) -> str:
    """Lanes 2, 3 or 4 apart: that many contiguous loads and shuffles. All lie between the first and the last
    lane, hence in bounds: the last one is moved back to end there. Where ``flags`` do not hold, nothing is
    read and lanes are 0."""
    n, stride = place.lanes, place.stride or 1
    vector = types.lanes_of(element, n)
    span = (n - 1) * stride + 1
    starts = [min(i * n, span - n) for i in range((span + n - 1) // n)]
    out = ""
    done: list[int] = []  # lanes of the result that are filled so far
    for number, start in enumerate(starts):
        address = pointer(em, buffer, make.add(place.base, start))
        if flags is None:
            piece = em.ins(f"load {vector}, ptr {address}, align {align}")
        else:
            piece = gathers.masked_load(em, address, _spread(em, flags, n, stride, start), element, n, align)
        mine = [lane for lane in range(n) if start <= lane * stride < start + n and lane not in done]
        pick = [-1] * n
        if number == 0:
            for lane in mine:
                pick[lane] = lane * stride
            first, second = piece, "poison"
        else:
            for lane in done:
                pick[lane] = lane
            for lane in mine:
                pick[lane] = n + lane * stride - start
            first, second = out, piece
        order = "<" + ", ".join(f"i32 {p}" if p >= 0 else "i32 poison" for p in pick) + ">"
        out = em.ins(f"shufflevector {vector} {first}, {vector} {second}, <{n} x i32> {order}")
        done += mine
    return out


def _spread(em: Emitter, flags: str, n: int, stride: int, start: int) -> str:
    """The flags of ``n`` neighbours from ``start`` on, of which every ``stride``-th is a lane."""
    order = [i // stride if i % stride == 0 else n for i in range(start, start + n)]
    return em.ins(
        f"shufflevector <{n} x i1> {flags}, <{n} x i1> zeroinitializer, <{n} x i32> "
        f"{types.vector_literal('i32', order)}"
    )


def _lane_pointers(em: Emitter, buffer: Buffer, place: Place, element: str) -> list[str]:
    if place.stride is not None:
        return [pointer(em, buffer, make.add(place.base, place.stride * lane)) for lane in range(place.lanes)]
    vector = _offsets(em, place)
    base = pointer(em, buffer, place.base)
    out = []
    for lane in range(place.lanes):
        one = em.ins(f"extractelement {vector}, i64 {lane}")
        out.append(
            em.ins(f"getelementptr {element}, ptr {base}, {vector.split(' ', 3)[2].rstrip('>')} {one}")
        )
    return out


def _offsets(em: Emitter, place: Place) -> str:
    """The vector of offsets with its type. Extended to 64 bits when unsigned, because addresses
    sign-extend."""
    assert place.offsets is not None
    t = place.offsets.dtype
    operand = em.value(place.offsets)
    if t.code == "uint" and t.bits < 64:
        wide = INT64.with_lanes(t.lanes)
        return f"{em.type(wide)} {convert.cast(em, operand, t, wide)}"
    return f"{em.type(t)} {operand}"


def _pointers(em: Emitter, buffer: Buffer, place: Place, element: str) -> str:
    """A vector of addresses, for gathers and scatters."""
    base = pointer(em, buffer, place.base)
    if place.stride is not None:
        offsets = types.vector_literal("i64", [place.stride * lane for lane in range(place.lanes)])
        return em.ins(f"getelementptr {element}, ptr {base}, <{place.lanes} x i64> {offsets}")
    return em.ins(f"getelementptr {element}, ptr {base}, {_offsets(em, place)}")


def _load_some(
    em: Emitter, buffer: Buffer, place: Place, flags: tuple[bool, ...], element: str, t: DType
) -> str:
    """Those lanes that are on, out of the neighbours from the first to the last of them, and 0 in the others;
    empty where they are too far apart."""
    if not any(flags):
        return "zeroinitializer"
    if all(flags):
        return _load_raw(em, buffer, place, None, element, t)
    if place.offsets is not None:
        found = near.parts(place.offsets)
    else:
        found = near.apart(place.stride or 0, place.lanes)
    found = None if found is None else near.some_of(found, flags)
    if found is None:
        return ""
    n, vector = place.lanes, types.lanes_of(element, place.lanes)
    out = _from_neighbours(em, buffer, place, found, element, _align(t))
    mask = types.vector_literal("i1", [int(f) for f in flags])
    return em.ins(f"select <{n} x i1> {mask}, {vector} {out}, {vector} zeroinitializer")


def _load_near(
    em: Emitter, buffer: Buffer, place: Place, element: str, align: int, inside: bool = False
) -> str:
    """Lanes in a known order out of a few neighbours; empty where that is not what they are, and where they
    are to be ``inside`` of the buffer, whatever a mask says, and may not be."""
    found = None if place.offsets is None else near.lanes_of(place.offsets)
    if found is None and not inside:
        interleaved = _from_rows(em, buffer, place, element, align)
        return interleaved or _from_windows(em, buffer, place, element, align)
    if found is None or (inside and not _within(em, buffer, make.add(place.base, found.base), found)):
        return ""
    return _from_neighbours(em, buffer, place, found, element, align)


def _from_rows(em: Emitter, buffer: Buffer, place: Place, element: str, align: int) -> str:
    """Lanes that take turns of a few rows: one load of each, and a shuffle. Empty where they do not. Measured
    (Zen 4, one thread): depth to space of 64 × 20 × 20 floats takes 0.2 of the time of gathers."""
    found = None if place.offsets is None else near.parts(place.offsets)
    count = 0 if found is None else near.rows(found)
    if found is None or not count:
        return ""
    n, base = place.lanes, make.add(place.base, found.base)
    kind = types.lanes_of(element, n // count)
    pieces = [
        em.ins(f"load {kind}, ptr {pointer(em, buffer, make.add(base, x))}, align {align}")
        for x in found.at[:count]
    ]
    pieces += ["poison"] * ((1 << (count - 1).bit_length()) - count)
    whole = types.lanes_of(element, n // count * len(pieces))
    order = types.vector_literal("i32", [k % count * (n // count) + k // count for k in range(n)])
    joined_ = shuffles.joined(em, pieces, n // count, element)
    return em.ins(f"shufflevector {whole} {joined_}, {whole} poison, <{n} x i32> {order}")


def _from_windows(em: Emitter, buffer: Buffer, place: Place, element: str, align: int) -> str:
    """Lanes in a known order that are further apart: of each piece of memory that has some of them as many
    neighbours as there are lanes, and one shuffle puts these where they belong. Empty where those would be
    many, and where a processor has no such shuffle. Measured (Zen 4, one thread): one of 5, 8 and 12
    columns of bytes 0.5, 0.63 and 0.87 of the time, of 5 of 16 bits 0.8, sums of two columns 0.36 to 0.76,
    eight bytes that become the bits of one 0.16.
    """
    n = place.lanes
    if element not in gathers.NARROW or "avx512vbmi" not in em.target.instruction_sets:
        return ""
    found = near.apart(place.stride or 0, n) if place.offsets is None else near.parts(place.offsets)
    starts = [] if found is None else near.windows(found)
    if found is None or not 2 <= len(starts) <= n // LEAST_IN_WINDOW:
        return ""
    vector, base, done = types.lanes_of(element, n), make.add(place.base, found.base), set[int]()
    out = "poison"
    for start in starts:
        piece = em.ins(f"load {vector}, ptr {pointer(em, buffer, make.add(base, start))}, align {align}")
        here = {lane for lane, x in enumerate(found.at) if start <= x < start + n} - done
        pick = [found.at[k] - start + n if k in here else k if k in done else -1 for k in range(n)]
        order = ", ".join(f"i32 {p}" if p >= 0 else "i32 poison" for p in pick)
        out = em.ins(f"shufflevector {vector} {out}, {vector} {piece}, <{n} x i32> <{order}>")
        done |= here
    return out


def _within(em: Emitter, buffer: Buffer, base: Expr, found: near.Near) -> bool:
    """Whether all neighbours from the first to the last lane lie in the buffer, for certain."""
    least, most = index.interval(em, base)
    last = 0
    for extent, stride in zip(buffer.shape, buffer.element_strides(), strict=True):
        n, s = const_int(extent), const_int(stride)
        if n is None or s is None:
            return False
        last += (n - 1) * s
    if least is None or most is None:
        return False
    return least + found.first >= 0 and most + found.first + found.span - 1 <= last


def _from_neighbours(
    em: Emitter, buffer: Buffer, place: Place, found: near.Near, element: str, align: int
) -> str:
    base, lanes = make.add(place.base, found.base), em.target.vector_bits // (8 * buffer.dtype.bytes)
    found = near.in_registers(found, base, em.storage[buffer].on_stack, lanes)
    wide, begins = near.starts(found)
    load = f"load {types.lanes_of(element, wide)}, ptr"
    at = [pointer(em, buffer, make.add(base, n)) for n in begins]
    pieces = [em.ins(f"{load} {p}, align {align}") for p in at]
    return near.picked(em, found, pieces, element)


def _load_lanes(em: Emitter, buffer: Buffer, place: Place, element: str, align: int) -> str:
    n = place.lanes
    vector = types.lanes_of(element, n)
    if place.stride is None and em.target.vector_bits >= 512 and element in ("float", "double", "i32", "i64"):
        name = f"llvm.masked.gather.{types.mangle(element, n)}.{types.mangle('ptr', n)}"
        every = types.splat_literal("true", "i1", n)
        return em.call(
            vector,
            name,
            (f"<{n} x ptr> align {align}", _pointers(em, buffer, place, element)),
            (f"<{n} x i1>", every),
            (vector, "poison"),
        )
    out = "poison"
    for lane, address in enumerate(_lane_pointers(em, buffer, place, element)):
        one = em.ins(f"load {element}, ptr {address}, align {align}")
        out = em.ins(f"insertelement {vector} {out}, {element} {one}, i64 {lane}")
    return out


def store(em: Emitter, buffer: Buffer, value: Expr, indices: tuple[Expr, ...], mask: Expr | None) -> None:
    """``buffer[indices] = value`` in the lanes where the (vector) ``mask`` holds. A scalar mask is the
    caller's branch."""
    lanes = max(
        [value.dtype.lanes, *(i.dtype.lanes for i in indices), 1 if mask is None else mask.dtype.lanes]
    )
    place = locate(em, buffer, indices, lanes)
    if mask is not None and _on_stack(em, buffer, place):
        value = in_place.whole(value, buffer, indices, mask)
    value = make.broadcast(value, lanes)
    t = value.dtype
    element = types.memory_element(t, em.target)
    operand = to_memory(em, em.value(value), t)
    align, vector = _align(t), types.lanes_of(element, lanes)
    if lanes == 1:
        em.do(f"store {element} {operand}, ptr {pointer(em, buffer, place.base)}, align {align}")
    elif place.stride in (1, -1):
        low = place.base if place.stride == 1 else make.sub(place.base, lanes - 1)
        flags = None if mask is None else em.value(mask)
        if place.stride == -1:
            operand = _reversed(em, operand, element, lanes)
            flags = None if flags is None else _reversed(em, flags, "i1", lanes)
        store_row(em, buffer, low, lanes, operand, flags)
    elif mask is None:
        for lane, address in enumerate(_lane_pointers(em, buffer, place, element)):
            one = em.ins(f"extractelement {vector} {operand}, i64 {lane}")
            em.do(f"store {element} {one}, ptr {address}, align {align}")
    else:
        name = f"llvm.masked.scatter.{types.mangle(element, lanes)}.{types.mangle('ptr', lanes)}"
        _call_void(
            em,
            name,
            (vector, operand),
            (f"<{lanes} x ptr> align {align}", _pointers(em, buffer, place, element)),
            (f"<{lanes} x i1>", em.value(mask)),
        )


def store_row(em: Emitter, buffer: Buffer, first: Expr, lanes: int, operand: str, flags: str | None) -> None:
    """Write a vector, as it is in memory, to the elements from ``first`` on, in the lanes where ``flags``
    holds."""
    element, align = types.memory_element(buffer.dtype, em.target), _align(buffer.dtype)
    vector, address = types.lanes_of(element, lanes), pointer(em, buffer, first)
    if flags is not None and _on_stack(em, buffer, Place(first, 1, None, lanes)):
        old = em.ins(f"load {vector}, ptr {address}, align {align}")
        operand = em.ins(f"select <{lanes} x i1> {flags}, {vector} {operand}, {vector} {old}")
        flags = None
    if flags is None:
        if buffer not in em.streamed or not streaming.store(
            em, address, operand, element, lanes, buffer.dtype.bytes
        ):
            em.do(f"store {vector} {operand}, ptr {address}, align {align}")
    else:
        _call_void(
            em,
            f"llvm.masked.store.{types.mangle(element, lanes)}.p0",
            (vector, narrowed.kept_apart(em, operand, element, lanes)),
            (f"ptr align {align}", address),
            (f"<{lanes} x i1>", flags),
        )


def _call_void(em: Emitter, name: str, *args: tuple[str, str]) -> None:
    callee = em.module.declare(name, "void", ", ".join(t.split(" align")[0] for t, _ in args))
    em.do(f"call void {callee}({', '.join(f'{t} {v}' for t, v in args)})")


def prefetch(em: Emitter, e: Load, write: int, locality: int) -> None:
    """Ask for the cache line of an element (of a vector: its first), which need not exist. ``locality``: 0
    (once) to 3 (keep)."""
    place = locate(em, e.buffer, e.indices, e.dtype.lanes)
    callee = em.module.declare("llvm.prefetch.p0", "void", "ptr, i32 immarg, i32 immarg, i32 immarg")
    em.do(f"call void {callee}(ptr {pointer(em, e.buffer, place.base)}, i32 {write}, i32 {locality}, i32 1)")
