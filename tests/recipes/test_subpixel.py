"""Transposed convolutions in tiles of pixels and vectors of outputs, a phase at a time."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.recipes.default_schedule import scheduled
from tensorlang.target import as_target
from tests.codegen.test_assembly import AVX2, AVX512, inner_loop

RNG = np.random.default_rng(0)
HOST_LIKE = "llvm -mcpu=haswell -mtriple=x86_64-linux-gnu -num-cores=2"


def small(shape, kind="float32"):
    return RNG.integers(-3, 4, shape).astype(kind)


def transposed(image, kernel, options, kind="float32"):
    x, w = te.placeholder(image, kind, name="x"), te.placeholder(kernel, kind, name="w")
    return x, w, getattr(ops, f"conv_transpose{len(image) - 2}d")(x, w, None, **options)


def outputs_are_lanes(y, target=HOST_LIKE, constants=()):
    return "recipes.subpixel" in " ".join(scheduled(y, as_target(target), constants)[1].values())


CASES = {
    "phases that lack taps": ((1, 17, 6, 7), (17, 16, 3, 3), {"stride": 2, "padding": 1}),
    "an odd number of rows and pixels": ((2, 16, 5, 9), (16, 24, 5, 5), {"stride": 3, "padding": 2}),
    "outputs that leave lanes": ((1, 16, 4, 5), (16, 45, 4, 4), {"stride": 2, "padding": 1}),
    "fewer outputs than a panel": ((1, 32, 4, 5), (32, 13, 2, 2), {"stride": 2}),
    "pixels apart": ((1, 32, 5, 6), (32, 16, 2, 2), {"stride": 3}),
    "groups": ((1, 32, 5, 9), (32, 8, 4, 4), {"stride": 2, "padding": 1, "groups": 4}),
    "groups of several panels": ((1, 32, 3, 9), (32, 40, 3, 3), {"stride": 2, "groups": 2}),
    "long rows": ((1, 16, 2, 150), (16, 16, 3, 3), {"stride": 2, "padding": 1}),
    "an image that is far": ((1, 32, 60, 90), (32, 16, 2, 2), {"stride": 2}),
    "one dimension": ((2, 24, 70), (24, 16, 16), {"stride": 8, "padding": 4}),
    "three": ((1, 16, 2, 3, 5), (16, 16, 3, 3, 3), {"stride": 2, "padding": 1}),
    "strides that differ": ((1, 16, 4, 6), (16, 16, 4, 6), {"stride": (2, 3), "output_padding": (1, 2)}),
    "rows that have a stride and pixels that have none": ((1, 16, 4, 6), (16, 16, 3, 5), {"stride": (2, 1)}),
    "groups, and rows that have none": ((2, 32, 6, 7), (32, 16, 3, 4), {"stride": (1, 2), "groups": 2}),
    # the last phases end with the image: the padding would read beyond it
    "windows as wide as the stride": ((1, 32, 5), (32, 16, 3), {"stride": 3, "padding": 1}),
    "doubles": ((1, 16, 5, 6), (16, 12, 4, 4), {"stride": 2, "padding": 1}, "float64"),
}


@pytest.mark.each_value
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_every_shape_is_right(case, packed):
    x, w, y = transposed(*CASES[case])
    assert outputs_are_lanes(y, constants=[w] if packed else [])
    a, b = (small(tuple(int(str(n)) for n in t.shape), t.dtype.name) for t in (x, w))
    (expected,) = te.reference.evaluate(y, {x: a, w: b})
    if packed:
        result = tl.compile([x, w, y], HOST_LIKE, constants={w: b})(a)
    else:
        result = tl.compile([x, w, y], HOST_LIKE)(a, b)
    assert np.array_equal(result, expected)


def test_what_is_written_behind_it_is_computed_with_it():
    x, w, y = transposed((1, 16, 5, 6), (16, 16, 4, 4), {"stride": 2, "padding": 1})
    y = ops.relu(y)
    assert outputs_are_lanes(y)
    a, b = small((1, 16, 5, 6)), small((16, 16, 4, 4))
    (expected,) = te.reference.evaluate(y, {x: a, w: b})
    assert np.array_equal(tl.compile([x, w, y], HOST_LIKE)(a, b), expected)


@pytest.mark.parametrize("fixed", [False, True])
def test_a_bias_of_outputs_that_leave_lanes_is_read_no_further(fixed):
    """What was computed behind the last output had read the bias there, and the schedule was refused."""
    x, w, _ = transposed((1, 32, 3, 3), (32, 45, 3, 3), {"stride": 2})
    bias = te.placeholder((45,), name="bias")
    y = ops.relu(ops.conv_transpose2d(x, w, bias, stride=2))
    assert outputs_are_lanes(y, constants=[w, bias] if fixed else [])
    a, b, c = small((1, 32, 3, 3)), small((32, 45, 3, 3)), small((45,))
    (expected,) = te.reference.evaluate(y, {x: a, w: b, bias: c})
    for target in (HOST_LIKE, None):
        if fixed:
            result = tl.compile([x, y], target, constants={w: b, bias: c})(a)
        else:
            result = tl.compile([x, w, bias, y], target)(a, b, c)
        assert np.array_equal(result, expected)


@pytest.mark.parametrize("kernel", [(64, 64, 4, 4), (64, 45, 3, 3)], ids=["whole", "lanes left"])
def test_sums_stay_in_registers_and_a_load_of_the_weight_serves_six_pixels(kernel):
    x, w, y = transposed((1, 64, 12, 12), kernel, {"stride": 2, "padding": 1})
    body = inner_loop(tl.compile([x, w, y], HOST_LIKE).get_source("asm"), "vfmadd")
    assert sum("vfmadd" in line for line in body) >= 10
    assert not [line for line in body if re.search(r"\(%rsp\)|mask", line)]


@pytest.mark.parametrize(
    ("kernel", "target"),
    [((16, 4, 4, 4), AVX2), ((16, 9, 4, 4), AVX2), ((16, 16, 2, 2), AVX2), ((8, 16, 4, 4), AVX2)],
    ids=["few outputs", "mostly empty vectors", "shallow sums", "few channels"],
)
def test_others_keep_pixels_as_lanes(kernel, target):
    _, _, y = transposed((1, kernel[0], 12, 12), kernel, {"stride": 2})
    assert not outputs_are_lanes(y, target)


@pytest.mark.each_value
@pytest.mark.parametrize(
    ("image", "kernel", "options", "lanes"),
    [
        ((1, 40, 3, 3), (40, 30, 2, 2), {"stride": 2}, True),
        ((1, 24, 3, 4), (24, 47, 3, 3), {"stride": 2}, True),
        ((3, 20, 7, 7), (20, 16, 5, 5), {"stride": 2, "padding": 2}, True),
        ((1, 16, 2, 5), (16, 33, 4, 4), {"stride": 3, "padding": 1}, True),
        ((1, 16, 22, 22), (16, 48, 4, 4), {"stride": 2, "padding": 1}, False),
    ],
)
def test_with_many_registers_outputs_are_lanes_where_pixels_do_not_fill_them(image, kernel, options, lanes):
    """300 to 120 channels of 3 × 3, 2 × 2, took 7 times as long as a processor can do them in, for a vector held
    nine pixels of a phase."""
    target = f"{AVX512} -num-cores=2"
    x, w, y = transposed(image, kernel, options)
    assert outputs_are_lanes(y, target, [w]) is lanes
    a, b = small(image), small(kernel)
    (expected,) = te.reference.evaluate(y, {x: a, w: b})
    assert np.array_equal(tl.compile([x, y], constants={w: b})(a), expected)


@pytest.mark.each_value
@pytest.mark.parametrize(
    ("image", "kernel", "options", "lanes"),
    [
        ((1, 40, 10, 10), (40, 64, 4, 4), {"stride": 2, "padding": 2}, True),
        ((2, 24, 3, 3), (24, 48, 3, 3), {"stride": 2, "padding": 1}, True),
        ((1, 32, 1, 1), (32, 40, 4, 4), {"stride": 2, "padding": 1}, True),
        ((1, 32, 4, 4), (32, 32, 5, 5), {"stride": 2, "padding": 2}, False),  # one strip for two threads
        ((1, 32, 16, 16), (32, 32, 4, 4), {"stride": 2, "padding": 1}, False),
    ],
    ids=["rows of nine", "phases that lack taps", "a single place", "one strip", "full vectors"],
)
def test_with_many_registers_a_weight_is_packed_in_the_call_where_that_pays(image, kernel, options, lanes):
    """160 to 320 channels of 10 × 10, 4 × 4 with stride 2, took twice the time that torch packs them in: rows
    of nine pixels of a phase were two vectors each."""
    x, w, y = transposed(image, kernel, options)
    assert outputs_are_lanes(y, f"{AVX512} -num-cores=2") is lanes
    a, b = small(image), small(kernel)
    (expected,) = te.reference.evaluate(y, {x: a, w: b})
    assert np.array_equal(tl.compile([x, w, y])(a, b), expected)


@pytest.mark.parametrize(("image", "width"), [((1, 16, 33, 33), 33), ((1, 16, 4, 41), 41)])
def test_a_row_of_a_few_places_more_than_a_stretch_is_no_row_of_vectors_of_outputs(image, width):
    """33 places were computed as 32 and 32: 16 to 320 channels of 33 × 33 took 2.4 times as long as in vectors
    of pixels."""
    _, w, y = transposed(image, (16, 64, 3, 3), {"stride": 2, "padding": 1})
    for constants in ([], [w]):
        assert not outputs_are_lanes(y, AVX512, constants)


@pytest.mark.parametrize(
    ("image", "outputs", "within"),
    [((1, 32, 5, 5), 128, True), ((2, 32, 5, 5), 128, False), ((1, 32, 5, 5), 16, False)],
    ids=["one image", "several images", "fewer panels than threads"],
)
def test_each_panel_of_a_weight_is_packed_by_the_thread_that_uses_it(image, outputs, within):
    """All threads packed all panels, and waited: 2048 to 256 channels of 5 × 3 took 1.65 times as long as
    without packing on two threads, 0.81 of the time when each packs its own."""
    _, w, y = transposed(image, (32, outputs, 3, 3), {"stride": 2, "padding": 1})
    s = scheduled(y, as_target(HOST_LIKE))[0]
    (packed,) = [stage for stage in s.stages if stage.name.startswith(f"{w.name}.")]
    assert (packed.state.attach is not None) is within


GROUPS = {
    "a vector and a half": ((2, 48, 7, 7), (48, 24, 3, 3), {"stride": 4, "padding": 1, "groups": 2}),
    "most of a vector": ((2, 48, 5, 7), (48, 12, 4, 4), {"stride": 2, "padding": 1, "groups": 3}),
    "in three dimensions": ((1, 32, 3, 4, 7), (32, 24, 4, 4, 4), {"stride": 2, "padding": 1, "groups": 2}),
    # a group's weight has no axis of channels: their remainder was 0, which is no axis
    "of one channel": ((1, 8, 33, 1), (8, 12, 3, 7), {"stride": (1, 2), "dilation": (1, 3), "groups": 8}),
    "of one channel and whole vectors": ((1, 8, 9, 13), (8, 16, 3, 3), {"stride": 2, "groups": 8}),
}


@pytest.mark.parametrize("case", GROUPS)
def test_groups_that_are_no_whole_vectors_are_panels_of_their_own(case):
    """With many registers, in a vector that is nearly full; rows of 7 pixels would be vectors of 4, 2 and 1:
    they are counted as one axis only in tiles of all outputs of a group."""
    x, w, y = transposed(*GROUPS[case])
    assert outputs_are_lanes(y, AVX512, [w])
    a, b = (small(tuple(int(str(n)) for n in t.shape)) for t in (x, w))
    (expected,) = te.reference.evaluate(y, {x: a, w: b})
    assert np.array_equal(tl.compile([x, w, y], constants={w: b})(a), expected)
    assert np.array_equal(tl.compile([x, w, y])(a, b), expected)


def test_groups_that_leave_vectors_rather_empty_keep_vectors_of_pixels():
    _, w, y = transposed((2, 64, 7, 13), (64, 9, 2, 2), {"stride": 2, "groups": 2})
    assert not outputs_are_lanes(y, AVX512, [w])
