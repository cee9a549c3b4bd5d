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
from .scan import blocks_of_rows, matrix
from .shape import reshape

__all__ = ["cummax", "cummin"]

PIECE = 64  # elements that are asked together whether one of them goes further


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
    if x.dtype.is_float and (n is None or n >= PIECE // 2):
        _in_pieces(b, x, values, places, largest)
        return
    # integers of an open number may be none, so that the first is not read ahead of the loop
    least = te.min_value(x.dtype) if largest else te.max_value(x.dtype)
    with blocks_of_rows(b, x.shape) as here:
        cells = [
            (
                b.cell(f"value{q}", x.dtype, least if n is None else x[(*row, 0)]),
                b.cell(f"place{q}", INT64, 0),
            )
            for q, row in enumerate(here)
        ]
        with b.loop("step", x.shape[-1]) as at:
            for row, (value, place) in zip(here, cells, strict=True):
                now, before = b.let("now", x[(*row, at)]), b.let("before", value.value)
                taken = b.let("taken", _takes(now, before, largest))
                value.set(te.select(taken, now, before))
                place.set(te.select(taken, te.cast(INT64, at), place.value))
                values[(*row, at)] = value.value
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

        def piece(begin: Expr, count: int) -> None:
            with b.loop("lane", count, vector=True) as lane:
                ranks[lane] = _rank(x[(*row, begin + lane)], largest)
            most = b.cell("most", kind, te.min_value(kind))
            with b.loop("lane", count, vector=True) as lane:
                most.set(te.max(most.value, ranks[lane]))
            with b.when(most.value < best.value):
                value, where = (
                    b.let("value", x[(*row, kept_within(place.value, n))]),
                    b.let("where", place.value),
                )
                with b.loop("lane", count, vector=True) as lane:
                    values[(*row, begin + lane)] = value
                with b.loop("lane", count, vector=True) as lane:
                    places[(*row, begin + lane)] = where
            with b.otherwise(), b.loop("step", count) as at:
                step(begin + at, b.let("rank", ranks[at]))

        with b.loop("piece", n // PIECE) as number:
            piece(b.let("begin", number * PIECE), PIECE)
        known = const_int(n)
        if known is None:
            with b.loop("rest", n % PIECE, n // PIECE * PIECE) as at:
                step(at, b.let("rank", _rank(x[(*row, at)], largest)))
        elif known % PIECE:
            piece(make.const(known // PIECE * PIECE, n.dtype), known % PIECE)


def _rank(x: Expr, largest: bool) -> Expr:
    """An integer that is larger the further a number goes, and largest for a NaN."""
    rank = key_of(x, largest)
    return rank if largest else te.select(te.isnan(x), te.max_value(rank.dtype), rank)
