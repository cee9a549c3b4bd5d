"""Power means, the place of the largest element and the way back, against numpy window by window."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tests.ops import images
from tests.ops.arrays import compiled, exact, near
from tests.ops.images import run, small, windows

ops = tl.ops
RNG = np.random.default_rng(4)


@pytest.mark.parametrize("p", [1, 2, 3.5])
def test_lp_pool(p):
    x = small(RNG, (2, 3, 9, 11))
    got = run(ops.lp_pool, x, kernel_size=3, p=p, stride=2, padding=1, dilation=2)
    want = np.zeros(got.shape)
    for place, _, inside in windows(x, 3, 2, 1, 2):
        seen = np.abs(x.astype("float64")[(slice(None), slice(None), *np.ix_(*inside))])
        want[(slice(None), slice(None), *place)] = (seen**p).sum((2, 3)) ** (1 / p)
    near(got, want, "float32", 8)


@pytest.mark.parametrize("shape", [(2, 3, 9), (2, 3, 7, 8), (1, 2, 5, 4, 6)])
def test_the_place_of_the_largest_and_the_way_back(shape):
    n = len(shape) - 2
    x = RNG.permutation(int(np.prod(shape))).reshape(shape).astype("float32") - 50
    t = te.placeholder(shape, name="x")
    best, at = ops.max_pool_with_indices(t, 2, 2)
    value, place, back = compiled([best, at, ops.max_unpool(best, at, shape[2:])], {t: x})
    exact(value, images.pool(x, "max", 2, 2), "float32")
    want, kept = np.zeros(place.shape, "int64"), np.zeros_like(x)
    for w, _, inside in windows(x, 2, 2):
        for c in np.ndindex(shape[:2]):
            spot = max(itertools.product(*inside), key=lambda i: x[(*c, *i)])
            want[(*c, *w)] = np.ravel_multi_index(spot, shape[2:])
            kept[(*c, *spot)] = x[(*c, *spot)]
    exact(place, want, "int64")
    exact(back, kept, "float32")
    assert n in (1, 2, 3)


def test_places_through_the_whole_tensor_and_column_by_column():
    x = small(RNG, (2, 3, 6, 8))
    t = te.placeholder(x.shape, name="x")
    options = {"kernel_size": 3, "stride": 2, "padding": 1}
    one, whole, column = (
        ops.max_pool_with_indices(t, **options, **more)
        for more in ({}, {"whole": True}, {"whole": True, "column_major": True})
    )
    back = ops.max_unpool(one[0], whole[1], (6, 8), whole=True)
    at, flat, turned, unpooled = compiled([one[1], whole[1], column[1], back], {t: x})
    rows = np.arange(6).reshape(2, 3, 1, 1) * 48
    exact(flat, at + rows, "int64")
    exact(turned, at % 8 * 6 + at // 8 + rows, "int64")
    exact(x.reshape(-1)[flat], images.pool(x, "max", 3, 2, 1), "float32")
    kept = np.zeros(x.size, "float32")
    kept[flat.reshape(-1)] = x.reshape(-1)[flat.reshape(-1)]
    exact(unpooled, kept.reshape(x.shape), "float32")


@pytest.mark.parametrize("shape", [(2, 3, 5), (2, 3, 4, 5), (2, 3, 2, 3, 4, 2)])
def test_of_the_whole_image(shape):
    x = small(RNG, shape)
    axes = tuple(range(2, len(shape)))
    r = x.astype("float64")
    near(run(ops.global_avg_pool, x), r.mean(axes, keepdims=True), "float32", 1)
    exact(run(ops.global_max_pool, x), x.max(axes, keepdims=True), "float32")
    near(run(ops.global_lp_pool, x, p=3), (np.abs(r) ** 3).sum(axes, keepdims=True) ** (1 / 3), "float32", 4)


def test_padding_wider_than_half_of_the_window_and_dilated_means():
    x = small(RNG, (1, 2, 7, 8), hi=0)
    exact(
        run(ops.max_pool2d, x, kernel_size=3, stride=1, padding=2), images.pool(x, "max", 3, 1, 2), "float32"
    )
    for include in (True, False):
        got = run(
            ops.avg_pool2d, x, kernel_size=2, stride=2, padding=1, dilation=2, count_include_pad=include
        )
        want = np.zeros(got.shape)
        for place, _, inside in windows(x, 2, 2, 1, 2):
            seen = x.astype("float64")[(slice(None), slice(None), *np.ix_(*inside))]
            count = 4 if include else seen.shape[2] * seen.shape[3]
            want[(slice(None), slice(None), *place)] = seen.sum((2, 3)) / count
        near(got, want, "float32", 2)


def test_the_odd_margin_before():
    x = small(RNG, (1, 1, 5, 5))
    got = run(ops.max_pool2d, x, kernel_size=2, stride=1, padding="same_lower")
    exact(got, images.pool(x, "max", 2, 1, ((1, 0), (1, 0))), "float32")


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: ops.lp_pool(x, 2, p=0), "p=0"),
        (lambda x: ops.lp_pool(te.placeholder((3, 4)), 2), "3 to 5 are needed"),
        (lambda x: ops.global_avg_pool(te.placeholder((3, 4))), "3 at least are needed"),
        (lambda x: ops.max_unpool(x, te.placeholder((2, 3), "int64"), (8, 8)), "one for each element"),
        (lambda x: ops.max_unpool(x, x, (8, 8)), "integers are needed"),
        (lambda x: ops.max_unpool(x, te.placeholder((1, 2, 6, 6), "int64"), (8,)), "2 numbers are needed"),
    ],
)
def test_refusals(call, text):
    with pytest.raises(tl.DeclareError, match=text):
        call(te.placeholder((1, 2, 6, 6), name="x"))
