"""Matrix products: register tiles of rows × vectors with the reduction around them, the right operand packed
into panels of a tile's width.

The loops are those of Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (ACM TOMS
34, 2008), but for the blocks of k, which only large products have (``deep``): a panel of B as deep as k
streams from the second cache at one line for 12 multiply-adds, which costs nothing, and so each element of C
is written once and whatever follows is computed in the tile. Uses public primitives only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ..analysis import Product, bytes_of, cost_of, product_of, worth_a_thread
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import IterVar, Tensor
from . import column_blocks, deep, long_sums, matrix_unit, mixed_lines, open_columns, short_lines, streams
from .as_one import elements_of, rows_counted, summed_along
from .choices import at_most, bound
from .column_blocks import block_of, copied_for_rows, share_of, shared_panels, shares_pay, stays_near, uneven
from .common import LINE, PACKED_ROWS, PAGE, converts, evenly, is_known, share_out, size, together_of, work
from .few_sums import sum_apart
from .integers import sum_panels, sums_beside, turn_as_packed, turn_in
from .lanes import beside, in_lanes, product_in_lanes, rows_in_lanes, turn, turned
from .narrow import PAIRED_ROWS, PAIRS_PAY, copied_across, halves, held_narrow, widens
from .nests import fill, lines_at_once, nest, pack, sums, widen
from .register_tile import MANY, column, computes_much_twice, rows_that_stay, tile_for
from .streams import right_bytes

# rows that have loops of their own where a call tells how many there are: their tile, read where columns lie,
# is lower and wider. Measured (Granite Rapids): 1 × 300 × 64 of open rows 0.75 of the time, 4 × 64 × 64 0.54
FEWEST_ROWS = 4
WIDENED = 32  # elements of the left operand that become 16 bits wide at a time
WHOLE = 64  # elements of a vector of the loop IR, at most: of longer ones products of a group lie apart
# of columns, from which a panel of a narrower left operand is made wide for them, in the call. Measured: 2
# tiles lose 11 % of the time (Zen 5), 12 of them 2 %
MANY_TILES = 6
# rows up to which panels of a constant that are read once are asked for ahead. Measured (Emerald Rapids,
# 768 × 768 float32, weights far and near, two hardware threads of a core): 8 rows 0.74 and 0.86 of the time,
# 96 0.84 and 1.00, 128 1.00 and 1.14, 512 1.08 and 1.14; the requests take places of the loads that a tile
# lives on
AHEAD_ROWS = 96
# elements of the result for each of the right operand, from which it is written row by row. Measured (Granite
# Rapids, one thread and two): 414 × 14 × 1338 0.54 and 0.81 of the time, 1904 × 7 × 560 0.77 and 0.40, 2000 ×
# 64 × 2000 0.92 and 0.79, 1000 × 128 × 1000 0.96 and 0.95; 1024 × 256 × 512, of four, 1.00 and 1.04
SHORT_SUMS = 6


def applies(s: Schedule, inside: Stage, target: Target, constants: Sequence[Tensor]) -> bool:
    """Whether ``inside`` is a matrix product for ``apply``: not of one column, and not a few rows with a
    right operand that lies column by column, which are products along memory."""
    product = product_of(inside.op, views=True)
    if (
        product is None
        or size(product.column) == 1
        or any(size(a) == 0 for a in (*inside.op.axis, *inside.op.reduce_axis))
    ):
        return False
    return (
        _fixed(product, constants)
        or product.in_lines
        or copied_across(inside, product, target)
        or (_along(inside, product) and size(inside.op.reduce_axis[-1]) is not None)
    )


def _along(inside: Stage, product: Product) -> bool:
    """Whether the elements of both operands that a sum goes over are neighbours in memory."""
    last = inside.op.reduce_axis[-1]
    return not product.narrow and all(
        axes[last] == len(axes) - 1 for axes in (product.left_axes, product.right_axes)
    )


def _fixed(product: Product, constants: Sequence[Tensor]) -> bool:
    return is_known(product.right, constants)


def _rows(product: Product) -> int | None:
    return 1 if product.row is None else size(product.row)


def _most_rows(product: Product) -> int | None:
    """The number of rows, or the most that there are where that is few."""
    m = 1 if product.row is None else bound(product.row.extent)
    return m if _rows(product) is not None or (m is not None and m < PACKED_ROWS) else None


def _many(product: Product) -> bool:
    m = _rows(product)
    return m is None or m >= PACKED_ROWS


def apply(s: Schedule, out: Stage, inside: Stage, target: Target, constants: Sequence[Tensor]) -> None:
    """Compute the product ``inside`` in register tiles of ``out``, which has its shape and reads it at its
    own place."""
    axes = rows_counted(inside, out)
    product = product_of(inside.op, views=True)
    assert product is not None
    own = dict(zip(inside.op.axis, axes, strict=True))
    lanes = target.vector_lanes(inside.op.body[0].dtype)
    m, n = _rows(product), size(product.column)
    fixed = _fixed(product, constants)
    keep = beside(inside, product)
    if open_columns.applies(inside, product, keep, fixed, target):
        shared = worth_a_thread(inside.op, work(inside), target)
        open_columns.apply(s, out, inside, product, keep, own, shared, target)
        return
    lines = short_lines.lines_for(inside, product, m, fixed, lanes, target)
    if lines is not None:
        short_lines.apply(s, out, inside, product, own, lines)
        return
    turns = turned(inside, product, m, fixed, lanes, target)
    if turns:
        product = turn(s, inside, product, fixed, target)
    if turns or (not fixed and _in_lanes(inside, product, m, lanes, target)):
        # a row at a time where a call tells how many: a tile of several has code for each number of them
        product_in_lanes(s, out, inside, product, own, m if turns else m or 1, lanes, target)
        return
    if sum_apart(s, out, inside, product, own, lanes, target):
        return
    if not fixed and long_sums.applies(inside, product, lanes, target):
        long_sums.apply(s, out, inside, product, own, lanes, target)
        return
    if matrix_unit.applies(inside, product, fixed, target):
        matrix_unit.apply(s, out, inside, product, own, keep, fixed, target)
        return
    iterations = work(inside)
    shared = worth_a_thread(inside.op, iterations, target)
    if mixed_lines.applies(s, inside, product, fixed, keep, target):
        mixed_lines.apply(s, out, inside, product, own, shared, target)
        return
    threads = target.num_cores if shared and not keep else 1
    t = _tiles(inside, product, fixed, lanes, threads, target)
    copied = t.packs and not fixed and not product.in_lines
    once = copied and t.together == 1 and m is not None and m <= t.high
    once = once and streams.reads_once(inside, product, keep, lanes)
    if once:
        t = t._replace(packs=False)
    lies = not (fixed or t.together > 1 or t.overlaps)
    b = _blocks(inside, product, t, lanes, threads, target) if lies else None
    if m is not None and lies and streams.streams(inside, product, m, lanes, b is not None, target):
        streams.stream(s, out, inside, product, own, m, lanes, target)
        return
    if b is not None:
        streams.in_blocks(s, out, inside, product, own, b, lanes, parallel=shared)
        return
    d = deep.deep_blocks(inside, product, t.high, t.width, threads, target) if t.packs else None
    if d is not None:
        _in_blocks_of_k(s, out, inside, product, own, fixed, t, d, shared, target)
        return
    # in the order in which the left operand lies, of which each row is read in its own place
    over = inside.op.reduce_axis
    if t.together == 1:
        over = tuple(sorted(over, key=lambda a: product.left_axes.get(a, 0)))
    columns = sums_beside(s, out, inside, product, t.together) if t.packs and not fixed else None
    also = () if columns is None else (columns,)
    right = _right(s, inside, product, fixed, t, target, *also, deep=over) if t.packs else None
    left = _left(s, inside, product, t, constants, target)

    rows = [] if product.row is None else [product.row]
    # of products that are summed together a rest is one vector too, so that they stay neighbours
    whole = (lanes if t.together == 1 else t.width) if target.has_masks else 0
    cores = target.num_cores if shared else 1
    near = stays_near(product, t.together, target)
    block = _columns_at_once(inside, product, fixed, t, 1 if t.by_rows else cores, target)
    # products that pack their own right operands, as many for each thread, are not cut where one block has
    # all columns (Zen 4, two threads: 12 × 197 × 64 × 197 0.93, 8 × 150 × 96 × 300 0.99 of the time), nor are
    # others of which each thread takes rows
    own_right = bool(keep) and not fixed and all(a in product.right_axes for a in keep)
    batch = math.prod(size(a) or 0 for a in keep)
    apart = own_right and right is not None and left is None and None not in (m, n) and uneven(batch, cores)
    apart = apart and shares_pay(product, batch, m or 1, n or 1, (t.high, t.vectors, t.width), target)
    if block is not None and own_right and (apart or evenly(batch, cores)):
        block = block if _columns_at_once(inside, product, fixed, t, 1, target) else None
    apart = apart and block is None
    if block is not None and t.by_rows:
        # too many columns for one block: the blocks are what is shared out, if all do not stay near anyway
        block = None if near else _columns_at_once(inside, product, fixed, t, cores, target)
    blocks = bool(keep) or block is not None
    each = own_right or (blocks and not fixed and not keep)  # a copy for each block
    # a batch may be of one, and of one block of columns: rows are what there is for every thread (Zen 4, two
    # threads: 784 × 128 × 512 0.53 of the time, 3136 × 64 × 256 0.55)
    rows_too = shared and bool(keep) and left is None and (not each if t.packs else uneven(batch, cores))
    # each thread packs what it reads again and again, rather than wait for what others have written
    mine = t.by_rows and block is None and near and right is not None and left is None and not fixed
    share: list[IterVar] = []
    alone = cores > 1 and right is not None and left is None and not (fixed or keep or t.together > 1)
    if alone and block is not None and column_blocks.one_block(product, block * t.width):
        block, share = None, [*out.split(own[rows[0]], nparts=cores)]
        blocks = each = False
    elif mine or apart:
        share = [*out.split(own[rows[0]], share_of(m or 1, t.high, cores))]
    if share:
        own[rows[0]] = share.pop()
    others = "joo b" if _again_and_again(product, keep, block, t.width, target) else "b joo"
    loops = nest(
        out,
        {"b": [own[a] for a in keep], "t": share, "i": [own[a] for a in rows], "j": own[product.column]},
        "(b t) io joi | ii ji"
        if share
        else f"({others} io) joi | ii ji"
        if rows_too
        else f"({others}) io joi | ii ji"
        if blocks
        else "(io) joi | ii ji",
        {"i": t.high, "j": (t.width, "shift") if t.overlaps else t.width, "jo": block},
        parallel=shared,
        whole=whole,
    )
    if left is not None:
        left.compute_at(out, loops.around[-2])
    elif cores > 1 and not keep and (share or (block and n is not None and n <= cores * block * t.width)):
        turn_in(s, out, inside, product, loops.around[0], target)
    made = sums(
        s,
        inside,
        out,
        loops.place,
        {"b": keep, "k": over[:-1], "p": over[-1], "i": rows, "j": product.column},
        "b k po | i pi j" if t.together > 1 else "b k p | i j",
        {"p": t.together if t.together > 1 else None},
        whole=whole,
    )
    if once:
        inside.unroll(over[0])
    if right is None:
        ahead = streams.lines_ahead(inside, product, t.high, target)
        if ahead:
            inside.prefetch(product.right.name, made.place, ahead)
        return
    terms = streams.terms_ahead(inside, product, target) if left is None and t.together == 1 else 0
    if terms:
        inside.prefetch(product.left.name, made.place, terms)
    if fixed and block is not None and m is not None and m > t.high:
        # in a model every layer meets its weights in memory. Measured (Emerald Rapids, float32, weights far
        # and near, one thread): 128 × 768 × 3072 0.76 and 0.96 of the time, 51 × 768 × 768 0.81 and 0.89,
        # 1024 × 512 × 512 1.00 and 1.00
        inside.prefetch(right.name, made.place, share=True)
    elif fixed and _read_by(product, keep) <= AHEAD_ROWS:
        streams.ask_ahead(inside, right, made.place, cost_of(target).tile(t.high, t.vectors), t.width, target)
    fill(right, len(over), lines_at_once(size(over[-1])), t.together)
    place = loops.around[0] if each or share else None
    if place is not None:
        right.compute_at(out, place)
    elif not fixed:
        share_out(right, [right.leaf_iter_vars[0]], iterations // 16, target)
    if columns is not None:
        sum_panels(s, columns, out, place, t.width, block if each else None, target)


def _in_blocks_of_k(
    s: Schedule,
    out: Stage,
    inside: Stage,
    product: Product,
    own: dict[IterVar, IterVar],
    fixed: bool,
    t: _Tiles,
    d: deep.Deep,
    parallel: bool,
    target: Target,
) -> None:
    assert product.row is not None
    right = _right(s, inside, product, fixed, t, target)
    left = pack(s, inside, product.left, product.left_axes, product.row, t.high)
    lanes = t.width // t.vectors
    deep.in_deep_blocks(s, out, inside, product, own, d, (t.high, t.width), lanes, right, parallel=parallel)
    for copy in (left, right):
        fill(copy, 1, lines_at_once(size(inside.op.reduce_axis[-1])))
        if copy is left or not fixed:
            share_out(copy, [copy.leaf_iter_vars[0]], work(copy) // 4, target)


# of the time of tiles for shares of rows, at most, that those for shares of columns take which are chosen
# instead. Measured (Zen 4, two threads): 200 × 1280 × 320 0.77 to 0.82 of the time, 79 × 1321 × 289 0.8 to
# 0.88, 20 × 1303 × 395 0.85, 63 × 2446 × 442 0.92; of equals 1017 × 139 × 1073 1.01 to 1.12
SURE = 0.97


class _Tiles(NamedTuple):
    """The register tile of a product, ``high`` rows of ``vectors``, ``width`` columns. ``together``: so many
    products in one instruction; ``overlaps``: the last columns in a tile that overlaps the one before;
    ``packs``: the right operand is read from a copy; ``by_rows``: threads share rows out, not columns."""

    high: int
    vectors: int
    width: int
    together: int
    overlaps: bool
    packs: bool
    by_rows: bool


def _tiles(
    inside: Stage, product: Product, fixed: bool, lanes: int, threads: int, target: Target, rows: bool = True
) -> _Tiles:
    if not fixed and product.row is not None and product.in_lines:
        at_most(product.row.extent, FEWEST_ROWS)  # the tile of so few is wider: a call tells
    m, n = _most_rows(product), size(product.column)
    together = 1
    if (product.narrow or halves(inside, product)) and (fixed or m is None or m >= PAIRED_ROWS):
        together = together_of(product.left, product.right, target)
    # one register less for a pair of products on its way to the sum
    registers = target.vector_registers - (together == 2 and product.narrow)
    table = cost_of(target)
    # read where they lie, far apart, columns are read as seldom as can be. Measured (Granite Rapids): tiles
    # of 14 × 2 for 14 × 600 × 600 0.72 of the time of 5 × 4, of 12 × 2 for 12 × 512 × 512 0.88, of 10 × 2
    # for 10 × 300 × 90 0.86
    once = not (fixed or together > 1 or _many(product)) and product.in_lines
    costs = table if together > 1 else table.of_panels
    most = MANY
    if together == 1 and product.row is not None:
        most = rows_that_stay(product.left, product.left_axes.get(product.row), target)
    high, vectors = tile_for(
        m, n, lanes, registers, costs, threads, once=once, masks=target.has_masks, whole=True, most=most
    )
    by_rows = False
    if rows and threads > 1 and m is not None and n is not None:
        # what counts is the thread with the most to do
        share, wide = -(-m // threads), -(-n // lanes)
        other = tile_for(share, n, lanes, registers, costs, masks=target.has_masks, whole=True, most=most)
        columns = column(m, high, vectors, costs) * -(-wide // (vectors * threads))
        copied = 0.0 if fixed else copied_for_rows(inside, product, n, together, threads, target)
        by_rows = column(share, *other, costs) * -(-wide // other[1]) + copied < columns
        if by_rows:
            high, vectors = other
    if together > 1:
        # one vector of the loop IR, so that the products of a group are neighbours
        vectors = min(1 << vectors.bit_length() - 1, max(1, WHOLE // lanes))
    width = lanes * vectors
    overlaps = (
        not fixed
        and together == 1
        and not (product.left is product.right and widens(inside, product.left))
        and _overlaps(inside, product, high, width, target)
    )
    packs = (
        fixed
        or together > 1
        or (not overlaps and (not product.in_lines or streams.packs(inside, product, high, target)))
    )
    found = _Tiles(high, vectors, width, together, overlaps, packs, by_rows)
    if not by_rows or m is None or n is None or stays_near(product, together, target):
        return found
    if _columns_at_once(inside, product, fixed, found, 1, target) is None:
        return found
    # of too many columns for one block, the blocks are what is shared out

    def time(t: _Tiles) -> float:
        block = _columns_at_once(inside, product, fixed, t, threads, target)
        return column(m, t.high, t.vectors, costs) * shared_panels(-(-n // t.width), block, threads)

    by_columns = _tiles(inside, product, fixed, lanes, threads, target, rows=False)
    return by_columns if time(by_columns) < SURE * time(found) else found


def _blocks(
    inside: Stage, product: Product, t: _Tiles, lanes: int, threads: int, target: Target
) -> streams.Blocks | None:
    """Blocks of lines of the right operand, where they take less time than the tiles ``t``."""
    m, n, depth = _rows(product), size(product.column), size(inside.op.reduce_axis[-1])
    total = right_bytes(inside, product)
    if m is None or n is None or depth is None or total is None or not product.in_lines:
        return None
    if depth < 2 * streams.BLOCK or total <= target.l1_bytes or (t.packs and widens(inside, product.left)):
        return None
    if streams.hides(product, total, target):
        return None
    table = cost_of(target).of_panels
    b = streams.blocks_for(m, n, lanes, threads, total, target)
    if b is None:
        return None
    tiles = -(-n // t.width) * column(m, t.high, t.vectors, table)
    if t.packs:
        tiles += n * table.transposition
    elif total > streams.NEAR_PAGES * PAGE:
        tiles += -(-n // t.width) * -(-m // t.high) * streams.FAR_PAGE
    return b if b.cycles < tiles else None


def _right(
    s: Schedule,
    inside: Stage,
    product: Product,
    fixed: bool,
    t: _Tiles,
    target: Target,
    *also: Stage,
    deep: Sequence[IterVar] = (),
) -> Stage:
    """The right operand in panels of a tile's width, its sums in the order ``deep``, which other stages
    ``also`` read."""
    # a fixed one stays as narrow as it is: it takes half the memory, and converting a vector of it costs
    # nothing beside the products of a tile. Measured (Zen 5, float16, bfloat16 and int8, 768 × 768): 1 to
    # 384 rows 0.97 to 1.02 of the time, one row 0.57
    wide = widens(inside, product.right) and not (fixed and converts(product.right, target))
    dtype = "float32" if wide and t.together == 1 else "int16" if t.together == 2 and product.narrow else ""
    right, axes = product.right, product.right_axes
    names = [st.name for st in also]
    copy = pack(
        s,
        inside,
        right,
        axes,
        product.column,
        t.width,
        deep=deep,
        together=t.together,
        dtype=dtype,
        also=names,
    )
    if t.together > 1 and not fixed:
        turn_as_packed(s, right, copy)
    return copy


def _left(
    s: Schedule, inside: Stage, product: Product, t: _Tiles, constants: Sequence[Tensor], target: Target
) -> Stage | None:
    """The left operand copied, where it pays. A wide copy of narrow panels is for the caller to place."""
    if product.left is product.right and t.packs:  # one copy, which both read
        return None
    held = product.row in product.left_axes and held_narrow(inside, product.left, constants, target)
    wide = t.together == 1 and (held or widens(inside, product.left))
    # what lies side by side is read there, though bytes are widened to pairs; others are put side by side
    apart = product.left_axes.get(inside.op.reduce_axis[-1]) != len(product.left.shape) - 1
    together = (t.together == 2 and product.narrow) or (t.together > 1 and apart)
    if not (together or (t.packs and t.high > 1 and _far(product, target, t)) or (t.high > 1 and wide)):
        return None
    n = size(product.column)
    if held and t.together == 1 and (n is None or n >= MANY_TILES * t.width):
        lanes = t.width // t.vectors
        return _left_in_panels(s, inside, product, t.high, lanes)
    _copy_left(s, inside, product, t.high, t.together, wide, target)
    return None


def _columns_at_once(
    inside: Stage, product: Product, fixed: bool, t: _Tiles, threads: int, target: Target
) -> int | None:
    """Panels of a block; see ``_block``. A block that is read again for each tile of rows and does not stay
    in the second cache comes from the third one as often."""
    m, table = _rows(product), cost_of(target)
    depth = math.prod(size(k) or 1 for k in inside.op.reduce_axis)
    if t.overlaps or _writes_most(inside, product, t, depth, threads, target):
        return None
    wide = t.packs and (m is None or m >= 4 * PACKED_ROWS)
    most = table.block_columns // (1 if wide else 2)
    line = depth * product.right.dtype.bytes
    most = min(most, table.block_bytes // line)
    if fixed:
        most = min(most, table.near_bytes // line)
    return block_of(size(product.column), t.width, most, threads)


def _writes_most(
    inside: Stage, product: Product, t: _Tiles, depth: int, threads: int, target: Target
) -> bool:
    """Whether a product writes many times what it reads of a right operand that stays near: it does so row
    by row, all columns of a tile of rows at a time, and threads share rows out. Parts of a row are lines here
    and there, of which the processor asks for none ahead."""
    m, total = _rows(product), right_bytes(inside, product)
    near = min(cost_of(target).block_bytes, target.l2_bytes // 4)
    return (
        m is not None
        and total is not None
        and total <= near
        and m >= max(SHORT_SUMS * depth, t.high * threads)
    )


def _read_by(product: Product, keep: Sequence[IterVar]) -> int:
    """The rows that read the right operand, a symbolic number of them counted as none."""
    return (_rows(product) or 0) * math.prod(size(a) or 0 for a in keep if a not in product.right_axes)


def _again_and_again(
    product: Product, keep: Sequence[IterVar], block: int | None, width: int, target: Target
) -> bool:
    """Whether the right operand is better read a block at a time, by all the rows around: where those are
    along several axes, as of an image's pixels, it would come from the third cache for each index of the
    outer ones, and the left operand is less to read again for each block."""
    left, right = (bytes_of(t) for t in (product.left, product.right))
    times = math.prod(size(a) or 0 for a in keep)
    if left is None or right is None or block is None or any(a in product.right_axes for a in keep):
        return False
    blocks = -(-(size(product.column) or 0) // (block * width))
    return right > 2 * target.l2_bytes and right * (times - 1) > left * (blocks - 1)


def _overlaps(inside: Stage, product: Product, high: int, width: int, target: Target) -> bool:
    """Whether the right operand is read where it lies, its last columns in a tile that overlaps the one
    before: one that is not a whole number of tiles wide, and fits the first cache, or the second where it
    would not be packed.

    A masked store takes 12 cycles on a Zen 3, and a packed panel cannot begin inside another. Measured from
    25 to 90 rows and columns, packing included: 2 to 40 % faster; 13 × 100 × 50 31 %, 7 × 129 × 65 four times
    as fast. Where there is no rest, or a larger operand is read again and again (113 × 113 × 113: 12 %
    slower), packing is better.
    """
    n, total = size(product.column), right_bytes(inside, product)
    if (
        n is None
        or total is None
        or not product.in_lines
        or not width < n <= cost_of(target).block_columns
        or n % width == 0
        or computes_much_twice(n, width, target.vector_lanes(inside.op.body[0].dtype), target.has_masks)
        or _far(product, target)
    ):
        return False
    if total <= target.l1_bytes:
        return True
    return total <= target.l2_bytes // 2 and not streams.packs(inside, product, high, target)


def _in_lanes(inside: Stage, product: Product, m: int | None, lanes: int, target: Target) -> bool:
    if not _along(inside, product):
        return False
    depth, n = elements_of(summed_along(inside.op)), size(product.column)
    pairs = halves(inside, product) and target.sums_bfloat16
    if pairs and (m or 0) >= PAIRS_PAY:
        return False
    if m is not None or product.row is None:
        return in_lanes(m, n, depth, product.left.dtype.bytes, lanes, target)
    few = rows_in_lanes(n, depth, product.left.dtype.bytes, lanes, target)
    few = min(few, PAIRS_PAY - 1) if pairs else few
    return few > 0 and at_most(product.row.extent, few)


def _far(product: Product, target: Target, t: _Tiles | None = None) -> bool:
    """Whether the rows of the left operand are neighbours in memory and k is far apart, in more of it than
    the first cache holds; and whether the tiles ``t`` had better read a copy, where they are given."""
    sizes = [size(a) for a in product.left_axes]
    last = len(product.left.shape) - 1
    if product.row is None or product.left_axes.get(product.row) != last or len(sizes) < 2:
        return False
    total = product.left.dtype.bytes
    for n in sizes:
        total *= n or 64
    return total > target.l1_bytes and (t is None or _read_again(product, total, t, target))


def _read_again(product: Product, total: int, t: _Tiles, target: Target) -> bool:
    """Whether tiles of columns read a left operand that is ``total`` bytes so often that a copy takes less
    time than its lines of memory, of which a tile of rows uses a part.

    Measured (Granite Rapids, one thread): in place 70 × 1254 × 15 takes 0.67 of the time, 1024 × 256 × 64
    0.59, 128 × 1024 × 128 0.76, 400 × 400 × 100 0.94; 600 × 600 × 200 1.19, 512 × 640 × 768 1.37.
    """
    n, table = size(product.column), cost_of(target)
    if n is None:
        return True
    rate = table.l2_rate if total <= target.l2_bytes // 2 else table.l3_rate
    return (-(-n // t.width) - 1) * LINE / rate / t.high > table.transposition


def _left_in_panels(s: Schedule, inside: Stage, product: Product, high: int, lanes: int) -> Stage:
    """A narrower constant as the left operand, whose elements are used one by one: in panels of a tile's
    height, of which one is made wide for all columns. The wide copy, for the caller to place."""
    assert product.row is not None
    copy = pack(s, inside, product.left, product.left_axes, product.row, high)
    return widen(s, inside, copy, len(inside.op.reduce_axis) + 1, lanes)


def _copy_left(
    s: Schedule, inside: Stage, product: Product, high: int, together: int, widens: bool, target: Target
) -> None:
    """The left operand in panels of a tile's height, so that an iteration of k reads one line and not one
    line far away. Pairs whose elements are neighbours are widened where they lie, and so are 16-bit
    floats."""
    k = inside.op.reduce_axis[-1]
    pairs = together == 2 and product.narrow
    dtype = "int16" if pairs else inside.op.body[0].dtype.name if widens else ""
    if (
        product.row not in product.left_axes
        or high == 1
        or ((pairs or widens) and product.left_axes[k] == len(product.left.shape) - 1)
    ):
        copy = s[s.cache_read(product.left, "global", [inside.name], dtype or product.left.dtype.name)]
        *others, last = copy.op.axis
        outer, inner = copy.split(last, WIDENED)
        copy.vectorize(inner)
        share_out(copy, others[:1] or [outer], work(copy) // 4, target)
        return
    copy = pack(s, inside, product.left, product.left_axes, product.row, high, together=together, dtype=dtype)
    fill(copy, len(inside.op.reduce_axis), None, together)
    share_out(copy, [copy.leaf_iter_vars[0]], work(copy) // 4, target)
