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


def test_vectors_of_a_repeated_row_read_neighbours():
    """Of open sizes; each vector gathered with sixteen divisions."""
    m, n = te.dim("m", 1, 99), te.dim("n", 1, 999)
    x = te.placeholder((m, n), name="x")
    out = ops.tile(x, (2, 3))
    text = tl.compile([x, out], "llvm -mcpu=skylake-avx512 -num-cores=1").get_source("ir")
    assert [line for line in text.splitlines() if "tile[" in line and "ramp(" not in line]
    f = tl.compile([x, out])
    for shape in ((1, 1), (2, 15), (3, 16), (2, 17), (1, 100)):
        data = np.arange(shape[0] * shape[1], dtype="float32").reshape(shape)
        np.testing.assert_array_equal(f(data), np.tile(data, (2, 3)))


def test_quotients_and_remainders_together_stay_one_stretch():
    x = te.placeholder((6, 24), name="x")
    out = te.compute((144,), lambda i: x[i // 24, i % 24] * 2.0, name="out")
    f = tl.compile([x, out])
    assert "if" not in f.get_source("ir")
    data = np.arange(144, dtype="float32").reshape(6, 24)
    np.testing.assert_array_equal(f(data), data.reshape(-1) * 2)
