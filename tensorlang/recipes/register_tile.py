"""Which register tile a product or a convolution gets: the one chooser that all recipes ask, with the tiles
that each of them may have. Knows the table of costs; knows nothing of schedules.

What the recipes differ in is which tiles they offer, never how a tile is weighed: ``cheapest`` does that. Of
tiles that take the same time it takes the first, so each offers first what costs least besides time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from ..analysis import ROOFLINE, Cost, constant
from ..target import Target
from ..te import Tensor
from .common import FEW_REGISTERS, LINE, PAGE

MANY = 1 << 12  # rows or vectors where their number is symbolic: the rests at the end do not decide then
# lines of memory read side by side. Measured (Zen 5, 1 × 4096 × 4096, 16 KiB from line to line): 4 or 6 are
# 1.2 times as fast as 1, 2, 8 or 15
STREAMS = 6
# rows of a tile where a call tells how many there are: a tile has code for each number of them, and of more
# than these the last one would keep a test for each row in the inner loop. Measured (Zen 4, 12 columns): 16
# to 48 rows, not 30, take 0.5 to 0.7 of the time of tiles of 30
OPEN_ROWS = 14
# vectors of a tile of one row whose columns a call tells: sums enough that none waits, and few columns do not
# leave most of it empty. Measured (Zen 4, one thread), beside 30 vectors: 200 × 96 0.18 of the time, 300 × 10
# 0.16, 700 × 512 0.53, 1000 × 1000 0.65, 100 × 5000 and 3000 × 3000 0.97; of 4 and 16 1.0 to 1.7
OPEN_VECTORS = 8
# vectors of a tile that has all columns, where others have four at most: two tiles of fewer would compute
# some twice. Measured (Zen 4, one thread and two): batches of 90 × 110 × 70 take 0.79 and 0.79 of the time,
# 37 × 500 × 72 0.90, 17 × 512 × 70 packed 0.84 and 0.88, attention by heads of 80 0.84 to 0.92. With AVX2,
# where such a tile has two rows, 50 × 64 × 33 2.1; of convolutions, 64 to 72 channels of 20 × 20, 5×5, 0.84
# and 1.0, 40 to 79 of 7 × 7 1.28
WHOLE = 6
LONG = 512  # rows of which some more or fewer blocks are the same
Tile = tuple[int, int]  # rows and vectors
TWICE = 1 / 8  # of the vectors of a row, which may be computed again


def even(n: int, most: int) -> int:
    """The height of blocks of ``n`` of nearly equal height, at most ``most``. They beat full blocks and a
    rest, whose few sums wait for one another: by 4 to 11 % of a product's time."""
    return -(-n // -(-n // most))


def rows_that_stay(left: Tensor, row: int | None, target: Target) -> int:
    """Rows of a tile, of axis ``row`` of the left operand, of which a line each stays in the first cache
    until its other elements are read: what lies a multiple of a page apart has the places of one set.

    Measured (Zen 4, 32 KiB of 8 places), 96 × 16 × 1024: tiles of 12, 16 and 24 rows take 1.4, 2.2 and 4.0
    times as long as of 8, whose products run at the machine's rate; two vectors wide 12 rows 1.1; with 1040
    in the place of 1024, and with 512 to 16 rows, all are equal.
    """
    if row is None:
        return MANY
    apart = left.dtype.bytes
    for n in left.shape[row + 1 :]:
        apart *= constant(n) or 1
    return max(1, target.l1_bytes // PAGE) * min(PAGE // LINE, PAGE // math.gcd(apart, PAGE))


def column(rows: int, high: int, vectors: int, table: Cost, rest: float = 1.0) -> float:
    """Cycles of an iteration of the reduction for all rows, in tiles ``high`` rows high and one tile wide.
    What a last, lower tile takes counts ``rest`` times."""
    blocks, left = divmod(rows, high)
    time = blocks * table.tile(high, vectors)
    return time + rest * table.tile(left, vectors) if left else time


def time_of(rows: int, columns: int, high: int, vectors: int, lanes: int, table: Cost) -> float:
    """Cycles of an iteration of the reduction for all rows and columns, in tiles of ``high × vectors``."""
    tiles, left = divmod(-(-columns // lanes), vectors)
    time = tiles * column(rows, high, vectors, table)
    return time + column(rows, high, left, table) if left else time


def cheapest(
    tiles: Iterable[Tile],
    rows: int,
    wide: int | None,
    table: Cost,
    rest: float = 1.0,
    held: Callable[[int], int] = int,
    threads: int = 1,
    ends: Callable[[int], float] = lambda width: 0.0,
) -> Tile:
    """The first of ``tiles`` with the fewest cycles for ``rows`` × ``wide``, in the unit of their widths;
    None where nobody knows how wide. ``held`` are the registers that a row of so wide a tile takes, ``ends``
    what it takes behind the sums, for one of their iterations. So many ``threads`` share the tiles of a row
    out: what counts is the thread with the most of them."""

    def time(tile: Tile) -> float:
        high, width = tile
        each = column(rows, high, held(width), table, rest) + rows * ends(width)
        return each / width if wide is None else each * -(-wide // (width * threads))

    times = {tile: time(tile) for tile in tiles}
    least = min(times.values())
    # few rows read the columns again for each of few blocks: one more counts
    same = table.equal if rows >= LONG else 1.0
    return next(tile for tile, t in times.items() if t <= same * least)


def in_whole_vectors(columns: int | None, lanes: int) -> bool:
    """Whether the last columns are summed in a whole vector, with sums beside them that nobody reads: where
    they would be several shorter vectors otherwise, each in a register of its own.

    Measured (Zen 4, 3×3): 96 to 26 channels of 36 × 36 take 0.90 of the time, 96 to 99 of 34 × 34 0.87, 20
    to 117 of 54 × 27, 5×5, 1.02; 17 to 23 of 40 × 40 by minimal filtering 0.70.
    """
    return columns is not None and columns > lanes and (columns % lanes).bit_count() > 1


def tile_for(
    rows: int | None,
    columns: int | None,
    lanes: int,
    registers: int,
    table: Cost = ROOFLINE,
    threads: int = 1,
    *,
    once: bool = False,
    masks: bool = False,
    whole: bool = False,
    most: int = MANY,
) -> Tile:
    """(rows, vectors) of the register tile with the least time for a product of that many rows and columns,
    whose tiles of columns so many threads share out. ``once``: of all rows, where such a tile has two vectors
    or all, so that columns are read once. ``whole``: of more vectors than four, too, where those are all.
    ``most``: of no more rows.

    Blocks of rows are of nearly equal height. The rest of a vector, where one tile has all columns, is sums
    of fewer lanes in registers of their own: 7 columns are 4 and 2 and 1. With ``masks`` they are in one
    register.
    """
    m, n = rows or MANY, MANY if columns is None else -(-columns // lanes)

    def held(vectors: int) -> int:
        if columns is None or columns >= vectors * lanes:
            return vectors
        if masks:
            return -(-columns // lanes)
        return columns // lanes + (columns % lanes).bit_count()

    def fits(high: int, vectors: int) -> bool:
        """With the operands beside the sums: the vectors of a row (one row takes them from memory as it
        multiplies), and an element of the other operand."""
        row = held(vectors)
        if high == 1 and columns is None and vectors > OPEN_VECTORS:
            return False
        wide = high == 1 or vectors <= 4 or (whole and vectors == n <= WHOLE and registers > FEW_REGISTERS)
        return wide and high <= most and high * row + (row if high > 1 else 1) + 1 <= registers

    # of equals the largest: it reads the operands least often
    tiles = [
        (even(m, high), vectors)
        for vectors in range(min(registers - 1, n), 0, -1)
        for high in range(min(registers - 1, OPEN_ROWS if rows is None else m), 0, -1)
        if fits(high, vectors)
    ]
    single = [tile for tile in tiles if once and tile[0] == m and tile[1] >= min(2, n)]
    return cheapest(single or tiles, m, n, table, held=held, threads=threads)


def group_tile(
    outputs: int, widths: Iterable[int], sums: int, table: Cost, *, whole: bool, rest: float = 1.0
) -> Tile:
    """(outputs, vectors) of the tile of a convolution whose row of pixels is long or symbolic: of at most so
    many ``sums``, of one of these widths, of equals the first one and the lowest. With ``whole`` it does not
    reach from one group of outputs, which reads the same channels, into the next."""
    tiles = [
        (high, vectors)
        for vectors in widths
        for high in range(1, min(outputs, sums // vectors) + 1)
        if not whole or outputs % high == 0
    ]
    return cheapest(tiles, outputs, None, table, rest)


def lane_tile(
    rows: int | None,
    columns: int | None,
    registers: int,
    table: Cost,
    ends: Callable[[int], float] = lambda width: 0.0,
) -> Tile:
    """(rows, columns) of the tile of sums along memory, each in the lanes of a register of its own, with the
    least time for a product of so many. ``ends`` is what it takes to add up the lanes of so many sums of a
    row, for an iteration of the sums."""
    m = rows or MANY
    # of equals the tallest, since columns are streams of memory. A register for a row's elements beside the
    # sums and the columns' elements
    tiles = [
        (high, wide)
        for high in sorted({even(m, most) for most in range(1, min(m, registers) + 1)}, reverse=True)
        # lanes of four sums that are neighbours are added up together
        for wide in range(
            1, min(columns or registers, (registers - 1) // (high + 1), 4 if high > 1 else STREAMS) + 1
        )
    ]
    return cheapest(tiles, m, columns, table, ends=ends)


def computes_much_twice(n: int, width: int, lanes: int, masks: bool) -> bool:
    """Whether a tile that overlaps has many vectors more than one with a mask. Measured (Zen 4, one thread):
    100 columns in tiles of 64 0.89 to 0.95 of the time, 90 in tiles of 48 0.9, 70 0.93 to 0.98."""
    return masks and (width - n % width) // lanes > -(-n // lanes) * TWICE
