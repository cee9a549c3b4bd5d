"""Clamps of the index that a vector reads at: most vectors read neighbours, and only those at an edge gather."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.loopir.interpret import interpret


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


@pytest.mark.parametrize("cpu", ["skylake-avx512", "haswell"])
@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_rows_side_by_side_inside_a_margin_read_neighbours(mode, cpu):
    """Of an image whose channels are last."""
    x = te.placeholder((9, 70, 3), name="x")
    out = ops.pad(x, ((2, 3), (4, 3), (0, 0)), mode=mode)
    target = f"llvm -mcpu={cpu} -num-cores=1"
    assert " % x" in (text := tl.compile([x, out], target).get_source("ir")) and "else:" in text
    data = np.arange(9 * 70 * 3, dtype="float32").reshape(9, 70, 3)
    want = np.pad(data, ((2, 3), (4, 3), (0, 0)), mode=mode)
    got = np.zeros(want.shape, "float32")
    interpret(tl.lower(tl.recipes.default_schedule(out, target), [x, out]), data, got)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(tl.compile([x, out])(data), want)


@pytest.mark.parametrize("shift", [1, 5, 69, 70])
def test_an_image_that_is_rolled(shift):
    x = te.placeholder((9, 70, 3), "uint8", name="x")
    out = te.compute((9, 70, 3), lambda i, j, c: x[(i + 2) % 9, (j + shift) % 70, c], name="out")
    data = np.random.default_rng(0).integers(0, 255, (9, 70, 3)).astype("uint8")
    np.testing.assert_array_equal(tl.compile([x, out])(data), np.roll(data, (-2, -shift), (0, 1)))


def test_the_distance_of_indices_is_a_clamp_too():
    """A mirrored edge by ``abs``, in one line and in images."""
    n, p = 100, 7
    x, y = te.placeholder((n,), name="x"), te.placeholder((3, n, 3), name="y")
    mirror = lambda i: te.min(abs(i - p), 2 * (n - 1) - te.abs(i - p))
    line = te.compute((n + 2 * p,), lambda i: x[mirror(i)], name="line")
    image = te.compute((3, n + 2 * p, 3), lambda b, i, c: y[b, mirror(i), c], name="image")
    a, b = np.arange(n, dtype="float32"), np.arange(9 * n, dtype="float32").reshape(3, n, 3)
    np.testing.assert_array_equal(tl.compile([x, line])(a), np.pad(a, p, mode="reflect"))
    wanted = np.pad(b, ((0, 0), (p, p), (0, 0)), mode="reflect")
    np.testing.assert_array_equal(tl.compile([y, image])(b), wanted)
    assert "abs" not in tl.compile([y, image]).get_source("ir")
    d = te.compute((5, 5), lambda i, j: te.cast("float32", te.abs(i - j)) * te.abs(x[i] - 3.0), name="d")
    want = np.abs(np.arange(5)[:, None] - np.arange(5)) * np.abs(a[:5] - 3)[:, None]
    np.testing.assert_array_equal(tl.compile([x, d])(a), want.astype("float32"))
