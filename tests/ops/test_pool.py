"""Pooling against numpy window by window, and against torch when it is there."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tests.ops import images
from tests.ops.arrays import exact, near
from tests.ops.images import packed, run, small, symbolic, unpacked

RNG = np.random.default_rng(8)
WINDOWS = [
    ((2, 3, 9, 11), 3, {"stride": 2, "padding": 1}),
    ((2, 3, 9, 12), (3, 2), {"stride": (2, 3), "padding": ((1, 0), (0, 1)), "ceil_mode": True}),
    ((2, 3, 9, 12), 3, {"stride": 2, "ceil_mode": True}),
    ((1, 4, 9), 2, {}),
    ((1, 2, 5, 6, 7), 2, {"stride": 1, "padding": 1}),
]


@pytest.mark.parametrize(("shape", "kernel", "options"), WINDOWS, ids=str)
def test_max_pool(shape, kernel, options):
    x, n = small(RNG, shape, hi=0), len(shape) - 2  # all negative: a padded zero would win
    exact(
        run(getattr(ops, f"max_pool{n}d"), x, kernel_size=kernel, **options),
        images.pool(x, "max", kernel, **{"stride": kernel, **options}),
        "float32",
    )


@pytest.mark.parametrize("count_include_pad", [True, False])
@pytest.mark.parametrize(("shape", "kernel", "options"), WINDOWS, ids=str)
def test_avg_pool(shape, kernel, options, count_include_pad):
    x, n = small(RNG, shape), len(shape) - 2
    options = {**options, "count_include_pad": count_include_pad}
    near(
        run(getattr(ops, f"avg_pool{n}d"), x, kernel_size=kernel, **options),
        images.pool(x.astype("float64"), "avg", kernel, **{"stride": kernel, **options}),
        "float32",
        1,
    )


@pytest.mark.parametrize("t", ["int8", "uint8", "float64", "float16"])
def test_max_pool_dtypes(t):
    x = small(RNG, (1, 2, 7, 9), t, 0 if t == "uint8" else -9, 10)
    exact(
        run(ops.max_pool2d, x, kernel_size=3, stride=2, padding=1, dilation=2),
        images.pool(x, "max", 3, 2, 1, 2),
        t,
    )


def test_avg_pool_of_half_floats_is_summed_in_single():
    x = np.full((1, 1, 32, 32), 70.0, "float16")  # the sum is beyond float16
    exact(run(ops.avg_pool2d, x, kernel_size=32), np.full((1, 1, 1, 1), 70.0, "float16"), "float16")


@pytest.mark.parametrize("layout", ["NHWC", "NCHW4c"])
def test_layouts(layout):
    x = small(RNG, (2, 8, 7, 9))
    there, back = (
        ((lambda a: np.ascontiguousarray(np.moveaxis(a, 1, -1))), (lambda a: np.moveaxis(a, -1, 1)))
        if layout == "NHWC"
        else ((lambda a: packed(a, 4)), unpacked)
    )
    exact(
        back(run(ops.max_pool2d, there(x), kernel_size=3, stride=2, padding=1, layout=layout)),
        images.pool(x, "max", 3, 2, 1),
        "float32",
    )
    near(
        back(run(ops.global_avg_pool2d, there(x), layout=layout)),
        x.astype("float64").mean(axis=(2, 3), keepdims=True),
        "float32",
        1,
    )


def parts(x, out, f):
    """Part by part, by torch's borders."""
    h, w = x.shape[2:]
    rows = [slice(i * h // out[0], -(-(i + 1) * h // out[0])) for i in range(out[0])]
    columns = [slice(j * w // out[1], -(-(j + 1) * w // out[1])) for j in range(out[1])]
    return np.stack([np.stack([f(x[:, :, r, c], axis=(2, 3)) for c in columns], -1) for r in rows], -2)


@pytest.mark.parametrize("out", [(3, 4), (5, 11), (1, 1), (12, 3)])
def test_adaptive(out):
    x = small(RNG, (2, 3, 10, 11))
    near(
        run(ops.adaptive_avg_pool2d, x, output_size=out),
        parts(x.astype("float64"), out, np.mean),
        "float32",
        1,
    )
    exact(run(ops.adaptive_max_pool2d, x, output_size=out), parts(x, out, np.max), "float32")


def test_global_max():
    x = small(RNG, (2, 3, 10, 11))
    exact(run(ops.global_max_pool2d, x), x.max(axis=(2, 3), keepdims=True), "float32")


@pytest.mark.parametrize(
    ("f", "want"),
    [
        (lambda x: ops.max_pool2d(x, 3, 2, 1), lambda x: images.pool(x, "max", 3, 2, 1)),
        (
            lambda x: ops.max_pool2d(x, 3, 2, 1, ceil_mode=True),
            lambda x: images.pool(x, "max", 3, 2, 1, ceil_mode=True),
        ),
        (
            lambda x: ops.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
            lambda x: images.pool(x, "avg", 3, 2, 1, count_include_pad=False),
        ),
        (lambda x: ops.adaptive_avg_pool2d(x, (3, 4)), lambda x: parts(x, (3, 4), np.mean)),
        (ops.global_avg_pool2d, lambda x: x.mean(axis=(2, 3), keepdims=True)),
    ],
    ids=["max", "ceil", "avg", "adaptive", "global"],
)
def test_one_kernel_for_any_image(f, want):
    h, w = te.var("h"), te.var("w")
    kernel = symbolic(f, [(2, 3, h, w)])
    for extent in ((9, 11), (16, 7), (3, 4)):
        x = small(RNG, (2, 3, *extent))
        near(kernel(x), want(x.astype("float64")), "float32", 1)


@pytest.mark.parametrize("ceil_mode", [False, True])
def test_as_torch(ceil_mode):
    torch = pytest.importorskip("torch")
    x = small(RNG, (2, 3, 9, 12))
    options = {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": ceil_mode}
    exact(
        run(ops.max_pool2d, x, **options),
        torch.nn.functional.max_pool2d(torch.from_numpy(x), **options).numpy(),
        "float32",
    )
    for include in (False, True):
        want = torch.nn.functional.avg_pool2d(
            torch.from_numpy(x), count_include_pad=include, **options
        ).numpy()
        near(
            run(ops.avg_pool2d, x, count_include_pad=include, **options), want.astype("float64"), "float32", 2
        )


@pytest.mark.parametrize(("n", "window", "stride"), [(2, 3, 3), (2, 3, 2), (1, 2, 5), (1, 4, 4)])
def test_a_first_window_that_is_cut_off(n, window, stride):
    """As torch counts it: another would begin behind the end."""
    x = np.arange(n, dtype="float32").reshape(1, 1, n) - 5
    for size in (n, te.var("n")):
        t = te.placeholder((1, 1, size), name="t")
        for pool, want in ((ops.max_pool1d, x.max()), (ops.avg_pool1d, x.mean())):
            got = tl.compile([t, pool(t, window, stride, ceil_mode=True)])(x)
            assert got.shape == (1, 1, 1) and got[0, 0, 0] == want
    with pytest.raises(tl.DeclareError, match="larger than the padded input"):
        ops.max_pool1d(te.placeholder((1, 1, 2)), 3, 1, ceil_mode=True)


def test_tags():
    x = te.placeholder((1, 3, 8, 8))
    assert ops.max_pool2d(x, 2).op.tag == "pool_max"
    mean = ops.avg_pool2d(x, 2)
    assert (mean.op.tag, mean.op.input_tensors[0].op.tag) == ("pool_avg", "pool_sum")
