"""Short rows in the lanes of vectors, one in each: how they are taken there, as their keys where their number
of elements is open, and written back. Knows the words of ``te.LoopBuilder``, and keys.
"""

from __future__ import annotations

from collections.abc import Callable

from .. import te
from ..core.dtype import INT32
from ..expr import make
from ..expr.nodes import Expr, const_int
from ..te.loops import Cell, LoopBuilder, Memory
from . import inputs
from .keys import key_of, key_type

Written = Callable[[Expr, Expr, Expr], None]  # of a row, a place in order, and where its element came from


def take_rows(
    b: LoopBuilder,
    x: Memory,
    first: Expr,
    n: int,
    lanes: int,
    taken: Memory,
    descending: bool,
    negative: Cell | None = None,
) -> None:
    """The elements of rows from ``first`` on, each row in a lane. Of an open number their keys, of which at
    most ``n`` are there, and behind them what stands behind all others; at the end of all rows the last one
    is taken again. ``negative`` tells whether there is a negative zero among those."""
    rows, there = x.shape
    if const_int(there) is not None:
        with b.loop("k", lanes, vector=True) as k:
            for place in range(n):
                taken[place * lanes + k] = x[first + k, place]
        return
    # the bits of a negative zero are the least there are, and those of 0 stand for none
    zeros = (
        b.memory("zeros", (lanes,), key_type(x.dtype)) if negative is not None and x.dtype.is_float else None
    )
    if zeros is not None:
        with b.loop("k", lanes, vector=True) as k:
            zeros[k] = 0
    # loops, and the lanes below too: written out they take half of the time to compile
    with b.loop("place", te.min(there, n)) as at, b.loop("k", lanes, vector=True) as k:
        e = b.let("element", x[te.min(first + k, rows - 1), at])
        taken[at * lanes + k] = key_of(e, descending)
        if zeros is not None:  # compared in each place, one gather would wait for the one before
            zeros[k] = te.min(zeros[k], te.float_bits(te.cast(inputs.wide(x.dtype), e)))
    if negative is not None and zeros is not None:
        with b.loop("k", lanes, vector=True) as k:
            negative.set(te.max(negative.value, te.cast(INT32, make.eq(zeros[k], te.min_value(zeros.dtype)))))
    with b.loop("place", n - there, there) as at, b.loop("k", lanes, vector=True) as k:
        taken[at * lanes + k] = te.min_value(taken.dtype)


def key_at(x: Memory, taken: Memory, place: Expr, descending: bool) -> Expr:
    """The key of what was taken of rows to a place, which is one already where rows are open."""
    return taken[place] if const_int(x.shape[1]) is None else key_of(taken[place], descending)


def write_rows(
    b: LoopBuilder, x: Memory, first: Expr, n: int, lanes: int, end: Expr, written: Written
) -> None:
    """The first ``end`` elements, in order, of the rows in lanes: ``written`` with the row, the element, and
    where the lane has it."""
    with (
        b.loop("lane", te.min(x.shape[0] - first, lanes)) as lane,
        b.loop("j", n, vector=True) as j,
        b.when(j < end),
    ):
        written(first + lane, j, j * lanes + lane)
