"""Many rows put in order at once, each in a lane: lines of one key of every row, of which a network compares
one with another, so that no keys of a vector are compared among themselves. Rows become lines and lines rows
by blocks that are transposed in registers. Knows the words of ``te.LoopBuilder`` and the network; what the
keys of elements are, it is told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .. import te
from ..core.dtype import INT32, DType
from ..expr import make
from ..expr.make import ExprLike
from ..expr.nodes import Expr, const_int
from ..te.loops import LoopBuilder, Memory
from .network import WIDTH, Key, sort_lines

LINE = 64  # bytes
TOGETHER = 16  # bytes of a row that are read at once: what columns of lines are transposed of
# of a row. Measured (Zen 5), of the time of a row at a time: 1000 rows of 100 of int16 0.06, of int32 0.33,
# of float64 0.45; 100 of 1000 0.64 and 0.73; 32 of 16,000 0.65, 16 of float64 0.48, with places 0.95. With
# AVX2 0.1, 0.5 and 0.75, 0.88 and 0.88; 8000 floats with places 1.17
MOST_LINES = 16384


def _lanes(kinds: Sequence[DType]) -> int:
    """Rows that are put in order at once, whose keys have those types."""
    return LINE // kinds[0].bytes


def enough_for_lines(
    b: LoopBuilder,
    x: Memory,
    kinds: Sequence[DType],
    most: int,
    many: Callable[[], None],
    few: Callable[[], None],
) -> None:
    """``many`` where there are rows for all lanes, of so many elements that blocks of them are whole ones and
    of at most ``most``; ``few`` elsewhere, or both where a call tells which."""
    lanes = _lanes(kinds)
    rows, n = x.shape
    asked = [rows >= lanes, n >= lanes, n <= most]
    known = [const_int(e) for e in asked]
    if not all(k is None or k for k in known):
        few()
    elif all(known):
        many()
    else:
        with b.when(te.all(*[e for e, k in zip(asked, known, strict=True) if k is None])):
            many()
        with b.otherwise():
            few()


def sort_in_lines(
    b: LoopBuilder,
    x: Memory,
    kinds: Sequence[DType],
    key: Callable[[Expr, Expr], Key],
    made: DType,
    of_key: Callable[[Key], Expr],
    written: Callable[[Expr, Expr, Expr], None],
    zeros: tuple[Callable[[Expr], Expr], Callable[[Expr], None]] | None = None,
) -> None:
    """Rows [r, n], no fewer of either than lanes, in order. ``key`` of an element and its place has so many
    types; ``written`` with a row, a place in order and what ``of_key`` makes of the key there, of the type
    ``made``. ``zeros``: where the first says 1 of an element the second is called with each row of its block.
    """
    rows, n = x.shape
    lanes, few = _lanes(kinds), TOGETHER // x.dtype.bytes
    room = make.ceildiv(n, WIDTH) * WIDTH
    with b.loop("block", make.ceildiv(rows, lanes), parallel=True) as block:
        lines = [b.memory("lines", (1, room * lanes), kind) for kind in kinds]
        # the last block is a whole one, and writes none of the rows that the one before it does
        first = b.let("first", te.min(block * lanes, rows - lanes))
        negative = b.cell("negative", INT32, 0) if zeros else None
        with b.loop("part", make.ceildiv(n, few)) as part:
            # so is the last part of each row, whose keys are written again
            at = b.let("at", te.min(part * few, n - few))
            with b.loop("k", lanes, vector=True) as k:
                for j in range(few):
                    taken = key(x[first + k, at + j], te.cast(INT32, at + j))
                    for line, e in zip(lines, taken, strict=True):
                        line[0, (at + j) * lanes + k] = e
                if zeros and negative:
                    for j in range(few):
                        negative.set(te.max(negative.value, zeros[0](x[first + k, at + j])))
        with b.loop("k", (room - n) * lanes, n * lanes) as k:
            for line, least in zip(lines, (te.min_value, te.max_value), strict=False):
                line[0, k] = least(line.dtype)
        sort_lines(b, lines, room, lanes)
        near = b.memory("near", (lanes * lanes,), made)
        begin = b.let("begin", block * lanes)
        own: ExprLike = first + lanes - begin
        with b.loop("part", make.ceildiv(n, lanes)) as part:
            at = b.let("at", te.min(part * lanes, n - lanes))
            with b.loop("k", lanes, vector=True) as k:
                for j in range(lanes):
                    near[j * lanes + k] = of_key(tuple(line[0, (at + k) * lanes + j] for line in lines))
            with b.loop("row", own, begin) as row, b.loop("k", lanes, vector=True) as k:
                written(row, at + k, near[(row - first) * lanes + k])
        if zeros and negative:
            with b.when(negative.value > 0), b.loop("row", own, begin) as row:
                zeros[1](row)
