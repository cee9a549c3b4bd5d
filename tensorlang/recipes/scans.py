"""Recurrences: the step of a scan in vectors along its last axis. What the step reads across memory is
transposed once before, so that it reads lines. Uses public primitives only.
"""

from __future__ import annotations

from ..analysis import reads_lines, transposed
from ..schedule import Schedule, Stage
from ..target import Target
from .common import size
from .copies import transpose_in_tiles
from .lanes import vector_width


def scan_step(s: Schedule, step: Stage, target: Target) -> set[str]:
    """Schedule the update of a scan, which hangs on the loop of the scan. The names of the stages that are
    done."""
    op = step.op
    if op.reduce_axis or not op.axis or size(op.axis[-1]) in (0, 1):
        return {step.name}
    done = {step.name}
    for t in op.input_tensors:
        if (
            len(t.shape) != len(op.axis)
            or len(t.shape) < 2
            or s.state.of(t).within is not None
            or not s.can("cache_read", t, "global", [step.name])
        ):
            continue
        trial = s.copy()
        copy = trial[trial.cache_read(t, "global", [step.name])]
        copy.transform_layout(lambda *at: [at[-1], *at[:-1]])
        transposition = transposed(copy.op)
        if transposition is not None and not reads_lines(op, t):
            transpose_in_tiles(trial, copy, transposition, target)
            s.take(trial)
            done.add(copy.name)
    _, inner = step.split(step.op.axis[-1], vector_width(step, size(step.op.axis[-1]), target))
    step.vectorize(inner)
    return done
