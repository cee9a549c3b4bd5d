"""Vectors that are written under a mask over what they are made of."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te


@pytest.mark.parametrize("n", [26, 28, 30])
def test_the_last_vector_of_a_row_is_made_of_whole_ones(n: int) -> None:
    """Partial results were 0 first in the lanes that are masked off, by vexpandpd, and rows of 30 floats took
    three times as long as rows of 31."""
    x = te.placeholder((200, n), name="x")
    asm = tl.compile([x, ops.max(x, axis=1)], target="llvm -mcpu=znver4").get_source("asm")
    assert "vmaxps" in asm and "expand" not in asm


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "uint8"])
@pytest.mark.parametrize("n", [17, 21, 28, 30, 31, 45, 62])
def test_rows_that_leave_a_rest(n: int, dtype: str) -> None:
    x = te.placeholder((7, n), dtype, "x")
    a = np.random.default_rng(n).integers(0, 5, (7, n)).astype(dtype)
    for op, want in ((ops.sum, np.sum), (ops.max, np.max), (ops.min, np.min)):
        out = op(x, axis=1)
        assert np.array_equal(tl.compile([x, out])(a), want(a, axis=1).astype(out.dtype.name))


def test_nan_in_the_first_vector_and_in_the_rest() -> None:
    x = te.placeholder((4, 30), name="x")
    a = np.random.default_rng(1).standard_normal((4, 30)).astype("float32")
    a[0, 3], a[1, 29], a[2, 14], a[3, 15] = np.nan, np.nan, np.nan, -np.inf
    f = tl.compile([x, ops.max(x, axis=1), ops.min(x, axis=1)])
    for got, want in zip(f(a), (a.max(1), a.min(1)), strict=True):
        assert np.array_equal(got, want, equal_nan=True)
