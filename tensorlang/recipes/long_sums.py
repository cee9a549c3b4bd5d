"""Products of few rows and columns and a long sum, as the gradients of weights are: blocks of lines of both
operands, which the first cache holds, are read where they lie for all tiles, whose sums wait near; threads
take parts of the sum. Shared out by rows or columns each thread would read an operand whole, and a few tiles
are not as many for each. Uses public primitives only.

Measured (Zen 4, 8 drawn of 6665 to 30,000 terms, 8 to 65 rows and 8 to 300 columns, either operand as it
lies): on two threads 0.63 of the time of shared tiles, with AVX2 0.7, on one thread 0.8 and 0.85.
"""

from __future__ import annotations

from ..analysis import Product, cost_of, worth_a_thread
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import IterVar
from .common import size, work
from .register_tile import tile_for
from .streams import sums_in_parts

LINES = 64  # of a block
LONG = 32  # terms of a sum for each row and each column
MOST = 1 << 14  # sums, which wait in a cache
WIDE = 6  # vectors of columns from which on a rest, which is masked, takes little of the time


def applies(inside: Stage, product: Product, lanes: int, target: Target) -> bool:
    """Whether a product is of few rows and columns and a long sum, and its panels are larger than the second
    cache holds beside one another, or vectors of its columns fewer than threads."""
    if len(inside.op.axis) != 2 or len(inside.op.reduce_axis) != 1 or not product.in_lines:
        return False
    if product.row is None or product.right.dtype != inside.op.body[0].dtype:
        return False
    m, n, depth = size(product.row), size(product.column), size(inside.op.reduce_axis[0])
    if m is None or n is None or depth is None or n < lanes // 2:
        return False
    if depth < LONG * max(m, n) or m * n > MOST:
        return False
    if worth_a_thread(inside.op, work(inside), target) and -(-n // lanes) < target.num_cores:
        return True
    _, vectors = _tile(m, n, lanes, target)
    full = (n >= 2 * lanes and n % lanes == 0) or (n >= WIDE * lanes and target.has_masks)
    return full and depth * vectors * lanes * product.right.dtype.bytes > target.l2_bytes // 2


def _tile(m: int, n: int, lanes: int, target: Target) -> tuple[int, int]:
    registers, table = target.vector_registers, cost_of(target)
    return tile_for(m, n, lanes, registers, table, masks=target.has_masks, whole=True)


def apply(
    s: Schedule,
    out: Stage,
    inside: Stage,
    product: Product,
    own: dict[IterVar, IterVar],
    lanes: int,
    target: Target,
) -> None:
    """Sum blocks of lines in register tiles, parts of them by each thread."""
    assert product.row is not None
    m, n = size(product.row) or 1, size(product.column) or 1
    high, vectors = _tile(m, n, lanes, target)
    shares = target.num_cores if worth_a_thread(inside.op, work(inside), target) else 1
    sizes = {"k": LINES, "j": lanes * vectors, "i": high if m > high else None}
    sums_in_parts(s, out, inside, product, own, "(s) ko jo io ki | ii ji", sizes, lanes, shares)
