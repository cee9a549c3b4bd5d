"""Parts of arrays whose number follows from values: functions of arrays. Knows numpy only."""

from __future__ import annotations

from typing import Any

import numpy as np


def first_rows(rows: np.ndarray, count: np.ndarray) -> np.ndarray:
    """As many rows as count."""
    return rows[: count.item()]


def first_columns(columns: np.ndarray, count: np.ndarray) -> np.ndarray:
    """As many columns as count."""
    return columns[:, : count.item()]


def compressed(x: np.ndarray, condition: np.ndarray, *, axis: int | None) -> np.ndarray:
    """The slices along an axis, or the elements, for which the condition holds."""
    return np.compress(condition, x, axis)


def unique(x: np.ndarray, *, axis: int | None, in_order: bool) -> tuple[np.ndarray, ...]:
    """The distinct elements or slices, where each is first, which of them each was, how often each is."""
    found, first, inverse, counts = np.unique(x, True, True, True, axis=axis)
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
