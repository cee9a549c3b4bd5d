"""Reductions of rows of a few elements, and operators made of such, as softmax over three classes or the norm
of a point: as many rows side by side as a vector has lanes, so that a reduction adds up vectors, one for each
element of a row, which are picked apart as they are loaded. Uses public primitives only.

A row by itself is one vector that is mostly empty, whose lanes are added up to one number. Measured (Zen 4,
one thread, 100,000 elements in rows of 2, 3, 5, 8 and 15): sums 0.17, 0.25, 0.24, 0.7 and 0.7 of the time,
softmax 0.23, 0.25, 0.4, 0.87 and 0.54, argmax 0.06, 0.05, 0.08, 0.57 and 0.41, layer norm 0.24, 0.23, 0.43,
0.8 and 0.9, variances 0.15, 0.12, 0.28, 0.37 and 0.41; in rows of 16 to 32 layer norms 1.2 to 1.5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..analysis import constant, reads_of, reducer_kind, step, told_by_data, typical
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import Expr, IterVar, Tensor
from . import whole_rows
from .choices import at_most
from .common import in_registers, size, with_attached, work
from .rows import Rows

OPEN = 64  # rows that an open number counts as
TOGETHER = 16  # rows, at most: of bytes a vector has more, but picking them apart takes longer
# of a row from which on they are added up along memory, in a vector of their own. Measured (Zen 4, two
# threads): rows of 8 take 0.27 of the time, of 12 0.5, their largest of 8 0.58, int32 sums of 8 0.2
BYTES = 8
# elements of rows of an open number, up to which they are gathered for vectors of rows: of more a row is a
# vector of its own. Measured (Zen 5, one thread, 30,001 rows of an open number): sums of 3 take 0.26 of the
# time, of 5 0.4, of 8 0.63, of 15 1.2
OPEN_ROW = 8
# the same where a row may be one vector under a mask. Measured (Zen 5, one thread, 1000 rows): of 5 gathered
# softmax takes 0.85 of the time of those, sums 0.8, layer norm 0.8; of 7 1.07, 1.08 and 1.04, of 8 1.2; no
# more than half a vector: of 4 float64 sums take 0.7, of 5 1.2, argmax 0.5 and 1.6
OPEN_ROW_MASKED = 6


def applies(s: Schedule, inside: Stage, target: Target, constants: Sequence[Tensor]) -> bool:
    """Whether ``inside`` reduces short rows of memory, of which each element is read once; beside them it may
    read what is the same for all rows."""
    op = inside.op
    if reducer_kind(op) in (None, "custom") or not op.axis or len(op.body) != 1:
        return False
    if not _many(op.axis[-1], _lanes([inside], target)) or not _may_be_short(
        op.reduce_axis, target, [inside]
    ):
        return False
    data = [a for a in op.axis if size(a) != 1]
    found = False
    for tensor, at in reads_of(op).plain:
        along = [a for a in data if any(step(i, a) != 0 for i in at)]
        if not along:
            continue
        row = op.axis[-1]
        # rows, or as many elements one behind the other as are reduced
        elements = math.prod(size(a) or 0 for a in op.reduce_axis)
        alone = step(at[-1], row) in (0, elements)
        if len(along) < len(data) or not alone or not _near(tensor, at, row, op.reduce_axis):
            return False
        if tensor.dtype.bytes == 1 and elements >= BYTES and (target.has_masks or elements == BYTES):
            return False
        found = True
    return found and _short(op.reduce_axis, target, [inside])


def apply(s: Schedule, out: Stage, inside: Stage, target: Target, constants: Sequence[Tensor]) -> None:
    """Compute ``inside`` in vectors of the last axis of ``out``, which has its shape and reads it at its own
    place."""
    *front, row = out.op.axis
    outer, inner = whole_rows.share_rows(out, front, row, _lanes([inside], target), work(inside), target)
    out.vectorize(inner)
    inside.compute_at(out, outer)
    _reduce(s, inside, len(inside.op.axis) - 1)


def known(out: Stage, rows: Rows, target: Target) -> bool:
    """Whether the rows that ``out`` is made of are short, with at most one axis of several elements, and lie
    near one another wherever they are read."""
    stages, asked = [out, *rows.members], list[Sequence[IterVar]]()
    lanes = _lanes(rows.members, target)
    if rows.every is not None or not rows.depth or not _many(out.op.axis[rows.depth - 1], lanes):
        return False
    for st in stages:
        inner, reduced = st.op.axis[rows.depth :], st.op.reduce_axis
        several = [a for a in inner if size(a) != 1]
        if len(st.op.axis) < rows.depth or len(several) > 1 or (several and reduced):
            return False
        if several and (several[0] is not inner[-1] or not _may_be_short(inner, target, rows.members)):
            return False
        if reduced and not _may_be_short(reduced, target, rows.members):
            return False
        row = st.op.axis[rows.depth - 1]
        if not all(_near(t, at, row, [*several, *reduced]) for t, at in reads_of(st.op).plain):
            return False
        asked += [axes for axes in (several, reduced) if axes]
    return all(_short(axes, target, rows.members) for axes in asked)


def together(s: Schedule, out: Stage, rows: Rows, target: Target) -> set[str]:
    """Compute all stages of ``rows`` for as many of them as a vector has lanes. The names of the stages that
    are done."""
    axis, iterations = rows.depth - 1, 8 * max(work(st) for st in (out, *rows.members))
    front, row, *inner = out.op.axis[:axis], *out.op.axis[axis:]
    outer, lanes = whole_rows.share_rows(out, front, row, _lanes(rows.members, target), iterations, target)
    _vector(out, lanes, inner)
    for st in rows.members:
        st.compute_at(out, outer)
    for st in rows.members:
        if st.op.reduce_axis:
            _reduce(s, st, axis)
            continue
        own = st.op.axis[rows.depth :]
        if (inner and None not in map(size, own)) or all(size(a) == 1 for a in own):
            _vector(st, st.op.axis[axis], own)
        else:
            _element_by_element(st, len(own))
        in_registers(s, st)
    return with_attached(s, out.name)


def _reduce(s: Schedule, stage: Stage, axis: int) -> None:
    """A vector of rows in a register, the elements of a row written out."""
    in_registers(s, stage)
    row = stage.op.axis[axis]
    stage.reorder(*stage.op.reduce_axis, *(a for a in stage.op.axis if a is not row), row)
    stage.vectorize(row)
    for a in stage.op.reduce_axis:
        if size(a) is not None:
            stage.unroll(a)


def _vector(stage: Stage, row: IterVar, inner: Sequence[IterVar]) -> None:
    """A vector of rows, of all their elements, or, of an open number of them, of one after the other."""
    if inner and size(inner[-1]) != 1 and None not in map(size, inner):
        row = stage.fuse(row, *inner)
    elif inner:
        stage.reorder(*inner, row)
    stage.vectorize(row)


def _element_by_element(stage: Stage, inner: int) -> None:
    """A vector of rows for each element of a row, of so many axes, as reductions read them: nothing is spread
    over rows, and nothing picked apart. Measured (Zen 4, one thread), cross entropies of 2 to 10 classes take
    0.73 to 0.9 of the time, with AVX2 0.81 to 1.15."""
    stage.transform_layout(lambda *i: (*i[-inner:], *i[:-inner]))
    for a in stage.op.axis[:inner]:
        if size(a) is not None:
            stage.unroll(a)
    front, row = stage.op.axis[inner:-1], stage.op.axis[-1]
    stage.reorder(*front, *stage.op.axis[:inner], row)
    stage.vectorize(row)


def _lanes(stages: Sequence[Stage], target: Target) -> int:
    """Rows to compute together: elements of a vector of what is reduced, of the widest."""
    kinds = [st.op.body[0].dtype for st in stages if st.op.reduce_axis]
    return min(TOGETHER, *(target.vector_lanes(k) for k in kinds))


def _many(row: IterVar, lanes: int) -> bool:
    return typical(row.extent, OPEN) >= lanes > 1


def _may_be_short(axes: Sequence[IterVar], target: Target, stages: Sequence[Stage]) -> bool:
    """Whether there are several elements, and less than a vector, or nobody knows how many along one axis."""
    known = math.prod(size(a) or 1 for a in axes)
    unknown = sum(size(a) is None for a in axes)
    lanes = _lanes(stages, target)
    return 2 <= known < lanes if not unknown else unknown == 1 and known <= _most_open(lanes, target) // 2


def _short(axes: Sequence[IterVar], target: Target, stages: Sequence[Stage]) -> bool:
    """Whether axes that may be short are: where nobody knows, a call tells how many elements there are."""
    most = _most_open(_lanes(stages, target), target) // math.prod(size(a) or 1 for a in axes)
    return all(size(a) is not None or at_most(a.extent, most) for a in axes)


def _most_open(lanes: int, target: Target) -> int:
    return min(OPEN_ROW_MASKED, lanes // 2) if target.has_masks else min(OPEN_ROW, lanes - 1)


def _near(tensor: Tensor, at: Sequence[Expr], row: IterVar, axes: Sequence[IterVar]) -> bool:
    """Whether neighbouring rows, of elements along ``axes``, are neighbours in memory where a read moves with
    them, or elements of one are, wherever in a row data tell to read."""
    moved = [d for d, i in enumerate(at) if step(i, row) != 0 and not told_by_data([i])]
    if not moved:
        return True
    apart = step(at[moved[0]], row)
    if len(moved) > 1 or apart is None or apart < 1:
        return False
    behind = [
        constant(n) or (OPEN_ROW if any(n is a.extent for a in axes) else TOGETHER)
        for n in tensor.shape[moved[0] + 1 :]
    ]
    return apart * math.prod(behind) < TOGETHER and (apart == 1 or not behind)
