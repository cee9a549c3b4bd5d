"""The program of loops that finds the first elements of rows in order, with its meaning in numpy. Knows the
words of ``te.LoopBuilder`` and how rows are put in order; no tensors."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import te
from ..core.dtype import INT32
from ..expr import make
from ..expr.nodes import Expr, const_int
from ..te.loops import Cell, LoopBuilder, Memory
from .keys import key_of, key_type
from .network import WIDTH, keep_first, room_for, sort_keys
from .sorting import LANES, order_open, order_rows, pad, read_keys, sorted_rows, taken_from

Array = np.ndarray[Any, Any]
# elements that are put in order by counting, for each, those that stand before it, and from which on it is
# faster to drop first what is not wanted
RUN, FEW = 64, 24
# that are wanted of a row at most, to be found in the lane of a vector, and elements times those wanted
LANE_MOST, LANE_WORK = 16, 1 << 14
# how many elements are collected before some are dropped: as many times those wanted, or so many
ROOM, LEAST_ROOM = 4, 64
MOST_IN_ORDER = 256  # elements of a row that is put in order for a quarter of them


def _before(b: LoopBuilder, keys: Memory, i: Expr, low: Expr, count: Expr) -> Expr:
    """How many of the ``count`` keys from ``low`` on stand before key ``i``, of equals those in front of
    it."""
    key, found = b.let("key", keys[0, i]), b.cell("found", INT32, 0)
    with (
        b.loop("block", make.ceildiv(count, LANES)) as block,
        b.loop("k", LANES, low + block * LANES, vector=True) as k,
    ):
        # without branches, a vector of compares at a time
        first = te.any(keys[0, k] > key, te.all(make.eq(keys[0, k], key), k < i))
        found.set(found.value + te.cast(INT32, first))
    return b.let("rank", te.cast(i.dtype, found.value))


def _best_rows(x: Array, k: int, descending: bool) -> list[Array]:
    return [a[:, :k] for a in sorted_rows(x, descending)]


@te.loop_program("best_rows", _best_rows)
def best_rows(
    b: LoopBuilder, given: Sequence[Memory], made: Sequence[Memory], k: int, descending: bool
) -> None:
    """The first ``k`` elements of each row [r, n] in order, and where they stand. Elements that go before the
    last of the first ones so far are collected, several at a time; when there is no room for more, all but
    the first ``k`` of them are dropped."""
    (x,) = given
    rows, n = x.shape
    written, most = taken_from(b, x, made), made[0].shape[1]
    kind, known = key_type(x.dtype), const_int(n)
    room = -(-max(ROOM * k, LEAST_ROOM) // LANES) * LANES
    room = room if known is None else min(room, -(-known // LANES) * LANES)
    many = const_int(rows)

    def together() -> None:
        assert known is not None
        with b.loop("block", make.ceildiv(rows, LANES), parallel=True) as block:
            _best_together(b, x, b.let("first", block * LANES), known, k, made, descending)

    def collected() -> None:
        with b.loop("row", rows, parallel=True) as row:
            _best_of_row(b, x, row, k, made, descending, room)

    def one_by_one() -> None:
        if known is None:
            order_open(b, x, descending, written, most, collected)
        elif _in_order(k, known):
            order_rows(b, x, descending, written, 0, most)
        else:
            collected()

    least = None if known is None or kind.bits < 32 else _least_rows(k, known, kind.bits)
    if least is None or (many is not None and many < least):
        one_by_one()
    elif many is not None:
        together()
    else:
        with b.when(rows >= least):
            together()
        with b.otherwise():
            one_by_one()


def _best_of_row(
    b: LoopBuilder, x: Memory, row: Expr, k: int, made: Sequence[Memory], descending: bool, room: int
) -> None:
    """The first ``k`` of a row: those that go before the last of them so far are collected in so much
    ``room``."""
    written, most = taken_from(b, x, made), made[0].shape[1]
    n, kind, known = x.shape[1], key_type(x.dtype), const_int(x.shape[1])
    held_most = room_for(make.const(room, n.dtype)) if k > RUN else room
    keys, at = b.memory("keys", (1, held_most), kind), b.memory("at", (1, held_most), n.dtype)
    fill = b.let("fill", make.min_(n, make.const(room, n.dtype)))
    read_keys(b, x, row, fill, keys, at, descending)
    held, least = b.cell("held", n.dtype, fill), b.cell("least", kind, te.min_value(kind))
    if known is None or known > room:
        line = b.memory("line", (LANES,), kind)
        with b.loop("block", (n - fill) // LANES) as block:
            first = b.let("first", fill + block * LANES)
            better = b.cell("better", INT32, 0)
            with b.loop("j", LANES, vector=True) as j:
                key = b.let("key", key_of(x[row, first + j], descending))
                line[j] = key
                better.set(te.max(better.value, te.cast(INT32, key > least.value)))
            with b.when(better.value > 0):
                # room for a whole vector before any of it is put there
                with b.when(held.value > room - LANES):
                    _drop(b, keys, at, k, held, least)
                with b.loop("j", LANES) as j:
                    _collect(b, keys, at, held, least, line[j], first + j)
        rest = b.let("rest", (n - fill) // LANES * LANES + fill)
        with b.loop("i", n - rest, rest) as i:
            with b.when(held.value >= room):
                _drop(b, keys, at, k, held, least)
            _collect(b, keys, at, held, least, key_of(x[row, i], descending), i)
    if known is None or known > max(2 * k, FEW):
        with b.when(held.value > max(2 * k, FEW)):
            _drop(b, keys, at, k, held, least)
    count = b.let("count", te.max(te.min(held.value, room), 0))
    if k > RUN:
        pad(b, [keys, at], count, room_for(count))
        sort_keys(b, [keys, at], count)
        with b.loop("i", most) as i:
            written(row, i, at[0, i])
        return
    pad(b, [keys], count)
    with b.loop("i", count) as i:
        rank = _before(b, keys, i, make.const(0, n.dtype), count)
        with b.when(rank < most):
            written(row, rank, at[0, i])


def _least_rows(k: int, n: int, bits: int) -> int | None:
    """From how many rows of ``n`` on their first ``k`` are found faster in the lanes of vectors than row by
    row; None where they never are. Measured (Zen 4, one thread), of as many rows as lanes: the first 2 and 5
    of 64 take 0.12 of the time, 5 of 1000 0.4, 5 of 2000 0.65, 16 of 400 0.48; with AVX2 0.11, 0.18 and 0.55.
    Of 64 bits 2 of 64 0.1, 5 of 300 0.3, 10 of 100 0.2, 16 of 900 1.1 to 1.4; with AVX2 0.1, 0.3 to 0.5, 0.3
    to 0.6, and 5 of 2000 1.0 to 1.34. (Zen 5) Lanes that are left empty cost what others do: the first 5 of
    64 bits of 7 rows of 100 take 0.13 of the time, of 31 rows of 501 0.26."""
    work, most = n * (k + 2), LANE_WORK * 32 // bits
    return -(-work * LANES // most) if k <= LANE_MOST and work <= most else None


def _in_order(k: int, n: int) -> bool:
    """Whether the first ``k`` of rows of ``n`` are found faster by putting all in order. Measured (Zen 4):
    the first 20 of 64 take 0.4 of the time, 40 of 200 0.9; 20 of 200 1.14, 300 of 1000 too."""
    return n <= (MOST_IN_ORDER if 4 * k >= n else WIDTH**2)


def _best_together(
    b: LoopBuilder, x: Memory, first: Expr, n: int, k: int, made: Sequence[Memory], descending: bool
) -> None:
    """The first ``k`` of rows from ``first`` on, at most as many as a vector has lanes, each in a lane: every
    element is put among those kept, whatever it is, without a branch. Where rows end the last one is taken
    again."""
    rows = x.shape[0]
    whole = (const_int(rows) or 1) % LANES == 0
    written = taken_from(b, x, made)
    kind = key_type(x.dtype)
    keys, turned = (b.memory(name, (LANES * LANES,), kind) for name in ("keys", "turned"))
    held, at = b.memory("held", (k * LANES,), kind), b.memory("at", (k * LANES,), INT32)

    def put(begin: Expr, count: int, kept: bool) -> None:
        for row in range(LANES):
            mine = first + row if whole else te.min(first + row, rows - 1)
            with b.loop("j", count, vector=True) as j:
                keys[row * LANES + j] = key_of(x[mine, begin + j], descending)
        # blocks that half a vector holds are transposed in registers
        for side, low in itertools.product(range(0, LANES, 8), range(0, count, 8)):
            with b.loop("k", 8, vector=True) as half:
                for p in range(low, min(low + 8, count)):
                    turned[p * LANES + side + half] = keys[(side + half) * LANES + p]
        with b.loop("lane", LANES, vector=True) as lane:
            best = [b.let("best", held[j * LANES + lane]) for j in range(k)] if kept else []
            its = [b.let("its", at[j * LANES + lane]) for j in range(k)] if kept else []
            for p in range(count):
                place = te.cast(INT32, begin + p)
                best, its = keep_first(b, best, its, k, b.let("key", turned[p * LANES + lane]), place)
            for n_th, (key, place) in enumerate(zip(best, its, strict=True)):
                held[n_th * LANES + lane] = key
                at[n_th * LANES + lane] = place

    put(make.const(0, INT32), min(n, LANES), False)
    with b.loop("piece", n // LANES - 1, 1) as piece:
        put(b.let("begin", te.cast(INT32, piece * LANES)), LANES, True)
    if n > LANES and n % LANES:
        put(make.const(n // LANES * LANES, INT32), n % LANES, True)
    with b.loop("row", LANES if whole else te.min(rows - first, LANES)) as row:
        for j in range(k):
            written(first + row, make.as_expr(j), at[j * LANES + row])


def _collect(b: LoopBuilder, keys: Memory, at: Memory, held: Cell, least: Cell, key: Expr, i: Expr) -> None:
    """Element ``i`` behind those held, if it goes before the least of the first ones."""
    key, end = b.let("key", key), b.let("end", held.value)
    keys[0, end] = key
    at[0, end] = i
    # written always, and counted only if it belongs: the next one overwrites what does not. A branch would be
    # guessed wrong at random
    held.set(end + te.cast(i.dtype, key > least.value))


def _drop(b: LoopBuilder, keys: Memory, at: Memory, k: int, held: Cell, least: Cell) -> None:
    """Keep the first ``k`` of the keys held. What divides them from the others is found by halving the range
    of keys until so many are above: it is not below the least of the largest keys of so many vectors."""
    kind, count = keys.dtype, b.let("count", held.value)
    pad(b, [keys], count)
    blocks = b.let("blocks", make.ceildiv(count, LANES))
    low, high = b.cell("low", kind, least.value), b.cell("high", kind, te.min_value(kind))
    lowest = b.cell("lowest", kind, te.max_value(kind))  # of the largest keys of each vector
    with b.loop("block", blocks) as block:
        largest = b.cell("largest", kind, te.min_value(kind))
        with b.loop("j", LANES, block * LANES, vector=True) as j:
            largest.set(te.max(largest.value, keys[0, j]))
        high.set(te.max(high.value, largest.value))
        lowest.set(te.min(lowest.value, largest.value))
    with b.when(blocks >= k):
        low.set(te.max(low.value, lowest.value))
    above = b.cell("above", INT32, 0)  # keys greater than the high one
    with b.loop("step", kind.bits), b.when(low.value < high.value):
        less, more = b.let("less", low.value), b.let("more", high.value)
        one = make.const(1, kind)
        odd = te.bitwise_and(te.bitwise_and(less, more), one)
        # the mean of two integers whose sum may overflow
        middle = b.let("middle", te.shift_right(less, one) + te.shift_right(more, one) + odd)
        found = b.cell("found", INT32, 0)
        with b.loop("block", blocks) as block, b.loop("j", LANES, block * LANES, vector=True) as j:
            found.set(found.value + te.cast(INT32, keys[0, j] > middle))
        with b.when(found.value <= k):
            high.set(middle)
            above.set(found.value)
        with b.when(found.value >= k):
            low.set(te.select(make.eq(found.value, k), middle, middle + 1))
    limit = b.let("limit", high.value)
    # of keys equal to the limit only so many, the first ones
    missing = b.cell("missing", INT32, k - above.value)
    kept = b.cell("kept", count.dtype, 0)
    with b.loop("i", count) as i:
        key, end = b.let("key", keys[0, i]), b.let("end", kept.value)
        equal = b.let("equal", te.all(make.eq(key, limit), missing.value > 0))
        keys[0, end] = key
        at[0, end] = at[0, i]
        kept.set(end + te.cast(end.dtype, te.any(key > limit, equal)))
        missing.set(missing.value - te.cast(INT32, equal))
    held.set(kept.value)
    least.set(limit)
