"""Lanes at places that are any: a gather, which takes as long as a load for each of them; or one row that a
register holds, in an order that only a call knows, as rows of an open length that are rolled, repeated or
tiled, small matrices that are transposed, places that are data: the row is loaded under a mask and one
instruction puts its elements where they belong. Knows indices and vectors; no statements.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...expr import make
from ...expr.nodes import Expr, Ramp
from ...loopir.stmt import Buffer, Load
from . import index, near, shuffles, types
from .emitter import Emitter, buffers_read
from .text import Function

NARROW = ("i8", "i16", "half", "bfloat")  # elements of memory that AVX2 neither gathers nor masks
BITS = 512  # of a register whose lanes are picked by a vector
MOST = 4  # registers of a row: two and a half instructions for each that is written
FAR = 8  # registers that lanes may be spread over, which are as far apart as a call tells
# what picks elements of so many bytes, out of one register and out of two, and the instructions that have it
_PICKS = {
    1: ("qi", "qi", "avx512vbmi"),
    2: ("hi", "hi", "avx512bw"),
    4: ("si", "d", "avx512f"),
    8: ("di", "q", "avx512f"),
}


@dataclass(frozen=True)
class Row:
    """What a few registers hold of a buffer: so many elements (``size``) from the one at ``start``, the first
    indices, on. The lanes are at ``places`` of it."""

    start: tuple[Expr, ...]
    size: Expr
    places: Expr


def row_of(em: Emitter, e: Load) -> Row | None:
    """The row that a few registers hold in which all that lanes read lies, in a way that is not known: they
    differ in the last dimensions alone, or by few steps, which are known, in the one before these, as pixels
    do that read the shades of their tile of an image. None where it may be longer, where a processor does not
    pick, and on the stack, whose blocks become registers themselves."""
    buffer, indices = e.buffer, e.indices
    if em.target.vector_bits < BITS or buffer.strides is not None or em.storage[buffer].on_stack is not None:
        return None
    known = _PICKS.get(buffer.dtype.bytes)
    if known is None or known[-1] not in em.target.instruction_sets:
        return None
    first = next(d for d, i in enumerate(indices) if i.dtype.lanes > 1)
    row = Row(indices[:first], _size(buffer, first), _places(buffer, indices, first))
    known_lanes = near.parts(row.places) is not None
    if known_lanes and (e.mask is None or near.flags_of(e.mask) is not None):
        return None
    return next(
        (r for r in (row, _few_steps(row, e, first)) if r is not None and _held_by_few(em, e, r)), None
    )


def _few_steps(row: Row, e: Load, first: int) -> Row | None:
    """The part of a row that lanes read whose steps in its first dimension are known. Measured (Zen 5, one
    thread): 256 × 384 pixels between shades of the tiles of an image, four gathers for each, 0.4 of the
    time."""
    steps = near.parts(e.indices[first])
    if steps is None or e.mask is not None or first + 1 == len(e.indices):
        return None
    least, lanes = make.add(steps.base, min(steps.at)), e.dtype.lanes
    size = make.cast("int32", _size(e.buffer, first + 1))
    inside = make.sub(e.indices[first], make.broadcast(least, lanes))
    places = _places(e.buffer, (*row.start, inside, *e.indices[first + 1 :]), first)
    return Row((*row.start, least), make.mul(size, max(steps.at) - min(steps.at) + 1), places)


def _held_by_few(em: Emitter, e: Load, row: Row) -> bool:
    """Whether so few registers hold a row that lanes are picked out of them."""
    whole, count = _registers(em, row, e.buffer)
    # few lanes are loaded one by one in as much time
    return count > 0 and e.dtype.lanes <= MOST * whole and not (count > 1 and 2 * count > e.dtype.lanes)


def _registers(em: Emitter, row: Row, buffer: Buffer) -> tuple[int, int]:
    """The lanes of a register, and how many a row fills: 0 for more than a few, else a power of two."""
    whole = BITS // 8 // buffer.dtype.bytes
    most = index.interval(em, row.size)[1]
    if most is None or most > MOST * whole:
        return whole, 0
    return whole, 1 << (-(-max(most, 1) // whole) - 1).bit_length()


def picked(em: Emitter, e: Load, row: Row, start: str) -> str:
    """The lanes of the row that begins at the address ``start``. Where the mask does not hold they are 0, and
    where it holds in none of them nothing is read: there may be no such row."""
    buffer, lanes, bytes_each = e.buffer, e.dtype.lanes, e.dtype.bytes
    element, word = types.memory_element(e.dtype, em.target), f"i{8 * bytes_each}"
    whole, registers = _registers(em, row, buffer)
    flags = None if e.mask is None else em.value(e.mask)
    held = _held(em, row.size, e.mask, whole, registers)
    pieces = _row(em, start, held, element, whole, bytes_each)
    places = em.value(make.cast(f"int{8 * bytes_each}", row.places))
    parts = 1 << (-(-lanes // whole) - 1).bit_length()
    places = shuffles.resized(em, places, lanes, parts * whole, word)
    out = [
        _picked(em, pieces, shuffles.part(em, places, parts * whole, n * whole, whole, word), bytes_each)
        for n in range(parts)
    ]
    all_of_it = shuffles.resized(em, shuffles.joined(em, out, whole, word), parts * whole, lanes, word)
    result = all_of_it if element == word else _as(em, all_of_it, word, element, lanes)
    if flags is None:
        return result
    vector = types.lanes_of(element, lanes)
    return em.ins(f"select <{lanes} x i1> {flags}, {vector} {result}, {vector} zeroinitializer")


def far_apart(em: Emitter, e: Load, flat: Expr) -> int | None:
    """How many registers hold all from the first lane to the last, of lanes as far apart as a call tells,
    where these are few. Measured (Zen 5, one thread), 1000 rows of 5 floats of an open length: the places of
    their largest 4.0 → 2.0 µs."""
    buffer, lanes, known = e.buffer, e.dtype.lanes, _PICKS.get(e.buffer.dtype.bytes)
    if type(flat) is not Ramp or e.mask is not None or known is None or em.target.vector_bits < BITS:
        return None
    if known[-1] not in em.target.instruction_sets or em.storage[buffer].on_stack is not None:
        return None
    whole, (least, most) = BITS // 8 // buffer.dtype.bytes, index.interval(em, flat.stride)
    if least is None or most is None or least < 0 or lanes > whole or (lanes - 1) * most >= FAR * whole:
        return None
    registers = 1 << ((lanes - 1) * most // whole).bit_length()
    quick = types.memory_element(e.dtype, em.target) in NARROW or 2 * registers <= lanes
    return registers if quick else None


def spread(em: Emitter, e: Load, stride: Expr, registers: int, start: str) -> str:
    """The lanes that begin at the address ``start``, out of so many registers."""
    lanes, bytes_each = e.dtype.lanes, e.dtype.bytes
    element, word, whole = (
        types.memory_element(e.dtype, em.target),
        f"i{8 * bytes_each}",
        BITS // 8 // bytes_each,
    )
    stride = make.cast("int32", stride)
    held = _held(em, make.add(make.mul(stride, lanes - 1), 1), None, whole, registers)
    row = _row(em, start, held, element, whole, bytes_each)
    apart = make.ramp(make.const(0, stride.dtype), stride, lanes)
    places = shuffles.resized(em, em.value(make.cast(f"int{8 * bytes_each}", apart)), lanes, whole, word)
    result = shuffles.resized(em, _picked(em, row, places, bytes_each), whole, lanes, word)
    return result if element == word else _as(em, result, word, element, lanes)


def _row(em: Emitter, start: str, held: list[str], element: str, whole: int, bytes_each: int) -> list[str]:
    """The registers of a row, as whole numbers, where these masks hold."""
    word, row = f"i{8 * bytes_each}", []
    for n, inside in enumerate(held):
        at = start if not n else em.ins(f"getelementptr {element}, ptr {start}, i64 {n * whole}")
        part = masked_load(em, at, inside, element, whole, bytes_each)
        row.append(part if element == word else _as(em, part, element, word, whole))
    return row


def _held(em: Emitter, size: Expr, mask: Expr | None, whole: int, registers: int) -> list[str]:
    """The masks of the registers that a row of this size lies in, none of it where no lane is on: made in
    front of the loops that both are the same in. Measured (Zen 5, one thread), 1000 rows of 3 floats twice
    0.76 → 0.55 µs."""
    known = (size, mask, whole)
    keys = [(*known, n) for n in range(registers)]
    if all(key in em.memo for key in keys):
        return [em.memo[key] for key in keys]
    outer = em.at
    em.at = home = max(em.home(size), 0 if mask is None else em.home(mask))
    count = em.value(make.cast("int32", size))
    if mask is not None:
        lanes = mask.dtype.lanes
        some = em.call("i1", f"llvm.vector.reduce.or.v{lanes}i1", (f"<{lanes} x i1>", em.value(mask)))
        count = em.ins(f"select i1 {some}, i32 {count}, i32 0")
    ends = em.splat(count, "i32", whole)
    reads = frozenset[Buffer]() if mask is None else buffers_read(mask)
    for n, key in enumerate(keys):
        numbers = types.vector_literal("i32", list(range(n * whole, (n + 1) * whole)))
        inside = em.ins(f"icmp slt <{whole} x i32> {numbers}, {ends}")
        em.remember(em.memo, key, inside, home, reads | buffers_read(size))
    em.at = outer
    return [em.memo[key] for key in keys]


def _picked(em: Emitter, row: list[str], places: str, bytes_each: int) -> str:
    """A register of the elements of a row, which is in one, two, four or eight."""
    bits, whole = 8 * bytes_each, BITS // 8 // bytes_each
    vector = f"<{whole} x i{bits}>"
    at, (one, two, _) = (vector, places), _PICKS[bytes_each]
    if len(row) == 1:
        return em.call(vector, f"llvm.x86.avx512.permvar.{one}.512", (vector, row[0]), at)
    if len(row) == 2:
        return em.call(
            vector, f"llvm.x86.avx512.vpermi2var.{two}.512", (vector, row[0]), at, (vector, row[1])
        )
    half = len(row) // 2
    first, second = (_picked(em, part, places, bytes_each) for part in (row[:half], row[half:]))
    far = em.ins(f"and {vector} {places}, {types.splat_literal(str(half * whole), f'i{bits}', whole)}")
    near_ = em.ins(f"icmp eq {vector} {far}, zeroinitializer")
    return em.ins(f"select <{whole} x i1> {near_}, {vector} {first}, {vector} {second}")


def _as(em: Emitter, x: str, element: str, other: str, lanes: int) -> str:
    """The same bits as another type."""
    return em.ins(f"bitcast {types.lanes_of(element, lanes)} {x} to {types.lanes_of(other, lanes)}")


def _size(buffer: Buffer, first: int) -> Expr:
    """The elements of a row, of all dimensions from ``first`` on."""
    size = buffer.shape[first]
    for extent in buffer.shape[first + 1 :]:
        size = make.mul(size, extent)
    return size


def _places(buffer: Buffer, indices: tuple[Expr, ...], first: int) -> Expr:
    """Where in that row the lanes are."""
    at: Expr = make.const(0, "int32")
    for i, extent in zip(indices[first:], buffer.shape[first:], strict=True):
        at = make.add(make.mul(at, make.cast("int32", extent)), make.cast("int32", i))
    return at


def gathered(em: Emitter, pointers: str, flags: str, element: str, n: int, align: int) -> str:
    """What lies at the pointers where flags hold, 0 elsewhere. Narrow elements, for which no processor has an
    instruction, are gathered by a function: a branch and a load for each lane, 17,000 lines of assembly for
    the tiles at the ends of a transpose of bytes, where sizes are open."""
    vector = types.lanes_of(element, n)
    name = f"llvm.masked.gather.{types.mangle(element, n)}.{types.mangle('ptr', n)}"

    def gather(em: Emitter, pointers: str, flags: str) -> str:
        where = (f"<{n} x ptr> align {align}", pointers)
        return em.call(vector, name, where, (f"<{n} x i1>", flags), (vector, "zeroinitializer"))

    if element not in NARROW:
        return gather(em, pointers, flags)
    own = f"tensorlang.gather.{types.mangle(element, n)}"
    if em.module.claim(own):
        function = Function(
            f"define internal {vector} @{own}(<{n} x ptr> %pointers, <{n} x i1> %flags) noinline willreturn "
            "memory(read) #0"
        )
        inside = Emitter(em.module, function, em.math)
        result = gather(inside, "%pointers", "%flags")
        inside.block.end = f"  ret {vector} {result}"
        em.module.add(function)
    return em.ins(f"call {vector} @{own}(<{n} x ptr> {pointers}, <{n} x i1> {flags})")


def masked_load(em: Emitter, address: str, flags: str, element: str, n: int, align: int) -> str:
    """Neighbours where flags hold, 0 elsewhere."""
    vector = types.lanes_of(element, n)
    return em.call(
        vector,
        f"llvm.masked.load.{types.mangle(element, n)}.p0",
        (f"ptr align {align}", address),
        (f"<{n} x i1>", flags),
        (vector, "zeroinitializer"),
    )
