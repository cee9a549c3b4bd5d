"""Reductions over several axes with kept ones between them, as the sums over the first and the last axis of a
tensor, whose last run of axes is short: everything behind the outermost reduced axes is one long row, whose
columns are reduced first, in whole vectors, and what is left is as little as one row. Uses public primitives
only.

Along the last run of axes, reduced or kept, vectors are mostly empty. Measured (Zen 4, one thread), largest
floats of 6001 × 5 × 3 over the first and the last axis 0.25 of the time, of 301 × 99 × 3 0.12, of 51 × 41 ×
7 × 3 over the first and third 0.14, bytes over the second and the last 0.24, of 17 × 15 × 13 × 31 over the
first and the last 0.5, variances over the first and third 0.5.
"""

from __future__ import annotations

import math
from itertools import takewhile

from ..analysis import reads_of, reducer_kind, typical
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import IterVar, Var
from . import columns
from .choices import at_most
from .common import same, size

OPEN = 64  # rows that an open number counts as
SHORT = 4  # times shorter than the vector that holds it, what an open run counts as
ENDED = 4  # vectors that take as long as to reduce one of the short runs in the end
# bytes of an element from which on AVX2 masks it; vectors that one apart takes as long as
MASKED, APART = 4, 3
WORTH = 0.8  # of the vectors of short runs


def first_of(s: Schedule, stage: Stage, target: Target) -> list[Stage] | None:
    """Reduce the outermost of the reduced axes before the others, in a stage of its own, which is scheduled.
    The stages that are left to schedule, in the order of the computation; None, and nothing is changed, where
    there are none between which others lie, or vectors are filled anyway."""
    inner = _inner(stage, target)
    if inner is None:
        return None
    found, left, stages = stage, list(stage.op.reduce_axis), [stage]
    front = len(stage.op.axis) - sum(a.kind != "reduce" for a in inner)
    if not s.can("rfactor", stage.name, left[0]):
        return None
    for place, axis in enumerate(inner):
        if axis.kind == "reduce":
            at = next(n for n, a in enumerate(left) if a is axis)
            del left[at]
            found = s[s.rfactor(found.name, found.op.reduce_axis[at], front + place)]
            stages.append(found)
    columns.reduce_columns(s, found, target)
    return stages[-2::-1]


def _inner(stage: Stage, target: Target) -> list[IterVar] | None:
    """The axes behind the outermost reduced ones, in the order of memory, where those are to be reduced
    first."""
    op = stage.op
    axes = _in_order(stage)
    if axes is None or len(op.reduce_axis) < 2 or any(size(a) == 0 for a in axes):
        return None
    kept = list(takewhile(lambda a: a.kind != "reduce", axes))
    rows = list(takewhile(lambda a: a.kind == "reduce", axes[len(kept) :]))
    inner = axes[len(kept) + len(rows) :]
    if len({a.kind for a in inner}) < 2:
        return None
    lanes, bytes_ = target.vector_lanes(op.body[0].dtype), op.body[0].dtype.bytes
    last = list(takewhile(lambda a: a.kind == inner[-1].kind, reversed(inner)))
    opened = [a for a in last if size(a) is None]
    # an open number of short ones is advice from the call
    if opened and (len(last) > 1 or not target.has_masks or not at_most(last[0].extent, lanes)):
        return None
    run = max(1, lanes // SHORT) if opened else math.prod(size(a) or 0 for a in last)
    row = run * math.prod(typical(a.extent, OPEN) for a in inner[: -len(last)])
    if row * bytes_ > target.l2_bytes // 2:
        return None
    times, runs = math.prod(typical(a.extent, OPEN) for a in rows), row // run
    together, apart = (
        times * _vectors(row, lanes, bytes_, target) + ENDED * runs,
        times * runs * -(-run // lanes),
    )
    return inner if together < WORTH * apart else None


def _vectors(row: int, lanes: int, bytes_: int, target: Target) -> int:
    """Vectors that take as long as so many elements, of so many bytes each: a rest of narrow ones is stored
    one by one where there are no masks."""
    full, rest = divmod(row, lanes)
    if full and rest and bytes_ < MASKED and not target.has_masks:
        return full + APART * rest
    return full + (rest > 0)


def _in_order(stage: Stage) -> list[IterVar] | None:
    """All axes in the order of the dimensions of what is reduced, where each is one, and those of the result
    are in their order."""
    op = stage.op
    if not op.axis or len(op.body) != 1 or reducer_kind(op) in (None, "custom", "each"):
        return None
    own = {a.var: a for a in (*op.axis, *op.reduce_axis)}
    reduced, found = {a.var for a in op.reduce_axis}, list[IterVar]()
    for _, at in reads_of(op).plain:
        axes = [own[i] for i in at if isinstance(i, Var) and i in own]
        if all(a.var not in reduced for a in axes) and len(axes) == len(at):
            continue
        if not len(own) == len(at) == len(axes) == len(set(axes)) or (found and not same(axes, found)):
            return None
        found = axes
    return found if same([a for a in found if a.kind != "reduce"], op.axis) else None
