"""Neighbouring stores that belong together become one: two interleaved columns, and two products of 16-bit
integers in one sum.

``D[ramp(b, 2, 8)] = x; D[ramp(b + 1, 2, 8)] = y`` is one contiguous store of x and y, lane by lane.

``S = S + int32(A[k]) * int32(B[ramp(b, 2, 8)]); S = S + int32(A[k + 1]) * int32(B[ramp(b + 1, 2, 8)])`` is
what pmaddwd of x86 is for: the products of neighbours, summed in pairs. That sum wraps as two additions do,
so every value is exact. Other targets keep the two stores. Knows no statements but stores; it reads and
writes the same elements and no others.
"""

from __future__ import annotations

from ...core.dtype import INT32
from ...expr import make
from ...expr.nodes import Add, Broadcast, Cast, Expr, Mul, Ramp, const_int
from ...loopir.stmt import Buffer, Load, Store, load
from ...target import Target
from . import memory, transposed, types
from .emitter import Emitter, buffers_read

_PRODUCTS = (
    ("avx512bw", 16, "llvm.x86.avx512.pmaddw.d.512"),
    ("avx2", 8, "llvm.x86.avx2.pmadd.wd"),
    ("", 4, "llvm.x86.sse2.pmadd.wd"),
)


def store_pair(em: Emitter, first: Store, second: Store) -> bool:
    """Write two stores that follow each other as one. Whether they are a pair; if not, nothing is written."""
    if first.buffer is not second.buffer or first.mask is not second.mask or len(first.indices) == 0:
        return False
    em.at = em.depth
    if all(a is b for a, b in zip(first.indices, second.indices, strict=True)):
        return first.mask is None and _add_products(em, first, second)
    return _interleave(em, first, second)


def _place(em: Emitter, e: Load | Store) -> Expr:
    """The offset of the lanes in their buffer."""
    return memory.flat_offset(em, e.buffer, e.indices)


def _alternate(a: Expr, b: Expr) -> bool:
    """Whether the lanes of two offsets take turns: every other element, and the one behind each."""
    return (
        type(a) is Ramp
        and type(b) is Ramp
        and a.lanes == b.lanes
        and const_int(a.stride) == const_int(b.stride) == 2
        and const_int(make.sub(b.base, a.base)) == 1
    )


# --- two columns --------------------------------------------------------------------------------------------


def _interleave(em: Emitter, first: Store, second: Store) -> bool:
    buffer, mask = first.buffer, first.mask
    at = _place(em, first)
    if type(at) is not Ramp or const_int(at.stride) != 2:
        return False
    if not _alternate(at, _place(em, second)) or buffer in buffers_read(second.value):
        return False
    if mask is not None and (mask.dtype.lanes != at.lanes or buffer in buffers_read(mask)):
        return False
    both = [
        memory.to_memory(em, em.value(make.broadcast(s.value, at.lanes)), buffer.dtype.with_lanes(at.lanes))
        for s in (first, second)
    ]
    memory.store_row(
        em,
        buffer,
        at.base,
        2 * at.lanes,
        _mixed(em, both, at.lanes, types.memory_element(buffer.dtype, em.target)),
        None if mask is None else _mixed(em, [em.value(mask)] * 2, at.lanes, "i1"),
    )
    return True


def _mixed(em: Emitter, both: list[str], lanes: int, element: str) -> str:
    order = types.vector_literal("i32", [at + side for at in range(lanes) for side in (0, lanes)])
    return em.ins(
        f"shufflevector <{lanes} x {element}> {both[0]}, <{lanes} x {element}> {both[1]}, <{2 * lanes} x "
        f"i32> {order}"
    )


# --- two products -------------------------------------------------------------------------------------------


def _add_products(em: Emitter, first: Store, second: Store) -> bool:
    lanes = first.value.dtype.lanes
    found = next(((w, name) for w, name in _widths(em.target) if lanes % w == 0), None)
    if found is None or first.buffer.dtype is not INT32 or lanes != second.value.dtype.lanes:
        return False
    a, b = _factors(em, first), _factors(em, second)
    if a is None or b is None:
        return False
    if not (_follows(em, a[0], b[0]) and _follows(em, a[1], b[1])):
        b = b[1], b[0]
        if not (_follows(em, a[0], b[0]) and _follows(em, a[1], b[1])):
            return False
    width, name = found
    sums = []
    for at in range(0, lanes, width):
        operands = [(f"<{2 * width} x i16>", _pair(em, x, at, width)) for x in a]
        sums.append(em.call(f"<{width} x i32>", name, *operands))
    total = transposed.joined(em, sums, width, "i32")
    old = em.value(load(first.buffer, first.indices))
    flat = _place(em, first)
    assert type(flat) is Ramp
    memory.store_row(em, first.buffer, flat.base, lanes, em.ins(f"add <{lanes} x i32> {old}, {total}"), None)
    return True


def _widths(target: Target) -> list[tuple[int, str]]:
    if target.arch != "x86_64":
        return []
    return [(w, name) for needed, w, name in _PRODUCTS if not needed or needed in target.instruction_sets]


def _factors(em: Emitter, s: Store) -> tuple[Load, Load] | None:
    """x and y of ``S = S + int32(x) * int32(y)`` with 16-bit elements read from memory, S a row of
    neighbours."""
    flat = _place(em, s)
    if (
        type(s.value) is not Add
        or type(flat) is not Ramp
        or const_int(flat.stride) != 1
        or flat.lanes != s.value.dtype.lanes
    ):
        return None
    old = load(s.buffer, s.indices)
    product = s.value.b if s.value.a is old else s.value.a if s.value.b is old else None
    if type(product) is not Mul or s.buffer in buffers_read(product):
        return None
    read = []
    for factor in (product.a, product.b):
        e = factor.value if type(factor) is Broadcast else factor
        if (
            type(e) is not Cast
            or type(e.a) is not Load
            or e.a.mask is not None
            or e.a.dtype.element != "int16"
        ):
            return None
        read.append(e.a)
    return read[0], read[1]


def _follows(em: Emitter, a: Load, b: Load) -> bool:
    """Whether b reads the neighbour of what a reads, in each lane."""
    if a.buffer is not b.buffer:
        return False
    one, other = _place(em, a), _place(em, b)
    if a.dtype.lanes == b.dtype.lanes == 1:
        return const_int(make.sub(other, one)) == 1
    return _alternate(one, other)


def _pair(em: Emitter, first: Load, at: int, width: int) -> str:
    """The elements of ``width`` lanes from lane ``at`` on, each with its neighbour."""
    place, buffer = _place(em, first), first.buffer
    base = make.add(place.base, 2 * at) if type(place) is Ramp else place
    key = ("pair", buffer, base, type(place) is Ramp, width)
    result = em.memo.get(key)
    if result is None:
        result = _read(em, buffer, base, width) if type(place) is Ramp else _repeated(em, buffer, base, width)
        em.remember(em.memo, key, result, em.depth, frozenset([buffer]))
    return result


def _read(em: Emitter, buffer: Buffer, base: Expr, width: int) -> str:
    return em.ins(f"load <{2 * width} x i16>, ptr {memory.pointer(em, buffer, base)}, align 2")


def _repeated(em: Emitter, buffer: Buffer, base: Expr, width: int) -> str:
    one = em.ins(f"load i32, ptr {memory.pointer(em, buffer, base)}, align 2")
    return em.ins(f"bitcast <{width} x i32> {em.splat(one, 'i32', width)} to <{2 * width} x i16>")
