"""The programs of loops that put rows in order and find the first of them, each with its meaning in numpy.
Knows the words of ``te.LoopBuilder``; no tensors.

Elements are compared as integers, their keys, of which the larger one stands first: NaN is greater than every
number, as in numpy and torch, and the zeros are equal.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import te
from ..core.dtype import INT32, INT64, DType
from ..expr import make
from ..expr.make import ExprLike
from ..expr.nodes import Expr, const_int
from ..te.loops import Cell, LoopBuilder, Memory
from . import inputs
from .network import keep_first, room_for, sort_keys, sort_lanes
from .places import kept_within

Array = np.ndarray[Any, Any]
LANES = 16  # keys that are compared at once
# elements that are put in order by counting, for each, those that stand before it: in a run, and from which
# on it is faster to drop first what is not wanted
RUN, FEW = 64, 24
# rows of more elements are distributed by digits of so many bits
DIGITS_FROM, DIGIT = 2 * RUN, 8
# bytes of the keys of a row, up to which rows are put in order as the lanes of vectors. Measured (Zen 4): of
# 1000 rows 16 floats take 0.10 of the time of a row at a time, 32 take 0.24, 8 of 4000 take 0.03
SHORT_ROW = 128
# that are wanted of a row at most, to be found in the lane of a vector, and elements times those wanted
LANE_MOST, LANE_WORK = 16, 1 << 14
# how many elements are collected before some are dropped: as many times those wanted, or so many
ROOM, LEAST_ROOM = 4, 64


def key_type(t: DType) -> DType:
    """Of the keys of elements of a type."""
    return INT64 if t.bits == 64 else INT32


def key_of(e: Expr, descending: bool) -> Expr:
    """An integer that is the larger the earlier an element stands in the order."""
    t = e.dtype
    kind = key_type(t)
    if t.is_float:
        e = te.cast(inputs.wide(t), e)
        bits = te.float_bits(e)
        # bits of positive floats count up with them, those of negative ones down: all but the sign are turned
        # round
        rising = te.select(bits < 0, te.bitwise_xor(bits, te.max_value(kind)), bits)
        # -0 and 0 are equal, and the sort is stable
        rising = te.select(make.eq(e, make.const(0, e.dtype)), make.const(0, kind), rising)
        # behind all others, as numpy sorts them
        rising = te.select(te.isnan(e), te.max_value(kind), rising)
    elif t.code == "uint" and t.bits == kind.bits:
        # unsigned numbers of the key's own width: with the highest bit turned their order is that of signed
        # ones
        rising = te.bitwise_xor(te.cast(kind, e), te.min_value(kind))
    else:
        rising = te.cast(kind, te.cast("uint8", e) if t.is_bool else e)
    return rising if descending else te.bitwise_not(rising)


def _sorted_rows(x: Array, descending: bool) -> list[Array]:
    at = np.argsort(x, -1, kind="stable")
    if descending:  # of the reversed rows, so that of equals the first stays first
        at = x.shape[-1] - 1 - np.flip(np.argsort(np.flip(x, -1), -1, kind="stable"), -1)
    return [np.take_along_axis(x, at, -1), at]


@te.loop_program("sort_rows", _sorted_rows)
def sort_rows(b: LoopBuilder, given: Sequence[Memory], made: Sequence[Memory], descending: bool) -> None:
    """Rows [r, n] in order, and where each element came from."""
    (x,), (values, places) = given, made
    rows, n = x.shape
    with b.loop("row", rows, parallel=True) as row:

        def by_place(i: Expr, at: Expr) -> None:
            place = b.let("place", kept_within(at, n))
            values[row, i] = x[row, place]
            places[row, i] = place

        _sort_row(b, x, row, n, descending, by_place)


@te.loop_program("sorted_places", lambda x, descending: _sorted_rows(x, descending)[1:])
def sorted_places(b: LoopBuilder, given: Sequence[Memory], made: Sequence[Memory], descending: bool) -> None:
    """Where each element of rows [r, n] in order came from."""
    (x,), (places,) = given, made
    rows, n = x.shape
    with b.loop("row", rows, parallel=True) as row:

        def by_place(i: Expr, at: Expr) -> None:
            places[row, i] = at

        _sort_row(b, x, row, n, descending, by_place)


@te.loop_program("sorted_values", lambda x, descending: _sorted_rows(x, descending)[:1])
def sorted_values(b: LoopBuilder, given: Sequence[Memory], made: Sequence[Memory], descending: bool) -> None:
    """Rows [r, n] in order: their keys are, and say what the elements are."""
    (x,), (values,) = given, made
    rows, n = x.shape
    kind = key_type(x.dtype)

    def finish(row: Expr, keys: Memory, side: ExprLike) -> None:
        _in_vectors(
            b, n, lambda k: values.__setitem__((row, k), _element(keys[side, k], x.dtype, descending))
        )
        if x.dtype.is_float:
            _zeros_as_they_came(b, x, row, n, lambda k: keys[side, k], values, descending)

    known, many = const_int(n), const_int(rows)
    begin: Expr = make.const(0, rows.dtype)
    if known is not None and 1 < known <= SHORT_ROW // kind.bytes and (many is None or many >= LANES):
        begin = rows // LANES * LANES
        with b.loop("block", rows // LANES, parallel=True) as block:
            _sort_together(b, x, b.let("first", block * LANES), known, values, descending)
        if many is not None and many % LANES == 0:
            return
    with b.loop("row", rows - begin, begin, parallel=True) as row:

        def compared() -> None:
            keys = b.memory("keys", (1, room_for(n, kind)), kind)
            _read(b, x, row, n, keys, None, descending)
            _pad(b, keys, n, room_for(n, kind))
            sort_keys(b, keys, n)
            finish(row, keys, 0)

        def by_digits() -> None:
            keys = b.memory("keys", (2, _whole(n)), kind)
            _read(b, x, row, n, keys, None, descending)
            finish(row, keys, _distribute(b, (keys,), n, x.dtype))

        if kind.bits == 32 and (x.dtype.is_float or x.dtype.bits == 32):
            compared()
        else:
            # of 64 bits there are few to a vector and AVX2 takes three instructions to compare two; others
            # have few digits
            _by_length(b, n, compared, by_digits)


def _element(key: Expr, t: DType, descending: bool) -> Expr:
    """The element that has a key; one of the two zeros, and of all that are no numbers."""
    rising = key if descending else te.bitwise_not(key)
    if not t.is_float:
        same = t.code == "uint" and t.bits == key.dtype.bits
        return te.cast(t, te.bitwise_xor(rising, te.min_value(key.dtype)) if same else rising)
    bits = te.select(rising < 0, te.bitwise_xor(rising, te.max_value(key.dtype)), rising)
    return te.cast(t, te.float_of_bits(bits))


def _zeros_as_they_came(
    b: LoopBuilder,
    x: Memory,
    row: Expr,
    n: Expr,
    key: Callable[[Expr], Expr],
    values: Memory,
    descending: bool,
) -> None:
    """The two zeros are equal and keep their order, which keys do not tell: if there is a negative one they
    are copied. ``key`` is that of a place, in whatever order."""
    kind = key_type(x.dtype)
    negative, before = b.cell("negative", INT32, 0), b.cell("before", INT32, 0)

    _in_vectors(b, n, lambda k: negative.set(te.max(negative.value, _is_negative_zero(x[row, k]))))
    with b.when(negative.value > 0):
        zero = make.const(0 if descending else -1, kind)
        _in_vectors(b, n, lambda k: before.set(before.value + te.cast(INT32, key(k) > zero)))
        with b.loop("k", n) as k, b.when(make.eq(x[row, k], make.const(0, x.dtype))):
            values[row, before.value] = x[row, k]
            before.set(before.value + 1)


def _is_negative_zero(e: Expr) -> Expr:
    return te.cast(
        INT32, make.eq(te.float_bits(te.cast(inputs.wide(e.dtype), e)), te.min_value(key_type(e.dtype)))
    )


def _sort_together(b: LoopBuilder, x: Memory, first: Expr, n: int, values: Memory, descending: bool) -> None:
    """Rows from ``first`` on, as many as a vector has lanes, each in a lane."""
    taken, done = (b.memory(name, (n * LANES,), x.dtype) for name in ("taken", "done"))
    with b.loop("k", LANES, vector=True) as k:
        for place in range(n):
            taken[place * LANES + k] = x[first + k, place]
    negative = b.cell("negative", INT32, 0)
    with b.loop("k", LANES, vector=True) as k:
        if x.dtype.is_float:
            for place in range(n):
                negative.set(te.max(negative.value, _is_negative_zero(taken[place * LANES + k])))
        keys = [b.let("key", key_of(taken[place * LANES + k], descending)) for place in range(n)]
        sort_lanes(b, keys)
        for place, key in enumerate(keys):
            done[place * LANES + k] = _element(key, x.dtype, descending)
    with b.loop("j", n, vector=True) as j:
        for lane in range(LANES):
            values[first + lane, j] = done[j * LANES + lane]
    if x.dtype.is_float:
        with b.when(negative.value > 0), b.loop("row", LANES, first) as row:
            _zeros_as_they_came(
                b, x, row, make.as_expr(n), lambda k: key_of(x[row, k], descending), values, descending
            )


def _in_vectors(b: LoopBuilder, n: Expr, body: Callable[[Expr], None]) -> None:
    """``body`` for each place below ``n``, a vector at a time."""
    whole = b.let("whole", n // LANES * LANES)
    with b.loop("block", n // LANES) as block, b.loop("k", LANES, block * LANES, vector=True) as k:
        body(k)
    with b.loop("k", n - whole, whole) as k:
        body(k)


Written = Callable[[Expr, Expr], None]  # of a place in order, the place that its element came from


def _sort_row(b: LoopBuilder, x: Memory, row: Expr, n: Expr, descending: bool, written: Written) -> None:
    """Put a row in order: a long one by the digits of its keys, a short one by merging."""

    def by_digits() -> None:
        room = _whole(n)
        keys = b.memory("keys", (2, room), key_type(x.dtype))
        at = b.memory("at", (2, room), n.dtype)
        _read(b, x, row, n, keys, at, descending)
        side = _distribute(b, (keys, at), n, x.dtype)
        with b.loop("i", n) as i:
            written(i, at[side, i])

    _by_length(b, n, lambda: _merge_sort(b, x, row, n, descending, written), by_digits)


def _by_length(b: LoopBuilder, n: Expr, short: Callable[[], None], long: Callable[[], None]) -> None:
    """What sorts a short row, or a long one; both where a call tells which it is."""
    known = const_int(n)
    if known is None or known <= DIGITS_FROM:
        with b.when(n <= DIGITS_FROM):
            short()
    if known is None or known > DIGITS_FROM:
        with b.when(n > DIGITS_FROM):
            long()


def _merge_sort(b: LoopBuilder, x: Memory, row: Expr, n: Expr, descending: bool, written: Written) -> None:
    """A stable merge sort between two copies of the keys."""
    known = const_int(n)
    room = _whole(n) if known is not None else make.as_expr(_up(DIGITS_FROM))
    keys = b.memory("keys", (2, room), key_type(x.dtype))
    at = b.memory("at", (2, room), n.dtype)
    _read(b, x, row, n, keys, at, descending)
    side = _in_order(b, keys, at, n, DIGITS_FROM)
    with b.loop("i", n) as i:
        written(i, at[side, i])


def _distribute(b: LoopBuilder, lines: Sequence[Memory], n: Expr, t: DType) -> Expr:
    """The first ``n`` elements of side 0 of every line in the order of the keys, which are the first line,
    and on which side they are then: digit by digit, the lowest first, each distributed to where the elements
    of its value begin. A digit that all keys share is passed over. Measured (Granite Rapids), merged before:
    rows of 1000 floats take 0.27 of the time, of a million 0.28."""
    kind = lines[0].dtype
    size = 1 << DIGIT
    # integers of few bits have as few digits
    narrow = not t.is_float and t.bits < kind.bits
    digits = max(t.bits if narrow else kind.bits, DIGIT) // DIGIT
    signed = not narrow or t.code == "int"
    counts = b.memory("counts", (digits * size,), n.dtype)
    with (
        b.loop("block", digits * size // LANES) as block,
        b.loop("j", LANES, block * LANES, vector=True) as j,
    ):
        counts[j] = 0

    def slot(of: Expr, digit: int) -> Expr:
        value = te.bitwise_and(
            te.shift_right(of, make.const(DIGIT * digit, kind)), make.const(size - 1, kind)
        )
        # larger keys stand first; the highest bit says the sign, where there is one
        turned = size // 2 - 1 if signed and digit == digits - 1 else size - 1
        return te.cast(n.dtype, te.bitwise_xor(value, make.const(turned, kind))) + digit * size

    with b.loop("i", n) as i:
        one = b.let("key", lines[0][0, i])
        for digit in range(digits):
            at = b.let("slot", slot(one, digit))
            counts[at] = counts[at] + 1
    side = b.cell("side", INT32, 0)
    for digit in range(digits):
        first = b.let("first", slot(lines[0][side.value, 0], digit))
        with b.when(counts[first] < n):
            here = b.let("here", side.value)
            there = b.let("there", 1 - here)
            begin = b.cell("begin", n.dtype, 0)
            with b.loop("j", size, digit * size) as j:
                many = b.let("many", counts[j])
                counts[j] = begin.value
                begin.set(begin.value + many)
            with b.loop("i", n) as i:
                taken = [b.let("element", line[here, i]) for line in lines]
                at = b.let("slot", slot(taken[0], digit))
                to = b.let("to", counts[at])
                for line, e in zip(lines, taken, strict=True):
                    line[there, to] = e
                counts[at] = to + 1
            side.set(there)
    return b.let("sorted", side.value)


def _up(n: int) -> int:
    """So many elements, and what is missing to a whole vector of keys."""
    return -(-n // LANES) * LANES


def _whole(n: Expr) -> Expr:
    """So many elements, and what is missing to a whole vector of keys."""
    return make.ceildiv(n, LANES) * LANES


def _read(
    b: LoopBuilder, x: Memory, row: Expr, n: Expr, keys: Memory, at: Memory | None, descending: bool
) -> None:
    """The keys of the first ``n`` elements of a row, and their places."""

    def one(k: Expr) -> None:
        keys[0, k] = key_of(x[row, k], descending)
        if at is not None:
            at[0, k] = k

    _in_vectors(b, n, one)


def _pad(b: LoopBuilder, keys: Memory, count: Expr, end: Expr | None = None) -> None:
    """What lies behind all others, from ``count`` to ``end``, or to the end of a vector."""
    with b.loop("k", (_whole(count) if end is None else end) - count, count) as k:
        keys[0, k] = te.min_value(keys.dtype)


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


def _in_order(b: LoopBuilder, keys: Memory, at: Memory, n: Expr, most: int | None = None) -> Expr:
    """The first ``n`` keys (no more than ``most``) and their places in order, and on which side of the
    memory."""
    _pad(b, keys, n)
    with b.loop("run", make.ceildiv(n, RUN)) as run:
        low = b.let("low", run * RUN)
        count = b.let("count", te.min(n - low, RUN))
        with b.loop("i", count, low) as i:
            place = b.let("place", low + _before(b, keys, i, low, count))
            keys[1, place] = keys[0, i]
            at[1, place] = at[0, i]
    side = b.cell("side", INT32, 1)
    known = const_int(n) if const_int(n) is not None else most
    # each doubles the runs; of an open size as many as there could be, of which most are passed over
    passes = 31 if known is None else max(-(-known // RUN) - 1, 0).bit_length()
    with b.loop("pass", passes) as p:
        width = b.let("width", te.shift_left(make.const(RUN, n.dtype), te.cast(n.dtype, p)))
        with b.when(te.all(width > 0, width < n)):
            _merge_all(b, keys, at, n, width, side.value)
            side.set(1 - side.value)
    return b.let("sorted", side.value)


def _merge_all(b: LoopBuilder, keys: Memory, at: Memory, n: Expr, width: Expr, side: Expr) -> None:
    """Neighbouring runs of ``width`` elements on one side merged into runs of twice the width on the other;
    each element is picked by selection, without a branch to mispredict."""
    here = b.let("here", side)
    there = b.let("there", 1 - here)
    with b.loop("pair", make.ceildiv(n, width * 2)) as pair:
        low = b.let("low", pair * width * 2)
        middle = b.let("middle", te.min(low + width, n))
        high = b.let("high", te.min(middle + width, n))
        left, right = b.cell("left", n.dtype, low), b.cell("right", n.dtype, middle)
        with b.loop("k", high - low, low) as k:
            i, j = b.let("i", left.value), b.let("j", right.value)
            # a run that is used up is read all the same, and the value not taken
            ii, jj = b.let("ii", te.min(i, n - 1)), b.let("jj", te.min(j, n - 1))
            one, other = b.let("one", keys[here, ii]), b.let("other", keys[here, jj])
            # of equals the left one first: the sort is stable
            from_right = te.all(j < high, te.any(i >= middle, other > one))
            taken = b.let("taken", from_right)
            keys[there, k] = te.select(taken, other, one)
            at[there, k] = te.select(taken, at[here, jj], at[here, ii])
            left.set(te.select(taken, i, i + 1))
            right.set(te.select(taken, j + 1, j))


# --- the first ones -----------------------------------------------------------------------------------------


def _best_rows(x: Array, k: int, descending: bool) -> list[Array]:
    return [a[:, :k] for a in _sorted_rows(x, descending)]


@te.loop_program("best_rows", _best_rows)
def best_rows(
    b: LoopBuilder, given: Sequence[Memory], made: Sequence[Memory], k: int, descending: bool
) -> None:
    """The first ``k`` elements of each row [r, n] in order, and where they stand. Elements that go before the
    last of the first ones so far are collected, several at a time; when there is no room for more, all but
    the first ``k`` of them are dropped."""
    (x,), (values, places) = given, made
    rows, n = x.shape
    kind, known = key_type(x.dtype), const_int(n)
    room = -(-max(ROOM * k, LEAST_ROOM) // LANES) * LANES
    room = room if known is None else min(room, -(-known // LANES) * LANES)
    sides = 2 if k > RUN else 1
    many = const_int(rows)
    begin: Expr = make.const(0, rows.dtype)
    if kind.bits == 32 and _in_lanes(k, known) and (many is None or many >= LANES):
        assert known is not None
        begin = rows // LANES * LANES
        with b.loop("block", rows // LANES, parallel=True) as block:
            _best_together(b, x, b.let("first", block * LANES), known, k, made, descending)
        if many is not None and many % LANES == 0:
            return
    with b.loop("row", rows - begin, begin, parallel=True) as row:
        keys, at = b.memory("keys", (sides, room), kind), b.memory("at", (sides, room), n.dtype)
        fill = b.let("fill", make.min_(n, make.const(room, n.dtype)))
        _read(b, x, row, fill, keys, at, descending)
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
            side = _in_order(b, keys, at, count)
            with b.loop("i", values.shape[1]) as i:
                place = b.let("place", kept_within(at[side, i], n))
                values[row, i] = x[row, place]
                places[row, i] = place
            return
        _pad(b, keys, count)
        with b.loop("i", count) as i:
            rank = _before(b, keys, i, make.const(0, n.dtype), count)
            with b.when(rank < values.shape[1]):
                place = b.let("place", kept_within(at[0, i], n))
                values[row, rank] = x[row, place]
                places[row, rank] = place


def _in_lanes(k: int, n: int | None) -> bool:
    """Whether the first ``k`` of rows of ``n`` are found faster in the lanes of vectors than row by row.
    Measured (Zen 4, one thread): the first 2 and 5 of 64 take 0.12 of the time, 5 of 1000 0.4, 5 of 2000
    0.65, 16 of 400 0.48; with AVX2 0.11, 0.18 and 0.55."""
    return n is not None and k <= LANE_MOST and n * (k + 2) <= LANE_WORK


def _best_together(
    b: LoopBuilder, x: Memory, first: Expr, n: int, k: int, made: Sequence[Memory], descending: bool
) -> None:
    """The first ``k`` of rows from ``first`` on, as many as a vector has lanes, each in a lane: every element
    is put among those kept, whatever it is, without a branch."""
    values, places = made
    kind = key_type(x.dtype)
    keys, turned = (b.memory(name, (LANES * LANES,), kind) for name in ("keys", "turned"))
    held, at = b.memory("held", (k * LANES,), kind), b.memory("at", (k * LANES,), INT32)

    def put(begin: Expr, count: int, kept: bool) -> None:
        for row in range(LANES):
            with b.loop("j", count, vector=True) as j:
                keys[row * LANES + j] = key_of(x[first + row, begin + j], descending)
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
    with b.loop("row", LANES) as row:
        for j in range(k):
            found = b.let("place", kept_within(at[j * LANES + row], make.as_expr(n)))
            values[first + row, j] = x[first + row, found]
            places[first + row, j] = found


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
    _pad(b, keys, count)
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
