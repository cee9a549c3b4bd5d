"""Reductions that run along memory: partial results in vector lanes, combined at the end. Uses public primitives only."""

from __future__ import annotations

from ..analysis import reads_of, reducer_kind
from ..schedule import Schedule, Stage
from ..target import Target
from .common import share_out, size, work


def reduce_in_lanes(s: Schedule, stage: Stage, target: Target) -> bool:
    """Partial results in vector lanes, for a reduction whose innermost axis runs along memory. Whether it was done."""
    op = stage.op
    last = op.reduce_axis[-1]
    if reducer_kind(op) in (None, "custom") or not reads_of(op).along(last):
        return False
    lanes = target.vector_lanes(op.body[0].dtype) * 4
    n = size(last)
    if n is not None and n < 2 * lanes:
        return False
    _, inner = stage.split(last, lanes)
    if not s.can("rfactor", stage.name, inner):
        return True
    partial = s[s.rfactor(stage.name, inner)]
    axes = stage.op.axis
    partial.reorder(*partial.op.axis[1:], *partial.op.reduce_axis, partial.op.axis[0])
    partial.vectorize(partial.op.axis[0])
    if axes:
        partial.compute_at(stage, axes[-1])
        partial.set_scope("local")
    combined = stage.op.reduce_axis[0]
    stage.vectorize(combined)
    if axes and stage.state.attach is None:
        share_out(stage, list(axes[:1]), work(partial))
    return True
