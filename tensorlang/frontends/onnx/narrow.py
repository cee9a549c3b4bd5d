"""Numbers of 2, 4 and 8 bits that kernels do not compute with: they are held in a wider type that has all of
them, and are as few bits only where they are read or given back. Knows the package ml_dtypes, and graphs.
"""

from __future__ import annotations

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
