"""Rows of workspaces: each thread that runs a part of a parallel loop takes one that is free, and gives it
back at its end. A word of bits says which are taken; no thread waits for another. One that finds none free,
on a machine with more processors than the kernel was compiled for, asks for memory of its own. Knows LLVM
text; nothing of what lies in a row.
"""

from __future__ import annotations

from ...expr.nodes import const_int
from ...loopir.stmt import Alloc, Stmt, preorder
from .emitter import Emitter

MOST_ROWS = 64  # bits of a word
NONE = "-1"


def rows_of(s: Stmt) -> int:
    """How many rows there are for what a parallel loop opens; 0 where no caller gives it memory."""
    found = [const_int(n.within.shape[0]) for n in preorder(s) if type(n) is Alloc and n.within is not None]
    return min((n or 1 for n in found), default=0)


def claimed(em: Emitter, taken: str) -> str:
    """The number of a row that is this thread's from now on, -1 where all are taken."""
    claim, attempt, done = (em.function.block(w) for w in ("claim", "attempt", "claimed"))
    em.block.end = f"  br label %{claim.label}"
    em.scopes[-1].block = claim
    free = em.ins(f"xor i64 {em.ins(f'load atomic i64, ptr {taken} monotonic, align 8')}, -1")
    none = em.ins(f"icmp eq i64 {free}, 0")
    claim.end = f"  br i1 {none}, label %{done.label}, label %{attempt.label}"
    em.scopes[-1].block = attempt
    row = em.call("i64", "llvm.cttz.i64", ("i64", free), ("i1", "true"))
    bit = em.ins(f"shl i64 1, {row}")
    before = em.ins(f"and i64 {em.ins(f'atomicrmw or ptr {taken}, i64 {bit} acquire')}, {bit}")
    lost = em.ins(f"icmp ne i64 {before}, 0")
    attempt.end = f"  br i1 {lost}, label %{claim.label}, label %{done.label}"
    em.scopes[-1].block = done
    return em.ins(f"phi i64 [ {NONE}, %{claim.label} ], [ {row}, %{attempt.label} ]")


def given_back(em: Emitter, taken: str, row: str) -> None:
    """The row is free again."""
    none = em.ins(f"icmp slt i64 {row}, 0")
    place = em.ins(f"select i1 {none}, i64 0, i64 {row}")
    bit = em.ins(f"select i1 {none}, i64 0, i64 {em.ins(f'shl i64 1, {place}')}")
    em.do(f"{em.function.fresh()} = atomicrmw and ptr {taken}, i64 {em.ins(f'xor i64 {bit}, -1')} release")


def row_or_memory(em: Emitter, space: str, size: str) -> tuple[str, str]:
    """This thread's row of ``size`` bytes each, or memory of its own; and what of it is to be given back,
    perhaps null."""
    has = em.ins(f"icmp sge i64 {em.row}, 0")
    offset = em.ins(f"mul i64 {em.row}, {size}")
    return or_memory(em, has, em.ins(f"getelementptr i8, ptr {space}, i64 {offset}"), size)


def or_memory(em: Emitter, has: str, mine: str, size: str) -> tuple[str, str]:
    """The address ``mine`` where ``has`` holds, else memory of ``size`` bytes that is asked for; and what of
    it is to be given back, perhaps null."""
    here, ask, go_on = em.block, em.function.block("ask"), em.function.block("placed")
    here.end = f"  br i1 {has}, label %{go_on.label}, label %{ask.label}"
    em.scopes[-1].block = ask
    memory = em.call("ptr", "tensorlang_alloc", ("i64", size))
    ask.end = f"  br label %{go_on.label}"
    em.scopes[-1].block = go_on
    found = em.ins(f"phi ptr [ {mine}, %{here.label} ], [ {memory}, %{ask.label} ]")
    return found, em.ins(f"phi ptr [ null, %{here.label} ], [ {memory}, %{ask.label} ]")
