"""Products of few rows of bytes whose right operand is read where it lies: four of its lines are mixed in
registers by each tile of rows, which is what a copy in panels takes, but for writing it and reading it again.
The sums of its columns, if there are any, are made in the same loop, of what it has mixed; where registers
do not hold them, of the lines of a block before its tiles. Uses public primitives only.

Measured (Zen 5), 46 drawn products of int8, of 4 to 16 rows, beside panels: on one thread 0.57 to 0.95 of the
time, median 0.71, on two 0.43 to 1.17, median 0.78. With a rest of the sum 4 × 1123 × 1330 0.43, 9 × 670 ×
1422 0.58; more rows, and tiles of unequal height, 24 × 1385 × 824 0.90, 28 × 768 × 768 0.85, 19 × 751 × 364
0.91; 33 × 768 × 3072 would take 1.15.
"""

from __future__ import annotations

from ..analysis import Product
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import IterVar
from .column_blocks import block_of
from .common import size
from .integers import FOUR, WIDE, fewest_mixed, lines_mix, sum_panels, sums_beside
from .nests import Axes, nest, sums
from .register_tile import even

HIGH = 14  # rows of a tile, at most
# rows of a tile that has the sums of its columns too, at most: registers hold no more. Measured (Zen 5),
# where a pass of its own read the lines: 4 × 768 × 768 0.58 of the time, 8 × 768 × 768 0.70, 12 × 909 × 1867
# 0.80, 16 × 768 × 768 0.87, 24 × 971 × 1061 0.87, on two threads 7 × 1138 × 1073 0.59; 13 × 768 × 768 would
# take 1.18
JOINED = 12
# rows whose tiles are twice as wide: lines of memory, of which tiles read half each, come from the second
# cache half as often. Measured (Zen 5, one thread): 4 × 1124 × 1330 0.75 of the time, 4 × 960 × 1056 0.75, 5
# × 800 × 1200 0.77, 6 × 1000 × 900 0.78; 7 × 700 × 1500, which registers do not hold, 1.02, 8 × 512 × 1000
# 1.2
FEW_ROWS = 6
BLOCK = 128  # columns that have their sums at once


def applies(
    s: Schedule, inside: Stage, product: Product, fixed: bool, keep: list[IterVar], target: Target
) -> bool:
    """Whether the lines of the right operand of a product of bytes are mixed in registers."""
    m = _rows(product)
    if fixed or keep or m is None or {product.left.dtype.name, product.right.dtype.name} != {"int8", "uint8"}:
        return False
    return lines_mix(inside.op, target) and m >= fewest_mixed(s, inside.op, product, target)


def _rows(product: Product) -> int | None:
    return None if product.row is None else size(product.row)


def apply(
    s: Schedule,
    out: Stage,
    inside: Stage,
    product: Product,
    own: dict[IterVar, IterVar],
    shared: bool,
    target: Target,
) -> None:
    """Compute ``inside`` in tiles of ``out``, whose axes ``own`` names by those of the product."""
    row, m, n = product.row, _rows(product), size(product.column)
    assert row is not None and m is not None and n is not None
    columns = sums_beside(s, out, inside, product, FOUR)
    high = even(m, HIGH)
    wide = 2 * WIDE if high <= FEW_ROWS and n >= BLOCK else WIDE
    block = block_of(n, wide, BLOCK, target.num_cores if shared else 1) or -(-n // wide)
    loops = nest(
        out,
        {"i": own[row], "j": own[product.column]},
        "(joo) joi io | ii ji",
        {"i": high, "j": wide, "jo": block},
        parallel=shared,
        whole=wide,
    )
    over = inside.op.reduce_axis[0]
    named: Axes = {"p": over, "i": row, "j": product.column}
    tile = sums(s, inside, out, loops.place, named, "po | i pi j", {"p": FOUR}, whole=wide)
    if columns is None:
        return
    if high > JOINED:
        sum_panels(s, columns, out, loops.around[0], wide, block, target, "auto")
        return
    named = {"p": columns.op.reduce_axis[0], "j": columns.op.axis[-1]}
    beside = sums(s, columns, out, loops.place, named, "po | pi j", {"p": FOUR}, whole=wide)
    for stage, loop in ((inside, tile.place), (columns, beside.place)):  # whichever comes first
        stage.pragma(loop, "join_next")
