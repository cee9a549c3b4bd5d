"""How threads share out a product: what it takes by rows, and by blocks of columns, of how many panels of a
tile's width one is and what the thread with the most of them takes. Schedules nothing.
"""

from __future__ import annotations

import math

from ..analysis import Product, bytes_of, cost_of
from ..schedule import Stage
from ..target import Target
from .common import EVEN, size
from .register_tile import even

# of a panel's time takes a block beside its panels: the left operand is read once more
AGAIN = 0.06
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


def stays_near(product: Product, together: int, target: Target) -> bool:
    """Whether rows are shared out though the right operand is several blocks, which all stay near. Pairs and
    fours are dear to pack, and were not faster by rows of one block."""
    return together == 1 and (bytes_of(product.right) or target.l2_bytes) <= target.l2_bytes // 2
