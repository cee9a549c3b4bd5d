"""Clamps of the index that a vector reads at: most vectors read neighbours, and only those at an edge gather."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te


@pytest.mark.parametrize("mode", ["reflect", "edge"])
@pytest.mark.parametrize("n", [100, 112, "n"])
def test_vectors_inside_a_margin_read_neighbours(mode, n):
    x = te.placeholder((5, 40, te.dim("n", 8, 200) if n == "n" else n), name="x")
    out = ops.pad(x, ((0, 0), (3, 2), (4, 3)), mode=mode)
    f = tl.compile([x, out], "llvm -mcpu=skylake-avx512 -num-cores=1")
    inside = [line for line in f.get_source("ir").splitlines() if "pad[" in line and "ramp(" not in line]
    assert inside
    size = 113 if n == "n" else n
    f = tl.compile([x, out])
    data = np.arange(5 * 40 * size, dtype="float32").reshape(5, 40, size)
    np.testing.assert_array_equal(f(data), np.pad(data, ((0, 0), (3, 2), (4, 3)), mode=mode))


def test_a_row_shorter_than_a_vector_has_one_copy():
    x = te.placeholder((7, 8), name="x")
    out = ops.pad(x, ((0, 0), (4, 4)), mode="reflect")
    f = tl.compile([x, out])
    assert f.get_source("ir").count("pad[") == 1
    data = np.arange(56, dtype="float32").reshape(7, 8)
    np.testing.assert_array_equal(f(data), np.pad(data, ((0, 0), (4, 4)), mode="reflect"))


def test_a_choice_of_values_is_no_clamp():
    x = te.placeholder((7, 64), "int32", name="x")
    out = te.compute((7, 64), lambda i, j: te.max(x[i, j], j - 20), name="out")
    f = tl.compile([x, out])
    assert f.get_source("ir").count("out[") == 1
    data = np.arange(7 * 64, dtype="int32").reshape(7, 64) - 200
    np.testing.assert_array_equal(f(data), np.maximum(data, np.arange(64) - 20))
