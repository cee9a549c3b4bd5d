"""Stores that go past the caches, where a loop bears the pragma ``stream_stores``.

A plain store reads the line it writes to first, and puts out another one that somebody may still want. For a
result that no cache holds both are for nothing: a third of the traffic of a copy. x86 has stores that gather
a line and send it to memory (movntps). They want an address on a boundary of their 16 bytes, which is looked
up at run time, and are seen by other threads in no order, so that a fence follows the loop. Other targets
keep plain stores. Knows loops and addresses, not why a schedule wants this.
"""

from __future__ import annotations

from ...loopir.stmt import Alloc, Buffer, Extern, For, Store, preorder
from . import types
from .emitter import Emitter, buffers_read

PRAGMA = "stream_stores"
# bytes of a store: arrays of numpy begin on such a boundary, and wider ones gather a line no faster
PIECE = 16


def buffers(em: Emitter, s: For) -> frozenset[Buffer]:
    """What is written past the caches in this loop: arguments that it does not read as well."""
    if em.target.arch != "x86_64" or all(key != PRAGMA for key, _ in s.attrs):
        return frozenset()
    stored: dict[Buffer, None] = {}
    other: set[Buffer] = set()
    for node in preorder(s.body):
        if type(node) is Store:
            stored[node.buffer] = None
        elif type(node) is Alloc:
            other.add(node.buffer)
        elif type(node) is Extern:
            other.update(node.buffers())
        for e in node.exprs():
            other |= buffers_read(e)
    return frozenset(b for b in stored if b not in other)


def store(em: Emitter, address: str, operand: str, element: str, lanes: int, bytes_each: int) -> bool:
    """Write a whole vector past the caches where its address allows it, plainly where not. Whether it was
    written: not when it is not a multiple of a piece."""
    each = PIECE // bytes_each
    if lanes % each:
        return False
    vector, piece, note = (
        types.lanes_of(element, lanes),
        types.lanes_of(element, each),
        em.module.note("i32 1"),
    )
    low = em.ins(f"and i64 {em.ins(f'ptrtoint ptr {address} to i64')}, {PIECE - 1}")
    here, past, plain, done = em.block, *(em.function.block(w) for w in ("past", "plain", "written"))
    here.end = f"  br i1 {em.ins(f'icmp eq i64 {low}, 0')}, label %{past.label}, label %{plain.label}"
    scope = em.scopes[-1]
    scope.block = past
    for at in range(0, lanes, each):
        order = types.vector_literal("i32", list(range(at, at + each)))
        part = em.ins(f"shufflevector {vector} {operand}, {vector} poison, <{each} x i32> {order}")
        place = em.ins(f"getelementptr {element}, ptr {address}, i64 {at}")
        em.do(f"store {piece} {part}, ptr {place}, align {PIECE}, !nontemporal {note}")
    plain.lines.append(f"  store {vector} {operand}, ptr {address}, align {bytes_each}")
    past.end = plain.end = f"  br label %{done.label}"
    scope.block = done
    return True


def fence(em: Emitter) -> None:
    """What was written before is seen before what is written after."""
    em.do(f"call void {em.module.declare('llvm.x86.sse.sfence', 'void', '')}()")
