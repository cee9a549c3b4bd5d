"""Reductions along memory by a reducer that chooses one of two tuples by comparing one part, as argmax in
TVM's tutorials: the extreme of a row in vectors, its place in vectors, and what is there. Uses public
primitives only.

Measured (Zen 4, one thread): 64 rows of 1000 float32 take 0.07 of the time of one element after the other, of
float64 0.12, of int8 0.10, 1000 rows of 128 0.11, one of 1,000,000 0.07, 3000 of 33 0.17 where indices are
read, 0.42 where they are counted, of 16 0.23, of 10 0.65. Rows that all have a NaN are reduced one element
after the other when it is found: of 1000 1.08, of 128 1.18, of 33 1.4 to 2.1.

What is compared may be computed: an elementwise stage for a row at a time. Measured (Zen 5, one thread and
two), max(x * 1.7 + b, 0) of 256 × 1000 takes 0.07 and 0.08 of the time of one element after the other, of
3000 × 33 0.36 and 0.38, of 2 × 100000 0.09 and 0.11, of 1000 × 16 0.71; behind a dense layer of 64 × 1000 ×
128 all takes 0.49 and 0.25.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..analysis import Expr, cost_of, reads_of, reducer_kind, typical
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import ComputeOp, PlaceholderOp, Tensor
from .as_one import elements_of
from .common import share_out, work
from .lanes import in_vectors, reduce_in_lanes, share_reduction

FEWEST = 10  # elements of a row, from which on it pays: of 9 float32 it takes 0.96 to 1.0 of the time
OPEN = 64  # what an open length counts as


def chooses_along(s: Schedule, stage: Stage) -> bool:
    """Whether a reduction chooses by comparing what lies along memory, of which there is enough for its
    extreme and the place of that to be found in vectors."""
    op = stage.op
    if reducer_kind(op) != "custom" or len(op.reduce_axis) != 1 or not reads_of(op).along(op.reduce_axis[0]):
        return False
    return typical(op.reduce_axis[0].extent, OPEN) >= FEWEST and bool(s.can("split_choice", stage.name))


def hides(s: Schedule, stage: Stage) -> bool:
    """Whether a choice compares the elements of ``stage``: written into it, they would be computed again
    where its place is looked for, and could be rounded in another way: it could not be taken apart."""
    readers = [s[r.name] for r in s.state.readers(stage.name)]
    chosen = [r for r in readers if isinstance(r.op, ComputeOp) and r.op.reduce_axis and chooses_along(s, r)]
    if not chosen:
        return False
    written = s.copy()
    written[stage.name].compute_inline()
    return not all(chooses_along(written, written[r.name]) for r in chosen)


def _of_rows(s: Schedule, stage: Stage, given: Collection[Tensor]) -> list[Stage]:
    """The stages of which each row is read by one row of this choice alone, and that compute an element of
    what callers give: not those in whose tiles a product is finished."""
    op = stage.op
    readers = {stage.name, *(s.state.of(t).name for t in op.input_tensors if t not in given)}
    found = [s[s.state.of(t).name] for t in given if isinstance(t.op, ComputeOp)]
    return [
        st
        for st in found
        if not (st.op.reduce_axis or st.state.is_output or st.state.attach is not None or st.state.is_opaque)
        and all(isinstance(t.op, PlaceholderOp) for t in st.op.input_tensors)
        and {r.name for r in s.state.readers(st.name)} <= readers
        and all(_row_by_row(op, at) for t, at in reads_of(op).plain if t in st.op.outputs)
    ]


def _row_by_row(op: ComputeOp, at: Sequence[Expr]) -> bool:
    """Whether indices are those of the axes, one after the other, and one along the row."""
    return len(at) == len(op.axis) + 1 and all(i is a.var for i, a in zip(at, op.axis, strict=False))


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
    for made in _of_rows(s, stage, given):
        # a row at a time, which is near when it is looked through
        made.compute_at(stage, axes[-1])
        in_vectors(made, target)
    for part in parts:
        reduce_in_lanes(s, part, target)
    share_out(*((stage, axes) if out is None else (out, list(out.op.axis[:1]))), iterations, target)
    return True
