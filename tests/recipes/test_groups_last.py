"""Convolutions in groups with channels last, in tiles of pixels and the outputs of a group."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.recipes import default_schedule
from tensorlang.recipes.default_schedule import scheduled
from tensorlang.target import as_target
from tests.codegen.test_assembly import AVX2, AVX512, inner_loop

RNG = np.random.default_rng(0)
HOST_LIKE = "llvm -mcpu=haswell -mtriple=x86_64-linux-gnu -num-cores=2"
SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


def grouped(
    places, channels, outputs, groups, outputs_first=True, kind="float32", kernel=(3, 2, 3), stride=1
):
    """A convolution and its inputs; the weight's outputs first or last."""
    n = len(places)
    taps, at = kernel[:n], SPATIAL[n]
    shape = (outputs, channels // groups, *taps) if outputs_first else (*taps, channels // groups, outputs)
    x, w = te.placeholder((2, *places, channels), kind, name="x"), te.placeholder(shape, kind, name="w")
    y = getattr(ops, f"conv{n}d")(
        x,
        w,
        stride=stride,
        padding=1,
        groups=groups,
        layout=f"N{at}C",
        weight_layout=f"OI{at}" if outputs_first else f"{at}IO",
    )
    return x, w, y


def by_groups(y, target=HOST_LIKE, constants=()):
    return "recipes.groups_last" in " ".join(scheduled(y, as_target(target), constants)[1].values())


CASES = {
    "fewer than a vector": ((9, 11), 6, 10, 2),
    "a vector and some": ((9, 11), 14, 24, 2),
    "panels": ((5, 7), 8, 192, 2),
    "three": ((9, 11), 9, 9, 3),
    "one dimension": ((37,), 12, 20, 4),
    "volumes": ((5, 6, 7), 4, 14, 2),
    "doubles": ((9, 11), 6, 10, 2, True, "float64"),
    "half precision": ((9, 11), 6, 10, 2, True, "float16"),
    "outputs last": ((9, 11), 6, 10, 2, False),
    "a stride": ((9, 11), 6, 10, 2, True, "float32", (3, 3), 2),
    "single pixels": ((9, 11), 6, 10, 2, True, "float32", (1, 1)),
}


@pytest.mark.each_value
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("target", [HOST_LIKE, None])
def test_every_shape_is_right(case, packed, target):
    x, w, y = grouped(*CASES[case])
    y = ops.relu(y)
    a, b = (RNG.integers(-3, 4, [int(str(n)) for n in t.shape]).astype(t.dtype.name) for t in (x, w))
    (expected,) = te.reference.evaluate(y, {x: a, w: b})
    f = tl.compile([x, w, y], target, constants={w: b} if packed else None)
    assert np.array_equal(f(a) if packed else f(a, b), expected)


@pytest.mark.parametrize("target", [AVX2, AVX512])
def test_groups_that_are_no_vectors_of_neighbours_are_known(target):
    assert by_groups(grouped((28, 28), 64, 64, 4)[2], target)
    assert by_groups(grouped((28, 28), 24, 36, 2, outputs_first=False)[2], target)
    # what plain tiles read in whole vectors, groups of two outputs, and a single group stay theirs
    assert not by_groups(grouped((28, 28), 64, 64, 4, outputs_first=False)[2], target)
    assert not by_groups(grouped((28, 28), 16, 16, 8)[2], target)
    assert not by_groups(grouped((28, 28), 16, 16, 1)[2], target)


def test_a_weight_at_the_call_wants_pixels_to_pack_it_for():
    few = grouped((3, 3), 16, 16, 2, kernel=(1, 1))
    assert not by_groups(few[2])
    assert by_groups(few[2], constants=[few[1]])


def test_a_tile_is_pixels_by_the_outputs_of_one_group():
    _, w, y = grouped((28, 28), 64, 64, 4, kernel=(3, 3))
    text = str(default_schedule(y, AVX512, constants=[w]).tree())
    assert "float32[1, 1, 28, 16]" in text  # image × row × pixels × outputs


def test_each_load_of_a_weight_serves_all_pixels_of_the_tile():
    x, w, y = grouped((28, 28), 64, 64, 4, kernel=(3, 3))
    f = tl.compile([x, w, y], AVX512, constants={w: np.zeros((64, 16, 3, 3), "float32")})
    loop = inner_loop(f.get_source("asm"), "vfmadd")
    products = sum("vfmadd" in line and "zmm" in line for line in loop)
    loads = sum("vmov" in line and "zmm" in line for line in loop)
    assert products >= 28 and loads * 28 <= products
