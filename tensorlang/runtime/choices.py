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
    if x.size and x.min() < 0:
        raise CallError(f"{x.min()} is counted", because="numbers are counted from 0 on")
    return np.bincount(x, weights, least).astype(dtype(kind).to_numpy())


def runs(x: np.ndarray, *, axis: int | None) -> tuple[np.ndarray, ...]:
    """One of each run of equal elements or slices, the run of each, how long each is."""
    rows = x.reshape(-1, 1) if axis is None else np.moveaxis(x, axis, 0).reshape(x.shape[axis], -1)
    begins = np.ones(len(rows), bool)
    begins[1:] = (rows[1:] != rows[:-1]).any(1)
    first = np.flatnonzero(begins)
    found = x.reshape(-1)[first] if axis is None else np.take(x, first, axis)
    return found, np.cumsum(begins) - 1, np.diff(np.append(first, len(rows)))


def unique(x: np.ndarray, *, axis: int | None, in_order: bool, apart: bool = False) -> tuple[np.ndarray, ...]:
    """The distinct elements or slices, where each is first, which of them each was, how often each is. With
    ``apart`` what is no number is like no other."""
    found, first, inverse, counts = np.unique(x, True, True, True, axis=axis, equal_nan=not apart)
    inverse = inverse.reshape(-1)
    if not in_order:
        order = np.argsort(first, kind="stable")
        found = np.take(found, order, 0 if axis is None else axis)
        first, counts = first[order], counts[order]
        inverse = np.argsort(order, kind="stable")[inverse]
    return found, first.astype(np.int64), inverse.astype(np.int64), counts.astype(np.int64)


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
