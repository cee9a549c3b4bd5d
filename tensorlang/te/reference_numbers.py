"""How the reference holds, rounds and saturates the numbers of each type. Knows dtypes and
numpy, no expressions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.dtype import DType

Array = Any
Point = tuple[int, ...]


def held_as(t: DType) -> np.dtype[Any]:
    """The numpy type values of ``t`` are held in while computing."""
    return np.dtype(np.float32) if t.code == "bfloat" else t.to_numpy()


def summed_as(t: DType) -> np.dtype[Any]:
    """The type of an accumulator."""
    return np.dtype(np.float64) if t.is_float else held_as(t)


def rounded(t: DType, x: Array) -> Array:
    """``x`` in the type ``t``: floats to the nearest, integers wrapped."""
    if t.code == "bfloat":
        return to_bfloat(np.asarray(x, np.float64))
    held = held_as(t)
    return x if x.dtype == held else np.asarray(x).astype(held)


def to_bfloat(x: Array) -> Array:
    """float64 rounded to the nearest bfloat16, held in float32. By way of float32 rounded to odd, so that it
    is rounded once."""
    f = x.astype(np.float32)
    inexact = (f.astype(np.float64) != x) & np.isfinite(f)
    f = np.where(inexact & (np.abs(f.astype(np.float64)) > np.abs(x)), np.nextafter(f, np.float32(0)), f)
    bits = f.view(np.uint32) | inexact.astype(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(x), np.float32(np.nan), rounded.view(np.float32))


def from_outside(x: Array, t: DType) -> Array:
    return x.astype(np.float32) if t.code == "bfloat" else x


def to_outside(x: Array, t: DType) -> Array:
    x = np.ascontiguousarray(x).reshape(x.shape)
    return (
        (x.view(np.uint32) >> np.uint32(16)).astype(np.uint16).view(t.to_numpy()) if t.code == "bfloat" else x
    )


def saturated(t: DType, x: Array) -> Array:
    """Floats truncated into an integer type; what does not fit becomes the nearest end, NaN zero."""
    lo, hi = t.limits()
    wide = np.trunc(np.where(np.isnan(x), 0.0, x.astype(np.float64)))
    above, below = wide >= float(hi + 1), wide <= float(lo)  # both bounds are exact in float64
    inner = np.where(above | below, 0.0, wide)
    kind = t.to_numpy().type
    return np.where(above, kind(hi), np.where(below, kind(lo), inner.astype(kind)))


def at(x: Array, point: Point) -> Any:
    """The element of an array that may be a scalar, or have extent 1 where it does not depend on an axis."""
    x = np.asarray(x)
    return x[tuple([min(i, n - 1) for i, n in zip(point, x.shape)])]  # a scalar has no axes
