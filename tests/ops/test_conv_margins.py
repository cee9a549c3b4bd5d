"""Taps of a convolution that read nothing but the margin, wherever the window stands, are left out."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tests.ops import images
from tests.ops.arrays import exact
from tests.ops.images import run, small

RNG = np.random.default_rng(31)


def summed(x, w, **kw):
    """The taps of the sum that is declared."""
    out = ops.conv3d(te.placeholder(x), te.placeholder(w), **kw)
    return [int(a.extent) for a in out.op.reduce_axis[1:]]


@pytest.mark.parametrize(
    ("x", "kw", "taps"),
    [
        ((1, 1, 8, 8), {"padding": 1}, [1, 3, 3]),
        ((1, 1, 1, 1), {"padding": 1}, [1, 1, 1]),
        ((1, 2, 8, 8), {"padding": 1}, [3, 3, 3]),
        ((1, 1, 8, 8), {"padding": 1, "stride": 2}, [1, 3, 3]),
        ((1, 3, 3, 8), {"padding": 3, "dilation": 3}, [1, 1, 3]),
        ((1, 3, 4, 8), {"padding": (5, 5, 3), "dilation": (2, 3, 1)}, [3, 3, 3]),
        ((1, 1, 4, 8), {"padding": ((0, 2), (1, 1), (1, 1))}, [1, 3, 3]),
        ((1, 4, 4, 8), {"padding": (7, 1, 1), "stride": (9, 1, 1)}, [2, 3, 3]),
    ],
)
@pytest.mark.parametrize("groups", [1, 4])
def test_taps_that_see_something(x, kw, taps, groups):
    x = (2, 4, *x[1:])
    volume, w = small(RNG, x), small(RNG, (8, 4 // groups, 3, 3, 3))
    if groups == 1:
        assert summed(x, w.shape, **kw) == taps
    want = images.conv(volume, w, groups=groups, **kw)
    exact(run(lambda *a: ops.conv3d(*a, groups=groups, **kw), volume, w), want, "float32")


def test_images_and_orders_of_dimensions():
    x, w = small(RNG, (1, 1, 1, 16)), small(RNG, (3, 3, 16, 20))
    want = images.conv(x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1), padding=1).transpose(0, 2, 3, 1)
    got = run(lambda a, b: ops.conv2d(a, b, padding=1, layout="NHWC"), x, w)
    exact(got, want, "float32")


def test_a_window_that_sees_nothing_and_integers_stay():
    x = te.placeholder((1, 4, 1, 8), dtype="int8")
    out = ops.conv2d(x, te.placeholder((4, 4, 3, 3), dtype="int8"), padding=1)
    assert [int(a.extent) for a in out.op.reduce_axis] == [4, 3, 3]
    nothing, w = small(RNG, (1, 2, 1, 8)), small(RNG, (3, 2, 2, 3))
    kw = {"padding": ((4, 4), (1, 1)), "stride": (9, 1)}
    exact(run(lambda *a: ops.conv2d(*a, **kw), nothing, w), images.conv(nothing, w, **kw), "float32")


def test_a_known_weight_is_cut_ahead_of_a_call():
    X, W = te.placeholder((1, 16, 1, 12, 12), name="x"), te.placeholder((32, 16, 3, 3, 3), name="w")
    w = small(RNG, (32, 16, 3, 3, 3))
    f = tl.compile([X, ops.conv3d(X, W, padding=1)], constants={W: w})
    assert not re.search(r"conv3d\.taps\[.*\] = ", f.get_source("ir"))
    x = small(RNG, (1, 16, 1, 12, 12))
    np.testing.assert_allclose(f(x), images.conv(x, w, padding=1), rtol=1e-4, atol=1e-3)
