"""How threads share out a product: what it takes by rows, and by blocks of columns, of how many panels of a
tile's width one is and what the thread with the most of them takes. Schedules nothing.
"""

from __future__ import annotations

import math

from ..analysis import Product, bytes_of, cost_of
from ..schedule import Stage
from ..target import Target
from .choices import at_most
from .common import EVEN, size
from .register_tile import column, even

# of a panel's time takes a block beside its panels: the left operand is read once more
AGAIN = 0.06
SURE = 0.87  # of the time, at most, that products take which are shared out in rows
LINES = 0.1  # cycles of an element that is packed in the order in which it lies


def block_of(n: int | None, width: int, most: int, threads: int) -> int | None:
    """Panels of a block of at most about this many columns: the most of which no thread has more to do than
    it must; None for one block.

    Measured (Emerald Rapids, two threads): 10 panels one by one, five for each, are 1.1 times as fast as in
    twos, six for one; the left operand is read once more for each block, which is 3 % of the time.
    """
    fit = max(1, most // width)
    if n is None:
        return fit
    panels = -(-n // width)
    # blocks of nearly equal size
    sizes = [even(panels, n) for n in range(min(fit, panels), 0, -1)]
    least = min(_busiest(panels, size, threads) for size in sizes)
    block = next(size for size in sizes if _busiest(panels, size, threads) <= EVEN * least)
    return None if block >= panels else block


def one_block(product: Product, columns: int) -> bool:
    """Whether rows and columns are open, and a call has no more columns than a block of so many: its rows are
    what threads can share out.

    Measured (Zen 4, two threads): 2000 × 100 × 300 0.50 of the time, float64 of 100 × 150 × 120 0.54, 30 ×
    100 × 700 0.57.
    """
    if product.row is None or size(product.row) is not None or size(product.column) is not None:
        return False
    return at_most(product.column.extent, columns)


def _busiest(panels: int, block: int, threads: int) -> int:
    """The panels of the thread that has the most of them, which are shared out in blocks."""
    blocks = -(-panels // block)
    rounds = -(-blocks // threads)
    return panels - (blocks - rounds) * block if blocks % threads == 1 else min(panels, rounds * block)


def shared_panels(panels: int, block: int | None, threads: int) -> float:
    """The time of the thread with the most to do, in that of a panel; None is one block."""
    each = block or panels
    most = _busiest(panels, each, threads)
    return most + AGAIN * -(-most // each)


def copied_for_rows(
    inside: Stage, product: Product, n: int, together: int, threads: int, target: Target
) -> float:
    """Cycles of an iteration of the reduction that threads which share rows out take for the right operand:
    each packs all of it, and not its own columns, where it is small; else the copy is ready before all rows.

    Measured (Zen 4, two threads): of 142 drawn products, left where they lie and transposed, the 26 that are
    now by rows take 0.91 of the time, 22 × 355 × 26 0.6, 66 × 126 × 299 1.04, 21 × 140 × 130 1.09.
    """
    table = cost_of(target)
    if not stays_near(product, together, target):
        return table.start / math.prod(size(k) or 1 for k in inside.op.reduce_axis)
    return n * (threads - 1) / threads * (LINES if product.in_lines else table.transposition)


def shares_pay(
    product: Product, batch: int, rows: int, columns: int, tile: tuple[int, int, int], target: Target
) -> bool:
    """Whether each of a batch of products, which are not as many for each thread, is done by all of them: so
    many ``rows`` and ``columns`` in tiles of rows by vectors, and columns, of which each thread packs the
    right operand for its share.

    Measured (Zen 4, two threads): of 30 drawn batches of 3 and 5 products they take 0.87 of the time, 3 × 197
    × 197 × 64 0.78, 3 × 39 × 271 × 24 0.87, 3 × 87 × 211 × 238 1.04; of 7 they would take 1.00 to 1.04.
    """
    threads, (high, vectors, width) = target.num_cores, tile
    table = cost_of(target).of_panels
    packed = columns * (LINES if product.in_lines else table.transposition)
    across = -(-columns // width)
    share = share_of(rows, high, threads)
    # a thread may have the larger share of one product more than of the others
    sums = column(rows, high, vectors, table) * across / threads
    most = column(share, high, vectors, table) * across - sums
    alone = -(-batch // threads) * (sums * threads + packed)
    return batch * (sums + packed) + most < SURE * alone


def uneven(batch: int, threads: int) -> bool:
    """Whether threads that take so many equal parts as they are wait for the one with the most of them."""
    return 0 < batch < SURE * -(-batch // threads) * threads


def share_of(rows: int, high: int, threads: int) -> int:
    """Rows of a thread, whole tiles."""
    tiles = -(-rows // high)
    return -(-tiles // threads) * high


def stays_near(product: Product, together: int, target: Target) -> bool:
    """Whether rows are shared out though the right operand is several blocks, which all stay near. Pairs and
    fours are dear to pack, and were not faster by rows of one block."""
    return together == 1 and (bytes_of(product.right) or target.l2_bytes) <= target.l2_bytes // 2
