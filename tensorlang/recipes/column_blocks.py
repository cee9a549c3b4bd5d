"""Blocks of columns of a product, which threads share out: how many panels of a tile's width one has, and
what the thread with the most of them takes. Schedules nothing.
"""

from __future__ import annotations

from .common import EVEN
from .register_tile import even

# of a panel's time takes a block beside its panels: the left operand is read once more
AGAIN = 0.06


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
    size = block or panels
    most = _busiest(panels, size, threads)
    return most + AGAIN * -(-most // size)
