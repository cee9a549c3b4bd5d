"""scipy: its special functions and BLAS, for what numpy alone has no function."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special
from scipy.linalg import blas

from ..harness.case import Array
from .numpy import Numpy


class Scipy(Numpy):
    name = "scipy"
    package = "scipy"

    def operators(self) -> dict[str, Callable[..., Any]]:
        return OPERATORS


def matmul(a: Array, b: Array, *, out: Array) -> None:
    """The BLAS by itself: it counts columns first, and so multiplies the transposed arrays."""
    blas.sgemm(1.0, b.T, a.T, c=out.T, overwrite_c=1)


def softmax(x: Array, *, out: Array, axis: int) -> None:
    out[...] = special.softmax(x, axis=axis)


def gelu(x: Array, *, out: Array) -> None:
    special.erf(x * np.float32(math.sqrt(0.5)), out=out)
    out += np.float32(1)
    out *= x
    out *= np.float32(0.5)


OPERATORS: dict[str, Callable[..., Any]] = {"matmul": matmul, "softmax": softmax, "gelu": gelu}
