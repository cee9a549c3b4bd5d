"""How the reference holds, rounds and saturates the numbers of each type, and reads and fills arrays of them.
Knows dtypes and numpy, no expressions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence, Set
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


# --- arrays -------------------------------------------------------------------------------------------------


def view_of(array: Array, indices: Sequence[Array]) -> Array | None:
    """``array[indices]`` without a copy, where each index is one place, or places side by side along a
    dimension of its own; None where it is not."""
    parts, along = [], []
    for index in indices:
        long = [d for d, n in enumerate(index.shape) if n > 1]
        first = int(index.flat[0])
        if len(long) > 1 or any(d in along for d in long):
            return None
        if long and not np.array_equal(index.reshape(-1), np.arange(first, first + index.size)):
            return None
        along += long
        parts.append(slice(first, first + index.size) if long else first)
    shape = [1] * max((i.ndim for i in indices), default=0)
    found = array[tuple(parts)].transpose(np.argsort(along))
    for d, n in zip(sorted(along), found.shape, strict=True):
        shape[d] = n
    return found.reshape(shape)


def filled(shape: tuple[int, ...], kind: np.dtype[Any], values: Array) -> Array:
    """An array of these values, broadcast; they themselves where they are new and of that form."""
    if type(values) is np.ndarray and values.base is None and values.flags.carray:
        if values.shape == shape and values.dtype == kind:
            return values
    out = np.empty(shape, kind)
    out[...] = values
    return out


def blocks(
    shape: tuple[int, ...], budget: int, factors: Sequence[Set[int]] = ()
) -> Iterator[tuple[slice, ...]]:
    """The space in blocks of at most ``budget`` points (at least one). Where a point is
    a product of ``factors``, which depend on these axes, the blocks for which the fewest elements of factors
    are read: with a channel of a convolution in each, all windows would be gathered for each channel."""
    natural = list(range(len(shape)))
    # axes of one factor last, and so whole where there is room
    orders = [natural]
    orders += [sorted(natural, key=lambda d: d in f and sum(d in g for g in factors) == 1) for f in factors]

    def read(order: Sequence[int]) -> int:
        steps = _steps(shape, budget, order)
        times = [-(-n // step) for n, step in zip(shape, steps, strict=True)]
        return sum(math.prod(shape[d] if d in f else times[d] for d in natural) for f in factors)

    order = min(orders, key=read)
    steps = _steps(shape, budget, order)
    spans = {
        d: [slice(lo, min(lo + steps[d], shape[d])) for lo in range(0, shape[d], steps[d])] for d in order
    }
    for found in itertools.product(*spans.values()):
        at = dict(zip(order, found, strict=True))
        yield tuple([at[d] for d in natural])


def _steps(shape: tuple[int, ...], budget: int, order: Sequence[int]) -> list[int]:
    """The extents of a block, of which the axes that come last in ``order`` are whole."""
    steps = [1] * len(shape)
    for d in reversed(order):
        steps[d] = max(1, min(shape[d], budget))
        budget = budget // shape[d] if steps[d] == shape[d] else 1
    return steps
