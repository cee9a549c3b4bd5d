"""Products of 8-bit integers in the tiles of a matrix unit: up to 32 rows by 32 columns of sums at a time, of
64 products each.

A block of rows is copied so that the 64 bytes of a step lie side by side: a tile is then 16 lines one after
the other, and the copy stays in the first cache while the panels of the right operand come from the second.
Measured (Granite Rapids, uint8 × int8, one thread): 1024³ takes 0.39 of the time of vpdpbusd; without the
copy of the rows 1.4 to 2 times as long, for where the pages of its operands lie decides what the second cache
keeps. Uses public primitives only; what the tiles are is the code generator's knowledge.
"""

from __future__ import annotations

from ..analysis import Product, worth_a_thread
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import IterVar
from .common import in_registers, share_out, size, work
from .nests import fill, fuse, pack
from .register_tile import even

HIGH, WIDE, DEEP, TOGETHER = 32, 32, 64, 4  # of a tile: rows, columns, products of a sum, of one instruction
FEWEST_ROWS = 4  # rows from which it pays: fewer leave most of a tile empty
LOWEST = 8  # of the tiles of many rows, which are all of one height


def applies(inside: Stage, product: Product, keep: list[IterVar], target: Target) -> bool:
    """Whether a product is computed in tiles: of 8-bit integers with sums of 32 bits, of known sizes, rows of
    whole tiles, a sum of whole groups of four."""
    if not target.has_tiles or keep or product.row is None or inside.op.body[0].dtype.name != "int32":
        return False
    if product.left is product.right:  # one copy, which both read, has one layout
        return False
    m, n = size(product.row), size(product.column)
    depth = size(inside.op.reduce_axis[-1])
    return (
        all(t.dtype.bits == 8 and t.dtype.code in ("int", "uint") for t in (product.left, product.right))
        and len(inside.op.reduce_axis) == 1
        and product.row in product.left_axes
        and None not in (m, n, depth)
        and _high(m or 0) is not None
        and (n or 0) >= WIDE
        and (depth or 0) >= DEEP
        and (depth or 0) % TOGETHER == 0
    )


def apply(
    s: Schedule,
    out: Stage,
    inside: Stage,
    product: Product,
    own: dict[IterVar, IterVar],
    fixed: bool,
    target: Target,
) -> None:
    """Compute the product ``inside`` in tiles within ``out``."""
    assert product.row is not None
    k = inside.op.reduce_axis[0]
    m, n, depth = (size(a) or 0 for a in (product.row, product.column, k))
    shared = worth_a_thread(inside.op, work(inside), target)
    threads = target.num_cores if shared else 1
    high = _high(m) or HIGH
    panels = -(-n // WIDE)
    blocks = _blocks(panels, WIDE * depth, m // high, threads, target)
    right = pack(s, inside, product.right, product.right_axes, product.column, WIDE, together=TOGETHER)
    left = pack(s, inside, product.left, product.left_axes, product.row, high, together=DEEP)

    rows, row = out.split(own[product.row], high)
    panel, column = out.split(own[product.column], WIDE)
    block, panel = out.split(panel, even(panels, -(-panels // blocks)))
    out.reorder(block, rows, panel, row, column)
    out.vectorize(column)
    around = fuse(out, [block, rows])
    if shared:
        out.parallel(around)
    inside.compute_at(out, panel)
    in_registers(s, inside)
    row, column = (inside.op.axis[list(own).index(a)] for a in (product.row, product.column))
    step, deep = inside.split(k, DEEP, tail="peel")
    deep, four = inside.split(deep, TOGETHER)
    inside.reorder(step, row, deep, four, column)
    inside.unroll(four)
    inside.vectorize(column)
    inside.pragma(row, "matrix_tiles")

    left.compute_at(out, around)
    groups, steps, line, lanes = left.op.axis
    left.reorder(groups, line, steps, lanes)
    left.vectorize(lanes)
    fill(right, 1, None, TOGETHER)
    if not fixed:
        share_out(right, [right.leaf_iter_vars[0]], work(inside) // 16, target)


def _high(rows: int) -> int | None:
    """The height of the tiles of so many rows, None where they are not of one height."""
    if rows <= HIGH:
        return rows if rows >= FEWEST_ROWS else None
    return next((h for h in range(HIGH, LOWEST - 1, -1) if rows % h == 0), None)


def _blocks(panels: int, each: int, tiles: int, threads: int, target: Target) -> int:
    """In how many blocks of columns the panels of so many bytes are read: each fits half of the second cache,
    and with ``tiles`` of rows there is something to do for every thread."""
    fit = max(1, target.l2_bytes // 2 // each)
    return min(panels, max(-(-panels // fit), -(-threads // tiles)))
