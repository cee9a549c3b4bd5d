"""Tensors that are joined along the last axis: vectors that lie in one of them read that one alone."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te

ZEN3 = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=znver3 -num-cores=1"


def joined(sizes: tuple[int, ...], dtype: str = "float32") -> list[te.Tensor]:
    xs = [te.placeholder((5, n), dtype, name=f"x{k}") for k, n in enumerate(sizes)]
    return [*xs, ops.concat(xs, -1)]


def stores(sizes: tuple[int, ...], dtype: str = "float32") -> list[str]:
    text = tl.compile(joined(sizes, dtype), ZEN3).get_source("ir")
    return [line for line in text.splitlines() if "concatenate[" in line]


def test_a_seam_between_vectors_leaves_no_choice():
    first, second = stores((512, 300))
    assert "x0[" in first and "x1[" not in first
    assert "x1[" in second and "x0[" not in second


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_only_the_vector_on_a_seam_chooses(dtype):
    """Of wide vectors in pieces, of which those beside the seam choose nothing either."""
    first, second, *seam = ["if_then_else" in line for line in stores((301, 211), dtype)]
    assert not first and not second and any(seam)


def test_every_seam_of_several():
    found = stores((100, 37, 64))
    assert ["if_then_else" in line for line in found] == [False, False, False, True, True]


def test_a_first_part_shorter_than_a_vector():
    """No vector lies in it, and most lie in the other one."""
    second, *seam = stores((3, 300))
    assert "x1[" in second and "x0[" not in second and "if_then_else" not in second
    assert any("if_then_else" in line for line in seam)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
@pytest.mark.parametrize(
    "sizes",
    [(512, 300), (301, 211), (100, 37, 64), (7, 9, 11, 13), (5, 3), (3, 300), (1, 90), (90, 1), (16, 16)],
)
def test_values(sizes, dtype):
    f = tl.compile(joined(sizes, dtype))
    rng = np.random.default_rng(3)
    data = [rng.integers(-9, 9, (5, n)).astype(dtype) for n in sizes]
    np.testing.assert_array_equal(f(*data), np.concatenate(data, axis=1))


def test_open_sizes():
    n, m = te.dim("n", 1, 99), te.dim("m", 1, 99)
    x, y = te.placeholder((5, n), name="x"), te.placeholder((5, m), name="y")
    f = tl.compile([x, y, ops.concat([x, y], -1)])
    for sizes in ((1, 1), (7, 30), (32, 9), (64, 64)):
        data = [np.arange(5.0 * k, dtype="float32").reshape(5, k) for k in sizes]
        np.testing.assert_array_equal(f(*data), np.concatenate(data, axis=1))
