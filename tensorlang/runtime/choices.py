"""Arrays whose number of elements follows from values: functions of arrays. Knows numpy only."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.dtype import dtype
from ..errors import CallError


def first_rows(rows: np.ndarray, count: np.ndarray) -> np.ndarray:
    """As many rows as count."""
    return rows[: count.item()]


def first_columns(columns: np.ndarray, count: np.ndarray) -> np.ndarray:
    """As many columns as count."""
    return columns[:, : count.item()]


def compressed(x: np.ndarray, condition: np.ndarray, *, axis: int | None) -> np.ndarray:
    """The slices along an axis, or the elements, for which the condition holds. Raises CallError where it
    holds beyond the end."""
    last, size = np.flatnonzero(condition)[-1:], x.size if axis is None else x.shape[axis]
    if last.size and last[0] >= size:
        raise CallError(
            f"Compress: the condition keeps element {last[0]} of {size}",
            because=f"it is {condition.size} long, the array {'x'.join(map(str, x.shape)) or 'a number'}",
            try_=f"a condition of at most {size}",
        )
    return np.compress(condition, x, axis)


def counted_up(start: np.ndarray, stop: np.ndarray, step: np.ndarray) -> np.ndarray:
    """The numbers from one to before another by a step; none where the step leads away from it. Raises
    CallError for a step of 0, for what has no end and for more than there is memory for."""
    dtype = start.dtype
    first, last, by = start.item(), stop.item(), step.item()
    if by == 0 or not all(map(math.isfinite, (first, last, by))):
        raise CallError(f"a range from {first} to {last} by {by} has no end")
    # bfloat16 is a float to no numpy
    whole = dtype.kind in "iu"
    number = len(range(first, last, by)) if whole else max(0, math.ceil((last - first) / by))
    try:
        # the start and a whole number of steps: steps added up would round more
        return np.asarray(dtype.type(first) + np.arange(number).astype(dtype) * dtype.type(by), dtype)
    except MemoryError:
        raise CallError(f"there is no memory for a range of {number} numbers") from None


def as_many(n: np.ndarray) -> np.ndarray:
    """An array of that many bytes, for a size that is data. Raises CallError for less than 0."""
    if n.item() < 0:
        raise CallError(f"a size is {n.item()}", because="it is data, and no size is negative")
    return np.broadcast_to(np.uint8(0), (n.item(),))


def repeated(repeats: np.ndarray) -> np.ndarray:
    """Each place as often as its number says. Raises CallError for less than 0."""
    if repeats.size and repeats.min() < 0:
        raise CallError(f"{repeats.min()} repetitions", because="there are 0 or more of each")
    return np.repeat(np.arange(repeats.size), repeats)


def counts(x: np.ndarray, weights: np.ndarray | None = None, *, least: int, kind: str) -> np.ndarray:
    """How often each number from 0 on occurs, or the sum of its weights, of ``least`` numbers at least.
    Raises CallError for numbers below 0."""
    try:
        found = np.bincount(x, weights, least)
    except ValueError:
        if x.size and x.min() < 0:
            raise CallError(f"{x.min()} is counted", because="numbers are counted from 0 on") from None
        raise
    return found.astype(dtype(kind).to_numpy(), copy=False)


def runs(x: np.ndarray, *, axis: int | None) -> tuple[np.ndarray, ...]:
    """One of each run of equal elements or slices, the run of each, how long each is."""
    rows = x.reshape(-1, 1) if axis is None else np.moveaxis(x, axis, 0).reshape(x.shape[axis], -1)
    begins = _begins(rows)
    first = np.flatnonzero(begins)
    found = x.reshape(-1)[first] if axis is None else np.take(x, first, axis)
    return found, np.cumsum(begins) - 1, np.diff(np.append(first, len(rows)))


def _begins(rows: np.ndarray) -> np.ndarray:
    """Which rows are not equal to the one before."""
    begins = np.ones(len(rows), bool)
    begins[1:] = (rows[1:] != rows[:-1]).any(1)
    return begins


def unique(
    x: np.ndarray,
    *,
    axis: int | None,
    in_order: bool,
    apart: bool = False,
    asked: tuple[bool, bool, bool] = (True, True, True),
) -> tuple[np.ndarray, ...]:
    """The distinct elements or slices, where each is first, which of them each was, how often each is; empty
    where that is not ``asked`` for. With ``apart`` what is no number is like no other."""
    told = asked if in_order else (True, *asked[1:])
    if axis is None and _of_small_range(x):
        found, first, inverse, counts = _counted(x.reshape(-1), told)
    elif axis is None and x.dtype.kind in "iu" and not any(told):
        # numpy looks each up in a table: 300,000 of many numbers take 68 ms, sorted they take 3 (Zen 5)
        rows = np.sort(x, axis=None)
        found, first, inverse, counts = rows[_begins(rows[:, None])], _NOTHING, _NOTHING, _NOTHING
    else:
        distinct: Any = np.unique
        given = distinct(x, *told, axis=axis, equal_nan=not apart)
        found, *rest = given if any(told) else (given,)
        each: Any = iter(rest)
        first, inverse, counts = (next(each).reshape(-1) if t else _NOTHING for t in told)
    if not in_order:
        order = np.argsort(first, kind="stable")
        found = np.take(found, order, 0 if axis is None else axis)
        first, counts = first[order], counts[order] if asked[2] else counts
        inverse = np.argsort(order, kind="stable")[inverse] if asked[1] else inverse
    return found, *(t.astype(np.int64, copy=False) for t in (first, inverse, counts))


_NOTHING = np.empty(0, np.int64)


def _of_small_range(x: np.ndarray) -> bool:
    """Whether there are hardly more numbers between the least and the largest than elements, so that to count
    each takes less than to sort. Measured (Zen 5): 300,000 of 200 numbers 0.9 instead of 13.8 ms."""
    return x.dtype.kind in "iu" and x.size > 0 and int(x.max()) - int(x.min()) <= 2 * x.size


def _counted(x: np.ndarray, told: tuple[bool, bool, bool]) -> tuple[np.ndarray, ...]:
    """The distinct numbers of a vector of a small range, and what is told of them."""
    low, plain = x.min(), np.dtype(f"u{x.dtype.itemsize}")
    places = (x - low).view(plain).astype(np.intp)  # differences beyond the type wrap to the right number
    often = np.bincount(places)
    there = np.flatnonzero(often)
    first = inverse = _NOTHING
    if told[0]:
        first = np.empty(len(often), np.int64)
        first[places[::-1]] = np.arange(x.size)[::-1]  # of several the last that is written stays
        first = first[there]
    if told[1]:
        inverse = (np.cumsum(often > 0) - 1)[places]
    return there.astype(plain).view(x.dtype) + low, first, inverse, often[there] if told[2] else _NOTHING


def determinant(x: np.ndarray) -> np.ndarray:
    """Of each matrix, by elimination with pivots."""
    wide = np.float64 if x.dtype == np.float64 else np.float32
    return np.asarray(np.linalg.det(x.astype(wide)), x.dtype)


def inverse(x: np.ndarray) -> np.ndarray:
    """Of each matrix; not a number where there is none."""
    wide: Any = x.astype(np.float64 if x.dtype == np.float64 else np.float32)
    try:
        found = np.linalg.inv(wide)
    except np.linalg.LinAlgError:
        flat = wide.reshape(-1, *wide.shape[-2:])
        found = np.stack([np.linalg.inv(m) if np.linalg.det(m) else m * np.nan for m in flat])
    return np.asarray(found.reshape(x.shape), x.dtype)
