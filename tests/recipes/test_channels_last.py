"""Convolutions with channels last, from panels of the weight."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.recipes.default_schedule import scheduled
from tensorlang.target import as_target
from tests.codegen.test_assembly import AVX2, AVX512, inner_loop

RNG = np.random.default_rng(0)
TWO_CORES = "llvm -mcpu=haswell -mtriple=x86_64-linux-gnu -num-cores=2"


def small(shape, kind="float32"):
    return RNG.integers(-3, 4, shape).astype(kind)


def built(image, kernel, kind="float32", **options):
    x, w = te.placeholder(image, kind, name="x"), te.placeholder(kernel, kind, name="w")
    y = ops.relu(ops.conv2d(x, w, None, layout="NHWC", **options))
    return x, w, y


def in_panels(y, target=TWO_CORES, constants=()):
    return "recipes.channels_last" in " ".join(scheduled(y, as_target(target), constants)[1].values())


CASES = {
    "a margin": (((1, 9, 11, 32), (3, 3, 32, 24)), {"padding": 1}),
    "a stride, several images": (((2, 19, 18, 17), (3, 3, 17, 40)), {"stride": 2}),
    "outputs that leave lanes": (((1, 8, 9, 40), (3, 3, 40, 21)), {"padding": 1}),
    "taps apart": (((1, 14, 15, 16), (5, 5, 16, 16)), {"dilation": 2, "padding": 4}),
    "one row": (((1, 1, 70, 48), (1, 3, 48, 32)), {}),
    "doubles": (((1, 9, 10, 16), (3, 3, 16, 16), "float64"), {"padding": 1}),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_every_shape_is_right(case, packed):
    shapes, options = CASES[case]
    x, w, y = built(*shapes, **options)
    assert in_panels(y, constants=[w] if packed else [])
    a, b = (small(tuple(int(str(n)) for n in t.shape), t.dtype.name) for t in (x, w))
    (expected,) = te.reference.evaluate(y, {x: a, w: b})
    f = tl.compile([x, w, y], TWO_CORES, constants={w: b} if packed else None)
    assert np.array_equal(f(*((a,) if packed else (a, b))), expected)


def test_sums_stay_in_registers_and_the_weight_is_read_line_behind_line():
    x, w, y = built((1, 14, 14, 128), (3, 3, 128, 128), padding=1)
    body = inner_loop(tl.compile([x, w, y], TWO_CORES).get_source("asm"), "vfmadd")
    assert sum("vfmadd" in line for line in body) >= 10
    assert not any("(%rsp)" in line for line in body)


@pytest.mark.parametrize(
    ("image", "kernel", "target"),
    [
        ((1, 30, 30, 3), (3, 3, 3, 32), AVX2),
        ((1, 30, 30, 64), (3, 3, 64, 6), AVX2),
        ((1, 7, 7, 64), (3, 3, 64, 64), AVX2),
        ((1, 30, 30, 64), (3, 3, 64, 64), AVX512),
    ],
    ids=["a weight that is near", "few outputs", "few pixels", "many registers"],
)
def test_others_read_the_weight_where_it_lies(image, kernel, target):
    assert not in_panels(built(image, kernel, padding=1)[2], target)


@pytest.mark.parametrize(
    ("outputs", "deep", "packed"), [(48, 32, True), (80, 32, True), (64, 32, False), (64, 512, True)]
)
def test_with_many_registers_where_two_vectors_do_not_divide_the_outputs_or_the_weight_is_large(
    outputs, deep, packed
):
    """48 outputs in tiles of 32 were half a tile too many."""
    x, w, y = built((1, 28, 28, deep), (5, 5, deep, outputs), padding=2)
    assert in_panels(y, "llvm -mcpu=skylake-avx512 -num-cores=1") is packed
