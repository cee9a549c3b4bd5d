"""Numbers of 2, 4 and 8 bits that kernels do not compute with: they are held in a wider type that has all of
them, and are as few bits only where they are read or given back. Knows the package ml_dtypes, and graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ...errors import CallError
from ...graph import Graph, Value

WIDE = {
    "int2": "int8",
    "int4": "int8",
    "uint2": "uint8",
    "uint4": "uint8",
    "float4_e2m1fn": "float16",
    "float8_e4m3fn": "float16",
    "float8_e4m3fnuz": "float16",
    "float8_e5m2": "float16",
    "float8_e5m2fnuz": "float16",
    "float8_e8m0fnu": "float32",
}


def _type(kind: str) -> Any:
    return np.dtype(getattr(ml_dtypes, kind))


def widened(x: Any, *, kind: str) -> np.ndarray:
    """The numbers of an array of few bits. Raises CallError for an array of another type."""
    a = np.asarray(x)
    if a.dtype.name != kind:
        raise CallError(f"an input is {a.dtype}, {kind} is needed", try_=f"x.astype(ml_dtypes.{kind})")
    return a.astype(WIDE[kind])


def stored(g: Graph, v: Value, kind: str) -> Value:
    """The array of few bits of a value that has their numbers."""
    return g.host(lambda a: a.astype(_type(kind)), [v], [kind], "Store", outputs=[v.name])[0]


def rounded(g: Graph, v: Value, kind: str, saturate: bool = True, mode: str = "up") -> Value:
    """The nearest numbers that the type has."""
    return g.host(_rounded, [v], [(v.shape, WIDE[kind])], "Round", kind=kind, saturate=saturate, mode=mode)[0]


def _rounded(a: np.ndarray, *, kind: str, saturate: bool, mode: str) -> np.ndarray:
    t = _type(kind)
    if "int" in kind:
        return a.astype(t).astype(WIDE[kind])
    wide = a.astype(np.float32) if a.dtype.name == "bfloat16" else a
    if kind == "float8_e8m0fnu":
        wide = _powers(wide, mode)
    # otherwise what is too large becomes infinite or NaN, as the type has it
    if saturate:
        most = float(ml_dtypes.finfo(t).max)
        wide = np.clip(wide, -most, most)
    return wide.astype(t).astype(WIDE[kind])


def _powers(a: np.ndarray, mode: str) -> np.ndarray:
    """Powers of two, above, below or nearest."""
    fraction, exponent = np.frexp(a.astype(np.float32))  # fraction in [1/2, 1)
    limit = {"up": 0.5, "down": 1.0, "nearest": 0.75}[mode]
    over = fraction > limit if mode == "up" else fraction >= limit
    power = np.ldexp(np.float32(1), np.maximum(exponent - 1 + over, -127))
    return np.where(a == 0, np.float32(2.0**-127), np.where(np.isfinite(a), power, a))


def less_zero_points(
    inputs: Sequence[Value | None],
    x_zero: int | None,
    weight: int,
    weight_zero: int,
    axis: int | None,
    new: Callable[[np.ndarray, str], Value],
) -> list[Value | None]:
    """The inputs of a product of stored numbers, at these positions, without zero points that are 0: a
    constant weight is int8, which newer processors multiply four at a time. Where the differences fit, its
    zero point is taken from it ahead; where they do not, uint8 and its zero point are both 128 less."""
    given = [*inputs, *[None] * (1 + max(x_zero or 0, weight_zero) - len(inputs))]
    if x_zero is not None and _is_zero(given[x_zero]):
        given[x_zero] = None
    w, zero = given[weight], given[weight_zero]
    if w is None or w.data is None or w.data.dtype.itemsize != 1 or (zero is not None and zero.data is None):
        return given
    # differences of bytes have 9 bits
    less = np.zeros((), "int16") if zero is None or zero.data is None else zero.data.astype("int16")
    if less.size > 1 and less.ndim == 1:
        if axis is None:
            return given
        shape = [1] * w.data.ndim
        shape[axis] = -1
        less = less.reshape(shape)
    whole = w.data.astype("int16") - less
    fits = not whole.size or (whole.min() >= -128 and whole.max() <= 127)
    # int8 without a zero point is what the instruction takes already
    if fits and (zero is not None or w.data.dtype != np.int8):
        given[weight], given[weight_zero] = new(whole.astype("int8"), w.name), None
    elif not fits and w.data.dtype == np.uint8:
        given[weight] = new((w.data.astype("int16") - 128).astype("int8"), w.name)
        alone = axis is not None and less.ndim == w.data.ndim and less.shape[axis] == less.size
        # one number, or one along the axis; of a batch of matrices in their shape
        zeros = less.reshape(()) if less.size == 1 else less.reshape(-1) if alone else less
        given[weight_zero] = new((zeros - 128).astype("int8"), w.name)
    return given


def _is_zero(v: Value | None) -> bool:
    return v is not None and v.data is not None and not v.data.any()
