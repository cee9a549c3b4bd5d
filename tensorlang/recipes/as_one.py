"""Axes that are counted as one: those that are one stretch of memory, and those of a product, for which loops
of what it is computed in are fused, so that a register tile has rows of several lines. Knows products and
stages; no tiles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..analysis import constant, joins, made_of_place, product_of, reads_of, step, told_by_ends
from ..schedule import Stage
from ..target import Target
from ..te import ComputeOp, IterVar, Tensor, TensorRead
from .common import size
from .pixels import counted

# pixels of a line that is counted on to the next one; with longer ones there are rows enough for tiles, and
# quotients to compute. Measured (Zen 4): 50 × 50 × 32 × 64 1.07 of the time
SHORT_LINES = 32
LONG_PARTS = 8  # vectors of each tensor that is joined, from which on they are copied as one stretch


def rows_counted(inside: Stage, out: Stage) -> list[IterVar]:
    """The loops of ``out`` for the axes of a product, those of its rows as one where they are the pixels of
    an image, of short lines: a tile has rows of several lines, and the right operand is read once for all of
    them. Measured (Zen 4, one thread and two): an open batch of 7 × 7 × 512 × 2048 0.43 and 0.39 of the
    time, 7 × 7 × 2048 × 512 0.42, 14 × 14 × 1024 × 256 0.99 and 0.94, 28 × 28 × 128 × 512 1.00.
    """
    product, loops = product_of(inside.op), as_counted(out, inside)
    if product is None or product.row is None:
        return loops
    # what is read at quotients is known as rows where an element of one is read for each index of the sum
    *more, last = inside.op.reduce_axis
    if more or product.left_axes[last] < len(product.left.shape) - 1:
        return loops
    rows = [a for a in inside.op.axis if a in product.left_axes and a not in product.right_axes]
    at = {a: (d, product.left_axes.get(a, 0)) for d, a in enumerate(inside.op.axis)}
    run: list[IterVar] = []
    for a in reversed(rows):
        beside = not run or all(m + 1 == n for m, n in zip(at[a], at[run[0]], strict=True))
        if not beside or size(a) in (None, 0, 1) or product.left.shape[at[a][1]] is not a.extent:
            break
        run.insert(0, a)
    if len(run) < 2 or (size(run[-1]) or 0) >= SHORT_LINES:
        return loops
    first = inside.op.axis.index(run[0])
    behind, sizes = first + len(run), [size(a) or 1 for a in run]
    inside.transform_layout(where_they_are(len(inside.op.axis), [(range(first, behind), sizes)]))
    return [*loops[:first], out.fuse(*loops[first:behind]), *loops[behind:]]


def where_they_are(
    dims: int, together: Sequence[tuple[Sequence[int], Sequence[int]]]
) -> Callable[..., list[Any]]:
    """Neighbouring dimensions as one, in their place, and others as they are."""
    groups = {ds[0]: (ds, sizes) for ds, sizes in together if ds}
    inner = {d for ds, _ in together for d in ds[1:]}

    def layout(*at: Any) -> list[Any]:
        found = list[Any]()
        for d in range(dims):
            if d in groups:
                found += counted([at[k] for k in groups[d][0]], groups[d][1])
            elif d not in inner:
                found.append(at[d])
        return found

    return layout


def as_counted(out: Stage, inside: Stage) -> list[IterVar]:
    """The loops of ``out`` for the axes of ``inside``, which has the same elements in the same order: those
    that it counts as one are fused."""
    loops, axes = list[IterVar](), list(out.op.axis)
    if len(axes) == len(inside.op.axis):
        return axes
    for a in inside.op.axis:
        run = [axes.pop(0)]
        while math.prod(size(b) or 1 for b in run) < (size(a) or 1):
            run.append(axes.pop(0))
        loops.append(run[0] if len(run) == 1 else out.fuse(*run))
    return loops


def elements_of(axes: Sequence[IterVar]) -> int | None:
    """The number of elements of all these axes, None when it is symbolic."""
    sizes = [size(a) for a in axes]
    return None if None in sizes else math.prod(n for n in sizes if n is not None)


def one_stretch(op: ComputeOp, axes: Sequence[IterVar]) -> list[IterVar]:
    """The last of ``axes``, as many as every read that moves with them takes for one stretch of memory: whole
    dimensions, one after the other. Longer rows have fewer rests."""
    found = list[IterVar]()
    if not axes:
        return found
    # dimensions of one element behind the others are no part of it
    reads = [(t.shape[:n], at[:n]) for t, at in reads_of(op).plain for n in [_last_of_several(t) + 1]]
    moving = [r for r in reads if any(step(i, axes[-1]) != 0 for i in r[1])]
    for at in range(1, len(axes) + 1):
        axis = axes[-at]
        # what a read that moves with none of them gives is the same in all of the stretch
        more = any(step(i, axis) != 0 for r in reads if all(r is not m for m in moving) for i in r[1])
        if (
            more
            or not moving
            or not all(
                len(index) >= at and index[-at] is axis.var and shape[-at] is axis.extent
                for shape, index in moving
            )
        ):
            break
        found.insert(0, axis)
    return found


def _last_of_several(t: Tensor) -> int:
    """The last dimension of more than one element."""
    return next((d for d in range(t.ndim - 1, -1, -1) if constant(t.shape[d]) != 1), t.ndim - 1)


def stretch_of(stage: Stage, target: Target) -> list[IterVar]:
    """The last axes of an elementwise stage that are one stretch of memory in all it reads and writes, where
    the last one is of an open size, or leaves a rest: it may be short, and all together fill more vectors.
    None that a value is made of, as of the channel in images that are joined, unless those behind it are not
    even a vector, or all are copied in long runs. Measured (Granite Rapids): relu of rows of 301 and of 1013
    takes 0.65 of the time; (Zen 4, 18 drawn joins) of rows of 2 to 4 0.43, of 6 to 13 0.83; (Zen 5, one
    thread) 27 lines of 7650 floats joined 0.82, 450 of 50 × 51 doubles of open sizes 0.37."""
    op, lanes = stage.op, target.vector_lanes(stage.op.body[0].dtype)
    n = size(op.axis[-1]) if op.axis else 1
    whole = n is not None and n % lanes == 0
    placed = made_of_place(op)
    last = next((d for d in range(len(op.axis), 0, -1) if op.axis[d - 1].var in placed), 0)
    moved = target.moves_runs and all(type(e) is TensorRead for e in op.body)
    if whole and not last and not moved:
        return []
    found = one_stretch(op, op.axis[last:])
    if moved and found and len(found) < len(op.axis):
        axis = op.axis[-1 - len(found)]  # some of the lines of a tensor are one stretch, too
        if _joined(op, axis, len(found)) and _moves_with(op, axis, found):
            found = [axis, *found]
    if last and len(found) == len(op.axis) - last and _joined(op, op.axis[last - 1], len(found)):
        each, joined = elements_of(found), op.axis[last - 1]
        if each is None:
            alone = _cut_at_ends(op, joined, found)
        else:
            long = each * (size(joined) or 0) >= LONG_PARTS * lanes * len(op.input_tensors)
            runs = target.moves_runs and long and joins(op) and _cut_at_ends(op, joined, found)
            alone = (each < lanes and not whole) or runs
        if alone:
            return [joined, *found]
    return [] if whole and not moved else found


def is_run(stage: Stage, together: Sequence[IterVar], target: Target) -> bool:
    """Whether all of a stage is one stretch that is copied as it lies: a loop of vectors of nothing else is
    what code for runs of memory knows."""
    op = stage.op
    if not target.moves_runs:
        return False
    return len(together) == len(op.axis) > 1 and (joins(op) or all(type(e) is TensorRead for e in op.body))


def _joined(op: ComputeOp, axis: IterVar, behind: int) -> bool:
    """Whether every read that moves with ``axis``, which has so many axes ``behind`` it, does so in the same
    dimension, one element at a time from wherever its tensor begins."""
    return all(
        len(index) > behind
        and step(index[-1 - behind], axis) == 1
        and all(step(i, axis) == 0 for d, i in enumerate(index) if d != len(index) - 1 - behind)
        for _, index in reads_of(op).plain
        if any(step(i, axis) != 0 for i in index)
    )


def _cut_at_ends(op: ComputeOp, axis: IterVar, behind: Sequence[IterVar]) -> bool:
    """Whether all that moves with the axes ``behind`` moves with ``axis`` too, of which a value is made by
    what ends of parts tell."""
    return told_by_ends(op, axis) and _moves_with(op, axis, behind)


def _moves_with(op: ComputeOp, axis: IterVar, behind: Sequence[IterVar]) -> bool:
    """Whether all that moves with the axes ``behind`` moves with ``axis`` too."""
    return all(
        any(step(i, axis) != 0 for i in index)
        for _, index in reads_of(op).plain
        if any(step(i, a) != 0 for i in index for a in behind)
    )


def summed_along(op: ComputeOp) -> list[IterVar]:
    """The last axes of a sum of products along memory, those that are one stretch of known length.

    Measured (Zen 5, one thread): 632 products of two vectors of 34 × 6 0.26 of the time, of 500 of 5 × 7 × 3
    0.24; 33 × 40 of 34 × 6 0.75."""
    along = one_stretch(op, op.reduce_axis)
    return along if along and elements_of(along) is not None else [op.reduce_axis[-1]]
