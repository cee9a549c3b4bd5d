"""Products of few rows whose right operand is read where it lies: line by line, or a block of lines at a time
for all rows, while the sums wait near. A copy of it in panels would take as long as such rows do. Uses public
primitives only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ..analysis import Product, bytes_of, constant, cost_of, worth_a_thread
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import IterVar
from .choices import at_most
from .common import LINE, PACKED_ROWS, PAGE, size, work
from .lanes import beside
from .narrow import widens
from .nests import Axes, fuse, nest
from .register_tile import column, even, rows_that_stay

# rows up to which a right operand that no cache near holds is read line by line; and the same where blocks of
# its lines are no choice. Measured in blocks (Emerald Rapids, one thread): 12 × 1024 × 2048 1.04 of the time
# line by line, 16 0.73, 16 × 768 × 3072 0.75
STREAMED_ROWS = 12
STREAMED_ALONE = 18
# the same of one that the second cache holds: a tile of more rows computes as long as its columns, far apart
# in memory, take to come. Measured (Granite Rapids): 4 × 600 × 600 0.78 of a tile's time, 8 × 500 × 500 0.90,
# 12 × 512 × 512 1.22
STREAMED_NEAR_ROWS = 8
STREAMED_DEPTH = 8  # rows of it that are read side by side
# tiles of rows up to which a right operand near is better read where it lies. Measured (Granite Rapids),
# tiles of 8 to 12 rows: 17 × 1024 × 33 0.64 of the time, 18 × 400 × 400 0.73, 33 × 100 × 64 0.84, 30 × 500 ×
# 300 0.86; of five: 48 × 300 × 300 0.96, 40 × 200 × 100 1.12
NEAR_TILES = 3
# bytes that divide those from line to line of an operand that lies in fewer places of a cache than it takes
FEW_PLACES = 1 << 10
# iterations of the sum that are written out for right operands that are read once. Measured (Zen 5, AVX-512
# and AVX2): many of 3 × 3 × 3 0.26 and 0.64 of the time, 5 × 5 × 5 0.48 and 0.88, 6 × 2 × 3 0.30 and 0.79,
# 8 × 8 × 8 0.85 and 0.86
DEPTH_AT_ONCE = 8
# tiles of a thread's part of the lines
LEAST_SHARE = 2
LEAST_AHEAD = 4  # lines that are worth asking for
HIGH = 8  # rows of a tile beside whose multiply-adds requests take no time
# rows up to which threads take parts of k and read memory as it lies. Each has sums for all columns, so that
# those of more rows no longer lie in its first cache, and they are added at the end. Measured (Zen 4, two
# threads): parts of the lines for 1 to 3 rows 1.07 of the time, 4 rows 0.97, more 0.85, with AVX2 0.70
PARTS_OF_K = 3
# rows that are one tile; more are tiles of at most four. Measured (Zen 3): 5 × 3000 × 300 0.88 of the time of
# tiles of three rows, 6 × 1000 × 1000 0.84; tiles of five and six of 9 to 18 rows 0.9 to 1.15
STREAMED_TILE = 6
PANEL = 4  # vectors of a line that is a panel as it lies, at most
BLOCK = 64  # rows of it that a block has, for all rows of the left operand
AGAIN = 2.5  # cycles to write a vector of sums and read it again, and what a tile waits for meanwhile
ON_STACK = 32 << 10  # bytes of sums that wait there
MOST_SUMS = 1 << 16  # of a thread, which the second cache holds beside the rest
NEAR_PAGES = 64  # that the processor finds at once
FAR_PAGE = 2  # cycles of a tile and line to find another


def streams(inside: Stage, product: Product, m: int, lanes: int, in_blocks: bool, target: Target) -> bool:
    """Whether few rows are better summed line by line of the right operand than in a tile: where its lines
    are long, for a tile of all columns reads them in order too, and no first cache holds it. ``in_blocks``
    says whether blocks of its lines are a choice."""
    if len(inside.op.reduce_axis) != 1 or not product.in_lines:
        return False
    depth, n, total = size(inside.op.reduce_axis[0]), size(product.column), right_bytes(inside, product)
    if depth is None or n is None or total is None or depth < 8 * STREAMED_DEPTH:
        return False
    if total <= 4 * target.l1_bytes or n < 4 * _streamed_tile(m)[1] * lanes:
        return False
    alone = target.num_cores == 1 or not worth_a_thread(inside.op, work(inside), target)
    if m == 1 and alone and one_tile(n, lanes, target):
        return False
    if m > cost_of(target).by_line_rows and hides(product, total, target):
        return False
    if total <= target.l2_bytes // 4 * 3:
        return m <= STREAMED_NEAR_ROWS
    return m <= (STREAMED_ROWS if in_blocks or total > 8 * target.l2_bytes else STREAMED_ALONE)


def hides(product: Product, total: int, target: Target) -> bool:
    """Whether multiply-adds of a tile take so long that they hide how far apart the lines of a right operand
    of ``total`` bytes lie, in a cache that is near enough."""
    table = cost_of(target)
    if table.in_place_rows == 1 or target.vector_bits // 8 < LINE:
        return False
    n = size(product.column)
    few = n is None or n * product.right.dtype.bytes % FEW_PLACES == 0
    return total <= (target.l2_bytes if few or table.in_place_cache == 2 else target.l3_bytes // 2)


def one_tile(n: int, lanes: int, target: Target) -> bool:
    """Whether sums of all columns of a row stay in registers, so that a tile reads lines whole, one after the
    other, and no sum is written between them: where lines come early enough by themselves.

    Measured (Zen 5): 1 × 229 × 375 0.61 of the time, caches emptied 0.79, 1 × 458 × 399 0.63 and 0.95, 1 ×
    242 × 320 0.92 and 0.81, 1 × 307 × 378 1.01 and 0.94."""
    return cost_of(target).in_place_cache > 2 and n <= (target.vector_registers - 2) * lanes


def ask_ahead(inside: Stage, copy: Stage, place: IterVar, cycles: float, width: int, target: Target) -> None:
    """Ask for panels of a constant a quarter of the first cache ahead, where an iteration takes twice the
    ``cycles`` in which its part of a panel comes from the second: in a model every layer meets its weights
    in memory, and what the processor asks for by itself ends with a page.

    Measured (Zen 5) with 48 MB of weights in turn: 12 % of 51 rows and 38 % of 8 rows are saved, 3 % of 128;
    see ``gemm.AHEAD_ROWS`` for weights that are near.
    """
    part = width * copy.op.body[0].dtype.bytes
    if cycles >= 2 * part / cost_of(target).l2_rate:
        inside.prefetch(copy.name, place, max(1, target.l1_bytes // 4 // part))


def lines_ahead(inside: Stage, product: Product, high: int, target: Target) -> int:
    """How many lines behind the one that they read tiles of ``high`` rows ask for of a right operand that
    lies as it does; 0 for none. Not more than a part of all lines, since what is behind the last one is asked
    for in vain, nor than stay in the places of the first cache that they have.

    Measured (Zen 5, 228 drawn shapes of 5 to 320 rows, one thread and two): with the caches emptied 0.85 and
    0.92 of the time, else 1.01, and 0.8 to 0.9 of 5 to 12 rows where the third cache has the operand."""
    table, depth = cost_of(target), size(inside.op.reduce_axis[-1])
    if table.ahead_lines == 1 or not product.in_lines or high <= table.by_line_rows or depth is None:
        return 0
    total = right_bytes(inside, product)
    if total is not None and total <= target.l1_bytes:
        return 0
    places = rows_that_stay(product.right, len(product.right.shape) - 2, target)
    ahead = min(table.ahead_lines, depth // (4 if high >= HIGH else 16), places // 2)
    return ahead if ahead >= LEAST_AHEAD else 0


def terms_ahead(inside: Stage, product: Product, target: Target) -> int:
    """How many terms behind the one that they read tiles ask for of a left operand whose rows lie whole pages
    apart and come from behind the second cache for every panel; 0 for none. What the processor asks for by
    itself ends with a page, and such rows meet in the same places; see ``analysis.cost_known``. Of others
    requests take as long as they save: 3000 × 300 × 1000 1.03 of the time, 1000 × 2000 × 2304 1.0."""
    ahead, left = cost_of(target).ahead_terms, product.left
    lies = product.left_axes.get(inside.op.reduce_axis[-1]) == left.ndim - 1
    row, total = constant(left.shape[-1]), bytes_of(left)
    if ahead == 1 or not lies or row is None or total is None or total <= target.l2_bytes:
        return 0
    row *= left.dtype.bytes
    return ahead if row >= 2 * PAGE and row % PAGE == 0 else 0


def _streamed_tile(m: int) -> tuple[int, int]:
    """Rows and vectors whose sums are read and written together."""
    high = m if m <= STREAMED_TILE else even(m, 4)
    return high, max(2, min(4, 8 // high))


def stream(
    s: Schedule,
    out: Stage,
    inside: Stage,
    product: Product,
    own: dict[IterVar, IterVar],
    m: int,
    lanes: int,
    target: Target,
) -> None:
    """Few rows: the right operand is read once, ``STREAMED_DEPTH`` of its rows side by side, while the sums
    wait in the first cache. The cores take parts of k, or for more than a few rows of its lines."""
    high, vectors = _streamed_tile(m)
    width = lanes * vectors
    (k,) = inside.op.reduce_axis
    n, depth = size(product.column), size(k)
    shares = target.num_cores if worth_a_thread(inside.op, work(inside), target) else 1
    sizes = {"k": STREAMED_DEPTH, "j": width, "i": high if m > high else None}
    if shares > 1 and m > PARTS_OF_K and n is not None and n >= shares * LEAST_SHARE * width:
        columns_at_once(out, inside, product, own, -(-n // (shares * width)) * width, lanes, parallel=True)
        axes: Axes = {"b": beside(inside, product), "k": k, "i": row_axes(product), "j": product.column}
        nest(inside, axes, "b ko jo io | ki ii ji", sizes)
        return
    if depth is None or depth < shares * STREAMED_DEPTH:
        shares = 1
    sums_in_parts(s, out, inside, product, own, "(s) b ko jo io | ki ii ji", sizes, lanes, shares)


def sums_in_parts(
    s: Schedule,
    out: Stage,
    inside: Stage,
    product: Product,
    own: dict[IterVar, IterVar],
    order: str,
    sizes: dict[str, int | None],
    lanes: int,
    shares: int,
) -> None:
    """All sums in this ``order`` of loops of these ``sizes``, apart from ``out``, which adds them up where
    ``shares`` of k, each of whole blocks, are for as many threads; the last may be smaller."""
    (k,) = inside.op.reduce_axis
    partial, place, axes = inside, list[IterVar](), list(inside.op.axis)
    if shares > 1:
        block = sizes["k"] or 1
        kc, _ = inside.split(k, -(-(size(k) or 1) // (shares * block)) * block)
        partial = s[s.rfactor(inside.name, kc)]
        (k,) = partial.op.reduce_axis
        place, axes = [partial.op.axis[0]], list(partial.op.axis[1:])
    rows = [a for a, o in zip(axes, own, strict=True) if o is product.row]
    columns = [a for a, o in zip(axes, own, strict=True) if o is product.column]
    around = [a for a in axes if a not in rows and a not in columns]
    nest(partial, {"s": place, "b": around, "k": k, "i": rows, "j": columns}, order, sizes, parallel=True)
    jo, ji = out.split(own[product.column], lanes)
    out.vectorize(ji)
    if place:
        inside.compute_at(out, jo)
        nest(inside, {"k": inside.op.reduce_axis, "i": inside.op.axis}, "| k i")


def are_panels(product: Product, high: int, target: Target) -> bool:
    """Whether lines of the right operand are as good as panels: one tile has all columns, and one of ``high``
    rows all rows, or the lines leave a rest of a vector and are copied for nothing but to begin alike.

    Measured (Zen 4): one tile of 16 × 16 sums of 20,000 terms takes 0.76 of the time; of 11 drawn shapes of
    49 to 565 rows and 20 to 51 columns, as they lie, 0.97 on one thread and 0.94 on two."""
    m = None if product.row is None else size(product.row)
    n, lanes = size(product.column), target.vector_lanes(product.right.dtype)
    if n is None or n > PANEL * lanes or not product.in_lines:
        return False
    return (m is not None and m <= high) or (n % lanes > 0 and target.has_masks)


def reads_once(inside: Stage, product: Product, keep: Sequence[IterVar], lanes: int) -> bool:
    """Whether each of many right operands, which one tile of rows reads, is so small that its columns are
    transposed in registers where they are read: a copy would be written in parts and read as a whole, which
    waits for memory."""
    n, depth = size(product.column), [size(k) for k in inside.op.reduce_axis]
    return (
        bool(keep)
        and all(a in product.right_axes for a in keep)
        and not widens(inside, product.right)
        and (n is not None and n <= lanes)
        and (len(depth) == 1 and depth[0] is not None and depth[0] <= DEPTH_AT_ONCE)
    )


def packs(inside: Stage, product: Product, high: int, target: Target) -> bool:
    """Whether a copy of the right operand pays, which tiles of ``high`` rows read: not for few rows, nor for
    a few tiles where it is near as it lies, and its lines do not take the places of one another in the first
    cache. How many an open number of rows is a call tells."""
    n, total = size(product.column), right_bytes(inside, product)
    again = [size(a) for a in beside(inside, product) if a not in product.right_axes]
    # a copy is converted once, and not for each tile
    alike = product.right.dtype == inside.op.body[0].dtype
    if product.row is None or (alike and are_panels(product, high, target)):
        return False
    most = PACKED_ROWS - 1
    if alike and None not in again and hides(product, total or 0, target):
        most = cost_of(target).in_place_rows // math.prod(t or 1 for t in again)
    near = n is None or total is None or total <= target.l2_bytes // 2
    if alike and near and None not in again and (n is None or n * product.right.dtype.bytes % PAGE):
        most = max(most, NEAR_TILES * high // math.prod(t or 1 for t in again))
    return not at_most(product.row.extent, most)


def right_bytes(inside: Stage, product: Product) -> int | None:
    """Bytes of the right operand that the tiles of all columns read; None where a size is symbolic."""
    sizes = [size(a) for a in (product.column, *inside.op.reduce_axis)]
    return None if None in sizes else math.prod(n or 0 for n in sizes) * product.right.dtype.bytes


class Blocks(NamedTuple):
    """Tiles of ``high`` rows × ``vectors`` over blocks of ``lines`` lines, for so many ``columns`` at a time.
    ``cycles`` is what they take for a line, on all threads."""

    high: int
    vectors: int
    lines: int
    columns: int
    cycles: float


def blocks_for(m: int, n: int, lanes: int, threads: int, total: int, target: Target) -> Blocks | None:
    """The blocks that take the least time; None where columns are not whole tiles, as many for each thread:
    sums of a rest would be masked, and not stay in registers. They are written and read again for each block.
    None where a thread has one tile either: of 64 columns and 8 rows two threads took 2.6 times as long."""
    table, registers = cost_of(target).of_panels, target.vector_registers
    wide = n // lanes
    lines = BLOCK if total <= target.l2_bytes else BLOCK // 2
    found = []
    for vectors in range(2, 5):
        most = (registers - 1 - vectors) // vectors
        high = even(m, most)
        if n % (vectors * lanes * threads) or (n == vectors * lanes * threads and m <= high):
            continue
        shares = (threads * f for f in range(1, wide + 1) if wide // (vectors * threads) % f == 0)
        columns = next((n // p for p in shares if m * n // p <= MOST_SUMS), vectors * lanes)
        cycles = wide // vectors * column(m, high, vectors, table) + m * AGAIN / lines * wide
        found.append(Blocks(high, vectors, lines, columns, cycles))
    return min(found, key=lambda b: b.cycles, default=None)


def row_axes(product: Product) -> list[IterVar]:
    """The axis of the rows, none where there is one row."""
    return [] if product.row is None else [product.row]


def columns_at_once(
    out: Stage,
    inside: Stage,
    product: Product,
    own: dict[IterVar, IterVar],
    columns: int,
    lanes: int,
    *,
    parallel: bool,
) -> None:
    """Sum all rows of so many ``columns`` before the next, which threads share out if ``parallel``."""
    jo, ji = out.split(own[product.column], columns)
    jv, lane = out.split(ji, lanes)
    around = [*[own[a] for a in beside(inside, product)], jo]
    out.reorder(*around, *[own[a] for a in row_axes(product)], jv, lane)
    out.vectorize(lane)
    shared = fuse(out, around)
    if parallel:
        out.parallel(shared)
    inside.compute_at(out, shared)
    m = 1 if product.row is None else size(product.row)
    if m is None or m * columns * inside.op.body[0].dtype.bytes > ON_STACK:
        inside.set_scope("global")


def in_blocks(
    s: Schedule,
    out: Stage,
    inside: Stage,
    product: Product,
    own: dict[IterVar, IterVar],
    b: Blocks,
    lanes: int,
    *,
    parallel: bool,
) -> None:
    """All rows with a block of lines of the right operand, which the first cache holds, then with the next;
    of some columns at a time, which threads share out if ``parallel``."""
    columns_at_once(out, inside, product, own, b.columns, lanes, parallel=parallel)
    *deep, k = inside.op.reduce_axis
    keep, rows = beside(inside, product), row_axes(product)
    axes: Axes = {"b": keep, "d": deep, "k": k, "i": rows, "j": product.column}
    nest(inside, axes, "b d ko jo io ki | ii ji", {"k": b.lines, "i": b.high, "j": lanes * b.vectors})
