"""Winograd's convolutions against the direct one: F(2×2, 3×3) bit for bit on small integers, as its fractions
are halves and quarters."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.ops.winograd import POINTS
from tests.ops import images
from tests.ops.arrays import exact
from tests.ops.images import run, small, symbolic

RNG = np.random.default_rng(9)


@pytest.mark.parametrize("tile", sorted(POINTS))
def test_the_matrices_filter_exactly(tile):
    """Equation 8 of the paper for one dimension, in fractions: Aᵀ[(G g) ⊙ (Bᵀ d)] is the filter for every g
    and d, by its linearity for all units."""
    p = POINTS[tile]
    for tap in range(3):
        for place in range(tile + 2):
            product = [p.kernel[a][tap] * p.data[a][place] for a in range(tile + 2)]
            got = [sum((row[a] * product[a] for a in range(tile + 2)), Fraction(0)) for row in p.inverse]
            assert got == [int(place == i + tap) for i in range(tile)]


def bound(x, w, tile):
    """A worst case of rounding: each of the three transforms grows a number by its largest row, and each
    operation rounds once."""
    p = POINTS[tile]
    growth = (
        np.prod(
            [max(sum(abs(f) for f in row) for row in m) for m in (p.data, p.kernel, p.inverse)], dtype=float
        )
        ** 2
    )
    return growth * x.shape[1] * 2.0**-24 * (x.shape[1] + 40) * np.abs(x).max() * np.abs(w).max()


@pytest.mark.parametrize("padding", [1, ((2, 0), (1, 3))])
def test_tile_2(padding):
    x, w, b = small(RNG, (2, 5, 9, 11)), small(RNG, (6, 5, 3, 3)), small(RNG, (6,))
    exact(
        run(lambda *a: ops.conv2d_winograd(*a, padding=padding, tile=2), x, w, b),
        images.conv(x, w, b, padding=padding),
        "float32",
    )


@pytest.mark.parametrize(
    "shape, taps, dilation, padding",
    [
        ((2, 5, 9, 11), (), 2, 2),
        ((2, 5, 9, 11), (), (1, 3), ((2, 0), (1, 3))),
        ((1, 5, 3, 11), (), (4, 2), (4, 2)),  # a phase without a row of the image
        ((1, 5, 12, 12), (), 2, 0),
        ((2, 5, 4, 9, 11), (3,), (1, 2, 2), (1, 2, 2)),
        ((2, 5, 5, 6, 7), (2,), (2, 1, 3), (2, 1, 3)),
        ((2, 5, 5, 6, 7), (1,), (2, 1, 1), (0, 1, 1)),
    ],
)
def test_taps_that_lie_apart(shape, taps, dilation, padding):
    x, w, b = small(RNG, shape), small(RNG, (6, 5, *taps, 3, 3)), small(RNG, (6,))
    way = ops.conv3d_winograd if taps else ops.conv2d_winograd
    exact(
        run(lambda *a: way(*a, padding=padding, dilation=dilation, tile=2), x, w, b),
        images.conv(x, w, b, padding=padding, dilation=dilation),
        "float32",
    )


def test_taps_that_lie_apart_in_an_open_image():
    n, h, w = te.var("n"), te.var("h"), te.var("w")
    f = symbolic(
        lambda x, k: ops.conv2d_winograd(x, k, padding=2, dilation=2, tile=2), [(n, 4, h, w), (3, 4, 3, 3)]
    )
    x, kernel = small(RNG, (2, 4, 9, 6)), small(RNG, (3, 4, 3, 3))
    exact(f(x, kernel), images.conv(x, kernel, padding=2, dilation=2), "float32")


def test_volumes():
    x, w, b = small(RNG, (2, 5, 4, 9, 11)), small(RNG, (6, 5, 2, 3, 3)), small(RNG, (6,))
    exact(
        run(lambda *a: ops.conv3d_winograd(*a, padding=1, tile=2), x, w, b),
        images.conv(x, w, b, padding=1),
        "float32",
    )


def test_tile_4():
    x, w, b = (RNG.standard_normal(s).astype("float32") for s in ((2, 5, 9, 11), (6, 5, 3, 3), (6,)))
    got = run(lambda *a: ops.conv2d_winograd(*a, padding=1), x, w, b)
    want = images.conv(x.astype("float64"), w.astype("float64"), b.astype("float64"), padding=1)
    assert np.abs(got - want).max() <= bound(x, w, 4)
    # in practice it is far less: outputs of about 7 are right to 5 digits
    assert np.abs(got - want).max() <= 1e-4


def test_a_transformed_weight():
    w = small(RNG, (6, 5, 3, 3))
    W = te.placeholder(w.shape)
    u = tl.compile([W, ops.winograd_weight(W, 2)])(w)
    assert u.shape == (4, 4, 5, 6)
    g = np.array([[float(f) for f in row] for row in POINTS[2].kernel])
    exact(u, np.einsum("ai,ocij,bj->abco", g, w, g), "float32")
    x = small(RNG, (1, 5, 8, 7))
    exact(
        run(lambda x, u: ops.conv2d_winograd(x, u, tile=2, transformed=True), x, u),
        images.conv(x, w),
        "float32",
    )


def test_one_kernel_for_any_image():
    n, h, w = te.var("n"), te.var("h"), te.var("w")
    f = symbolic(lambda x, k: ops.conv2d_winograd(x, k, padding=1, tile=2), [(n, 4, h, w), (3, 4, 3, 3)])
    kernel = small(RNG, (3, 4, 3, 3))
    for shape in ((1, 4, 9, 11), (3, 4, 6, 1)):
        x = small(RNG, shape)
        exact(f(x, kernel), images.conv(x, kernel, padding=1), "float32")


def test_rows_of_an_open_image_are_counted_once():
    """Regions are rounded up to whole vectors, tiles end with the image: that the one lies within the other is
    known, so a product has one version for each height of a tile and not one for each pair of ends."""
    h, w = te.dim("h", 1, 4096), te.dim("w", 1, 4096)
    x, k = te.placeholder((1, 32, h, w), name="x"), te.placeholder((32, 32, 3, 3), name="k")
    wide, weight = "llvm -mcpu=skylake-avx512 -num-cores=1", small(RNG, (32, 32, 3, 3))
    f = tl.compile([x, ops.conv2d_winograd(x, k, padding=1)], constants={k: weight}, target=wide)
    sums = f.get_source("ir").count("for rc in range(0, 32)")
    assert 1 <= sums <= 9


def test_double_and_half_floats():
    x, w = small(RNG, (1, 4, 6, 6)), small(RNG, (3, 4, 3, 3))
    want = images.conv(x, w, padding=1)
    for t in ("float64", "float16"):
        exact(
            run(lambda *a: ops.conv2d_winograd(*a, padding=1, tile=2), x.astype(t), w.astype(t)),
            want.astype(t),
            t,
        )


def test_the_weights_stages_read_the_weight_only():
    x, w = te.placeholder((1, 4, 6, 6), name="x"), te.placeholder((3, 4, 3, 3), name="w")
    out = ops.conv2d_winograd(x, w)
    assert out.op.tag == "winograd"
    product = out.op.input_tensors[0].op.input_tensors[0].op.input_tensors[0]
    assert product.op.tag == "winograd_matmul"
    weight = product.op.input_tensors[0]
    assert weight.op.tag == weight.op.input_tensors[0].op.tag == "winograd_weight"
    taps = weight.op.input_tensors[0].op.input_tensors[0]
    assert taps.op.tag == "winograd_weight" and taps.op.input_tensors == (w,)
