"""Lanes of two to four sums that are neighbours are added up together: right beside numpy, and one vector in the code."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.recipes import default_schedule

WIDE = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512 -num-cores=1"
ARM = "llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1 -num-cores=1"


def _product(m: int, n: int, k: int, dtype: str = "float32") -> list[te.Tensor]:
    a, b = te.placeholder((m, k), dtype, name="A"), te.placeholder((n, k), dtype, name="B")
    return [a, b, ops.relu(ops.matmul(a, b, transpose_b=True))]


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize(
    ("m", "n", "k"), [(1, 4, 64), (2, 9, 48), (3, 8, 33), (4, 13, 100), (5, 40, 64), (6, 3, 64), (40, 2, 48)]
)
def test_sums_along_memory_are_right(m: int, n: int, k: int, dtype: str) -> None:
    args = _product(m, n, k, dtype)
    rng = np.random.default_rng(n)
    a, b = (rng.integers(-4, 5, (rows, k)).astype(dtype) for rows in (m, n))
    want = np.maximum(a @ b.T, 0)
    assert (tl.compile(args)(a, b) == want).all()
    wide = default_schedule(args[-1], WIDE)
    assert (tl.build(wide, args)(a, b) == want).all()


def test_a_sum_that_overflows_or_is_not_a_number_stays_where_it_is() -> None:
    args = _product(2, 8, 64)[:2]
    out = ops.matmul(args[0], args[1], transpose_b=True)
    a, b = np.ones((2, 64), "float32"), np.ones((8, 64), "float32")
    b[1, 3], b[2, 5], b[6, 0] = np.nan, np.inf, -np.inf
    found = tl.build(default_schedule(out, WIDE), [*args, out])(a, b)
    assert np.array_equal(found, a @ b.T, equal_nan=True)


def test_four_neighbours_are_one_vector() -> None:
    args = _product(4, 16, 64)
    text = tl.build(default_schedule(args[-1], WIDE), args, target=WIDE).get_source("ll")
    assert "llvm.vector.reduce" not in text and "fadd reassoc contract <4 x float>" in text


@pytest.mark.parametrize("n", [2, 3])
def test_two_and_three_neighbours_are_one_vector(n: int) -> None:
    args = _product(40, n, 64)
    text = tl.build(default_schedule(args[-1], WIDE), args, target=WIDE).get_source("ll")
    assert "llvm.vector.reduce" not in text and "store <2 x float>" in text  # and one by itself


def test_other_processors_keep_their_own_way() -> None:
    args = _product(4, 16, 64)
    text = tl.build(default_schedule(args[-1], ARM), args, target=ARM).get_source("ll")
    assert "llvm.vector.reduce.fadd" in text
