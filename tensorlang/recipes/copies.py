"""Copies that change the order of elements: transposes and changes of layout. Read along one axis, written
along another, tile by tile: rows of a tile are neighbours in the source, vectors are neighbours in the
result, and the code generator transposes the tile in registers. Where both do not fit the caches a block is
transposed in the first cache and written in long rows. Uses public primitives only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..analysis import Transposition, Turned, constant, cost_of, reads_of, transposed, turned_copy, typical
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import IterVar
from . import open_rows
from .choices import at_most
from .common import FEW_REGISTERS, LINE, PAGE, PIECE, evenly, share_out, size, stream_stores, work
from .nests import fuse

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
FEW_TILES, NEARLY = 4, 1.5  # of lines of the source; times the second cache
LONGER = 1.25  # times its share of tiles, at most, that a thread computes of parts of a side
LEAST = 4  # elements of a run of axes that tiles are made of
NEAR = 1 << 17  # elements that the second cache holds
MOST_ROWS = 16  # for which an open number of them stands in such a run
AGAIN = 8  # of so many vectors one may be computed twice for the sake of tiles of two


@dataclass(frozen=True)
class Sides:
    """The loops of a copy: ``last`` of ``n`` elements that are neighbours in the result and lie ``row``
    elements apart in the source, ``along`` of ``m`` that are neighbours in the source, of which ``every``
    this many stand together, and lie ``line`` elements apart in the result; others outside. None and 0: of
    an open number. Of those outside some may stand ``between`` in the result."""

    outer: list[IterVar]
    along: IterVar
    m: int | None
    last: IterVar
    n: int | None
    row: int
    line: int
    every: int | None = None
    between: Sequence[IterVar] = ()


def turn_over(s: Schedule, stage: Stage, target: Target) -> bool:
    """Schedule a stage that turns what it reads, if it is one; whether it is. Axes that stay together are
    counted as one, and one that counts several dimensions is several."""
    found, transposition = turned_copy(stage.op), transposed(stage.op)
    if found is not None:  # fewer elements are not turned in registers
        few = found.elements(found.along) * stage.op.body[0].dtype.bytes < PIECE
        found = None if few or (transposition is not None and _long(stage, transposition)) else found
    if found is None:
        if transposition is not None:
            transpose_in_tiles(s, stage, transposition, target)
        return transposition is not None
    loops = [loop for a in stage.op.axis for loop in _parts(stage, a, found)]
    outer = [loop for k, loop in enumerate(loops) if k not in found.along and k not in found.last]
    between = loops[found.along.stop : found.last.start]
    along, last = (fuse(stage, [loops[k] for k in side]) for side in (found.along, found.last))
    m, n = found.elements(found.along), found.elements(found.last)
    line = found.elements(range(found.along.stop, len(loops)))
    _in_tiles(stage, Sides(outer, along, m, last, n, found.row, line, None, between), target)
    return True


def _long(stage: Stage, transposition: Transposition) -> bool:
    """Whether both sides are axes of many elements, of which blocks may be copied."""
    sides = (size(stage.op.axis[-1]), size(transposition.axis))
    return min(n or 0 for n in sides) >= 2 * BLOCK


def _parts(stage: Stage, axis: IterVar, found: Turned) -> list[IterVar]:
    """The loops of an axis, one for each dimension that it counts."""
    loops, rest = list[IterVar](), axis
    for part in found.parts:
        if part.axis is axis and part.worth > 1:
            outer, rest = stage.split(rest, part.worth)
            loops.append(outer)
    return [*loops, rest]


def transpose_in_tiles(s: Schedule, stage: Stage, transposition: Transposition, target: Target) -> None:
    """Schedule a stage for which ``analysis.transposed`` found ``transposition``."""
    op = stage.op
    last, along = op.axis[-1], transposition.axis
    outer = [a for a in op.axis if a is not last and a is not along]
    row, line = _source_row(stage, last), typical(last.extent, 0)
    sides = Sides(outer, along, size(along), last, size(last), row, line, transposition.every)
    bytes_each = op.body[0].dtype.bytes
    block = BLOCK * 4 // bytes_each if bytes_each > 4 else BLOCK
    blocked = (
        _fixed(stage)
        and transposition.every is None
        and 2 * work(stage) * bytes_each >= target.l3_bytes
        and min(sides.n or 0, sides.m or 0) >= 2 * block
        and s.can("cache_write", stage.name, "local")
    )
    if blocked and not _few_lines(stage, sides, target):
        _in_blocks(s, stage, outer, along, block, target.vector_lanes(op.body[0].dtype), target)
        return
    front = list(op.axis[: list(op.axis).index(along)])
    whole = None if _fixed(stage) else open_rows.matrices(stage, front, target)
    if whole is None:
        _in_tiles(stage, sides, target)
        return
    loops = open_rows.row_by_row(stage, front, stage.fuse(*op.axis[len(front) :]), whole)
    share_out(stage, loops, work(stage), target)


def _fixed(stage: Stage) -> bool:
    return all(size(a) is not None for a in stage.op.axis)


def _in_tiles(stage: Stage, sides: Sides, target: Target) -> None:
    """Tiles of one or two vectors along both sides."""
    fixed, iterations = _fixed(stage), work(stage)
    bytes_each, lanes = stage.op.body[0].dtype.bytes, target.vector_lanes(stage.op.body[0].dtype)
    outer, every, n, m = sides.outer, sides.every, sides.n or 0, sides.m or 0
    if _few_lines(stage, sides, target):
        _in_few_lines(stage, sides, target)
        return
    far_source = fixed and _aliases(sides.row, bytes_each)
    far_result = fixed and _aliases(sides.line, bytes_each)
    far = far_source or far_result
    near = fixed and 2 * n * m * bytes_each <= target.l2_bytes
    # two lines of each side of a tile take more registers than sixteen. Measured (Zen 3): of 20 matrices
    # from 64 × 300 to 4000 × 2700 tiles of one vector take 0.83 of the time in the mean, where the shorter
    # side is walked first: far apart are the pages of fewer lines then (2000 × 1300: 0.38, 1000 × 3000: 0.7)
    scarce = target.vector_registers <= FEW_REGISTERS
    few = fixed and bytes_each >= 4 and scarce and not far
    walked = m < n if few else near and bytes_each >= 4 and _many_long_rows(n, m)
    # of few tiles along lines of the source these are read whole, and not again for each tile
    walked = walked or (not scarce and bytes_each >= 4 and _short_lines(sides, bytes_each, target))
    # rows half a page apart meet in two places of the first cache. Measured (Zen 5, one thread): 49 × 512,
    # 150 × 1536 and 333 × 512 take 0.65 to 0.75 of the time of tiles of two vectors
    half = PAGE // 2 // bytes_each
    crowded = fixed and bytes_each >= 4 and not far and sides.row % half == 0 and sides.line % half > 0
    along_rows = far_source if far_source != far_result else walked or crowded
    shared = cost_of(target).shared(iterations)
    # whole lines of both sides are read and written, two of the one that is walked along: of both, the code
    # of a tile would be very long. Measured (Granite Rapids): 374 × 169, 636 × 110 and 196 × 2178 take 0.8 of
    # the time in tiles of two vectors
    long = 2 * lanes if fixed and bytes_each >= 4 and not few else lanes
    high = min(every or (lanes if far else long), 16)
    wide = lanes if along_rows or _twice(n, lanes) else long
    if sides.n is None and at_most(sides.last.extent, FEW_LINES):
        wide = min(wide, FEW_LINES)
    # of one tile in that direction, those along rows are what threads share out. Measured (Zen 5, two
    # threads): 891,725 × 5 0.46 of the time, 300,000 × 7 0.5
    along_rows = along_rows or (fixed and m <= high)
    # a line of the result that has several stretches is written at once. Measured (Zen 5, one thread): 4 × 4
    # × 4 × 2 × 11 × 12 floats whose last two axes come first, in stretches of 4, take 0.17 of the time
    within = list(sides.between) if m > high and n * bytes_each < LINE else []
    outer = [a for a in outer if a not in within]
    along_rows = along_rows and not within
    halves, tiles = list[IterVar](), shared  # what threads share out: parts of a side, or tiles
    if shared and fixed and bytes_each == 1 and every is None:
        outside = math.prod(size(a) or 0 for a in stage.op.axis) // (n * m)
        tiles = not evenly(outside, target.num_cores)
        if tiles and (n % wide or m % high):
            halves, sides = _in_even_parts(stage, sides, high, target)
            tiles, n, m = not halves, sides.n or 0, sides.m or 0
    if bytes_each < 4:
        wide = _width(n, m, wide, high, bytes_each == 1 and not tiles and every is None)
    jo, ji = _tiles(stage, sides.last, sides.n, wide, tiles and along_rows)
    io, ii = _tiles(stage, sides.along, sides.m, high, (tiles and not along_rows) or every is not None)
    parts, order = [], [jo, io] if along_rows else [io, jo]
    if not along_rows and _far_rows(stage, sides):
        part, order[1] = stage.split(jo, FAR_ROWS // wide)
        parts = [part]
    stage.reorder(*parts, *outer, *halves, order[0], *within, order[1], ii, ji)
    stage.unroll(ii)
    stage.vectorize(ji)
    if shared:
        stage.parallel(fuse(stage, [*outer, *(order[:1] if tiles else halves)]))


def _in_even_parts(stage: Stage, sides: Sides, high: int, target: Target) -> tuple[list[IterVar], Sides]:
    """A loop over parts of the lines of the result that are as long as each other, for threads to share out,
    and the sides in it; none, and the sides as they are, where that leaves a thread waiting. (Of parts of a
    line two threads would write the same lines of memory.)

    The last of tiles that are shared out cannot overlap the one before, and of bytes under masks each is
    gathered. Measured (Zen 5), 300 × 330 bytes: 0.67 of the time of tiles of 16 lanes on one thread, 0.60 on
    two.
    """
    m, threads = sides.m or 0, target.num_cores
    counts = [k for k in range(threads, m // high + 1) if m % k == 0]
    rounds = lambda k: -(-k // threads) * -(-m // (k * high))
    k = min(counts, key=rounds, default=0)
    if not k or rounds(k) * threads > LONGER * -(-m // high):
        return [], sides
    part, rest = stage.split(sides.along, nparts=k)
    return [part], replace(sides, along=rest, m=m // k)


def _width(n: int, m: int, wide: int, high: int, overlaps: bool) -> int:
    """Lanes of a tile of narrow elements. Where the last one ``overlaps``, of a vector of 64 bytes each
    element takes 1 / 1.3 as long as of one of 16."""
    if overlaps and n:
        return min((w for w in (wide, wide // 2, wide // 4) if w >= 16), key=lambda w: -(-n // w) * (w + 7))
    # else a rest is a copy of the tile with masks
    return min(wide, 16) if (n or 1) % wide or (m or 1) % high else wide


def _few_lines(stage: Stage, sides: Sides, target: Target) -> bool:
    """Whether tiles of half a line of the source pay: where what is moved comes from the third cache or from
    memory. Lines of the source are used twice then, and asked for in time, and those of the result that are
    written side by side are few enough for the processor to ask for ahead.

    Measured (Zen 4, one thread): 1000 × 3000 takes 0.41 of the time of tiles of 16 × 32, 3000 × 1000 0.53,
    2007 × 1950 0.54, 2679 × 2614 0.53 of that of blocks; 1000 × 1000 1.1, tiles of a quarter of a line 1.2
    times as long.
    """
    lanes, bytes_each = target.vector_lanes(stage.op.body[0].dtype), stage.op.body[0].dtype.bytes
    return (
        _fixed(stage)
        and not _aliases(sides.row, bytes_each)
        and bytes_each == 4
        and lanes * 4 == LINE
        and sides.every is None
        and min(sides.n or 0, sides.m or 0) >= 2 * lanes
        and SMALL * 2 * work(stage) * bytes_each >= target.l3_bytes
    )


def _in_few_lines(stage: Stage, sides: Sides, target: Target) -> None:
    """Tiles of half a line × a vector, those of one half of the lines one after the other."""
    iterations, lanes = work(stage), target.vector_lanes(stage.op.body[0].dtype)
    outer, shared = sides.outer, cost_of(target).shared(iterations)
    jo, ji = _tiles(stage, sides.last, sides.n, lanes, False)
    io, ii = _tiles(stage, sides.along, sides.m, lanes // 2, shared)
    parts = []
    if _far_rows(stage, sides):
        part, jo = stage.split(jo, FAR_ROWS // lanes)
        parts = [part]
    stage.reorder(*parts, *outer, io, jo, ii, ji)
    for tensor, _ in reads_of(stage.op).plain:
        stage.prefetch(tensor, jo, 2, level=2, outer=io)
    stage.unroll(ii)
    stage.vectorize(ji)
    if shared:
        stage.parallel(stage.fuse(*outer, io) if outer else io)


def _run(axes: list[IterVar], others: list[IterVar]) -> list[IterVar]:
    """The last of ``axes``, as many as are neighbours in the same order in ``others``."""
    place = {a: d for d, a in enumerate(others)}
    n = 1
    while n < len(axes) and place[axes[-n - 1]] + 1 == place[axes[-n]]:
        n += 1
    return axes[-n:]


def cycles_each(source: Sequence[IterVar], order: Sequence[IterVar], bytes: int) -> float:
    """Cycles of an element of a copy of a tensor with axes ``source`` in another ``order``, about. Measured
    (Zen 5, float32, in the second and third cache): tiles 0.26 to 0.46, rows of 50 elements 0.26, of 40 0.28,
    of 6 to 9 0.83 to 1.02, elements one by one 1.2 to 8; tiles of float64 0.7."""
    lengths = [
        math.prod(size(a) or MOST_ROWS for a in _run(list(a), list(b)))
        for a, b in ((order, source), (source, order))
    ]
    if source[-1] is order[-1]:
        return min(1.0, 0.1 + 8 / lengths[0])
    if min(lengths) >= LEAST:
        return (0.45 if min(lengths) >= 2 * LEAST else 0.6) * max(1.0, bytes / 5)
    return 1.0 if math.prod(size(a) or MOST_ROWS for a in order) <= NEAR else 2.0


def _tiles(stage: Stage, axis: IterVar, n: int | None, high: int, parallel: bool) -> tuple[IterVar, IterVar]:
    """The loops over tiles and in a tile. A rest is a tile that overlaps the one before, unless tiles are
    shared out: the other copy of a tile, with masks, took LLVM longer than all else (1000 × 1000: 250 ms)."""
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


def _far_rows(stage: Stage, sides: Sides) -> bool:
    """Whether rows of the source lie in more pages than a processor keeps the addresses of."""
    rows = sides.n or 0
    return min(rows, rows * sides.row * stage.op.body[0].dtype.bytes // PAGE) > FAR_ROWS


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


def _short_lines(sides: Sides, bytes_each: int, target: Target) -> bool:
    """Whether lines of the source are a few tiles, and what is copied fits the second cache nearly, but not
    the first. Measured (Zen 5, one thread and two): 3000 × 40 0.65 to 0.75 of the time, 13 × 78 × 47 with the
    last axis first 0.67, 70 × 36 × 2 × 64 to (3, 2, 0, 1) 0.7 to 0.8; 512 × 64, whose lines of the result
    meet in a quarter of the first cache, would take twice as long."""
    n, m = sides.n or 0, sides.m or 0
    moved = 2 * n * m * bytes_each
    near = target.l1_bytes < moved <= NEARLY * target.l2_bytes
    return near and m <= FEW_TILES * LINE // 4 and sides.line * bytes_each % (PAGE // 4) > 0


def _many_long_rows(rows: int, long: int) -> bool:
    """Whether source and result have many rows, those of the source not much longer."""
    return min(rows, long) >= MANY_ROWS and long <= MUCH_LONGER * rows


def _aliases(elements: int, bytes_each: int) -> bool:
    return elements > 0 and elements * bytes_each % PAGE == 0
