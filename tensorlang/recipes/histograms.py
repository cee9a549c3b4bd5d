"""Reductions along memory of which several results ask for the same elements: how many are of each shade, how
far each is from some values. A vector of elements is read once for a tile of results. Uses public primitives
only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..analysis import has_calls, reads_of, step
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import IterVar
from .common import share_out, size, work

HIGHS = 5, 4, 3  # results of a tile, one that leaves no rest if there is one; else so many as the second
CHAINS = 2  # vectors of a result: as many as hide how long one addition takes
# vectors of elements of a result from which on it pays to read them once. Measured (Zen 4, counts of 8 to 256
# shades of 512 to a million elements, one thread and two): int32 and float32 0.38 to 0.9 of the time, the
# shorter the more, uint8 0.77; with AVX2 0.56 to 1.0; 10 shades of tiles of 8 × 8 pixels, whose shade is made
# as they are read, 0.42
LEAST = 8
FEWEST = 8  # elements along memory


def asked_again(
    stage: Stage, along: Sequence[IterVar], elements: int | None, target: Target
) -> tuple[IterVar, int] | None:
    """The axis of the result that no read along memory moves with, and how many of it a tile has; None where
    there is none, or where a tile would not pay."""
    op = stage.op
    lanes = target.vector_lanes(op.body[0].dtype)
    if elements is None or elements < FEWEST or stage.state.attach is not None:
        return None
    if work(stage) < LEAST * min(lanes, elements) * math.prod(size(a) or 1 for a in op.axis):
        return None
    if len(op.body) > 1 or has_calls(op):
        return None
    moving = [at for _, at in reads_of(op).plain if any(step(i, a) != 0 for i in at for a in along)]
    for axis in reversed(op.axis):
        n = size(axis)
        if n is None or not moving or any(step(i, axis) != 0 for at in moving for i in at):
            continue
        high = next((h for h in HIGHS if n % h == 0), HIGHS[1])
        tiles = -(-n // high) * math.prod(size(a) or target.num_cores for a in op.axis if a is not axis)
        if n >= high and tiles >= target.num_cores:
            return axis, high
    return None


def apply(
    s: Schedule,
    stage: Stage,
    along: Sequence[IterVar],
    elements: int | None,
    axis: IterVar,
    high: int,
    target: Target,
) -> bool:
    """Reduce so many ``elements`` along memory in vectors for tiles of ``high`` of ``axis``. Whether it was
    done."""
    lanes = CHAINS * target.vector_lanes(stage.op.body[0].dtype)
    inner = stage.fuse(*along) if len(along) > 1 else along[-1]
    if (elements or 0) > lanes:
        _, inner = stage.split(inner, lanes)
    if not s.can("rfactor", stage.name, inner):
        return False
    partial = s[s.rfactor(stage.name, inner)]
    partial.transform_layout(lambda lane, *at: [*at, lane])  # the lanes of a result lie side by side
    own = partial.op.axis[stage.op.axis.index(axis)]
    others = [a for a in stage.op.axis if a is not axis]
    block, each = stage.split(axis, high)
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
