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


CPUS = ("znver4", "znver3")


@pytest.mark.each_value
@pytest.mark.parametrize("n, to", [(56, 90), (47, 111), (640, 224), (33, 500), (61, 1000)])
@pytest.mark.parametrize("t, mode", [("float32", "nearest"), ("float32", "linear"), ("float64", "linear")])
def test_lanes_of_a_row_of_known_size_are_not_gathered(n, to, t, mode):
    """Each vector reads its neighbourhood, and puts it in order by numbers that are known."""
    x = small(RNG, (1, 2, 5, n), t)
    X = te.placeholder(x.shape, t, name="X")
    y = ops.resize(X, (9, to), mode)
    want = nearest(x, (9, to)) if mode == "nearest" else linear(x, (9, to), False)
    near(tl.compile([X, y])(x), want, t, 8, 1e-5)
    for cpu in CPUS:
        target = f"llvm -mtriple=x86_64-unknown-linux-gnu -mcpu={cpu} -num-cores=1"
        lanes = 64 // np.dtype(t).itemsize // (1 if cpu == "znver4" else 2)
        ll = tl.compile([X, y], target).get_source("ll")
        if to <= 128 * lanes and (lanes >= 8 or n <= 2 * to):
            assert "gather" not in ll


def test_rows_of_many_vectors_are_written_out_as_far_as_steps_repeat():
    X = te.placeholder((1, 1, 8, 1200), name="X")
    target = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=znver3 -num-cores=1"
    text = str(tl.lower(tl.recipes.default_schedule(y := ops.resize(X, (10, 1500)), target), [X, y]))
    assert "range(0, 38)" in text and text.count("//") < 60  # steps of 4 in 5, five vectors at a time
    for cpu in CPUS:
        where = f"llvm -mtriple=x86_64-unknown-linux-gnu -mcpu={cpu} -num-cores=1"
        assert "gather" not in tl.compile([X, y], where).get_source("ll")
    x = small(RNG, (1, 1, 8, 1200))
    exact(tl.compile([X, y])(x), nearest(x, (10, 1500)), "float32")
