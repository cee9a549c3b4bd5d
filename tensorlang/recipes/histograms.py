"""Reductions along memory of which several results ask for the same elements: how many are of each shade, how
far each is from some values. A vector of elements is read once for a tile of results. Uses public primitives
only.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis import has_calls, reads_of, step
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import IterVar
from .common import share_out, size, work

HIGH = 4  # results of a tile, each of as many vectors as hide how long one addition takes
CHAINS = 2
# vectors of elements from which on it pays to read them once. Measured (Zen 4, counts of 8 to 256 shades of
# 512 to a million elements, one thread and two): int32 and float32 0.38 to 0.9 of the time, the shorter the
# more, uint8 0.77; with AVX2 0.7 to 1.0
LEAST = 16


def asked_again(
    stage: Stage, along: Sequence[IterVar], elements: int | None, target: Target
) -> IterVar | None:
    """The axis of the result that no read along memory moves with; None where there is none, or where a tile
    would not pay."""
    op = stage.op
    lanes = target.vector_lanes(op.body[0].dtype)
    if elements is None or elements < LEAST * lanes or stage.state.attach is not None:
        return None
    if len(op.body) > 1 or has_calls(op):
        return None
    moving = [at for _, at in reads_of(op).plain if any(step(i, a) != 0 for i in at for a in along)]
    for axis in reversed(op.axis):
        n = size(axis)
        if n is not None and n >= HIGH * target.num_cores and moving:
            if all(step(i, axis) == 0 for at in moving for i in at):
                return axis
    return None


def apply(s: Schedule, stage: Stage, along: Sequence[IterVar], axis: IterVar, target: Target) -> bool:
    """Reduce ``along`` memory in vectors for a tile of ``axis``. Whether it was done."""
    lanes = CHAINS * target.vector_lanes(stage.op.body[0].dtype)
    _, inner = stage.split(stage.fuse(*along) if len(along) > 1 else along[-1], lanes)
    if not s.can("rfactor", stage.name, inner):
        return False
    partial = s[s.rfactor(stage.name, inner)]
    partial.transform_layout(lambda lane, *at: [*at, lane])  # the lanes of a result lie side by side
    own = partial.op.axis[stage.op.axis.index(axis)]
    others = [a for a in stage.op.axis if a is not axis]
    block, each = stage.split(axis, HIGH)
    stage.reorder(*others, block, each)
    stage.unroll(each)
    stage.vectorize(stage.op.reduce_axis[0])
    shared = stage.fuse(*others, block) if others else block
    partial.compute_at(stage, shared)
    partial.set_scope("local")
    around = [a for a in partial.op.axis[:-1] if a is not own]
    partial.reorder(*around, *partial.op.reduce_axis, own, partial.op.axis[-1])
    partial.unroll(own)
    partial.vectorize(partial.op.axis[-1])
    share_out(stage, [shared], work(partial), target)
    return True
