"""The largest and the smallest number so far, along one dimension, and where it stands. Knows the checks of
arguments, and how tensors are laid out anew.

Made as the running sums of ``ops.cumsum``, which share how rows are cut: a recurrence whose steps are lines
of memory, and a program of loops along the last dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import te
from ..core.dtype import INT64
from ..expr import make
from ..expr.nodes import Expr, const_int
from ..te import Tensor
from ..te.loops import LoopBuilder, Memory
from . import inputs, tags
from .keys import key_of, key_type
from .places import kept_within
from .scan import blocks_of_rows, matrix, some_lanes
from .shape import reshape

__all__ = ["cummax", "cummin"]

PIECE = 64  # elements that are asked together whether one of them goes further
SHORT = 64  # elements of a row, below which some rows are side by side
FEW = 16  # elements of an open one, whose integers are made at once


def cummax(x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """The largest of the elements up to each along ``axis``, and its place, int64: of equal ones the last. A
    NaN stays, and is at the place of the last NaN so far."""
    return _running("cummax", x, axis, True)


def cummin(x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """The smallest of the elements up to each along ``axis``, and its place, as :func:`cummax` has them."""
    return _running("cummin", x, axis, False)


def _running(op: str, x: Any, axis: int, largest: bool) -> tuple[Tensor, Tensor]:
    x = inputs.tensor(op, x)
    d = inputs.axis_of(op, axis, x.ndim)
    rows = x.shape[d]
    if const_int(rows) == 0:
        empty = inputs.stage(op, tags.ELEMENTWISE, x.shape, lambda *i: x(*i))
        return empty, inputs.stage(f"{op}.place", tags.ELEMENTWISE, x.shape, lambda *i: te.const(0, INT64))
    if d == x.ndim - 1:
        flat = matrix(x)
        attrs = {"largest": largest}
        values, places = te.loops(
            _extreme_of_rows, [flat], [flat.shape] * 2, [x.dtype, INT64], name=op, tag=tags.LOOPS, attrs=attrs
        )
        return (values, places) if flat is x else (reshape(values, x.shape), reshape(places, x.shape))
    return _of_lines(op, x, d, largest)


def _of_lines(op: str, x: Tensor, d: int, largest: bool) -> tuple[Tensor, Tensor]:
    """A recurrence over the first dimension of its state."""
    rows = x.shape[d]
    rest = list(inputs.without(x.shape, (d,)))
    begin = make.const(1, rows.dtype) if inputs.at_most(1, rows) else make.min_(rows, 1)

    def element(t: Any, *i: Any) -> Expr:
        return x(*i[:d], t, *i[d:])

    value = te.placeholder((rows, *rest), x.dtype, name=f"{op}.value")
    place = te.placeholder((rows, *rest), INT64, name=f"{op}.state")
    first = inputs.stage(f"{op}.first", tags.ELEMENTWISE, [begin, *rest], element)
    start = inputs.stage(f"{op}.start", tags.ELEMENTWISE, [begin, *rest], lambda *i: te.const(0, INT64))

    def larger(t: Any, *i: Any) -> Expr:
        now, before = element(t, *i), value(t - 1, *i)
        return te.select(_takes(now, before, largest), now, before)

    def there(t: Any, *i: Any) -> Expr:
        now, before = element(t, *i), value(t - 1, *i)
        return te.select(_takes(now, before, largest), te.cast(INT64, t), place(t - 1, *i))

    steps = [
        inputs.stage(f"{op}.{word}", tags.ELEMENTWISE, [rows, *rest], f)
        for word, f in (("larger", larger), ("there", there))
    ]
    made = te.scan([first, start], steps, [value, place], name=op, tag=tags.SCAN)
    if d == 0:
        return made[0], made[1]

    def laid(t: Tensor, name: str) -> Tensor:
        return inputs.stage(name, tags.INJECTIVE, x.shape, lambda *i: t(i[d], *i[:d], *i[d + 1 :]))

    return laid(made[0], f"{op}.values"), laid(made[1], f"{op}.places")


def _takes(now: Expr, before: Expr, largest: bool) -> Expr:
    """Whether an element takes the place of the one so far."""
    further = now >= before if largest else now <= before
    return te.any(further, te.isnan(now)) if now.dtype.is_float else further


def _in_numpy(x: np.ndarray, largest: bool) -> list[np.ndarray]:
    keys = inputs.for_numpy(x)
    values = (np.maximum if largest else np.minimum).accumulate(keys, -1)
    own = (keys == values) | (np.isnan(keys) if keys.dtype.kind == "f" else False)
    places = np.maximum.accumulate(np.where(own, np.arange(x.shape[-1]), 0), -1)
    return [values.astype(x.dtype), places.astype(np.int64)]


@te.loop_program("extreme_of_rows", _in_numpy)
def _extreme_of_rows(b: LoopBuilder, given: Sequence[Memory], made: Sequence[Memory], largest: bool) -> None:
    """Rows [..., n], some at once; long ones of floats in pieces."""
    (x,), (values, places) = given, made
    n = const_int(x.shape[-1])
    if x.dtype.is_float and n is None:
        with b.when(x.shape[-1] < SHORT):
            _rows_at_once(b, x, values, places, largest)
        with b.otherwise():
            _in_pieces(b, x, values, places, largest)
    elif x.dtype.is_float and n is not None and n >= SHORT:
        _in_pieces(b, x, values, places, largest)
    else:
        _rows_at_once(b, x, values, places, largest)


def _rows_at_once(b: LoopBuilder, x: Memory, values: Memory, places: Memory, largest: bool) -> None:
    """Some rows side by side, each element after element. Those of floats are shorter than SHORT and compared
    by integers, which a vector of them is made of first.

    Measured (Zen 5, one thread), 1000 rows of 33: float32 33.8 → 22.0 µs, float64 33.4 → 24.1, of an open
    length 47.7 → 27.9 and 103 → 30, 600 of 60 135 → 32.
    """
    n, floats = x.shape[-1], x.dtype.is_float
    kind = key_type(x.dtype) if floats else x.dtype
    # what no number goes behind: a row of an open length may be empty, so that its first is not read for that
    least = te.min_value(kind) if largest or floats else te.max_value(kind)
    with blocks_of_rows(b, x.shape) as here:
        cells = [(b.cell(f"best{q}", kind, least), b.cell(f"place{q}", INT64, 0)) for q in range(len(here))]
        ranks = [b.memory(f"ranks{q}", (SHORT,), kind) for q in range(len(here) if floats else 0)]
        for row, rank in zip(here, ranks, strict=False):
            if const_int(n) is not None:
                with b.loop("lane", n, vector=True) as lane:
                    rank[lane] = _rank(x[(*row, lane)], largest)
                continue
            with b.loop("some", make.ceildiv(n, FEW)) as some:
                begin = b.let("begin", some * FEW)
                with some_lanes(b, "lane", n - begin, FEW) as lane:
                    rank[begin + lane] = _rank(x[(*row, begin + lane)], largest)
        with b.loop("step", n) as at:
            for q, (row, (best, place)) in enumerate(zip(here, cells, strict=True)):
                now, before = (
                    b.let("now", ranks[q][at] if floats else x[(*row, at)]),
                    b.let("before", best.value),
                )
                taken = b.let("taken", now >= before if largest or floats else now <= before)
                best.set(te.select(taken, now, before))
                place.set(te.select(taken, te.cast(INT64, at), place.value))
                values[(*row, at)] = x[(*row, kept_within(place.value, n))] if floats else best.value
                places[(*row, at)] = place.value


def _in_pieces(b: LoopBuilder, x: Memory, values: Memory, places: Memory, largest: bool) -> None:
    """Rows of which in most pieces no element goes further than those before. Elements are compared by
    integers: to compare floats and choose by what was found takes 15 cycles, in which nothing else of a row
    can be done.

    Measured (Zen 4, one thread), 500 × 1000, 100 × 10,000 and 100,000 numbers: drawn 0.32, 0.23 and 0.05 of
    the time of element after element, in order 0.9, 0.9 and 0.26; 2000 × 37 0.8.
    """
    n, kind = x.shape[-1], key_type(x.dtype)
    with blocks_of_rows(b, x.shape, 1) as (row,):
        # every rank is as large at least: a row may be empty, so that its first element is not read for that
        best, place = b.cell("best", kind, te.min_value(kind)), b.cell("place", INT64, 0)
        ranks = b.memory("ranks", (PIECE,), kind)

        def step(at: Expr, rank: Expr) -> None:
            taken = b.let("taken", rank >= best.value)
            best.set(te.select(taken, rank, best.value))
            place.set(te.select(taken, te.cast(INT64, at), place.value))
            values[(*row, at)] = x[(*row, kept_within(place.value, n))]
            places[(*row, at)] = place.value

        def piece(begin: Expr, count: Expr | int) -> None:
            with some_lanes(b, "lane", count, PIECE) as lane:
                ranks[lane] = _rank(x[(*row, begin + lane)], largest)
            most = b.cell("most", kind, te.min_value(kind))
            with some_lanes(b, "lane", count, PIECE) as lane:
                most.set(te.max(most.value, ranks[lane]))
            with b.when(most.value < best.value):
                value, where = (
                    b.let("value", x[(*row, kept_within(place.value, n))]),
                    b.let("where", place.value),
                )
                with some_lanes(b, "lane", count, PIECE) as lane:
                    values[(*row, begin + lane)] = value
                with some_lanes(b, "lane", count, PIECE) as lane:
                    places[(*row, begin + lane)] = where
            with b.otherwise(), b.loop("step", count) as at:
                step(begin + at, b.let("rank", ranks[at]))

        with b.loop("piece", n // PIECE) as number:
            piece(b.let("begin", number * PIECE), PIECE)
        rest = n % PIECE
        if const_int(rest) != 0:
            piece(n - rest, const_int(rest) or rest)


def _rank(x: Expr, largest: bool) -> Expr:
    """An integer that is larger the further a number goes, and largest for a NaN."""
    rank = key_of(x, largest)
    return rank if largest else te.select(te.isnan(x), te.max_value(rank.dtype), rank)
