"""Windows laid back and windows whose taps are moved, against numpy element by element."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tests.ops import images
from tests.ops.arrays import compiled, exact, near
from tests.ops.images import small

ops = tl.ops
RNG = np.random.default_rng(3)


def laid_back(x, size, kernel, stride, padding, dilation):
    channels = x.shape[1] // math.prod(kernel)
    padded = [m + 2 * p for m, p in zip(size, padding, strict=True)]
    places = [
        (m - d * (k - 1) - 1) // s + 1 for m, d, k, s in zip(padded, dilation, kernel, stride, strict=True)
    ]
    out = np.zeros((x.shape[0], channels, *padded), x.dtype)
    parts = x.reshape(x.shape[0], channels, *kernel, *places)
    for t in np.ndindex(*kernel):
        for p in np.ndindex(*places):
            at = tuple(q * s + k * d for q, s, k, d in zip(p, stride, t, dilation, strict=True))
            out[(slice(None), slice(None), *at)] += parts[(slice(None), slice(None), *t, *p)]
    return out[(slice(None), slice(None), *[slice(p, p + m) for p, m in zip(padding, size, strict=True)])]


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "padding", "dilation"),
    [
        ((5, 6), (2, 3), (1, 1), (0, 0), (1, 1)),
        ((6, 7), (3, 2), (2, 2), (1, 1), (1, 2)),
        ((7,), (3,), (2,), (1,), (1,)),
        ((3, 4, 3), (2, 2, 2), (1, 2, 1), (0, 0, 0), (1, 1, 1)),
    ],
)
def test_col2im(size, kernel, stride, padding, dilation):
    padded = [m + 2 * p for m, p in zip(size, padding, strict=True)]
    count = math.prod(
        (m - d * (k - 1) - 1) // s + 1 for m, d, k, s in zip(padded, dilation, kernel, stride, strict=True)
    )
    a = small(RNG, (2, 3 * math.prod(kernel), count))
    x = te.placeholder(a.shape, name="x")
    want = laid_back(a, size, kernel, stride, padding, dilation)
    exact(compiled(ops.col2im(x, size, kernel, dilation, padding, stride), {x: a}), want, "float32")


def test_taps_that_stay_are_a_convolution():
    n = te.dim("n", 1, 4)
    a, w, b = small(RNG, (2, 4, 6, 7)), small(RNG, (6, 2, 3, 3)), small(RNG, (6,))
    x, v, c = (
        te.placeholder((n, 4, 6, 7), name="x"),
        te.placeholder(w.shape, name="w"),
        te.placeholder((6,), name="b"),
    )
    o = te.placeholder((n, 18, 3, 4), name="o")
    y = ops.deform_conv(x, v, o, c, stride=2, padding=1, groups=2)
    got = compiled(y, {x: a, v: w, o: np.zeros((2, 18, 3, 4), "float32"), c: b})
    exact(got, images.conv(a, w, b, 2, 1, 1, 2), "float32")


def moved(x, w, offset, mask, stride, padding, dilation, groups, offset_groups):
    kernel, n = w.shape[2:], x.ndim - 2
    count, out = math.prod(kernel), offset.shape[2:]
    y = np.zeros((x.shape[0], w.shape[0], *out))
    for b, f, c in itertools.product(range(x.shape[0]), range(w.shape[0]), range(w.shape[1])):
        channel = f // (w.shape[0] // groups) * w.shape[1] + c
        group = channel // (x.shape[1] // offset_groups)
        for nth, t in enumerate(np.ndindex(*kernel)):
            for o in np.ndindex(*out):
                moves = offset[(b, slice((group * count + nth) * n, (group * count + nth + 1) * n), *o)]
                e = [q * stride - padding + k * dilation + m for q, k, m in zip(o, t, moves, strict=True)]
                value = 0.0
                for side in itertools.product((0, 1), repeat=n):
                    at = [math.floor(v) + s for v, s in zip(e, side, strict=True)]
                    if all(0 <= k < m for k, m in zip(at, x.shape[2:], strict=True)):
                        share = math.prod(1 - abs(v - k) for v, k in zip(e, at, strict=True))
                        value += share * x[(b, channel, *at)]
                y[(b, f, *o)] += (
                    w[(f, c, *t)] * value * (1 if mask is None else mask[(b, group * count + nth, *o)])
                )
    return y


@pytest.mark.parametrize(("groups", "offset_groups", "masked"), [(1, 1, True), (2, 1, False), (1, 2, True)])
def test_taps_that_move(groups, offset_groups, masked):
    shapes = (
        (1, 4, 5, 6),
        (4, 4 // groups, 3, 2),
        (1, offset_groups * 12, 3, 4),
        (1, offset_groups * 6, 3, 4),
    )
    a, w, o, m = (RNG.standard_normal(s).astype("float32") for s in shapes)
    x, v, p, q = (te.placeholder(s, name=f"a{k}") for k, s in enumerate(shapes))
    y = ops.deform_conv(x, v, p, None, q if masked else None, 2, 1, 1, groups, offset_groups)
    feed = {x: a, v: w, p: o, **({q: m} if masked else {})}
    wide = [z.astype("float64") for z in (a, w, o)]
    want = moved(*wide, m.astype("float64") if masked else None, 2, 1, 1, groups, offset_groups)
    near(compiled(y, feed), want, "float32", 64, 1e-5)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x, w: ops.col2im(x, (4, 4), (2, 2)), "3 are needed"),
        (lambda x, w: ops.col2im(te.placeholder((1, 7, 9)), (4, 4), (2, 2)), "is not a multiple of 4"),
        (lambda x, w: ops.col2im(te.placeholder((1, 8, 8)), (4, 4), (2, 2)), "is 8, 9 is needed"),
        (lambda x, w: ops.deform_conv(x, w, te.placeholder((1, 17, 3, 4))), "dimension 1 of offset"),
        (
            lambda x, w: ops.deform_conv(x, w, te.placeholder((1, 18, 3, 4)), groups=3),
            "they divide the channels",
        ),
    ],
)
def test_refusals(call, text):
    with pytest.raises(tl.DeclareError, match=text):
        call(te.placeholder((1, 4, 5, 6), name="x"), te.placeholder((6, 4, 3, 3), name="w"))
