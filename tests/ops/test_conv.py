"""Convolutions against a slow numpy one: bit for bit on small integers; and against torch when it is
there."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tests.ops import images
from tests.ops.arrays import exact
from tests.ops.images import packed, packed_weight, run, small, symbolic, unpacked

RNG = np.random.default_rng(6)


def last(x):
    """Channels last."""
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))


CASES_2D = [
    {},
    {"padding": 1},
    {"stride": 2, "padding": 1},
    {"stride": (2, 1), "padding": ((1, 0), (2, 1)), "dilation": (1, 2)},
    {"padding": (0, 2)},
    {"stride": 3},
    {"dilation": 2, "padding": 2},
    {"groups": 2, "padding": 1},
    {"stride": 2, "groups": 6, "padding": 1},
]


@pytest.mark.parametrize("options", CASES_2D, ids=str)
def test_conv2d(options):
    x, w, b = (
        small(RNG, (2, 6, 9, 11)),
        small(RNG, (12, 6 // options.get("groups", 1), 3, 2)),
        small(RNG, (12,)),
    )
    exact(run(ops.conv2d, x, w, b, **options), images.conv(x, w, b, **options), "float32")


@pytest.mark.parametrize("types", ["float64", "int8", "int16", "float16"])
def test_dtypes(types):
    x, w, b = (
        small(RNG, (1, 3, 6, 7), types, -2, 3),
        small(RNG, (5, 3, 3, 3), types, -2, 3),
        small(RNG, (5,), types),
    )
    exact(
        run(ops.conv2d, x, w, b, padding=1),
        images.conv(x, w, b, padding=1),
        "int32" if types in ("int8", "int16") else types,
    )


def test_small_integers_in_wide_ones():
    x, w, b = (
        small(RNG, (1, 30, 6, 7), "int8", -128, 128),
        small(RNG, (5, 30, 3, 3), "int8", -128, 128),
        small(RNG, (5,), "int32", -9999, 9999),
    )
    exact(
        run(ops.conv2d, x, w, b, padding=1, out_dtype="int32"),
        images.conv(x.astype("int32"), w.astype("int32"), b, padding=1),
        "int32",
    )


@pytest.mark.parametrize(
    ("stride", "dilation", "extent", "margins"),
    [(1, 1, 9, (1, 1)), (2, 1, 9, (1, 1)), (2, 1, 10, (0, 1)), (1, 3, 9, (3, 3)), (3, 1, 7, (1, 1))],
)
def test_padding_same(stride, dilation, extent, margins):
    x, w = small(RNG, (1, 2, extent, extent)), small(RNG, (3, 2, 3, 3))
    got = run(ops.conv2d, x, w, padding="same", stride=stride, dilation=dilation)
    assert got.shape[2] == -(-extent // stride)
    exact(got, images.conv(x, w, padding=(margins, margins), stride=stride, dilation=dilation), "float32")


@pytest.mark.parametrize(
    "options", [{"padding": 1}, {"stride": 2, "groups": 2}, {"groups": 4, "padding": 1}], ids=str
)
def test_channels_last(options):
    x, w, b = small(RNG, (2, 4, 7, 9)), small(RNG, (8, 4 // options.get("groups", 1), 3, 3)), small(RNG, (8,))
    want = last(images.conv(x, w, b, **options))
    exact(
        run(ops.conv2d, last(x), np.ascontiguousarray(w.transpose(2, 3, 1, 0)), b, layout="NHWC", **options),
        want,
        "float32",
    )


def test_channels_last_with_a_weight_in_torchs_layout():
    x, w = small(RNG, (1, 3, 5, 6)), small(RNG, (4, 3, 3, 3))
    exact(
        run(ops.conv2d, last(x), w, layout="NHWC", weight_layout="OIHW"), last(images.conv(x, w)), "float32"
    )


@pytest.mark.parametrize(
    ("block", "outer", "options"),
    [
        (8, 8, {"padding": 1}),
        (4, 16, {"stride": 2}),
        (8, 8, {"groups": 2, "padding": 1}),
        (8, 8, {"groups": 16, "padding": 1}),
    ],
    ids=str,
)
def test_packed(block, outer, options):
    groups = options.get("groups", 1)
    x, w, b = small(RNG, (2, 16, 7, 9)), small(RNG, (16, 16 // groups, 3, 3)), small(RNG, (16,))
    got = run(
        ops.conv2d,
        packed(x, block),
        packed_weight(w, 1 if groups == 16 else block, outer),
        b,
        layout=f"NCHW{block}c",
        **options,
    )
    exact(unpacked(got), images.conv(x, w, b, **options), "float32")


@pytest.mark.parametrize(
    "options",
    [{"padding": 2, "stride": 3}, {"dilation": 4}, {"groups": 3, "padding": 1}, {"padding": "same"}],
    ids=str,
)
def test_conv1d(options):
    x, w = small(RNG, (2, 3, 50)), small(RNG, (6, 3 // options.get("groups", 1), 5))
    exact(
        run(ops.conv1d, x, w, **options),
        images.conv(
            x,
            w,
            **{**options, "padding": 2 if options.get("padding") == "same" else options.get("padding", 0)},
        ),
        "float32",
    )


@pytest.mark.parametrize(
    "options", [{"padding": 1}, {"stride": 2, "padding": (1, 0, 1), "dilation": (1, 2, 1)}], ids=str
)
def test_conv3d(options):
    x, w, b = small(RNG, (2, 3, 5, 6, 7)), small(RNG, (4, 3, 3, 2, 3)), small(RNG, (4,))
    exact(run(ops.conv3d, x, w, b, **options), images.conv(x, w, b, **options), "float32")
    channels_last = run(
        ops.conv3d, last(x), np.ascontiguousarray(w.transpose(2, 3, 4, 1, 0)), b, layout="NDHWC", **options
    )
    exact(channels_last, last(images.conv(x, w, b, **options)), "float32")


@pytest.mark.parametrize("times", [1, 2])
def test_depthwise(times):
    x, w, b = small(RNG, (2, 5, 9, 11)), small(RNG, (5 * times, 1, 3, 3)), small(RNG, (5 * times,))
    exact(
        run(ops.depthwise_conv2d, x, w, b, stride=2, padding=1),
        images.conv(x, w, b, stride=2, padding=1, groups=5),
        "float32",
    )


@pytest.mark.parametrize(
    "options", [{"padding": 1}, {"stride": 2, "padding": "same"}, {"stride": 3, "dilation": 2}], ids=str
)
def test_one_kernel_for_any_batch_height_and_width(options):
    n, h, w = te.var("n"), te.var("h"), te.var("w")
    f = symbolic(lambda x, k: ops.conv2d(x, k, **options), [(n, 3, h, w), (8, 3, 3, 3)])
    kernel = small(RNG, (8, 3, 3, 3))
    for shape in ((1, 3, 9, 11), (3, 3, 17, 8), (2, 3, 32, 5)):
        x, plain = small(RNG, shape), dict(options)
        if options.get("padding") == "same":
            totals = [max((-(-m // 2) - 1) * 2 + 3 - m, 0) for m in shape[2:]]
            plain["padding"] = [(t // 2, t - t // 2) for t in totals]
        exact(f(x, kernel), images.conv(x, kernel, **plain), "float32")


def test_one_kernel_for_any_image_in_packed_layout():
    h, w = te.dim("h", 1), te.dim("w", 1)
    f = symbolic(
        lambda x, k: ops.conv2d(x, k, padding=1, layout="NCHW8c"), [(1, 2, h, w, 8), (1, 2, 3, 3, 8, 8)]
    )
    kernel = small(RNG, (8, 16, 3, 3))
    for shape in ((1, 16, 5, 7), (1, 16, 12, 3)):
        x = small(RNG, shape)
        exact(
            unpacked(f(packed(x, 8), packed_weight(kernel, 8, 8))),
            images.conv(x, kernel, padding=1),
            "float32",
        )


@pytest.mark.parametrize(
    "options", [{"stride": 2, "padding": 1, "dilation": 2}, {"groups": 2, "padding": (0, 1)}], ids=str
)
def test_as_torch(options):
    torch = pytest.importorskip("torch")
    x, w, b = (
        RNG.standard_normal(s).astype("float32")
        for s in ((2, 6, 9, 11), (4, 6 // options.get("groups", 1), 3, 3), (4,))
    )
    want = torch.nn.functional.conv2d(*map(torch.from_numpy, (x, w, b)), **options).numpy()
    np.testing.assert_allclose(
        run(ops.conv2d, x, w, b, **options),
        want,
        rtol=0,
        atol=54 * 2.0**-23 * np.abs(w).sum(axis=(1, 2, 3)).max() * np.abs(x).max(),
    )


def test_stages_and_tags():
    x, w, b = te.placeholder((1, 4, 8, 8)), te.placeholder((4, 4, 3, 3)), te.placeholder((4,))
    biased = ops.conv2d(x, w, b, padding=1)
    total = biased.op.input_tensors[0]
    assert [(t.op.name, t.op.tag) for t in (biased, total, total.op.input_tensors[0])] == [
        ("conv2d.bias", "broadcast"),
        ("conv2d", "conv2d_nchw"),
        ("conv2d.pad", "pad"),
    ]
    assert ops.depthwise_conv2d(x, te.placeholder((4, 1, 3, 3))).op.tag == "depthwise_conv2d_nchw"
    assert (
        ops.conv2d(
            te.placeholder((1, 1, 8, 8, 8)), te.placeholder((1, 1, 3, 3, 8, 8)), layout="NCHW8c"
        ).op.tag
        == "conv2d_nchwc"
    )


def test_a_convolution_ends_in_an_activation():
    x, w, b = small(RNG, (1, 3, 8, 8)), small(RNG, (4, 3, 3, 3)), small(RNG, (4,))
    X, W, B = (te.placeholder(a.shape) for a in (x, w, b))
    exact(
        tl.compile([X, W, B, ops.relu(ops.conv2d(X, W, B, padding=1))])(x, w, b),
        np.maximum(images.conv(x, w, b, padding=1), 0),
        "float32",
    )
