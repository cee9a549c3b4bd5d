"""Reductions along memory by a reducer that chooses one of two tuples by comparing one part, as argmax in
TVM's tutorials: the extreme of a row in vectors, its place in vectors, and what is there. Uses public
primitives only.

Measured (Zen 4, one thread): 64 rows of 1000 float32 take 0.07 of the time of one element after the other, of
float64 0.12, of int8 0.10, 1000 rows of 128 0.11, one of 1,000,000 0.07, 3000 of 33 0.17 where indices are
read, 0.42 where they are counted, of 16 0.23, of 10 0.65. Rows that all have a NaN are reduced one element
after the other when it is found: of 1000 1.08, of 128 1.18, of 33 1.4 to 2.1.
"""

from __future__ import annotations

from ..analysis import cost_of, reads_of, reducer_kind, typical
from ..schedule import Schedule, Stage
from ..target import Target
from .common import share_out, work
from .lanes import elements_of, reduce_in_lanes, share_reduction

FEWEST = 10  # elements of a row, from which on it pays: of 9 float32 it takes 0.96 to 1.0 of the time
OPEN = 64  # what an open length counts as


def chooses_along(s: Schedule, stage: Stage) -> bool:
    """Whether a reduction chooses by comparing what lies along memory, of which there is enough for its
    extreme and the place of that to be found in vectors."""
    op = stage.op
    if reducer_kind(op) != "custom" or len(op.reduce_axis) != 1 or not reads_of(op).along(op.reduce_axis[0]):
        return False
    return typical(op.reduce_axis[0].extent, OPEN) >= FEWEST and bool(s.can("split_choice", stage.name))


def choose_in_lanes(s: Schedule, stage: Stage, target: Target, out: Stage | None = None) -> bool:
    """Find the extreme and its place in vector lanes, for a reduction that chooses by comparing what lies
    along memory: at the root, or for each element of ``out``, which alone reads it. Whether it was done."""
    op = stage.op
    if not chooses_along(s, stage):
        return False
    iterations, rows, given = work(stage), elements_of(op.axis), set(op.input_tensors)
    place = s[s.split_choice(stage.name)]
    (best,) = (t for t in place.op.input_tensors if t not in given)
    parts = (s[best], place)
    axes = list(stage.op.axis)
    alone = not axes or (
        rows is not None and rows < target.num_cores and cost_of(target).shared(iterations) and out is None
    )
    if alone:
        # threads share out what a row has
        for part in parts:
            if not share_reduction(s, part, target):
                reduce_in_lanes(s, part, target)
        return True
    if out is None:
        axes = [stage.fuse(*axes)] if len(axes) > 1 else axes
    else:
        stage.compute_at(out, out.op.axis[-1])
    for part in reversed(parts):
        part.compute_at(stage, axes[-1])
        part.set_scope("local")
    for part in parts:
        reduce_in_lanes(s, part, target)
    share_out(*((stage, axes) if out is None else (out, list(out.op.axis[:1]))), iterations, target)
    return True
