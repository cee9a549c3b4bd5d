"""Sums over the lanes of two to four vectors whose results are neighbours become one vector: lanes are put
side by side as they are added, which takes 14 instructions of x86 where four sums one by one take 36, and
stores.

``S[0] = 0; S[0] = S[0] + sum(a); S[1] = 0; S[1] = S[1] + sum(b); …``

Knows no statements but stores; it reads and writes the same elements and no others.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...expr import make
from ...expr.nodes import Add, Const, Expr, const_int
from ...loopir.stmt import Load, Reduction, Stmt, Store
from . import memory, types
from .emitter import Emitter, buffers_read

TOGETHER = 4  # sums: as many elements as a part of a vector has within which lanes move freely
FEWEST = 2


def store_together(em: Emitter, following: Sequence[Stmt]) -> int:
    """Write the first of these statements, if they are the sums of two to four neighbours, as one store. How
    many they are; 0 if they are not, and nothing is written."""
    if em.target.arch != "x86_64":
        return 0
    sums: list[Reduction] = []
    first: Store | None = None
    for start, total in zip(following[::2], following[1::2], strict=False):
        found = _sum(start, total)
        if found is None or not isinstance(total, Store):
            break
        first = first or total
        if not _beside(first, total, len(sums)) or (sums and found.value.dtype != sums[0].value.dtype):
            break
        sums.append(found)
        if len(sums) == TOGETHER:
            break
    n = len(sums)
    if first is None or n < FEWEST or any(first.buffer in buffers_read(e) for e in sums):
        return 0
    em.at = em.depth
    out = _folded(em, [em.value(e.value) for e in sums], sums[0].value.dtype.lanes)
    memory.store_row(em, first.buffer, memory.flat_offset(em, first.buffer, first.indices), n, out, None)
    return 2 * n


def _sum(start: Stmt, total: Stmt) -> Reduction | None:
    """What is summed, where an element is set to 0 and the lanes of a vector of floats are added to it."""
    if type(start) is not Store or type(total) is not Store or not total.indices:
        return None
    value = total.value
    if type(value) is not Add or start.mask is not None or total.mask is not None:
        return None
    old, found = (value.a, value.b) if type(value.b) is Reduction else (value.b, value.a)
    if (
        type(found) is not Reduction
        or found.op != "add"
        or found.dtype.name != "float32"
        or found.value.dtype.lanes < TOGETHER
        or found.value.dtype.lanes & (found.value.dtype.lanes - 1)
        or type(old) is not Load
        or old.mask is not None
        or type(start.value) is not Const
        or start.value.value != 0
    ):
        return None
    same = all(one.buffer is total.buffer and _alike(one.indices, total.indices) for one in (start, old))
    return found if same else None


def _alike(a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    return len(a) == len(b) and all(x is y and x.dtype.lanes == 1 for x, y in zip(a, b, strict=True))


def _beside(first: Store, other: Store, n: int) -> bool:
    """Whether a store is to the ``n``-th element behind that of the first one."""
    if first.buffer is not other.buffer or not _alike(first.indices[:-1], other.indices[:-1]):
        return False
    step = const_int(first.buffer.element_strides()[-1])
    return step == 1 and const_int(make.sub(other.indices[-1], first.indices[-1])) == n


def _folded(em: Emitter, vectors: Sequence[str], lanes: int) -> str:
    """The sums of the lanes of two to four vectors, side by side."""

    def mixed(a: str, b: str, within: Sequence[int]) -> str:
        """Of each four lanes of ``a`` and of ``b``, which count on from 4, these."""
        order = [
            part + i if i < TOGETHER else lanes + part + i - TOGETHER
            for part in range(0, lanes, TOGETHER)
            for i in within
        ]
        return _shuffled(em, a, b, lanes, order)

    def added(a: str, b: str, n: int) -> str:
        return em.ins(f"fadd reassoc contract {types.lanes_of('float', n)} {a}, {b}")

    a, b, c, d = (*vectors, *["poison"] * (TOGETHER - len(vectors)))
    out = added(mixed(a, b, (0, 4, 1, 5)), mixed(a, b, (2, 6, 3, 7)), lanes)
    if c != "poison":
        cd = added(mixed(c, d, (0, 4, 1, 5)), mixed(c, d, (2, 6, 3, 7)), lanes)
        out = added(mixed(out, cd, (0, 1, 4, 5)), mixed(out, cd, (2, 3, 6, 7)), lanes)
    least = TOGETHER if c != "poison" else len(vectors)
    while lanes > least:
        half = lanes // 2
        low, high = (_shuffled(em, out, "poison", lanes, list(range(at, at + half))) for at in (0, half))
        out, lanes = added(low, high, half), half
    if lanes > len(vectors):
        out = _shuffled(em, out, "poison", lanes, list(range(len(vectors))))
    # to the 0 that is there, which makes 0 of -0
    return em.ins(f"fadd {types.lanes_of('float', len(vectors))} {out}, zeroinitializer")


def _shuffled(em: Emitter, a: str, b: str, lanes: int, order: list[int]) -> str:
    vector = types.lanes_of("float", lanes)
    return em.ins(
        f"shufflevector {vector} {a}, {vector} {b}, <{len(order)} x i32> {types.vector_literal('i32', order)}"
    )
