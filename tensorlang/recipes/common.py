"""What the families of recipes share: sizes as numbers, and the one parallel loop. Uses public primitives only."""

from __future__ import annotations

from ..analysis import constant, typical
from ..schedule import Stage
from ..te import IterVar

MIN_PARALLEL_WORK = 1 << 16  # turns of the innermost body below which a second thread costs more than it brings


def size(axis: IterVar) -> int | None:
    """The extent of an axis, None when it is symbolic."""
    return constant(axis.extent)


def work(stage: Stage) -> int:
    """Turns of the body, counting a symbolic size by its hint."""
    total = 1
    for a in (*stage.op.axis, *stage.op.reduce_axis):
        total *= typical(a.extent, 64)
    return total


def share_out(stage: Stage, loops: list[IterVar], turns: int) -> None:
    """One parallel loop out of the outermost ones, when there are enough turns of the body."""
    loops = [iv for iv in loops if iv.kind != "reduce"]
    if not loops or turns < MIN_PARALLEL_WORK:
        return
    outer = loops[0] if len(loops) == 1 else stage.fuse(*loops)
    stage.parallel(outer)
