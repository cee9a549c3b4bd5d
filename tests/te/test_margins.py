"""Convolutions that ask about the edges of their image in the formula are computed with a margin, and compile
where they are not."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import default_schedule
from tensorlang.te.margins import margin_apart
from tests.codegen.test_assembly import AVX2
from tests.ops.arrays import exact
from tests.ops.images import conv, small

RNG = np.random.default_rng(11)


def declared(shape, outputs, kernel, strides, form, beyond=0.0, start=None):
    """A convolution of the same size as people write it, the choice around the image or around the product."""
    batch, channels, *sizes = shape
    x, w = te.placeholder(shape, name="x"), te.placeholder((outputs, channels, *kernel), name="w")
    c, *taps = (
        te.reduce_axis((0, n), name=name) for n, name in zip((channels, *kernel), "cabd", strict=False)
    )
    start = [k // 2 for k in kernel] if start is None else start

    def at(n, o, *place):
        own = [p * s + t - b for p, s, t, b in zip(place, strides, taps, start, strict=True)]
        inside = te.all(*(e for i, m in zip(own, sizes, strict=True) for e in (i >= 0, i < m)))
        element, weight = x(n, c, *own), w(o, c, *taps)
        if form == "image":
            return te.sum(te.if_then_else(inside, element, beyond) * weight, axis=[c, *taps])
        return te.sum(te.if_then_else(inside, element * weight, beyond), axis=[c, *taps])

    out = [(m + 2 * b - k) // s + 1 for m, k, s, b in zip(sizes, kernel, strides, start, strict=True)]
    return [x, w, te.compute((batch, outputs, *out), at, name="o")]


SHAPES = [
    ((1, 3, 9, 9), 8, (3, 3), (1, 1)),
    ((2, 4, 7, 7), 4, (7, 7), (1, 1)),
    ((1, 3, 7, 17), 24, (3, 5), (2, 1)),  # in vectors of outputs, with the registers of AVX2
    ((3, 1, 1, 33), 1, (3, 1), (1, 1)),  # rows one behind the other
    ((1, 5, 20), 6, (3,), (2,)),
]


@pytest.mark.parametrize("form", ["image", "product"])
@pytest.mark.parametrize(("shape", "outputs", "kernel", "strides"), SHAPES)
def test_margins_in_the_formula(shape, outputs, kernel, strides, form):
    """Some raised an error of the schedule that nobody had asked for."""
    tensors = declared(shape, outputs, kernel, strides, form)
    x, w = (small(RNG, [int(n) for n in t.shape]) for t in tensors[:2])
    want = conv(x, w, stride=strides, padding=tuple(k // 2 for k in kernel))
    exact(tl.compile(tensors)(x, w), want, "float32")
    tl.compile(tensors, target=AVX2)
    for target in (None, AVX2):  # also where nothing takes its place
        got = np.full(want.shape, np.nan, "float32")
        interpret(tl.lower(default_schedule(tensors[-1], target), tensors), x, w, got)
        exact(got, want, "float32")


def test_the_margin_is_a_stage_of_its_own():
    (*_, o) = declared((1, 3, 9, 11), 8, (3, 5), (1, 1), "image")
    made = margin_apart(o.op)
    assert made is not None and [t.name for t in made.op.input_tensors] == ["o.window", "w"]
    assert str(made.op.input_tensors[0]) == "Tensor(o.window: float32[1, 3, 11, 15])"


@pytest.mark.parametrize(
    "changed", [{"form": "product"}, {"beyond": 1.0}, {"start": (0, 0)}], ids=["product", "one", "none"]
)
def test_what_has_no_margin_of_zeros_stays(changed):
    """Zero times an infinite weight is no zero, so that the product may not be computed at all."""
    given = {"form": "image", **changed}
    (*_, o) = declared((1, 3, 9, 9), 8, (3, 3), (1, 1), **given)
    assert margin_apart(o.op) is None


def test_an_infinite_weight_beside_the_image_counts_nothing():
    tensors = declared((1, 2, 5, 5), 3, (3, 3), (1, 1), "product")
    x, w = np.ones((1, 2, 5, 5), "float32"), np.ones((3, 2, 3, 3), "float32")
    w[0, 0, 0, 0] = np.inf
    got = tl.compile(tensors)(x, w)
    assert (
        np.isinf(got[0, 0, 1:, 1:]).all()
        and np.isfinite(got[0, 0, 0]).all()
        and np.isfinite(got[0, 1:]).all()
    )
