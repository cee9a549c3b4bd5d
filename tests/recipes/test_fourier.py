"""Steps of Fourier transforms: row by row, or each by all threads."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.recipes import default_schedule

ROOT = 3  # where storage at the root is printed
TARGET = "llvm -mcpu=skylake-avx512 -num-cores=2"


def steps_of(tree):
    """The steps of a tree with how deep they are."""
    lines = [line for line in str(tree).splitlines() if "storage dft.step" in line and " local " not in line]
    return {
        line.split("storage ")[1].split()[0]: line.index("storage") for line in lines if "angles" not in line
    }


def test_all_steps_of_a_row_are_in_its_loop():
    x = te.placeholder((64, 1024, 2), name="x")
    tree = default_schedule(ops.dft(x), TARGET).tree()
    found = steps_of(tree)
    assert len(found) >= 2 and all(depth > ROOT for depth in found.values())
    assert sum("parallel" in line for line in str(tree).splitlines()) == 1


def test_few_long_rows_are_shared_out_step_by_step():
    x = te.placeholder((1, 1 << 16, 2), name="x")
    tree = default_schedule(ops.dft(x), TARGET).tree()
    assert set(steps_of(tree).values()) == {ROOT}
    assert sum("parallel" in line for line in str(tree).splitlines()) >= 2


@pytest.mark.parametrize("target", ["llvm -mcpu=x86-64", "llvm -mcpu=haswell", "llvm -mcpu=skylake-avx512"])
def test_vectors_of_every_width_have_no_gathers(target):
    """What is read backwards, and what lies between frequencies of two factors, too."""
    x = te.placeholder((4, 480, 1), name="x")
    asm = tl.compile([x, ops.dft(x, onesided=True)], f"{target} -num-cores=1").get_source("asm")
    assert "gather" not in asm


def test_magnitudes_are_computed_row_by_row():
    x = te.placeholder((64, 512, 1), name="x")
    y = ops.dft(x, onesided=True)
    size = te.compute(
        y.shape[:-1], lambda i, k: y(i, k, 0) * y(i, k, 0) + y(i, k, 1) * y(i, k, 1), name="size"
    )
    found = steps_of(default_schedule(size, TARGET).tree())
    assert found and all(depth > ROOT for depth in found.values())
    a = np.random.default_rng(0).standard_normal((64, 512, 1)).astype("float32")
    want = np.abs(np.fft.rfft(a[..., 0].astype("float64"))) ** 2
    np.testing.assert_allclose(tl.compile([x, size])(a), want, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("rows", [16, 37])
def test_short_rows_are_transformed_side_by_side(rows):
    """An element of each in the lanes of a vector; what is read and written is transposed in registers."""
    x = te.placeholder((3, rows, 20, 2), name="x")
    y = ops.dft(x, axis=2)
    assert "dft.columns" in str(default_schedule(y, TARGET).tree())
    f = tl.compile([x, y])
    if rows % 16 == 0:
        assert "gather" not in f.get_source("asm")
    a = np.random.default_rng(0).standard_normal((3, rows, 20, 2)).astype("float32")
    want = np.fft.fft(a[..., 0].astype("float64") + 1j * a[..., 1])
    np.testing.assert_allclose(f(a), np.stack([want.real, want.imag], -1), rtol=1e-4, atol=1e-5)


def test_short_rows_in_other_orders():
    """What reads a transform with its rows elsewhere, and a step that is asked for itself."""
    x = te.placeholder((40, 12, 1), name="x")
    y = ops.dft(x)
    turned = ops.transpose(ops.multiply(y, 2.0), (2, 1, 0))
    size = ops.sum(ops.square(y), -1)
    a = np.random.default_rng(0).standard_normal((40, 12, 1)).astype("float32")
    one, two = tl.compile([x, turned, size])(a)
    want = np.fft.fft(a[..., 0].astype("float64"))
    np.testing.assert_allclose(one, 2 * np.stack([want.real.T, want.imag.T]), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(two, np.abs(want) ** 2, rtol=1e-4, atol=1e-4)
