"""Reductions that run along memory: partial results in vector lanes, combined at the end; a few long rows are first divided among the
threads. Uses public primitives only.
"""

from __future__ import annotations

from ..analysis import reads_of, reducer_kind, typical
from ..expr.nodes import Var
from ..expr.walk import variables
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import IterVar
from .common import MIN_PARALLEL_WORK, share_out, size, work

VECTORS = 4  # of partial results: as many chains of additions


def reduce_in_lanes(s: Schedule, stage: Stage, target: Target) -> bool:
    """Partial results in vector lanes, for a reduction whose innermost axis runs along memory. Whether it was done."""
    op = stage.op
    last = op.reduce_axis[-1]
    if reducer_kind(op) in (None, "custom") or not reads_of(op).along(last):
        return False
    together = _dense_axes(stage)
    least = target.vector_lanes(op.body[0].dtype)
    lanes = least * VECTORS
    n = size(last)
    if len(together) > 1:
        n = 1
        for a in together:
            n *= size(a) or 1
    if n is not None:
        while lanes > least and n < 2 * lanes:
            lanes //= 2
        if n < 2 * lanes:
            return False
    if len(together) > 1:
        last = stage.fuse(*together)
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
        share_out(stage, axes, work(partial))
    return True


def _dense_axes(stage: Stage) -> list[IterVar]:
    """The last reduction axes, of constant size, that are the last indices of everything read along them, in their order: one long axis."""
    op = stage.op
    reduced = {a.var for a in op.reduce_axis}
    found = list(op.reduce_axis)
    for tensor, indices in reads_of(op).plain:
        if not any(variables(i) & reduced for i in indices):
            continue
        same: list[IterVar] = []
        for a, i, extent in zip(reversed(op.reduce_axis), reversed(indices), reversed(tensor.shape), strict=False):
            if i is not a.var or size(a) is None or extent is not a.extent:
                break
            same.insert(0, a)
        found = found[len(found) - min(len(found), len(same)):] if same else []
    return found


def share_reduction(s: Schedule, stage: Stage, target: Target) -> Stage | None:
    """For a reduction to fewer elements than there are threads: the stage of partial results, one of each for a thread.
    None, and nothing done, for any other."""
    op, cores = stage.op, target.num_cores
    rows = 1
    for a in op.axis:
        rows *= typical(a.extent, 64)
    if cores == 1 or rows >= cores or work(stage) < 2 * MIN_PARALLEL_WORK or reducer_kind(op) in (None, "custom"):
        return None
    longest = max(op.reduce_axis, key=lambda a: typical(a.extent, 64))
    group, _ = stage.split(longest, nparts=cores)
    return s[s.rfactor(stage.name, group)]


def along_memory(stage: Stage) -> bool:
    """Whether the innermost reduction axis runs along memory and all that is read along reduction axes is read once: no reuse that a tile
    could live on."""
    op = stage.op
    reduced, data = {a.var for a in op.reduce_axis}, {a.var for a in op.axis}
    for _, indices in reads_of(op).plain:
        used: set[Var] = set().union(*[variables(i) for i in indices])
        if used & reduced and not used >= data:
            return False
    return reads_of(op).along(op.reduce_axis[-1])
