"""Copies that change the order of elements: transposes and changes of layout. Read along one axis, written
along another, tile by tile: rows of a tile are neighbours in the source, vectors are neighbours in the
result, and the code generator transposes the tile in registers. Where both do not fit the caches a block is
transposed in the first cache and written in long rows. Uses public primitives only.
"""

from __future__ import annotations

from ..analysis import Transposition, constant, cost_of, reads_of, typical
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import IterVar
from . import open_rows
from .choices import at_most
from .common import FEW_REGISTERS, LINE, PAGE, share_out, size, stream_stores, work

BLOCK = 64  # rows and columns of a block that is transposed in the first cache, in elements of 4 bytes
# rows of the source, and of the result, from which on walking down a column of tiles waits for addresses, as
# rows lie in pages of their own, and walking along a row of tiles does not, while both are in the second
# cache and rows of the source are not much longer. What is written far apart is dearer than what is read so
# where it has to come from memory. Measured (Granite Rapids): 300 × 330, 223 × 489 and 309 × 807 take 0.7 to
# 0.8 of the time; 343 × 1884, 256 × 4000 and 1000 × 3000 1.4, and 2000 × 2000 from memory as well
MANY_ROWS, MUCH_LONGER = 192, 3
# rows of the source, each in a page of its own, that are read again and again for as many tiles: of more a
# processor does not keep the addresses. Those that share pages are left in one loop, of which threads take
# parts. Measured (Granite Rapids): 2471 × 2448 takes 0.5 of the time, 2294 ×
# 2108 0.7
FAR_ROWS = 1024
SMALL = 8 / 3  # times that what is moved fits the third cache, where it stays near
# rows of a source, of an open number of them, for which tiles are no wider: they would be as many vectors of
# masked lanes as for many. Measured (Zen 5, one thread): 3 × 10,001 takes 0.33 of the time, 4 × 1000 0.48,
# 3000 matrices of 3 × 3 0.44, 30 of 3 × 1000 0.28
FEW_LINES = 4
AGAIN = 8  # of so many vectors one may be computed twice for the sake of tiles of two


def transpose_in_tiles(s: Schedule, stage: Stage, transposition: Transposition, target: Target) -> None:
    """Schedule a stage for which ``analysis.transposed`` found ``transposition``."""
    op = stage.op
    bytes_each = op.body[0].dtype.bytes
    lanes = target.vector_lanes(op.body[0].dtype)
    last, along = op.axis[-1], transposition.axis
    outer = [a for a in op.axis if a is not last and a is not along]
    iterations = work(stage)
    fixed = all(size(a) is not None for a in op.axis)
    block = BLOCK * 4 // bytes_each if bytes_each > 4 else BLOCK
    far_source = fixed and _aliases(_source_row(stage, last), bytes_each)
    if fixed and not far_source and _few_lines(stage, transposition, 2 * iterations * bytes_each, target):
        _in_few_lines(stage, outer, along, target)
        return
    blocked = (
        fixed
        and transposition.every is None
        and 2 * iterations * bytes_each >= target.l3_bytes
        and min(size(last) or 0, size(along) or 0) >= 2 * block
        and s.can("cache_write", stage.name, "local")
    )
    if blocked:
        _in_blocks(s, stage, outer, along, block, lanes, target)
        return
    far_result = fixed and _aliases(typical(last.extent, 0), bytes_each)
    near = fixed and 2 * (size(last) or 0) * (size(along) or 0) * bytes_each <= target.l2_bytes
    # two lines of each side of a tile take more registers than sixteen. Measured (Zen 3): of 20 matrices
    # from 64 × 300 to 4000 × 2700 tiles of one vector take 0.83 of the time in the mean, where the shorter
    # side is walked first: far apart are the pages of fewer lines then (2000 × 1300: 0.38, 1000 × 3000: 0.7)
    scarce = target.vector_registers <= FEW_REGISTERS
    few = fixed and bytes_each >= 4 and scarce and not (far_source or far_result)
    walked = _shorter(along, last) if few else near and _many_long_rows(stage, last, along)
    along_rows = far_source if far_source != far_result else walked
    shared = cost_of(target).shared(iterations)
    # whole lines of both sides are read and written, two of the one that is walked along: of both, the code
    # of a tile would be very long. Measured (Granite Rapids): 374 × 169, 636 × 110 and 196 × 2178 take 0.8 of
    # the time in tiles of two vectors
    long = 2 * lanes if fixed and bytes_each >= 4 and not few else lanes
    high = min(transposition.every or (lanes if far_source or far_result else long), 16)
    wide = lanes if along_rows or _twice(size(last) or 0, lanes) else long
    if bytes_each < 4 and ((size(last) or 1) % wide or (size(along) or 1) % high):
        wide = min(wide, 16)  # nor in the copy of the tile with masks
    front = list(op.axis[: list(op.axis).index(along)])
    whole = None if fixed else open_rows.matrices(stage, front, target)
    if whole is not None:
        row = stage.fuse(*op.axis[len(front) :])
        loops = open_rows.row_by_row(stage, front, row, whole)
        share_out(stage, loops, iterations, target)
        return
    if size(last) is None and at_most(last.extent, FEW_LINES):
        wide = min(wide, FEW_LINES)
    # of one tile in that direction, those along rows are what threads share out. Measured (Zen 5, two
    # threads): 891,725 × 5 0.46 of the time, 300,000 × 7 0.5
    along_rows = along_rows or (fixed and (size(along) or 0) <= high)
    jo, ji = _tiles(stage, last, wide, shared and along_rows)
    io, ii = _tiles(stage, along, high, (shared and not along_rows) or transposition.every is not None)
    parts, order = [], [jo, io] if along_rows else [io, jo]
    if not along_rows and _far_rows(stage):
        part, order[1] = stage.split(jo, FAR_ROWS // wide)
        parts = [part]
    stage.reorder(*parts, *outer, *order, ii, ji)
    stage.unroll(ii)
    stage.vectorize(ji)
    if shared:
        loops = [*outer, order[0]]
        stage.parallel(loops[0] if len(loops) == 1 else stage.fuse(*loops))


def _few_lines(stage: Stage, transposition: Transposition, moved: int, target: Target) -> bool:
    """Whether tiles of half a line of the source pay: where ``moved`` bytes come from the third cache or from
    memory. Lines of the source are used twice then, and asked for in time, and those of the result that are
    written side by side are few enough for the processor to ask for ahead.

    Measured (Zen 4, one thread): 1000 × 3000 takes 0.41 of the time of tiles of 16 × 32, 3000 × 1000 0.53,
    2007 × 1950 0.54, 2679 × 2614 0.53 of that of blocks; 1000 × 1000 1.1, tiles of a quarter of a line 1.2
    times as long.
    """
    lanes = target.vector_lanes(stage.op.body[0].dtype)
    sizes = [size(stage.op.axis[-1]) or 0, size(transposition.axis) or 0]
    return (
        stage.op.body[0].dtype.bytes == 4
        and lanes * 4 == LINE
        and transposition.every is None
        and min(sizes) >= 2 * lanes
        and SMALL * moved >= target.l3_bytes
    )


def _in_few_lines(stage: Stage, outer: list[IterVar], along: IterVar, target: Target) -> None:
    """Tiles of half a line × a vector, those of one half of the lines one after the other."""
    iterations, lanes = work(stage), target.vector_lanes(stage.op.body[0].dtype)
    shared = cost_of(target).shared(iterations)
    jo, ji = _tiles(stage, stage.op.axis[-1], lanes, False)
    io, ii = _tiles(stage, along, lanes // 2, shared)
    parts = []
    if _far_rows(stage):
        part, jo = stage.split(jo, FAR_ROWS // lanes)
        parts = [part]
    stage.reorder(*parts, *outer, io, jo, ii, ji)
    for tensor, _ in reads_of(stage.op).plain:
        stage.prefetch(tensor, jo, 2, level=2, outer=io)
    stage.unroll(ii)
    stage.vectorize(ji)
    if shared:
        stage.parallel(stage.fuse(*outer, io) if outer else io)


def _tiles(stage: Stage, axis: IterVar, high: int, parallel: bool) -> tuple[IterVar, IterVar]:
    """The loops over tiles and in a tile. A rest is a tile that overlaps the one before, unless tiles are
    shared out: the other copy of a tile, with masks, took LLVM longer than all else (1000 × 1000: 250 ms)."""
    n = size(axis)
    if n is None or n <= high or n % high == 0 or parallel:
        return stage.split(axis, high if n is None else min(high, n))
    return stage.split(axis, high, tail="shift")


def _in_blocks(
    s: Schedule, stage: Stage, outer: list[IterVar], along: IterVar, block: int, lanes: int, target: Target
) -> None:
    """A block is read in whole lines and transposed into a buffer, which is written row by row."""
    places = [list(stage.op.axis).index(a) for a in (*outer, along)]
    kept = s[s.cache_write(stage.name, "local")]
    *_, last = stage.op.axis
    *outer, along = [stage.op.axis[d] for d in places]
    io, ii = stage.split(along, block)
    jo, ji = stage.split(last, block)
    stage.reorder(*outer, io, jo, ii, ji)
    _, wide = stage.split(ji, min(block, 4 * lanes))
    stage.vectorize(wide)
    loops = [*outer, io]
    kept.compute_at(stage, jo)
    shared = loops[0] if len(loops) == 1 else stage.fuse(*loops)
    stage.parallel(shared)
    stream_stores(stage, shared, target, size(last))
    own = list(kept.op.axis)
    row, column = own[places[-1]], own[-1]
    ro, ri = kept.split(row, lanes)
    co, ci = kept.split(column, lanes)
    kept.reorder(*[a for a in own if a is not row and a is not column], co, ro, ri, ci)
    kept.unroll(ri)
    kept.vectorize(ci)


def _far_rows(stage: Stage) -> bool:
    """Whether rows of the source lie in more pages than a processor keeps the addresses of."""
    last = stage.op.axis[-1]
    rows = size(last) or 0
    return min(rows, rows * _source_row(stage, last) * stage.op.body[0].dtype.bytes // PAGE) > FAR_ROWS


def _source_row(stage: Stage, last: IterVar) -> int:
    """Elements of the source between neighbours along the last axis of the result; 0 when it is not a plain
    index."""
    for tensor, indices in reads_of(stage.op).plain:
        for d, i in enumerate(indices[:-1]):
            if i is last.var:
                step = 1
                for n in tensor.shape[d + 1 :]:
                    step *= constant(n) or 0
                return step
    return 0


def _twice(n: int, lanes: int) -> bool:
    """Whether tiles of two vectors would compute much of ``n`` elements twice."""
    ones, twos = -(-n // lanes), -(-n // (2 * lanes)) * 2
    return (twos - ones) * AGAIN > ones


def _shorter(axis: IterVar, other: IterVar) -> bool:
    return (size(axis) or 0) < (size(other) or 0)


def _many_long_rows(stage: Stage, last: IterVar, along: IterVar) -> bool:
    """Whether source and result have many rows, those of the source not much longer."""
    rows, long = size(last) or 0, size(along) or 0
    many = min(rows, long) >= MANY_ROWS and long <= MUCH_LONGER * rows
    return many and stage.op.body[0].dtype.bytes >= 4


def _aliases(elements: int, bytes_each: int) -> bool:
    return elements > 0 and elements * bytes_each % PAGE == 0
