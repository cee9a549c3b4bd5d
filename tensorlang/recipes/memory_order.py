"""Reductions whose results are declared in another order than the elements they read lie in, as sums over the
first axis of a tensor whose other axes change places: neighbouring results read elements far apart, and each
is a sum in scalar code. The results are computed in the order of memory, by whatever recipe knows such a
reduction, and copied, transposed in tiles of registers. Uses public primitives only.
"""

from __future__ import annotations

from ..analysis import read_order
from ..schedule import Schedule, Stage
from .common import size

# results that are neighbours in memory, of which there are vectors then. Measured (Zen 4, two threads): sums
# of 2 and 8 × 100,000 × 4 would take 1.8 and 1.0 of the time, of 50 × 64 × 5 they take 0.24
FEWEST = 5


def in_memory_order(s: Schedule, stage: Stage, fused: bool) -> tuple[Stage, list[Stage]] | None:
    """Let a reduction compute its results in the order in which it reads. The reduction, and the copies that
    are to be scheduled; None, and nothing is changed, where it stays as it is. A ``fused`` one is read by one
    stage, which is scheduled after it.

    Measured (Zen 4, two threads): sums over the first axis of 64 × 512 × 512 take 0.04 of the time, over the
    second of 256 × 64 × 256 0.03, over the third of 16 × 32 × 56 × 56 0.08; where the largest of 64 stand and
    what they are, of 256 × 256 with a reducer of the user's, 0.04.
    """
    axes, order = stage.op.axis, read_order(stage.op)
    if order is None or order[-1] == len(axes) - 1 or (size(axes[order[-1]]) or FEWEST) < FEWEST:
        return None
    if not fused and not s.can("cache_write", stage.name, "global"):
        return None
    inside = stage if fused else s[s.cache_write(stage.name, "global")]
    inside.transform_layout(lambda *at: [at[d] for d in order])
    return inside, [] if fused else [stage]
