"""Products of 8-bit integers in the tiles of a matrix unit: up to 32 rows by 32 columns of sums at a time, of
64 products each. Rows are of nearly equal height, a last tile may be lower; sums of any number of products
are whole tiles of what is padded with zeros, since both operands are copied.

A block of rows is copied so that the 64 bytes of a step lie side by side: a tile is then 16 lines one after
the other, and the copy stays in the first cache while the panels of the right operand come from the second.
Measured (Granite Rapids, uint8 × int8, one thread): 1024³ takes 0.39 of the time of vpdpbusd; without the
copy of the rows 1.4 to 2 times as long, for where the pages of its operands lie decides what the second cache
keeps. Uses public primitives only; what the tiles are is the code generator's knowledge.
"""

from __future__ import annotations

import math

from ..analysis import Product, worth_a_thread
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import IterVar
from .choices import at_most
from .common import in_registers, share_out, size, work
from .nests import fill, fuse, nest, pack
from .register_tile import even

HIGH, WIDE, DEEP, TOGETHER = 32, 32, 64, 4  # of a tile: rows, columns, products of a sum, of one instruction
# from which on it pays: fewer leave most of a tile empty
FEWEST_ROWS, FEWEST_COLUMNS, FEWEST_PRODUCTS = 4, 8, 24
# products from which it does: a configuration takes 300 cycles. Measured (Emerald Rapids, int8, a constant as
# the right operand and one of the call): 6 × 30 × 30 1.3 times as long as in vectors and 1.3, 16 × 64 × 64
# 0.63 and 1.18, 64 × 48 × 48 0.61 and 0.77, 33 × 300 × 12 0.60 and 0.67, 4 × 512 × 512 0.32 and 0.70
FEWEST_OF_CONSTANT, FEWEST_OF_CALL = 1 << 15, 1 << 16


def applies(inside: Stage, product: Product, fixed: bool, target: Target) -> bool:
    """Whether a product is computed in tiles: of 8-bit integers with sums of 32 bits, of so many columns and
    products of a sum, both known, and of as many rows as a call may tell."""
    if not target.has_tiles or product.row is None or inside.op.body[0].dtype.name != "int32":
        return False
    if product.left is product.right:  # one copy, which both read, has one layout
        return False
    n, depth = size(product.column), size(inside.op.reduce_axis[-1])
    return (
        all(t.dtype.bits == 8 and t.dtype.code in ("int", "uint") for t in (product.left, product.right))
        and len(inside.op.reduce_axis) == 1
        and product.row in product.left_axes
        and (n or 0) >= FEWEST_COLUMNS
        and (depth or 0) >= FEWEST_PRODUCTS
        and work(inside) >= (FEWEST_OF_CONSTANT if fixed else FEWEST_OF_CALL)
        and not at_most(product.row.extent, FEWEST_ROWS - 1)
    )


def apply(
    s: Schedule,
    out: Stage,
    inside: Stage,
    product: Product,
    own: dict[IterVar, IterVar],
    keep: list[IterVar],
    fixed: bool,
    target: Target,
) -> None:
    """Compute the product ``inside`` in tiles within ``out``, for each index of the axes ``keep``."""
    assert product.row is not None
    k = inside.op.reduce_axis[0]
    n, depth, m = size(product.column) or 0, size(k) or 0, size(product.row)
    shared = worth_a_thread(inside.op, work(inside), target)
    times = math.prod(size(a) or 1 for a in keep)
    threads = target.num_cores if shared else 1
    high = HIGH if m is None else even(m, HIGH)
    # of equal depth, so that panels hold as few zeros behind the end as can be
    deep = even(-(-depth // TOGETHER), DEEP // TOGETHER) * TOGETHER
    wide = _width(n)
    panels = -(-n // wide)
    tiles = times * (threads if m is None else -(-m // high))
    # rows that stay near: a block of columns is copied where all of them use it, by the thread that does.
    # Measured (Emerald Rapids, two threads): 77 × 512 × 2048 0.52 of the time, 128 × 768 × 3072 0.67
    near = m is not None and m * depth <= target.l2_bytes // 4
    once = near and not (fixed or keep) and panels >= 4 * threads
    if once:
        blocks = -(-panels // max(1, min(target.l2_bytes // 16 // (wide * depth), panels // threads)))
    else:
        blocks = _blocks(panels, wide * depth, tiles, threads, target)
    right = pack(
        s, inside, product.right, product.right_axes, product.column, wide, together=TOGETHER, step=deep
    )
    left = pack(s, inside, product.left, product.left_axes, product.row, high, together=deep)

    others = [own[a] for a in keep]
    rows, row = out.split(own[product.row], high)
    panel, column = out.split(own[product.column], wide)
    block, panel = out.split(panel, even(panels, -(-panels // blocks)))
    out.reorder(*others, block, rows, panel, row, column)
    out.vectorize(column)
    out.pragma(column, "whole_vectors", wide)
    # a right operand of each index is copied where it is used, unless threads share the rows of one
    each = bool(keep) and not fixed and all(a in product.right_axes for a in keep) and times >= 2 * threads
    if once:
        around, index = rows, block
    else:
        around = fuse(out, [block, rows] if each else [*others, block, rows])
        index = fuse(out, others) if each else around
    if shared:
        out.parallel(index)
    inside.compute_at(out, panel)
    in_registers(s, inside)
    # the copies have made another operation of it
    now = dict(zip(own, inside.op.axis, strict=True))
    row, column = now[product.row], now[product.column]
    step, group = inside.split(k, deep, tail="zeros")
    group, four = inside.split(group, TOGETHER, tail="zeros")
    inside.reorder(*[now[a] for a in keep], step, row, group, four, column)
    inside.unroll(four)
    inside.vectorize(column)
    inside.pragma(column, "whole_vectors", wide)
    inside.pragma(row, "matrix_tiles")

    if not once:
        left.compute_at(out, around)
    *before, steps, line, lanes = left.op.axis
    left.reorder(*before, line, steps, lanes)
    left.vectorize(lanes)
    # a line of memory for each row of a tile, whatever part of it a step has
    left.pragma(lanes, "whole_vectors", DEEP)
    left.storage_align(line, DEEP, 0)
    if product.in_lines:
        fill(right, 2, None, TOGETHER)
    else:  # what is multiplied together is four neighbours there already
        *others, line, lane, four = right.op.axis
        nest(right, {"f": others, "g": line, "l": lane, "r": four}, "f l g | r")
    if once:
        share_out(left, before[:1], work(left) // 16, target)
    if each or once:
        right.compute_at(out, index)
    elif not fixed:
        share_out(right, [right.leaf_iter_vars[0]], work(inside) // 16, target)


def _width(n: int) -> int:
    """Columns of a tile. Half a tile where the whole ones would be half empty: it reads as often what is in
    the first cache, and computes as much as there is."""
    return WIDE // 2 if -(-n // (WIDE // 2)) in (1, 3) else WIDE


def _blocks(panels: int, each: int, tiles: int, threads: int, target: Target) -> int:
    """In how many blocks of columns the panels of so many bytes are read: each fits half of the second cache,
    and with ``tiles`` of rows there is something to do for every thread."""
    fit = max(1, target.l2_bytes // 2 // each)
    return min(panels, max(-(-panels // fit), -(-threads // tiles)))
