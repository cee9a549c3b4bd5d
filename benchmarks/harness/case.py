"""A case: one operator on one set of shapes, as data. Knows how it is computed in numpy, and nothing of who
will compute it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = Any  # numpy.ndarray: shapes are not in its type
BLOCK = 1 << 14  # elements compared at a time
# bytes of a cache line: every array of a case begins on one, so that no peer is slowed by split loads
LINE = 64


@dataclass(frozen=True)
class Argument:
    """An input array of values ``low`` … 1 (integers: their whole range). ``constant`` ones are weights: a
    peer may pack them beforehand."""

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    constant: bool = False
    low: float = -1.0


@dataclass(frozen=True)
class Case:
    """``flops`` useful operations and ``read`` + ``written`` compulsory bytes of one call; ``tolerance`` is
    relative to the largest result.

    ``packed`` cases have constant weights, all others are given everything at the call. ``note``
    distinguishes cases of a suite for the summary (``"L2"``, ``"memory"``). ``quick`` ones are kept by
    ``--quick``.
    """

    suite: str
    name: str
    op: str
    arguments: tuple[Argument, ...]
    result: Argument
    reference: Callable[..., Array] = field(repr=False)
    flops: float
    params: Mapping[str, Any] = field(default_factory=dict)
    tolerance: float = 1e-4
    note: str = ""
    quick: bool = False

    @property
    def packed(self) -> bool:
        return any(a.constant for a in self.arguments)

    @property
    def weights(self) -> str:
        """The class of like for like: weights packed once, or everything inside the call."""
        return "packed" if self.packed else "call"

    @property
    def read(self) -> int:
        return sum(_bytes(a) for a in self.arguments)

    @property
    def written(self) -> int:
        return _bytes(self.result)

    def inputs(self, seed: int = 0) -> dict[str, Array]:
        """Arrays by name, the same in every process."""
        rng = np.random.default_rng(seed)
        return {a.name: _random(a, rng) for a in self.arguments}

    def empty(self) -> Array:
        """An array for the result, full of NaN (of -1 for integers), so that what is not written is seen."""
        out = aligned(self.result.shape, self.result.dtype)
        out.fill(np.nan if out.dtype.kind == "f" else -1)
        return out


def aligned(shape: tuple[int, ...], dtype: str) -> Array:
    """An empty array whose first byte begins a cache line."""
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    raw = np.empty(size + LINE, np.uint8)
    start = -raw.ctypes.data % LINE
    return raw[start : start + size].view(dtype).reshape(shape)


def _bytes(a: Argument) -> int:
    return int(np.prod(a.shape, dtype=np.int64)) * np.dtype(a.dtype).itemsize


def _random(a: Argument, rng: np.random.Generator) -> Array:
    out = aligned(a.shape, a.dtype)
    if out.dtype.kind == "f":
        rng.random(out=out, dtype=out.dtype)
        out *= 1 - a.low
        out += a.low
    else:
        info = np.iinfo(out.dtype)
        out[...] = rng.integers(info.min, info.max, size=a.shape, dtype=out.dtype, endpoint=True)
    return out


def problem(case: Case, got: Array, expected: Array) -> str | None:
    """What is wrong with a result, or None. Integers must be equal; floats within ``tolerance`` of the
    largest magnitude."""
    got = np.asarray(got)
    if got.shape != expected.shape:
        return f"shape {got.shape} instead of {expected.shape}"
    bound = (
        0.0
        if got.dtype.kind == "i"
        else case.tolerance * max(1e-30, float(expected.max()), -float(expected.min()))
    )
    count, first = 0, None
    flat, right = got.reshape(-1), expected.reshape(-1)
    for begin in range(0, got.size, BLOCK):  # blocks stay in the caches
        wrong = ~(
            np.abs(flat[begin : begin + BLOCK] - right[begin : begin + BLOCK]) <= bound
        )  # ~ catches NaN
        if wrong.any():
            count += int(wrong.sum())
            first = begin + int(wrong.argmax()) if first is None else first
    if first is None:
        return None
    at = tuple(int(i) for i in np.unravel_index(first, got.shape))
    return f"wrong at {count} of {got.size} places, first {at}: {got[at]!s} instead of {expected[at]!s}"
