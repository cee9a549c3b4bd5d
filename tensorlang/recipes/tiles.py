"""Reductions that no family knows, in plain register tiles: rows × vectors of results with the reduction
around them, or one result at a time in vectors along memory, whichever the reads allow. Uses public
primitives only.
"""

from __future__ import annotations

import math
from itertools import product

from ..analysis import (
    SIDE,
    Reads,
    cost_of,
    made_of_place,
    phases_of,
    reads_of,
    reduces_rows,
    slides,
    step,
    typical,
)
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import ComputeOp, IterVar
from . import across, whole_rows
from .as_one import elements_of
from .common import FEW_REGISTERS, in_registers, share_out, size, work
from .lanes import reduce_in_lanes
from .register_tile import even

ALONE = 8  # vectors of a tile that has no rows, at most
MOST_STRIDE = 4  # between elements that a vector reads
ALONG_MEMORY = "a reduction along memory: partial results in vector lanes, one element at a time"
NO_VECTORS = (
    "one element at a time, in scalar loops: neither what is reduced nor what is given are neighbours in "
    "memory, or there are too few"
)
# along the rows of a tile that are written out, with many registers and with few, which do not hold the rows
# of 5 and more. Measured (AVX2 on Zen 4): 5 × 5 0.8 to 1.1 of the time, 9 × 9 0.93 to 1.5
TAPS, FEW_TAPS = 16, 3
# of a window without weights that pay for tiles of several long rows. Measured (Zen 4, one thread), sums of
# rows of 690: of 11 0.57, of 3 1.2 to 1.3
FAR_TAPS = 5
FEW_WRITTEN = 25  # taps of all axes that are written out
FEW = 5  # neighbouring results that no vector is made of where their sums are long
SHORT = 7  # elements along memory that are reduced one by one: a vector of them would be mostly empty


def in_sums(inside: Stage) -> bool:
    """Whether vectors are of what is reduced, one sum at a time, and not of neighbouring results."""
    last = inside.op.axis[-1]
    return not _vectors_along(inside, last) or size(last) == 1 or _along_rows(inside) or _few_of_long(inside)


def _vectors_along(inside: Stage, last: IterVar) -> bool:
    """Whether vectors along ``last`` read neighbours, or every second to fourth element, as windows of a
    stride do: an image's pixels, read again for each of many outputs, are worth the shuffles."""
    for _, at in reads_of(inside.op).plain:
        if (
            at
            and step(at[-1], last) in range(1, MOST_STRIDE + 1)
            and all(step(i, last) == 0 for i in at[:-1])
        ):
            return True
    return _of_place(inside.op, last)


def _of_place(op: ComputeOp, last: IterVar) -> bool:
    """Whether neighbours read the same, and what is computed of that depends on their own place, as the
    distances of the points of a grid from given ones do; of long sums along memory there are vectors anyway.

    Measured (Zen 4, one thread): distances of 200 × 300 points from 10 take 0.10 of the time, 64 × 96 sums of
    40 bells 0.12, 1000 sums of 50 sines 0.8; 64 sums of 5000 would take twice as long.
    """
    reads, reduced = reads_of(op), op.reduce_axis[-1]
    if last.var not in made_of_place(op) or any(step(i, last) != 0 for _, at in reads.plain for i in at):
        return False
    n, long = size(last), elements_of(op.reduce_axis)
    return not reads.along(reduced) or (n is not None and long is not None and long <= n)


def _along_rows(inside: Stage) -> bool:
    """Whether it is reduced along memory, and not of so little that vectors of it are short."""
    sizes = [size(a) for a in inside.op.reduce_axis]
    short = all(n is not None and n <= SHORT for n in sizes)
    return reduces_rows(inside.op) and not short and not _slides(inside)


def _few_of_long(inside: Stage) -> bool:
    """Whether neighbouring results are so few that a vector of them would be mostly empty, and each is a sum
    of rows that lie along memory, as gradients of the weights of a depthwise convolution are."""
    n, reduced = size(inside.op.axis[-1]), inside.op.reduce_axis[-1]
    long = size(reduced)
    return (
        n is not None
        and n <= FEW
        and (long is None or long > 2 * SHORT)
        and reads_of(inside.op).along(reduced)
    )


def _slides(inside: Stage) -> bool:
    """Whether it is of windows that slide along its last axis, for more than a few places."""
    n = size(inside.op.axis[-1])
    return slides(inside.op) and (n is None or n > SHORT)


def register_tiles(s: Schedule, out: Stage, inside: Stage, target: Target) -> str:
    """Compute the reduction ``inside`` in register tiles of ``out``: rows × vectors, the reduction loops
    around the tile. How, in words."""
    iterations = work(inside)
    lanes = target.vector_lanes(inside.op.body[0].dtype)
    reads = reads_of(inside.op)
    axes = list(out.op.axis)
    own = list(inside.op.axis)
    n = size(axes[-1])
    if any(size(a) == 0 for a in (*own, *inside.op.reduce_axis)):
        return "of no elements"
    if in_sums(inside):
        # the reduction itself runs along memory: one element at a time, its partial sums in vector lanes
        inside.compute_at(out, axes[-1])
        lanes_used = reduce_in_lanes(s, inside, target)
        share_out(out, axes[:1], iterations, target)
        return ALONG_MEMORY if lanes_used else NO_VECTORS
    together = whole_rows.rows_of(inside, target)
    if together is not None and _follows(inside, own[-2]):
        return _tiles_of_rows(s, out, inside, together, target)
    before = [d for d in range(len(own) - 2, -1, -1) if size(own[d]) != 1]
    rows = next((d for d in before if reads.reused_over(own[d], own[-1])), None)
    many = target.vector_registers > FEW_REGISTERS
    usual = typical(own[-1].extent, SIDE)
    if rows is None and many and usual >= lanes and _follows(inside, own[-1]):
        # windows whose neighbours read the same
        fewest = 2 if usual <= ALONE * lanes else FAR_TAPS
        rows = next((d for d in before if _taps_along(inside, own[d], target, fewest) is not None), None)
    # one where elements are picked out of two vectors: half the code, which takes LLVM long
    wide = reads.along(own[-1]) and rows is not None and (n is None or n >= 2 * lanes)
    wide = wide and phases_of(inside.op).get(own[-1], 0) % (2 * lanes) == 0  # of one group of channels
    vectors = 2 if wide else 1
    most = max(
        1, min(6 if target.vector_registers <= 16 else 12, (target.vector_registers - vectors - 1) // vectors)
    )
    taps = None if rows is None else _taps_along(inside, own[rows], target)
    if taps is not None:
        most = max(1, (target.vector_registers - vectors) // (2 * vectors))
    height = most
    if rows is not None and (m := size(own[rows])) is not None:
        height = even(m, height)
    if rows is None and _follows(inside, own[-1]):
        parts = target.num_cores if len(own) == 1 and cost_of(target).shared(iterations) else 1
        vectors = _side_by_side(n, lanes, parts, target)
        if n is not None and n <= vectors * lanes and vectors < ALONE // 2:
            # a row is all there is: several of them are as many sums
            rows = next((d for d in range(len(own) - 2, -1, -1) if (size(own[d]) or 1) > 1), None)
            height = 1 if rows is None else even(size(own[rows]) or 1, ALONE // 2 // vectors)
    width = lanes * vectors
    jo, ji = out.split(axes[-1], width if n is None else min(width, n))
    unrolled = [] if rows is None else [(rows, height)]
    if rows is not None and (beside := _beside(inside, reads, rows, most // height)) is not None:
        unrolled.insert(0, beside)
    outer, tile = dict(enumerate(axes[:-1])), []
    for d, factor in unrolled:
        outer[d], ii = out.split(axes[d], factor)
        tile.append(ii)
    order = [*[a for d, a in outer.items() if d != rows], *[outer[d] for d in outer if d == rows], jo]
    if tile:
        out.reorder(*order, *tile, ji)
    for ii in tile:
        out.unroll(ii)
    out.vectorize(ji)
    heights = dict(unrolled)
    rest = [-(-(size(a) or 1 << 30) // heights.get(d, 1)) for d, a in enumerate(own[:-1])]
    if math.prod(rest) < target.num_cores:  # threads share out the vectors of a row too
        order = [out.fuse(*order)] if len(order) > 1 else order
        jo = order[0]
    inside.compute_at(out, jo)
    in_registers(s, inside)
    inside.reorder(*sorted(inside.op.reduce_axis, key=lambda a: a is taps), *own)
    inside.vectorize(own[-1])
    if taps is not None:
        inside.unroll(taps)
    for d, _ in unrolled:
        inside.unroll(own[d])
    share_out(out, order[:-1] or order, iterations, target)
    return (
        f"register tiles of {1 if rows is None else height} × {width if n is None else min(width, n)} outputs"
    )


def _tiles_of_rows(s: Schedule, out: Stage, inside: Stage, together: int, target: Target) -> str:
    """The same for short rows, as windows of the pixels of an image with its colours last: of a vector of
    whole rows, and some of those of the axis before, along which windows slide.

    Measured (Zen 4, one thread), three colours of 480 × 640: means of 3 × 3 bytes 0.06 of the time of vectors
    of one pixel, filters of 5 × 5 0.16."""
    iterations, (*front, row, column) = work(inside), out.op.axis
    lanes = target.vector_lanes(inside.op.body[0].dtype)
    vectors, registers = -(-together * (size(column) or 1) // lanes), target.vector_registers
    own = inside.op.axis
    # elements that a stride of open rows leaves out are picked one by one under a mask: 14 rows of 10 taps of
    # bytes would be 119,000 lines of assembly, and take 7.7 s to compile
    picked = size(own[-2]) is None and any(
        step(i, own[-2]) not in (0, 1) for _, at in reads_of(inside.op).plain for i in at
    )
    taps = _taps_along(inside, own[-3], target) if front and not picked else None
    height = 1
    if not picked and front and size(front[-1]) is not None:
        height = even(size(front[-1]) or 1, max(1, (registers - vectors) // (2 * vectors)))
    outer, inner = out.split(row, together, tail="shift" if front else "auto")
    lane = out.fuse(inner, column)
    out.vectorize(lane)
    if height > 1:
        front[-1], high = out.split(front[-1], height)
        out.reorder(*front, outer, high, lane)
        out.unroll(high)
    inside.compute_at(out, outer)
    in_registers(s, inside)
    reduced = sorted(inside.op.reduce_axis, key=lambda a: a is taps)
    inside.reorder(*reduced, *own)
    inside.vectorize(inside.fuse(*own[-2:]))
    few = math.prod(size(a) or FEW_WRITTEN + 1 for a in reduced) <= FEW_WRITTEN
    for a in reduced if few and not picked else [a for a in reduced if a is taps]:
        inside.unroll(a)
    if height > 1:
        inside.unroll(own[-3])
    share_out(out, front or [outer], iterations, target)
    return f"register tiles of {height} × {together} rows of {size(column)} outputs"


def _taps_along(inside: Stage, rows: IterVar, target: Target, fewest: int = 0) -> IterVar | None:
    """The taps of a window that slides along ``rows`` of a tile: written out, they read the same rows. With
    ``fewest`` none but so many, of windows that stand side by side.

    Measured (Zen 4, one thread, AVX2 in brackets): depthwise convolutions with channels last take 0.6 to 0.85
    (0.66 to 1.0) of the time of 12 rows whose taps are a loop; pools 0.64 to 0.86 (0.84 to 1.3) of that of a
    tile of one row, with a stride of 2 0.83 to 1.2 (0.6 to 1.5), sums of 5 and 11 rows and channels 0.55 to
    0.7.
    """
    most = TAPS if target.vector_registers > FEW_REGISTERS else FEW_TAPS
    for _, at in reads_of(inside.op).plain:
        for i, a in product(at, inside.op.reduce_axis):
            far, taps = step(i, rows) or 0, size(a) or 0
            if fewest <= taps <= most and 0 < far < (step(i, a) or 0) * taps and (not fewest or far == 1):
                return a
    return None


def _follows(inside: Stage, axis: IterVar) -> bool:
    """Whether all that is read along ``axis`` lies side by side along the last axis of a result: for that
    itself neighbours, for the rows of short results one stretch of memory."""
    moving = [at for _, at in reads_of(inside.op).plain if any(step(i, axis) != 0 for i in at)]
    return bool(moving) and all(across.moves_along(at, inside.op.axis[-1]) for at in moving)


def _side_by_side(n: int | None, lanes: int, parts: int, target: Target) -> int:
    """Vectors of a tile of one row whose sums nothing else is read for: so many that none waits for the
    addition before, of ``n`` results as few more as may be, and as many for each of the ``parts`` that
    threads take. Without masks those of a rest are dear.

    Measured (Zen 4, one thread and two): a filter of 64 taps takes 0.6 of the time of tiles of one vector,
    100 correlations 0.43; a filter of open length in tiles of four 0.68, with AVX2 0.35, of 3 to 130 results
    0.55 to 1.2."""
    chains = min(cost_of(target).chains, ALONE)
    if n is None:
        return ALONE // 2

    def time(v: int) -> float:
        dear = n % (v * lanes) > 0 and not target.has_masks and n < ALONE * v * lanes
        return math.inf if dear and v > 1 else -(-n // (v * lanes * parts)) * max(v, chains)

    return min(range(1, ALONE + 1), key=time)


def _beside(inside: Stage, reads: Reads, rows: int, room: int) -> tuple[int, int] | None:
    """A second axis of a tile that ``rows`` alone leaves small, and how much of it, at most ``room``: few
    sums wait for one another, each for as long as an addition takes. None where the tile has sums enough."""
    if room < 2:
        return None
    own = inside.op.axis
    for d in range(len(own) - 2, -1, -1):
        n = size(own[d])
        if d != rows and n is not None and n > 1 and reads.reused_over(own[d], own[-1]):
            return d, even(n, room)
    return None
