"""Loops that copy a run of memory as it is: by the one instruction that x86 has for it, where the processor
is quicker with it than with vectors.

A vector that is written brings the line it is written to first; the instruction knows that whole lines will
be written, and brings none. Nor does it cross lines, wherever a run begins. It takes some nanoseconds to
begin, so that short runs stay loops. How long a run is, is looked up where a call tells it. Knows loops and
addresses; ``statement`` says what a loop is.

Measured (Zen 5, one thread, GB/s of vectors and of the instruction): 4 KiB 199 and 142, 64 KiB 97 and 130,
512 KiB 81 and 102, 1 MB 58 and 72, 4 MB 52 and 63, 16 MB 36 and 48, by stores past the caches 43, 40 MB 25
and 30, by these 28.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ...core.recursion import Steps
from ...expr.nodes import Var, const_int
from ...loopir.stmt import Buffer, Load, Stmt, Store
from ...target import host
from . import aligned, memory
from .emitter import Emitter

# bytes of a run from which on the instruction is quicker where lines come from behind the first cache: what
# it takes to begin is no more then than what it saves. Of tensors near, more than half of the first cache
LEAST = 4 << 10
NEAR = 2  # parts of the second cache that are written, up to which lines may lie in the first

_REP = '"rep movsb", "={di},={si},={cx},0,1,2,~{memory},~{dirflag},~{fpsr},~{flags}"'


class Run(NamedTuple):
    """A loop that copies: what it writes and reads, and from how many bytes on by the instruction."""

    store: Store
    source: Load
    least: int

    @property
    def bytes(self) -> int:
        """Of an iteration."""
        return self.source.dtype.lanes * self.store.buffer.dtype.bytes


def run_of(em: Emitter, var: Var, count: int | None, body: Stmt) -> Run | None:
    """What a loop of ``count`` iterations copies; None for another loop, and where vectors are as quick."""
    if not em.target.moves_runs or em.target.arch != host.triple().split("-")[0]:
        return None  # LLVM assembles nothing for other machines here
    if type(body) is not Store or type(body.value) is not Load or body.mask is not None:
        return None
    source, kind = body.value, body.buffer.dtype
    if source.mask is not None or source.buffer.dtype != kind or kind.is_bool or source.buffer is body.buffer:
        return None
    for buffer, at in ((body.buffer, body.indices), (source.buffer, source.indices)):
        if not aligned.follows(memory.flat_offset(em, buffer, at), var, source.dtype.lanes):
            return None
    run = Run(body, source, _least(em, body.buffer))
    return None if count is not None and count * run.bytes < run.least else run


def _least(em: Emitter, written: Buffer) -> int:
    elements = math.prod(const_int(n) or 0 for n in written.shape)
    near = NEAR * elements * written.dtype.bytes <= em.target.l2_bytes
    return max(LEAST, em.target.l1_bytes // 2) if near else LEAST


def emit(
    em: Emitter,
    run: Run,
    var: Var,
    begin: str,
    end: str,
    bounds: tuple[int | None, int | None],
    as_it_stands: Steps[None] | None,
) -> Steps[None]:
    """``for var in begin .. end - 1``, the loop that ``run`` is, of which a call tells whether it is long
    enough, or ``as_it_stands``; None where that is known."""
    em.at, buffer = em.depth, run.store.buffer
    count = em.ins(f"mul nsw i64 {em.ins(f'sub nsw i64 {end}, {begin}')}, {run.bytes}")
    if as_it_stands is None:
        _moved(em, run, var, begin, bounds, count)
    else:
        here, long, short, done = em.block, *(em.function.block(w) for w in ("long", "short", "copied"))
        asked = em.ins(f"icmp sge i64 {count}, {run.least}")
        here.end = f"  br i1 {asked}, label %{long.label}, label %{short.label}"
        em.push(long, conditional=True, written=frozenset((buffer,)))
        _moved(em, run, var, begin, bounds, count)
        em.block.end = f"  br label %{done.label}"
        em.pop(here)
        em.push(short, conditional=True, written=frozenset((buffer,)))
        yield as_it_stands
        em.block.end = f"  br label %{done.label}"
        em.pop(done)
    em.forget(buffer)


def _moved(
    em: Emitter, run: Run, var: Var, begin: str, bounds: tuple[int | None, int | None], count: str
) -> None:
    to, from_ = (
        memory.pointer(em, access.buffer, aligned.place(em, access, var, begin, bounds))
        for access in (run.store, run.source)
    )
    em.do(f"call {{ ptr, ptr, i64 }} asm sideeffect {_REP}(ptr {to}, ptr {from_}, i64 {count})")
