"""Bytes that are made of sums, and an image that is added to them, in strips of pixels."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes.default_schedule import scheduled
from tensorlang.target import as_target
from tests.ops import images

RNG = np.random.default_rng(7)
VNNI = "llvm -mcpu=cascadelake -mtriple=x86_64-linux-gnu -num-cores=2"


def declared(shape, outputs, taps, stride, kind):
    """An image that is added to the bytes of a convolution, by scales that round nothing."""
    x, w = (
        te.placeholder(shape, "uint8", name="x"),
        te.placeholder((outputs, shape[1], taps, taps), "int8", name="w"),
    )
    total = ops.conv_integer(x, w, None, None, stride, taps // 2)
    half = ops.multiply(ops.cast(total, "float32"), 1 / 64)
    q = te.compute(total.shape, lambda *i: te.cast(kind, te.nearbyint(half(*i)) + 3.0), name="q")
    other = te.placeholder(total.shape, "int8", name="other")
    y = te.compute(
        total.shape,
        lambda *i: te.cast(
            "uint8", te.nearbyint(te.cast("float32", q(*i)) * 0.5 + te.cast("float32", other(*i)))
        ),
        name="y",
    )
    return x, w, other, y


def expected(x, w, other, stride, kind):
    total = images.conv(x.astype("int32"), w.astype("int32"), stride=stride, padding=w.shape[2] // 2)
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    q = np.clip(np.rint(total / 64) + 3, low, high)
    return np.clip(np.rint(q * 0.5 + other), 0, 255).astype("uint8")


CASES = {
    "nine taps": ((2, 8, 9, 13), 32, 3, 1, "uint8"),
    "one tap, signed": ((1, 20, 12, 12), 16, 1, 1, "int8"),
    "a stride, outputs left over": ((1, 8, 15, 17), 40, 3, 2, "uint8"),
    "open sizes": ((None, 8, None, None), 32, 3, 1, "int8"),
    "open sizes, outputs left over, a stride": ((None, 12, None, None), 24, 3, 2, "uint8"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_image_is_added_along_pixels(name):
    shape, outputs, taps, stride, kind = CASES[name]
    sizes = [te.dim(d) if n is None else n for n, d in zip(shape, "nchw", strict=True)]
    x, w, other, y = declared(sizes, outputs, taps, stride, kind)
    s, why = scheduled(y, as_target(VNNI), [w])
    assert "`q` within it" in why["y"]
    text = str(tl.lower(s, [x, w, other, y]))
    # neighbours of the other image, and never those a plane apart
    assert "other[" in text and not re.search(r"other\[[^\[\]]* : [^,\[\]]*, ", text)
    weight = RNG.integers(-128, 128, (outputs, shape[1], taps, taps)).astype("int8")
    f = tl.build(s, [x, w, other, y], VNNI, constants={w: weight})
    assert "vpdpbusd" in f.get_source("asm")
    here = tl.compile([x, w, other, y], constants={w: weight})
    for n, h, v in [(shape[0], *shape[2:])] if shape[0] else [(1, 7, 9), (2, 16, 15), (1, 4, 33), (1, 1, 1)]:
        data = RNG.integers(0, 256, (n, shape[1], h, v)).astype("uint8")
        beside = RNG.integers(-128, 128, (n, outputs, -(-h // stride), -(-v // stride))).astype("int8")
        want = expected(data, weight, beside, stride, kind)
        assert np.array_equal(here(data, beside), want)


@pytest.mark.parametrize("name", ["nine taps", "open sizes"])
def test_it_is_what_the_interpreter_computes(name):
    shape, outputs, taps, stride, kind = CASES[name]
    sizes = [te.dim(d) if n is None else n for n, d in zip(shape, "nchw", strict=True)]
    x, w, other, y = declared(sizes, outputs, taps, stride, kind)
    s, _ = scheduled(y, as_target(VNNI), [w])
    n, c, h, v = [m or d for m, d in zip(shape, (1, 8, 5, 19), strict=True)]
    data = RNG.integers(0, 256, (n, c, h, v)).astype("uint8")
    weight = RNG.integers(-128, 128, (outputs, c, taps, taps)).astype("int8")
    beside = RNG.integers(-128, 128, (n, outputs, h, v)).astype("int8")
    got = np.zeros(beside.shape, "uint8")
    interpret(tl.lower(s, [x, w, other, y]), data, weight, beside, got)
    assert np.array_equal(got, expected(data, weight, beside, stride, kind))


def test_one_image_is_finished_as_before():
    x, w = te.placeholder((1, 8, 9, 13), "uint8", name="x"), te.placeholder((32, 8, 3, 3), "int8", name="w")
    total = ops.conv_integer(x, w, None, None, 1, 1)
    q = te.compute(total.shape, lambda *i: te.cast("uint8", te.cast("float32", total(*i)) * 0.25), name="q")
    y = te.compute(q.shape, lambda *i: te.cast("int8", te.cast("float32", q(*i)) * 0.5 - 3.0), name="y")
    assert "`q`" not in scheduled(y, as_target(VNNI), [w])[1]["y"]
