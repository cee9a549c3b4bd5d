"""Operators along an axis before the last one: softmax over channels, norms of pixels, and whatever else is
made of reductions over one axis and of elements that read them. All stages of a slab, some columns in the
lanes of vectors and the whole axis, are computed in one loop, so that what it reads is fetched once and stays
near until its result is written. Uses public primitives only.

Measured (Zen 4, one thread and two; stages one after the other take 1): softmax of 20 × 703 × 5 × 4 0.31 and
0.32, 6 × 10,700 × 3 along the first 0.45 and 0.36, 16 × 100 × 49 0.71 and 0.55, 30 × 9 × 7 × 7 0.69 and 0.47,
7 × 33 × 56 × 56 0.83 and 0.79, 1 × 19 × 512 × 512 0.87 and 0.81; log softmax 0.75 and 0.7. With AVX2 0.76 to
1.03 and 0.42 to 1.0. Of less than a vector, with rows side by side, 95 × 170 × 5 0.34 and 0.37 of vectors of
a row, with AVX2 0.34, 64 × 100 × 3 0.21 and 0.25, 200 × 33 × 2 0.4; in a vector that is masked 30 × 200 × 15
0.45 and 0.5. Slabs that stay in no near cache, as of 2000 × 3000, take 1.5 times as long.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..analysis import cost_of, reads_of, reduces_columns, typical
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import ComputeOp, Expr, IterVar
from . import few_columns
from .common import in_registers, plain_work, same, size
from .lanes import VECTORS
from .register_tile import even
from .rows import behind

# what it takes to add up a row of those side by side, of a power of two and of others, as a part of what a
# vector of a softmax takes
ADDED, ADDED_MASKED = 0.4, 1.1
UNITS = 4  # slabs for each thread, at least


@dataclass(frozen=True)
class Slabs:
    """The stages of slabs, the last one left out, readers first. Of the dimensions of the result ``axis`` is
    the one that is reduced; ``width`` columns behind it are a slab."""

    members: tuple[Stage, ...]
    axis: int
    width: int


def slabs_of(s: Schedule, out: Stage, target: Target) -> Slabs | None:
    """The stages that ``out`` is made of slab by slab; None when no reduction over an axis before the last
    one is read by it alone, or where a slab does not stay near, or there are too few for all threads."""
    dims = len(out.op.axis)
    if out.op.reduce_axis or dims < 2:
        return None
    first = next((st for st in behind(s, out, lambda st: True, _reduction) if st.op.reduce_axis), None)
    axis = None if first is None else _reduced(first.op)
    if first is None or axis is None or len(first.op.axis) != dims - 1:
        return None
    extents = [a.extent for a in out.op.axis]

    def in_slabs(st: Stage) -> bool:
        op = st.op
        own = extents if len(op.axis) == dims else [*extents[:axis], *extents[axis + 1 :]]
        return (
            same([a.extent for a in op.axis], own)
            and (not op.reduce_axis or (_reduced(op) == axis and op.reduce_axis[0].extent is extents[axis]))
            and all(_in_place(r.compute, st, axis) for r in s.state.readers(st.name))
        )

    members = tuple(behind(s, out, in_slabs, _reduction))
    if not any(st.op.reduce_axis for st in members):
        return None
    width = _width(out, axis, target)
    return None if width is None else Slabs(members, axis, width)


def _reduction(stage: Stage) -> bool:
    return reduces_columns(stage.op) and _reduced(stage.op) is not None


def _reduced(op: ComputeOp) -> int | None:
    """The dimension over which a stage reduces what it reads at its own place; None for any other."""
    if len(op.reduce_axis) != 1:
        return None
    k, own = op.reduce_axis[0].var, [a.var for a in op.axis]
    found = set[int]()
    for _, at in reads_of(op).plain:
        places = [d for d, i in enumerate(at) if i is k]
        if len(places) == 1 and same([i for i in at if i is not k], own):
            found.update(places)
    return found.pop() if len(found) == 1 else None


def _in_place(reader: ComputeOp, st: Stage, axis: int) -> bool:
    """Whether ``reader`` reads a stage at its own place and nowhere else."""
    own: list[Expr] = [a.var for a in reader.axis]
    if reader.reduce_axis:
        own.insert(axis, reader.reduce_axis[0].var)
    if len(own) > len(st.op.axis):
        del own[axis]  # one element of each line along the axis
    read = [at for t, at in reads_of(reader).plain if t in st.op.outputs]
    return bool(read) and all(same(at, own) for at in read)


def _together(out: Stage, axis: int) -> int:
    """How many of the last axes are the columns: all behind ``axis``, which are one stretch of memory in each
    stage, where their sizes are known."""
    behind = out.op.axis[axis + 1 :]
    return 1 if any(size(a) is None for a in behind) else len(behind)


def _width(out: Stage, axis: int, target: Target) -> int | None:
    """How many columns are a slab: as many as the first cache holds, for stages of few elements wait for each
    other, and a few slabs are there for each thread."""
    op, last = out.op, _together(out, axis)
    n, lanes = size(op.axis[axis]), target.vector_lanes(op.body[0].dtype)
    columns = math.prod(size(a) or 0 for a in op.axis[-last:])
    if n is None or n < 2 or columns < 2:
        return None
    line = n * op.body[0].dtype.bytes  # of one column
    near = target.l1_bytes // line
    # whole lines are read from one end to the other, and may come from the second cache; what is kept of
    # those that end within a vector has gaps
    gaps = -columns % lanes
    most = 3 * target.l1_bytes if gaps else target.l2_bytes // 4
    few = columns <= 2 * lanes and (columns + gaps) * line <= most
    if near < 2 * lanes and not few:
        return None
    half = near // 2  # the other half is what is read
    if columns % lanes and columns > near and not target.has_masks:
        return None  # the rest of a row would be a slab of elements one by one
    if columns <= max(half, 2 * lanes) or (columns <= near and columns % lanes):
        width = columns
    else:
        width = even(-(-columns // lanes), max(2, half // lanes)) * lanes
    lines = math.prod(typical(a.extent, 64) for d, a in enumerate(op.axis[:-last]) if d != axis)
    units = UNITS * target.num_cores
    while lines * -(-columns // width) < units and width >= 4 * lanes:
        width = -(-width // (2 * lanes)) * lanes
    return None if lines * -(-columns // width) < units else width


def slab_by_slab(s: Schedule, out: Stage, slabs: Slabs, target: Target) -> set[str]:
    """Schedule the stages of ``slabs`` in one loop of ``out``. The names of the stages that are done."""
    lanes, last = target.vector_lanes(out.op.body[0].dtype), _together(out, slabs.axis)
    work = max(plain_work(st) for st in (out, *slabs.members))
    axes = list(out.op.axis)
    if last > 1:
        sizes = [a.extent for a in axes[-last:]]

        def one_after_the_other(*at: Expr) -> list[Expr]:
            column = at[-last]
            for n, i in zip(sizes[1:], at[len(at) - last + 1 :], strict=True):
                column = column * n + i
            return [*at[:-last], column]

        for st in slabs.members:
            st.transform_layout(one_after_the_other)
        axes[-last:] = [out.fuse(*axes[-last:])]
    k, columns = axes.pop(slabs.axis), axes.pop()
    block, inside = out.split(columns, slabs.width)
    places = [*axes, block]
    out.reorder(*places, k, inside)
    place = out.fuse(*places) if len(places) > 1 else places[0]
    if cost_of(target).shared(work):
        out.parallel(place)
    for st in slabs.members:
        st.compute_at(out, place)
    # what is reduced has a stage of partial results more, and is scheduled last
    rows = _rows(k, slabs.width, lanes, target)
    for st in sorted((out, *slabs.members), key=lambda st: bool(st.op.reduce_axis)):
        column = inside if st is out else st.op.axis[-1]
        if rows is None:
            _vectors(st, column, slabs.width, lanes, target)
        elif st.op.reduce_axis:
            few_columns.side_by_side(s, st, st.op.reduce_axis[0], rows)
            st.unroll(st.op.reduce_axis[0])  # of what is side by side
            if target.has_masks:
                st.pragma(st.op.axis[-1], "whole_vectors", lanes)
        elif len(st.op.axis) == len(out.op.axis) - last + 1:
            _, some = st.split(k if st is out else st.op.axis[slabs.axis], rows, tail="shift")
            st.reorder(some, column)
            st.vectorize(st.fuse(some, column))
        else:
            st.vectorize(column)
        if st is not out:
            in_registers(s, st)
    return {out.name, *(st.name for st in slabs.members)}


def _rows(k: IterVar, width: int, lanes: int, target: Target) -> int | None:
    """How many rows of a slab of less than a vector are side by side in vectors; None for wider ones, and
    where rows are too few: to add up what is side by side takes as long as some vectors that are masked.

    Measured (Zen 4, one thread), 4640 of 20 × 3, 20 × 5, 24 × 7 and 16 × 10 would take 1.2, 1.55, 1.4 and 1.2
    times as long; 40 × 3, 40 × 7 and 40 × 10 take 0.5, 0.97 and 0.6 of the time, 1000 of 16 × 2 0.5.
    """
    rows, n = few_columns.in_vectors(width, lanes), size(k) or 0
    if rows is None or n < rows:
        return None
    each = ADDED if width & (width - 1) == 0 else ADDED_MASKED
    vectors = -(-n // rows) * rows * width // lanes
    return rows if not target.has_masks or vectors + rows * each < n else None


def _vectors(stage: Stage, columns: IterVar, width: int, lanes: int, target: Target) -> None:
    """Vectors of the columns, in registers from one end of a reduced axis to the other."""
    together = min(width, even(-(-width // lanes), VECTORS) * lanes)
    if stage.op.reduce_axis:
        strip, some = stage.split(columns, together)
        block, lane = stage.split(some, min(lanes, width))
        stage.reorder(strip, *stage.op.reduce_axis, block, lane)
        stage.unroll(block)
    elif width % lanes == 0:
        _, lane = stage.split(columns, together if width % together == 0 else lanes)
    else:
        block, lane = stage.split(columns, min(lanes, width))
        if width <= together:
            stage.unroll(block)  # the mask of the last one is a constant
    stage.vectorize(lane)
    if width < lanes and target.has_masks:
        stage.pragma(lane, "whole_vectors", lanes)
