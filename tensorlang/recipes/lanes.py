"""Reductions that run along memory: partial results in vector lanes, combined at the end; a few long rows are
first divided among the threads. How wide elementwise loops are. Uses public primitives only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..analysis import cost_of, has_calls, made_of_place, moves_pieces, reads_of, reducer_kind, step, typical
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import ComputeOp, IterVar
from .common import FEW_REGISTERS, in_registers, share_out, size, work
from .nests import Axes, nest, sums

VECTORS = 4  # side by side: as many chains of operations, of which each waits for the one before
# iterations of a short row that leaves a rest, which are written out: the masks of the last one are constants
# then, and not computed in each. Measured (Emerald Rapids) with the ends of elementwise loops apart: softmax
# of rows of 197 takes 0.83 of the time, of 321 0.78, of 100 0.85
MOST_WRITTEN_OUT = 8
# elements of a row from which on a masked vector of them is added up. Measured (Emerald Rapids), rows of 9
# and 12 floats: sums take a third of the time, softmax 0.7 and 0.6
FEWEST = 8


def reduce_in_lanes(s: Schedule, stage: Stage, target: Target) -> bool:
    """Partial results in vector lanes, for a reduction whose innermost axis runs along memory. Whether it was
    done."""
    op = stage.op
    last = op.reduce_axis[-1]
    if reducer_kind(op) in (None, "custom") or not reads_of(op).along(last):
        return False
    together = one_stretch(op, op.reduce_axis)
    least = target.vector_lanes(op.body[0].dtype)
    lanes = least * VECTORS
    n = elements_of(together)
    if not together and size(last) is None:
        lanes = least  # a window, which is short
    if len(together) < 2 or (n is not None and n < 2 * least):
        together, n = [last], size(last)
    if n is not None and 1 < n <= lanes and len(op.reduce_axis) > len(together) == 1:
        inner = last  # short rows: a lane for each place, and no masks
    else:
        while n is not None and lanes > least and n < 2 * lanes:
            lanes //= 2
        if n is not None and n < lanes:
            return _all_lanes(s, stage, n, lanes, target)
        _, inner = stage.split(stage.fuse(*together) if len(together) > 1 else last, lanes)
    if not s.can("rfactor", stage.name, inner):
        return True
    partial = s[s.rfactor(stage.name, inner)]
    axes = list(stage.op.axis)
    root = stage.state.attach is None
    if root and len(axes) > 1:
        axes = [stage.fuse(*axes)]
    partial.reorder(*partial.op.axis[1:], *partial.op.reduce_axis, partial.op.axis[0])
    partial.vectorize(partial.op.axis[0])
    if n is not None and lanes < n <= MOST_WRITTEN_OUT * lanes and n % lanes:
        partial.unroll(partial.op.reduce_axis[-1])
    if axes:
        partial.compute_at(stage, axes[-1])
        partial.set_scope("local")
    combined = stage.op.reduce_axis[0]
    stage.vectorize(combined)
    if axes and root:
        share_out(stage, axes, work(partial), target)
    return True


def _all_lanes(s: Schedule, stage: Stage, n: int, lanes: int, target: Target) -> bool:
    """A row that is less than a vector, in one that is masked and added up. Whether it was done: not for one
    that fills less than half of it."""
    op = stage.op
    last = op.reduce_axis[-1]
    if n < max(FEWEST, lanes // 2) or len(op.reduce_axis) > 1 or not s.can("vectorize", stage.name, last):
        return False
    stage.vectorize(last)
    if op.axis and stage.state.attach is None:
        axes = list(op.axis)
        share_out(stage, [stage.fuse(*axes)] if len(axes) > 1 else axes, work(stage), target)
    return True


def elements_of(axes: Sequence[IterVar]) -> int | None:
    """The number of elements of all these axes, None when it is symbolic."""
    sizes = [size(a) for a in axes]
    return None if None in sizes else math.prod(n for n in sizes if n is not None)


def one_stretch(op: ComputeOp, axes: Sequence[IterVar]) -> list[IterVar]:
    """The last of ``axes``, as many as every read that moves with them takes for one stretch of memory: whole
    dimensions, one after the other. Longer rows have fewer rests."""
    found = list[IterVar]()
    reads = [r for r in reads_of(op).plain if any(step(i, a) != 0 for i in r[1] for a in axes)]
    for at in range(1, len(axes) + 1):
        axis = axes[-at]
        if not all(
            len(index) >= at and index[-at] is axis.var and tensor.shape[-at] is axis.extent
            for tensor, index in reads
        ):
            break
        found.insert(0, axis)
    return found


def stretch_of(stage: Stage, target: Target) -> list[IterVar]:
    """The last axes of an elementwise stage that are one stretch of memory in all it reads and writes, where
    the last one is of an open size, or leaves a rest: it may be short, and all together fill more vectors.
    None where a value is made of the place. Measured (Granite Rapids): relu of rows of 301 and of 1013 takes
    0.65 of the time."""
    op = stage.op
    n = size(op.axis[-1]) if op.axis else 1
    if (n is not None and n % target.vector_lanes(op.body[0].dtype) == 0) or made_of_place(op):
        return []
    return one_stretch(op, op.axis) if op.axis else []


def lanes_of(depth: int | None, lanes: int) -> int:
    """Of how many lanes the sums along memory of that many elements are: half of a vector's where no rest is
    left then."""
    return lanes // 2 if depth is not None and depth % lanes and depth % (lanes // 2) == 0 else lanes


def sums_in_lanes(s: Schedule, inside: Stage, out: Stage, place: IterVar, keep: Axes, lanes: int) -> Stage:
    """Compute the product ``inside``, whose last reduced axis runs along memory in both operands, in
    ``place`` of ``out``: each sum in the lanes of a register of its own, which are added up at the end.
    ``keep`` are its axes: ``b`` outside of the tile, ``i`` and ``j`` in it. Gives the stage of partial
    sums."""
    inside.compute_at(out, place)
    _, lane = inside.split(inside.op.reduce_axis[-1], lanes)
    partial = s[s.rfactor(inside.name, lane)]
    partial.transform_layout(lambda at, *rest: [*rest, at])  # the lanes of a sum lie side by side
    own = dict(zip(inside.op.axis, partial.op.axis, strict=False))
    loops = {name: [own[a] for a in ([at] if isinstance(at, IterVar) else at)] for name, at in keep.items()}
    sums(
        s,
        partial,
        out,
        place,
        {**loops, "k": list(partial.op.reduce_axis), "l": partial.op.axis[-1]},
        "b k | i j l",
    )
    in_registers(s, inside)
    nest(inside, {**keep, "l": list(inside.op.reduce_axis)}, "b | i j l")
    return partial


def vector_width(stage: Stage, n: int | None, target: Target, *, long: bool = False) -> int:
    """Elements to compute at once of ``n`` that lie side by side: a vector, or several when an element takes
    a long chain of operations, or is copied from one of several pieces of memory. An open number of them is
    ``long`` where it is that of a whole tensor."""
    lanes = target.vector_lanes(stage.op.body[0].dtype)
    if n is None:
        return VECTORS * lanes if long and has_calls(stage.op) else lanes
    if n <= VECTORS * lanes:
        return n  # a whole row: narrower vectors at its end are cheaper than a masked one
    # a loop of one load and one store asks for the next piece later. Measured (Zen 3): rows that are gathered
    # 1.2 to 1.7, tensors that are joined 1.1 to 1.9 times as fast; copies of whole tensors are not
    pieces = target.vector_registers <= FEW_REGISTERS and moves_pieces(stage.op)
    if pieces or has_calls(stage.op):
        for v in (VECTORS, VECTORS // 2):
            if n % (v * lanes) == 0 or n >= 8 * v * lanes:
                return v * lanes
    return min(lanes, n)


def share_reduction(s: Schedule, stage: Stage, target: Target) -> Stage | None:
    """For a reduction to fewer elements than there are threads: the stage of partial results, one of each for
    a thread. None, and nothing done, for any other."""
    op, cores = stage.op, target.num_cores
    rows = 1
    for a in op.axis:
        rows *= typical(a.extent, 64)
    if (
        cores == 1
        or rows >= cores
        or not cost_of(target).shared(work(stage) // 2)
        or reducer_kind(op) in (None, "custom")
    ):
        return None
    longest = max(op.reduce_axis, key=lambda a: typical(a.extent, 64))
    group, _ = stage.split(longest, nparts=cores)
    return s[s.rfactor(stage.name, group)]
