"""The recipe for convolutions of images of four short rows: right bit for bit, chosen where a vector holds an
image and outputs do not fill vectors of a packed weight."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import default_schedule
from tests.codegen.test_assembly import AVX2, AVX512
from tests.ops import images
from tests.ops.arrays import exact
from tests.ops.images import small
from tests.recipes.test_conv import declared

RNG = np.random.default_rng(23)


def made(n, channels, outputs, image, kernel=(3, 3), **options):
    """The arrays, and the tensors of a convolution, its bias and the limit behind it."""
    w = small(RNG, (outputs, channels // options.get("groups", 1), *kernel))
    x, b = small(RNG, (n, channels, *image)), small(RNG, (outputs,))
    return (x, w, b), declared(x, w, b, **options)


@pytest.mark.each_value
@pytest.mark.parametrize(
    "options", [{"padding": 1}, {"padding": ((2, 0), (1, 1))}, {"padding": 2, "dilation": 2}]
)
@pytest.mark.parametrize("image", [(4, 4), (8, 4), (12, 4)])
@pytest.mark.parametrize(("n", "channels", "outputs"), [(1, 3, 20), (2, 5, 13), (3, 2, 33)])
def test_sums_are_exact(n, channels, outputs, image, options):
    (x, w, b), (X, W, B, out) = made(n, channels, outputs, image, **options)
    want = np.maximum(images.conv(x, w, b, **options), 0)
    exact(tl.compile([X, W, B, out], without=["winograd"])(x, w, b), want, "float32")
    s = default_schedule(out, AVX512, without=["winograd"])
    got = np.zeros(want.shape, "float32")
    interpret(tl.lower(s, [X, W, B, out]), x, w, b, got)
    exact(got, want, "float32")


def chosen(out, target=AVX512, constants=()):
    s = default_schedule(out, target, constants=constants, without=["winograd"])
    return "loop relu.i2.inner.i3.fused  " in str(s.tree())


def test_a_vector_holds_an_image():
    _, (_, W, _, out) = made(1, 6, 24, (4, 4), padding=1)
    assert chosen(out) and chosen(out, constants=[W])  # 24 outputs leave a rest of a vector
    _, (_, W, _, out) = made(1, 64, 64, (4, 4), padding=1)
    assert chosen(out) and not chosen(out, constants=[W])


@pytest.mark.parametrize(
    ("image", "options", "target"),
    [
        ((8, 8), {"padding": 1}, AVX512),
        ((8, 8), {"padding": 1, "stride": 2}, AVX512),
        ((6, 4), {"padding": 1}, AVX512),
        ((4, 4), {"padding": 1, "groups": 2}, AVX512),
        ((4, 4), {"padding": 1}, AVX2),
    ],
)
def test_others_are_left_to_others(image, options, target):
    _, (*_, out) = made(1, 6, 24, image, **options)
    assert not chosen(out, target)


def test_few_outputs_of_one_image_have_threads_to_share_them():
    _, (*_, out) = made(1, 6, 12, (4, 4), padding=1)
    assert chosen(out, f"{AVX512} -num-cores=1") and not chosen(out, f"{AVX512} -num-cores=2")
