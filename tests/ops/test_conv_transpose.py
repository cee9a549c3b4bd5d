"""Transposed convolutions against numpy's scattering sum: bit for bit on small integers; and against torch
when it is there."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.analysis import conv_of
from tests.codegen.test_assembly import AVX512
from tests.ops import images
from tests.ops.arrays import exact
from tests.ops.images import run, small, symbolic

RNG = np.random.default_rng(7)

# strides that divide the kernel and that do not, with the kernel's own dilation; margins wider than the
# kernel reaches
CASES = [
    (3, {"stride": 2, "padding": 1, "output_padding": 1}),
    ((3, 2), {"stride": (2, 3), "padding": (0, 1), "groups": 2, "output_padding": (1, 2)}),
    (4, {"stride": 2, "padding": 1}),
    (3, {"padding": 1, "dilation": 2}),
    (3, {"stride": 2, "padding": 1, "dilation": 2}),
    (2, {"stride": 3}),
    (5, {"stride": 3, "padding": 4}),
    (3, {"stride": 3, "dilation": 3, "padding": ((2, 1), (0, 3))}),
    (1, {}),
]


@pytest.mark.parametrize(("kernel", "options"), CASES, ids=str)
def test_conv_transpose2d(kernel, options):
    groups = options.get("groups", 1)
    x, w, b = (
        small(RNG, (2, 6, 5, 7)),
        small(RNG, (6, 4 // groups, *images.each(kernel, 2))),
        small(RNG, (4,)),
    )
    exact(run(ops.conv_transpose2d, x, w, b, **options), images.conv_transpose(x, w, b, **options), "float32")


def test_conv_transpose1d():
    x, w = small(RNG, (2, 6, 7)), small(RNG, (6, 4, 3))
    exact(run(ops.conv_transpose1d, x, w, stride=2), images.conv_transpose(x, w, stride=2), "float32")


def test_conv_transpose3d():
    x, w = small(RNG, (1, 2, 3, 4, 5)), small(RNG, (2, 3, 3, 2, 2))
    exact(
        run(ops.conv_transpose3d, x, w, stride=2, padding=1),
        images.conv_transpose(x, w, stride=2, padding=1),
        "float32",
    )


@pytest.mark.parametrize(("types", "out"), [("float64", None), ("float16", None), ("int8", "int32")])
def test_dtypes(types, out):
    x, w = small(RNG, (1, 5, 4, 5), types), small(RNG, (5, 3, 3, 3), types)
    exact(
        run(ops.conv_transpose2d, x, w, stride=2, out_dtype=out),
        images.conv_transpose(x.astype(out or types), w.astype(out or types), stride=2),
        out or types,
    )


@pytest.mark.parametrize(
    "options",
    [
        {"stride": 2, "padding": 1, "output_padding": 1},
        {"stride": 3},
        {"stride": 4},
        {"dilation": 2, "padding": 1},
        {"stride": 2, "dilation": 3, "padding": 1},
        {"stride": 2, "dilation": 2},
    ],
    ids=str,
)
def test_one_kernel_for_any_image(options):
    n, h, w = te.var("n"), te.var("h"), te.var("w")
    f = symbolic(lambda x, k: ops.conv_transpose2d(x, k, **options), [(n, 3, h, w), (3, 4, 3, 3)])
    kernel = small(RNG, (3, 4, 3, 3))
    for shape in ((1, 3, 9, 11), (2, 3, 16, 7), (1, 3, 3, 4)):
        x = small(RNG, shape)
        exact(f(x, kernel), images.conv_transpose(x, kernel, **options), "float32")


@pytest.mark.parametrize(("kernel", "options"), [CASES[0], CASES[1], CASES[4]], ids=str)
def test_as_torch(kernel, options):
    torch = pytest.importorskip("torch")
    x, w = small(RNG, (2, 6, 5, 7)), small(RNG, (6, 4 // options.get("groups", 1), *images.each(kernel, 2)))
    want = torch.nn.functional.conv_transpose2d(torch.from_numpy(x), torch.from_numpy(w), **options).numpy()
    exact(run(ops.conv_transpose2d, x, w, **options), want, "float32")


def test_no_multiplication_by_an_inserted_zero():
    """The reduction runs over the taps of one phase: 2 of 4 along each dimension when the stride is 2."""
    total = ops.conv_transpose2d(
        te.placeholder((1, 3, 8, 8)), te.placeholder((3, 4, 4, 4)), stride=2, padding=1
    )
    assert total.op.tag == "conv2d_transpose_nchw"
    assert [int(a.extent) for a in total.op.reduce_axis] == [3, 2, 2]


def sums(kernel, **options):
    """The sums of a row of 8 by such a kernel: how many, and of how many taps each."""
    y = ops.conv_transpose1d(te.placeholder((1, 3, 8)), te.placeholder((3, 4, kernel)), **options)
    while not y.op.reduce_axis:
        (y,) = y.op.input_tensors
    return int(str(y.shape[-1])), int(y.op.reduce_axis[-1].extent)


def test_a_dilated_kernel_is_not_multiplied_by_the_zeros_between_its_taps():
    """Every second tap of five meets the same outputs with stride 2, whatever odd number they are apart; with
    taps as far apart as the stride, or a multiple, all outputs but every second are zeros."""
    assert [sums(5, stride=2, dilation=d)[1] for d in (1, 3, 5)] == [3, 3, 3]
    assert [sums(5, stride=2, dilation=d) for d in (2, 4)] == [(12, 5), (16, 5)]
    assert sums(5, stride=4, dilation=6)[1] == 3  # both halved


def test_outputs_that_no_tap_reaches_are_no_sums():
    assert sums(1, stride=4) == (8, 1)
    assert sums(2, stride=5) == (16, 1)
    assert sums(3, stride=6, dilation=2) == (24, 1)


@pytest.mark.each_value
@pytest.mark.parametrize("stride", [2, 3, 4, 6])
@pytest.mark.parametrize("dilation", [1, 2, 3, 4])
@pytest.mark.parametrize("padding", [0, 1, 4])
def test_every_stride_dilation_and_kernel_meet(stride, dilation, padding):
    for kernel in (1, 2, 3, 5):
        for width in (1, 6):
            options = {"stride": stride, "dilation": dilation, "padding": padding, "output_padding": 1}
            x, w = small(RNG, (1, 2, width)), small(RNG, (2, 3, kernel))
            if (width - 1) * stride + dilation * (kernel - 1) + 2 > 2 * padding:
                exact(
                    run(ops.conv_transpose1d, x, w, **options),
                    images.conv_transpose(x, w, **options),
                    "float32",
                )


@pytest.mark.parametrize("options", [{"padding": 1}, {"padding": 4}, {"stride": 2, "dilation": 2}], ids=str)
@pytest.mark.parametrize("groups", [1, 2, 8])
def test_one_phase_is_a_convolution_by_the_weight_turned_round(options, groups):
    """Which recipes know by its plain reads: the minimal filtering of 3×3 among them."""
    x, w = te.placeholder((1, 8, 20, 20), name="x"), te.placeholder((8, 16 // groups, 3, 3), name="w")
    y = ops.conv_transpose2d(x, w, groups=groups, **options)
    while not y.op.reduce_axis:
        (y,) = y.op.input_tensors
    c = conv_of(y.op)
    assert groups == 8 or (c is not None and (c.groups, c.each) == (groups, 16 // groups))
    assert [int(a.extent) for a in y.op.reduce_axis] == ([3, 3] if groups == 8 else [8 // groups, 3, 3])
    a, b = small(RNG, (1, 8, 20, 20)), small(RNG, (8, 16 // groups, 3, 3))
    want = images.conv_transpose(a, b, groups=groups, **options)
    exact(run(ops.conv_transpose2d, a, b, groups=groups, **options), want, "float32")


def test_minimal_filtering_without_a_stride():
    x, w = te.placeholder((1, 64, 56, 56), name="x"), te.placeholder((64, 64, 3, 3), name="w")
    y = ops.conv_transpose2d(x, w, padding=1)
    f = tl.compile([x, w, y], AVX512, constants={w: np.zeros((64, 64, 3, 3), "float32")})
    assert "conv2d_winograd" in f.get_source("ir")
