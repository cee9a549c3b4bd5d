"""Reductions that run along memory: partial results in vector lanes, combined at the end; a few long rows are
first divided among the threads. How wide elementwise loops are. Uses public primitives only.
"""

from __future__ import annotations

from ..analysis import cost_of, has_calls, reads_of, reducer_kind, typical
from ..schedule import Schedule, Stage
from ..target import Target
from .common import share_out, size, work

VECTORS = 4  # side by side: as many chains of operations, of which each waits for the one before


def reduce_in_lanes(s: Schedule, stage: Stage, target: Target) -> bool:
    """Partial results in vector lanes, for a reduction whose innermost axis runs along memory. Whether it was
    done."""
    op = stage.op
    last = op.reduce_axis[-1]
    if reducer_kind(op) in (None, "custom") or not reads_of(op).along(last):
        return False
    least = target.vector_lanes(op.body[0].dtype)
    lanes = least * VECTORS
    n = size(last)
    if n is not None and 1 < n <= lanes and len(op.reduce_axis) > 1:
        inner = last  # short rows: a lane for each place, and no masks
    else:
        while n is not None and lanes > least and n < 2 * lanes:
            lanes //= 2
        if n is not None and n < 2 * lanes:
            return False
        _, inner = stage.split(last, lanes)
    if not s.can("rfactor", stage.name, inner):
        return True
    partial = s[s.rfactor(stage.name, inner)]
    axes = list(stage.op.axis)
    root = stage.state.attach is None
    if root and len(axes) > 1:
        axes = [stage.fuse(*axes)]
    partial.reorder(*partial.op.axis[1:], *partial.op.reduce_axis, partial.op.axis[0])
    partial.vectorize(partial.op.axis[0])
    if axes:
        partial.compute_at(stage, axes[-1])
        partial.set_scope("local")
    combined = stage.op.reduce_axis[0]
    stage.vectorize(combined)
    if axes and root:
        share_out(stage, axes, work(partial), target)
    return True


def vector_width(stage: Stage, n: int | None, target: Target) -> int:
    """Elements to compute at once of ``n`` that lie side by side: a vector, or several when an element takes
    a long chain of operations."""
    lanes = target.vector_lanes(stage.op.body[0].dtype)
    if n is None:
        return lanes
    if n <= VECTORS * lanes:
        return n  # a whole row: narrower vectors at its end are cheaper than a masked one
    if has_calls(stage.op):
        for v in (VECTORS, VECTORS // 2):
            if n % (v * lanes) == 0 or n >= 8 * v * lanes:
                return v * lanes
    return min(lanes, n)


def share_reduction(s: Schedule, stage: Stage, target: Target) -> Stage | None:
    """For a reduction to fewer elements than there are threads: the stage of partial results, one of each for
    a thread. None, and nothing done, for any other."""
    op, cores = stage.op, target.num_cores
    rows = 1
    for a in op.axis:
        rows *= typical(a.extent, 64)
    if (
        cores == 1
        or rows >= cores
        or not cost_of(target).shared(work(stage) // 2)
        or reducer_kind(op) in (None, "custom")
    ):
        return None
    longest = max(op.reduce_axis, key=lambda a: typical(a.extent, 64))
    group, _ = stage.split(longest, nparts=cores)
    return s[s.rfactor(stage.name, group)]
