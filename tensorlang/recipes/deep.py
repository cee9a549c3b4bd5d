"""Products of long sums of large operands: the reduction in blocks, so that what tiles read stays near.

A tile's rows of a long sum are more than the first cache holds beside a panel of the right operand, and come
from behind the second one for each block of panels, each row in pages of its own. Here a block of k is summed
for all tiles of some rows and columns before the next one, while their sums wait in the second cache: the
part of a panel that the tiles share stays in the first, and the rows lie in panels too, as in the paper that
``gemm`` names. Uses public primitives only.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ..analysis import Product, cost_of
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import IterVar
from .common import PAGE, size
from .nests import fuse, nest
from .register_tile import even

# parts of the third cache that both operands take together, from which on blocks pay: half as much where
# threads share it and rows meet in the same places. Measured (Zen 3, one thread and two): 2048³ 0.80 (up
# to 0.57 beside busy neighbours) and 0.78 of the time, 2000³ 0.87 and 0.85, 1500³ 0.99 and 0.90, 384 ×
# 1024 × 4096 in the call 0.95 and 0.92, 1024³ on two 0.81 to 1.04, 2048 × 1024 × 512 on two 0.80; of smaller
# ones the copy of the rows and the sums that wait cost more: 900 × 1700 × 700 1.08, 384 × 1536 × 1536 1.03,
# 1024³ 1.02 to 1.15, 600 × 2000 × 500 on two threads 1.18
LARGE = 2
FEWEST = 96  # rows or columns, of which what is copied of the other operand is used often enough


class Deep(NamedTuple):
    """Blocks of so many ``rows``, ``columns`` and ``lines`` of the reduction."""

    rows: int
    columns: int
    lines: int


def deep_blocks(
    inside: Stage, product: Product, high: int, width: int, threads: int, target: Target
) -> Deep | None:
    """The blocks of a product in tiles of ``high`` rows and ``width`` columns; None where its sums are better
    taken at once: they are short, or the operands stay near as they are."""
    kind = inside.op.body[0].dtype
    if len(inside.op.reduce_axis) != 1 or len(inside.op.axis) != 2 or product.row not in product.left_axes:
        return None
    m, n, depth = (size(a) for a in (product.row, product.column, inside.op.reduce_axis[0]))
    if m is None or n is None or depth is None or product.left is product.right:
        return None
    if product.left.dtype != kind or product.right.dtype != kind:
        return None
    long = depth * kind.bytes
    lines = cost_of(target).panel_bytes // (width * kind.bytes)
    if 2 * high * long <= target.l1_bytes or depth < 2 * lines:
        return None
    meet = 2 if threads > 1 and long % PAGE == 0 else 1
    if min(m, n) < FEWEST or (m + n) * long * meet < target.l3_bytes // LARGE:
        return None
    # sums that wait take half of the second cache, and so do the rows of a block
    most = target.l2_bytes // 2 // kind.bytes
    lines = even(depth, lines)
    rows = high * even(-(-m // high), max(1, most // (lines * high)))
    panels, fit = -(-n // width), max(1, most // (min(rows, m) * width))
    shares = math.ceil(panels / fit / threads) * threads
    return Deep(rows, width * -(-panels // shares), lines)


def in_deep_blocks(
    s: Schedule,
    out: Stage,
    inside: Stage,
    product: Product,
    own: dict[IterVar, IterVar],
    b: Deep,
    tile: tuple[int, int],
    lanes: int,
    right: Stage,
    *,
    parallel: bool,
) -> None:
    """Compute the sums in blocks ``b``, in tiles of so many rows and columns, of which those of a block ask
    for the next part of ``right``, the panels, together."""
    assert product.row is not None
    high, width = tile
    row_at, column_at = (list(inside.op.axis).index(a) for a in (product.row, product.column))

    def in_panels(*at: Any) -> list[Any]:
        return [at[column_at] // width, at[row_at], at[column_at] % width]

    inside.transform_layout(in_panels, pad_value="any")
    io, ii = out.split(own[product.row], b.rows)
    jo, ji = out.split(own[product.column], b.columns)
    jv, lane = out.split(ji, lanes)
    out.reorder(jo, io, ii, jv, lane)
    out.vectorize(lane)
    shared = fuse(out, [jo, io])
    if parallel:
        out.parallel(shared)
    inside.compute_at(out, shared)
    inside.set_scope("global")
    panel, row, lane = inside.op.axis
    (k,) = inside.op.reduce_axis
    made = nest(
        inside, {"p": panel, "k": k, "i": row, "l": lane}, "ko p io ki | ii l", {"k": b.lines, "i": high}
    )
    inside.prefetch(right.name, made.named["io"][0], share=True)
