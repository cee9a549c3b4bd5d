"""Questions about many elements that one may answer, as whether any or all of a mask hold: by blocks of
memory, of which none is read once the answer is known. Uses public primitives only.

Measured (Zen 5, one thread), any of a million bools: where an early one holds 7.8 → 0.65 µs, where none does
5.6 and 5.7. With blocks that ask in each vector where the last one ends the latter took 16.
"""

from __future__ import annotations

from ..analysis import reducer_kind
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import ComputeOp, IterVar
from .common import share_out, work

BLOCK = 1 << 13  # elements, between which it is asked whether the answer is known
LEAST = 2  # blocks


def applies(op: ComputeOp, n: int | None) -> bool:
    """Whether a reduction asks ``te.any`` or ``te.all`` of ``n`` elements of memory, and these are blocks."""
    return reducer_kind(op) in ("or", "and") and n is not None and n >= LEAST * BLOCK


def by_block(
    s: Schedule, stage: Stage, vectors: IterVar, lanes: int, target: Target
) -> tuple[Stage, IterVar]:
    """Ask block by block of ``vectors`` of so many lanes, the two loops of a reduction at the root: the stage
    that asks one block, which waits for its schedule, and its lanes."""
    block, _ = stage.split(vectors, BLOCK // lanes)
    iterations = work(stage)
    one = s[s.rfactor(stage.name, block)]
    # the last block, which may be less than one, is code of its own: the others ask for no end
    block, _ = stage.split(stage.op.reduce_axis[0], 1, tail="peel")
    stage.pragma(block, "until_known")
    share_out(stage, list(stage.op.axis), iterations, target)
    one.compute_at(stage, block)
    one.set_scope("local")
    return one, one.op.reduce_axis[-1]
