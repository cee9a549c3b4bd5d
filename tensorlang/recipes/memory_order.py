"""Reductions whose results are declared in another order than the elements they read lie in, as sums over the
first axis of a tensor whose other axes change places: neighbouring results read elements far apart, and each
is a sum in scalar code, or rows along memory are read here and there. The results are computed in the order
of memory, by whatever recipe knows such a reduction, and copied, transposed in tiles of registers. And
reductions whose axes are named in another order than that of memory. Uses public primitives only.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from ..analysis import contraction_of, digits_of, read_order, reads_of, step, typical
from ..schedule import Schedule, Stage
from ..te import ComputeOp, Expr, IterVar
from .across import AGAIN
from .common import same, size


def lie_across(op: ComputeOp) -> bool:
    """Whether neighbours in memory are results that are not neighbours, not elements of one sum."""
    order = _of_another_order(op)
    if order is None:
        return False
    last = next(op.axis[d] for d in reversed(order) if size(op.axis[d]) != 1)
    return all(step(at[-1], last) != 0 for _, at in reads_of(op).plain if len(at) >= len(op.axis))


def in_memory_order(s: Schedule, stage: Stage, fused: bool) -> tuple[Stage, list[Stage]] | None:
    """Let a reduction compute its results in the order in which it reads. The reduction, and the copies that
    are to be scheduled; None, and nothing is changed, where it stays as it is. A ``fused`` one is read by one
    stage, which is scheduled after it.

    Measured (Zen 4, two threads): sums over the first axis of 64 × 512 × 512 take 0.04 of the time, over the
    second of 256 × 64 × 256 0.03, over the third of 16 × 32 × 56 × 56 0.08; where the largest of 64 stand and
    what they are, of 256 × 256 with a reducer of the user's, 0.04. (Zen 5, one thread): over the first of
    64 × 3000 × 3 0.11, the largest of 30 × 1000 × 2 0.08, of bytes 0.02; along the last of 200 × 300 × 4
    0.37, of 1000 × 1000 × 20 0.24.
    """
    order = _of_another_order(stage.op)
    if order is None:
        return None
    if not fused and not s.can("cache_write", stage.name, "global"):
        return None
    inside = stage if fused else s[s.cache_write(stage.name, "global")]
    inside.transform_layout(lambda *at: [at[d] for d in order])
    return inside, [] if fused else [stage]


def _of_another_order(op: ComputeOp) -> list[int] | None:
    """The order in which a reduction reads where its last axis is another than that of its result, those of
    one element aside."""
    order = read_order(op) or ()
    several = [d for d in order if size(op.axis[d]) != 1]
    return list(order) if several and several[-1] != max(several) else None


def counts_several(stage: Stage) -> bool:
    """Whether the last axis of a reduction counts what lies along several dimensions, and it can have an axis
    for each. Along another last axis there are vectors anyway: correlations of 32 channels of 48 × 64 would
    take 1.29 of the time."""
    op, s = stage.op, stage.schedule
    if not op.reduce_axis or not op.axis or op.axis[-1] not in digits_of(op):
        return False
    return not stage.state.is_output or bool(s.can("cache_write", stage.name, "global"))


def tell_apart(s: Schedule, stage: Stage) -> None:
    """Let a reduction have an axis for each dimension that one of its axes counts, as where the pixels of an
    image are one axis: recipes know those.

    Measured (Zen 5, float32): 48 to 64 channels of 28 × 28, 3×3, whose pixels are one axis, 0.02 of the time,
    all elements of a product of 192 × 192 × 192 as one axis 0.05."""
    digits = digits_of(stage.op)
    inside = s[s.cache_write(stage.name, "global")] if stage.state.is_output else stage
    worth = {d: ws for d, a in enumerate(stage.op.axis) if (ws := digits.get(a))}

    def layout(*at: Any) -> list[Any]:
        found = list[Any]()
        for d, i in enumerate(at):
            ws = [*worth.get(d, ()), 1]
            found.append(i // ws[0] if len(ws) > 1 else i)
            found += [i // low % (high // low) for high, low in itertools.pairwise(ws)]
        return found

    inside.transform_layout(layout)


def reduce_in_memory_order(s: Schedule, stage: Stage) -> None:
    """Let a reduction go over its axes in the order in which they lie in the largest tensor that it reads
    along all of them, where they are named in an order in which they lie in none: recipes take the last one
    for that along memory.

    Measured (Zen 5, float32): the sum of all of 60 × 50 × 40, named from the last to the first, 0.04 of the
    time, the largest 0.02, products of a matrix and a vector of 20 × 30 elements 0.05.
    """
    axes = stage.op.reduce_axis
    if len(axes) < 2 or not s.can("reorder_reduction", stage.name, *axes):
        return
    orders = list[tuple[int, list[IterVar]]]()
    for tensor, at in reads_of(stage.op).plain:
        places = [_place(at, a) for a in axes]
        if None not in places and len(set(places)) == len(axes):
            by_place = dict(zip(places, axes, strict=True))
            found = [by_place[k] for k in sorted(by_place)]  # type: ignore[type-var]
            orders.append((math.prod(typical(n, 64) for n in tensor.shape), found))
    if not orders:
        return
    (large, order), named = max(orders, key=lambda o: o[0]), [n for n, o in orders if same(axes, o)]
    if not named or (_of_a_vector(stage) and large >= AGAIN * max(named)):
        stage.reorder_reduction(*order)


def _of_a_vector(stage: Stage) -> bool:
    """Whether a tensor times another one, which has no axes of the result of its own, is summed: a copy of
    that in the order of the larger one is read again and again.

    Measured (Zen 5): 60 × 30 elements of each of 33 vectors times 40 matrices, in the other order, 0.3 of the
    time."""
    c = contraction_of(stage.op) if isinstance(stage.op, ComputeOp) else None
    return c is not None and not all(own for _, _, own in c.sides)


def _place(at: Sequence[Expr], axis: IterVar) -> tuple[int, int] | None:
    """The dimension that moves with an axis, and by how little in one iteration; None where it is not one, or
    not always by as much."""
    steps = [(d, step(i, axis)) for d, i in enumerate(at)]
    moved = [(d, n) for d, n in steps if n != 0]
    if len(moved) != 1 or moved[0][1] is None:
        return None
    return moved[0][0], -abs(moved[0][1])
