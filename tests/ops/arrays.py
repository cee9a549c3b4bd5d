"""Running operators on arrays: one compile with the default schedule, and comparison with numpy by dtype."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import tensorlang as tl
from tensorlang import te
from tensorlang.core.dtype import dtype

Array = np.ndarray
SIZES = (1, 3, 17, 33)
FLOATS = ("float32", "float64", "float16", "bfloat16")
INTS = ("int8", "int32", "int64", "uint8", "uint32")


def compiled(outputs: Any, feed: Mapping[te.Tensor, Array]) -> Any:
    """The arrays of the outputs, by the default schedule. One array for one tensor."""
    outs = [outputs] if isinstance(outputs, te.Tensor) else list(outputs)
    return tl.compile([*feed, *outs])(*feed.values())


def stored(x: Array, t: str) -> Array:
    """An array as a kernel takes it for the dtype ``t``."""
    return np.asarray(x, np.float32 if t == "bfloat16" else None).astype(dtype(t).to_numpy())


def real(x: Array, t: Any) -> Array:
    """The numbers of an array of dtype ``t``, exactly, in float64 when they are floats."""
    return np.asarray(x).astype(np.float64) if dtype(t).is_float else np.asarray(x)


def sample(shape: tuple[int, ...], t: str, seed: int = 0) -> Array:
    """Random numbers as stored: floats of a normal distribution, small integers, bools."""
    rng = np.random.default_rng(seed)
    if t == "bool":
        return rng.random(shape) < 0.5
    if dtype(t).is_int:
        return rng.integers(0 if t.startswith("u") else -9, 10, shape).astype(t)
    return stored(rng.standard_normal(shape) * 3, t)


def whole(shape: tuple[int, ...], t: str, seed: int = 0) -> Array:
    """Small whole numbers as stored: sums and products of them are exact in any order."""
    return stored(np.random.default_rng(seed).integers(-4, 5, shape), t)


def ulp(t: Any) -> float:
    """The distance from 1 to the next number of a float type."""
    return {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}[str(t)]


def near(got: Array, want: Array, t: Any, ulps: float, floor: float = 0.0) -> None:
    """``got``, of dtype ``t``, lies within ``ulps`` steps of the float64 array ``want``; ``floor`` is an
    absolute allowance beside it.

    Shapes are equal, and NaN and infinities stand at the same places.
    """
    given = real(got, t)
    assert given.shape == np.shape(want), f"shape {given.shape}, should be {np.shape(want)}"
    # steps below the normal numbers
    tiny = 2.0**-24 if str(t) == "float16" else 2.0**-133 if str(t) == "bfloat16" else 0.0
    with np.errstate(all="ignore"):
        same = (given == want) | (np.isnan(given) & np.isnan(want))
        bound = ulps * np.maximum(np.abs(want) * ulp(t), tiny) + floor
        bad = ~same & ~(np.abs(given - want) <= bound)
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(np.atleast_1d(bad))[0])
        raise AssertionError(
            f"{int(bad.sum())} of {bad.size} differ, first at {at}: {np.atleast_1d(given)[at]!r}, should be "
            f"{np.atleast_1d(want)[at]!r} within {np.atleast_1d(bound)[at]:.3g}"
        )


def exact(got: Array, want: Array, t: Any) -> None:
    """The same numbers (of floats NaN where there is NaN), dtype and shape."""
    assert str(np.asarray(got).dtype) == str(t), f"dtype {np.asarray(got).dtype}, should be {t}"
    np.testing.assert_array_equal(real(got, t), want, strict=False)
    assert np.shape(got) == np.shape(want)
