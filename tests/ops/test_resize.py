"""resize against numpy, and against torch when it is there."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tests.ops.arrays import exact, near, sample
from tests.ops.images import packed, run, small, symbolic, unpacked

RNG = np.random.default_rng(10)
SIZES = [(9, 20), (4, 5), (13, 3), (1, 1), (7, 20), (7, 10)]


def nearest(x, out, first=2):
    for d, to in enumerate(out, first):
        x = np.take(x, [i * x.shape[d] // to for i in range(to)], d)
    return x


def linear(x, out, align_corners, first=2):
    x = x.astype("float64")
    for d, to in enumerate(out, first):
        n, i = x.shape[d], np.arange(to)
        at = i * (n - 1) / max(to - 1, 1) if align_corners else np.maximum((i + 0.5) * n / to - 0.5, 0)
        low = np.floor(at).astype(int)
        part = (at - low).reshape([-1 if k == d else 1 for k in range(x.ndim)])
        x = np.take(x, low, d) * (1 - part) + np.take(x, np.minimum(low + 1, n - 1), d) * part
    return x


@pytest.mark.parametrize("out", SIZES)
def test_nearest(out):
    x = small(RNG, (2, 3, 7, 10), "int32")
    exact(run(ops.resize, x, size=out), nearest(x, out), "int32")


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("out", SIZES)
def test_bilinear(out, align_corners):
    x = sample((2, 3, 7, 10), "float32")
    near(
        run(ops.resize, x, size=out, mode="bilinear", align_corners=align_corners),
        linear(x, out, align_corners),
        "float32",
        4,
        floor=8 * 2.0**-23 * np.abs(x).max(),
    )


@pytest.mark.parametrize("t", ["float64", "float16"])
def test_dtypes(t):
    x = sample((1, 2, 5, 4), t)
    near(
        run(ops.resize, x, size=(8, 9), mode="linear"),
        linear(x, (8, 9), False),
        t,
        1,
        floor=1e-13 if t == "float64" else 1e-5,
    )


def test_one_and_three_dimensions():
    x, y = sample((2, 3, 11), "float32"), sample((1, 2, 3, 4, 5), "float32")
    near(
        run(ops.resize, x, size=7, mode="linear", layout="NCW"),
        linear(x, (7,), False),
        "float32",
        4,
        floor=1e-6,
    )
    near(
        run(ops.resize, y, size=(5, 2, 7), mode="trilinear", layout="NCDHW"),
        linear(y, (5, 2, 7), False),
        "float32",
        4,
        floor=2e-6,
    )


def test_layouts():
    x = small(RNG, (1, 8, 5, 6))
    last = np.ascontiguousarray(np.moveaxis(x, 1, -1))
    exact(
        np.moveaxis(run(ops.resize, last, size=(7, 3), layout="NHWC"), -1, 1), nearest(x, (7, 3)), "float32"
    )
    exact(
        unpacked(run(ops.resize, packed(x, 8), size=(7, 3), layout="NCHW8c")), nearest(x, (7, 3)), "float32"
    )


def test_one_kernel_for_any_image():
    h, w = te.var("h"), te.var("w")
    twice = symbolic(lambda x: ops.resize(x, (2 * h, 2 * w), "bilinear"), [(1, 3, h, w)])
    fixed = symbolic(lambda x: ops.resize(x, (10, 11)), [(1, 3, h, w)])
    for shape in ((1, 3, 7, 9), (1, 3, 16, 3), (1, 3, 1, 1)):
        x = sample(shape, "float32")
        near(twice(x), linear(x, (2 * shape[2], 2 * shape[3]), False), "float32", 4, floor=2e-6)
        exact(fixed(x), nearest(x, (10, 11)).astype("float64"), "float32")


@pytest.mark.parametrize("align_corners", [False, True])
def test_as_torch(align_corners):
    torch = pytest.importorskip("torch")
    x = sample((2, 3, 7, 10), "float32")
    want = torch.nn.functional.interpolate(
        torch.from_numpy(x), size=(13, 6), mode="bilinear", align_corners=align_corners
    ).numpy()
    near(
        run(ops.resize, x, size=(13, 6), mode="bilinear", align_corners=align_corners),
        want.astype("float64"),
        "float32",
        4,
        floor=1e-5,
    )


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
@pytest.mark.parametrize("width", [9, 56, 67])
def test_a_row_whose_last_vector_is_shifted_is_picked_by_shuffles(width, dtype):
    shape = (1, 2, 3, width)
    x = te.placeholder(shape, dtype, name="x")
    kernel = tl.compile([x, ops.resize(x, (6, 2 * width))])
    a = sample(shape, dtype)
    exact(kernel(a), nearest(a, (6, 2 * width)), dtype)
    assert "shufflevector" in kernel.get_source("ll")
