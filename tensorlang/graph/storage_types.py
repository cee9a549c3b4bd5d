"""Types in which constants take less memory. Knows arrays alone.

A model that was trained or stored in half precision has weights that half the bytes hold, whether its file
casts them, a pass folded the cast, or somebody wrote them out in float32: what tells is the elements.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import numpy as np

from ..core.dtype import dtype

FEW = 1 << 13  # elements, below which nothing is saved that counts
SOME = 256  # by which most arrays fail


def narrowest(a: np.ndarray) -> np.ndarray:
    """The same numbers in the narrowest type that has every one of them, to the bit (the sign of a zero
    counts); ``a`` itself where none has, where it is small, and of other types than float32."""
    if a.dtype != np.float32 or a.size < FEW:
        return a
    some = np.ascontiguousarray(a.reshape(-1)[:: max(1, a.size // SOME)])
    for kind, holds in KINDS.items():
        if holds(some) and holds(np.ascontiguousarray(a)):
            return a.astype(dtype(kind).to_numpy())
    return a


def _holds(kind: str) -> Callable[[np.ndarray], bool]:
    """Whether a type has all elements of an array."""

    def holds(a: np.ndarray) -> bool:
        with np.errstate(over="ignore", invalid="ignore"):
            there_and_back = a.astype(kind).astype(np.float32)
        return np.array_equal(there_and_back.view(np.uint32), a.view(np.uint32))

    return holds


def _as_bfloat16(a: np.ndarray) -> bool:
    """The same for the upper half of a float32. The package that numpy has the type from may be missing."""
    return not (a.view(np.uint32) & 0xFFFF).any() and find_spec("ml_dtypes") is not None


# those that numbers of float32 may be in, the narrowest first
KINDS = {"int8": _holds("int8"), "float16": _holds("float16"), "bfloat16": _as_bfloat16}
