"""The recipe for convolutions over rows of known sizes: right bit for bit on odd shapes and groups, whole
vectors of pixels in its sums, and left alone where vectors of outputs take less time."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.analysis import conv_of
from tensorlang.recipes import boxes, default_schedule
from tensorlang.recipes.flat import plan
from tensorlang.target import as_target
from tests.codegen.test_assembly import AVX2, AVX512, NEON, inner_loop
from tests.ops import images
from tests.ops.arrays import exact
from tests.ops.images import small
from tests.recipes.test_conv import both, declared

RNG = np.random.default_rng(13)
# (images, channels, outputs, image, kernel, options): rests of outputs, strips and vectors; strides, groups
CASES = [
    (2, 3, 7, (11, 13), (3, 3), {"padding": 1}),
    (1, 4, 5, (9, 17), (3, 2), {}),
    (1, 5, 11, (13, 20), (5, 3), {"padding": ((2, 1), (1, 2)), "stride": (2, 3)}),
    (2, 2, 3, (16, 16), (2, 2), {"stride": 2}),
    (1, 3, 6, (12, 10), (3, 3), {"padding": 2, "dilation": 2}),
    (2, 12, 18, (8, 9), (3, 3), {"padding": 1, "groups": 3}),
    (1, 10, 20, (7, 7), (3, 3), {"padding": 1, "stride": 2, "groups": 2}),
    (1, 2, 3, (1, 40), (1, 3), {"padding": (0, 1)}),
]


@pytest.mark.parametrize(("n", "channels", "outputs", "image", "kernel", "options"), CASES, ids=str)
def test_odd_shapes(n, channels, outputs, image, kernel, options, monkeypatch):
    monkeypatch.setattr(boxes, "SURE", 0)  # which would take some of them
    w = small(RNG, (outputs, channels // options.get("groups", 1), *kernel))
    x, b = small(RNG, (n, channels, *image)), small(RNG, (outputs,))
    assert ".local" in plan_of(x, w, b, AVX512, **options)[0].tree()
    exact(both(x, w, b, **options), np.maximum(images.conv(x, w, b, **options), 0), "float32")


def test_rows_of_one_pixel():
    """Nothing stands behind them: rows were to be one axis with their only pixels, and there is no such
    layout."""
    for channels, outputs in ((3, 5), (4, 32)):
        x, w = small(RNG, (1, channels, 40, 1)), small(RNG, (outputs, channels, 3, 1))
        b = small(RNG, (outputs,))
        exact(both(x, w, b, padding=(1, 0)), np.maximum(images.conv(x, w, b, padding=(1, 0)), 0), "float32")


def test_three_dimensions():
    x, w = small(RNG, (1, 3, 4, 6, 7), "float64"), small(RNG, (5, 3, 2, 3, 3), "float64")
    exact(both(x, w, None, op=ops.conv3d, padding=1), np.maximum(images.conv(x, w, padding=1), 0), "float64")


def test_tiles_of_volumes_hold_outputs_in_registers():
    """The depth was taken for the outputs: a tile was one of them, and read a vector for each product."""
    x, w = te.placeholder((1, 4, 6, 30, 30), name="x"), te.placeholder((8, 4, 3, 3, 3), name="w")
    out = ops.conv3d(x, w, padding=1)
    p = plan(conv_of(out.op), as_target(AVX2))
    text = str(tl.lower(default_schedule(out, AVX2, constants=[w]), [x, w, out]))
    assert p.high > 1
    assert f"local: float32[1, {p.high}, 1, {8 * p.vectors}] local" in text, text


def plan_of(x, w, b, target, **options):
    X, W, B, out = declared(x, w, b, **options)
    return default_schedule(out, target, constants=[W]), [X, W, B, out]


def zeros(channels, outputs, height, kernel, groups=1):
    shapes = (1, channels, height, height), (outputs, channels // groups, kernel, kernel), (outputs,)
    return [np.zeros(shape, "f4") for shape in shapes]


@pytest.mark.parametrize(
    ("target", "register", "fma", "stack", "case", "options"),
    [
        (AVX2, "ymm", "vfmadd", r"\(%r[sb]p", (12, 22, 40, 5), {"padding": 2}),
        (AVX512, "zmm", "vfmadd", r"\(%r[sb]p", (12, 22, 40, 5), {"padding": 2}),
        (NEON, "v", "fmla", r"\[sp", (12, 22, 40, 5), {"padding": 2}),
        (AVX2, "ymm", "vfmadd", r"\(%r[sb]p", (32, 32, 30, 3, 4), {"padding": 1, "groups": 4}),
        (AVX512, "zmm", "vfmadd", r"\(%r[sb]p", (32, 32, 30, 3, 4), {"padding": 1, "groups": 4}),
    ],
    ids=["5x5-avx2", "5x5-avx512", "5x5-neon", "groups-avx2", "groups-avx512"],
)
def test_sums_are_whole_vectors_in_registers(target, register, fma, stack, case, options):
    s, args = plan_of(*zeros(*case), target, **options)
    asm = tl.build(s, args, target=target).get_source("asm")
    body = inner_loop(asm, fma)
    assert len([x for x in body if fma in x and re.search(rf"\b{register}\d", x)]) >= 8
    assert not [x for x in body if re.search(stack, x) or "div" in x or "gather" in x]
    assert not re.search(r"vfmadd\w+ss|fmadd\ts", asm), "a sum of one lane"


@pytest.mark.parametrize("target", [AVX2, AVX512], ids=["avx2", "avx512"])
@pytest.mark.parametrize("stride", [1, 2])
def test_an_image_with_row_behind_row_is_copied_in_whole_vectors(target, stride):
    """The last vector of a row reached into the next one: its lanes, and those of the row's other vectors, were
    gathered one by one, for two thirds of the time where outputs are few."""
    X, W, _, out = declared(
        np.zeros((1, 20, 9, 50), "f4"),
        np.zeros((6, 20, 3, 3), "f4"),
        None,
        relu=False,
        padding=1,
        stride=stride,
    )
    s = default_schedule(out, target, constants=[W])
    assert "conv2d.local.local.y.x.fused" in str(s.tree())
    assert "gather" not in tl.build(s, [X, W, out], target=target).get_source("asm")


def test_rows_stand_behind_each_other_and_a_strip_of_sums_is_read_by_its_pixels():
    """Of a row of 40 pixels with a margin of 2 + 2, sums for 44 places are held."""
    s, args = plan_of(*zeros(12, 22, 40, 5), AVX512, padding=2)
    text = str(tl.lower(s, args))
    assert re.search(r"= conv2d\[.*\*44 \+|i2\S*\*44", text)
    assert "< x16(40)" not in text.split("for rc")[1].split("relu[")[0], "a test of every place"


@pytest.mark.parametrize("height", [7, 14])
def test_where_margins_are_wide_vectors_are_of_outputs(height):
    s, _ = plan_of(*zeros(64, 64, height, 3), AVX512, padding=1)
    assert "relu.local" in s.tree()


@pytest.mark.parametrize("size", [(4, 4), (6, 6), (5, 10)], ids=str)
def test_few_pixels_at_the_call_are_a_vector(size):
    """Left to the recipe of outputs they came to neither: no weight is packed for so few, and 4 to 15 pixels
    took two to three times as long."""
    x, w = small(RNG, (1, 20, *size)), small(RNG, (36, 20, 3, 3))
    X, W, _, out = declared(x, w, None, relu=False, padding=1, stride=2)
    tree = str(default_schedule(out, AVX512).tree())
    assert "conv2d.local.local.y.x.fused" in tree, tree
    exact(
        both(x, w, None, padding=1, stride=2),
        np.maximum(images.conv(x, w, padding=1, stride=2), 0),
        "float32",
    )


@pytest.mark.parametrize(("outputs", "cores"), [(29, 2), (22, 2), (50, 4)])
def test_threads_share_the_outputs_of_few_rows_evenly(outputs, cores):
    """Of 29 outputs in tiles of 10 one thread had two and the other one: two took 0.75 of what they could."""
    x, w = te.placeholder((1, 16, 8, 16), name="x"), te.placeholder((outputs, 16, 3, 3), name="w")
    conv = conv_of(ops.conv2d(x, w, padding=1).op)
    assert conv is not None
    found = plan(conv, as_target(f"{AVX512} -num-cores={cores}"))
    strips = -(-8 // found.strip)
    parts = strips if strips >= cores else -(-outputs // found.high)
    most = -(-parts // cores) * (found.strip if strips >= cores else found.high)
    assert most * cores <= 1.2 * (8 if strips >= cores else outputs)


@pytest.mark.parametrize("channels", [384, 576, 768, 1024])
def test_patches_are_summed_straight_from_the_image(channels, monkeypatch) -> None:
    """Their taps are written out in fours, but were counted as a loop of one: they went in vectors of pixels,
    with a copy of the image, 1.02 to 1.2 times the time."""
    monkeypatch.delenv("TENSORLANG_COST", raising=False)
    X, W = te.placeholder((1, 3, 224, 224), name="X"), te.placeholder((channels, 3, 16, 16), name="W")
    s = default_schedule(ops.conv2d(X, W, stride=16), "llvm -mcpu=znver4 -num-cores=1", constants=[W])
    assert not [stage.name for stage in s.stages if stage.name.startswith("X.")]


@pytest.mark.parametrize(("groups", "taps"), [(1, 3), (4, 5), (8, 1)], ids=str)
def test_a_group_of_one_output_needs_no_copy_of_its_image(groups, taps):
    """Each place is read for that output alone: strips and boxes took 1.1 to 2 times as long."""
    x = te.placeholder((2, 8 * groups, 33, 20), name="x")
    w = te.placeholder((groups, 8, taps, taps), name="w")
    y = ops.conv2d(x, w, padding=taps // 2, groups=groups)
    words = str(tl.compile([x, w, y], target=AVX512).explain())
    assert "recipes.flat" not in words and "recipes.boxes" not in words
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-4, 5, [int(str(n)) for n in t.shape]).astype("float32") for t in (x, w))
    np.testing.assert_array_equal(
        tl.compile([x, w, y])(a, b), images.conv(a, b, padding=taps // 2, groups=groups)
    )


def test_single_pixels_of_groups_are_read_where_they_lie():
    """A copy of what is read once: 64 to 16 channels of 40 × 40 in 8 groups took 2.3 times as long."""
    x, w = te.placeholder((1, 64, 40, 40), name="x"), te.placeholder((16, 8, 1, 1), name="w")
    words = str(tl.compile([x, w, ops.conv2d(x, w, groups=8)], target=AVX512, constants={}).explain())
    assert "recipes.flat" not in words


@pytest.mark.parametrize(("size", "register"), [(2, "ymm"), (3, "zmm")])
def test_the_last_pixels_of_a_small_image_are_a_vector(size, register):
    """13 pixels were sums of 8, 4 and 1, each with multiply-adds of its own: twice the time."""
    x, w = (np.zeros(shape, "float32") for shape in ((1, 64, size, size), (96, 64, 3, 3)))
    X, W, _, out = declared(x, w, None, padding=1)
    f = tl.build(default_schedule(out, AVX512), [X, W, out], AVX512, load=False)
    sums = [line for line in inner_loop(f.get_source("asm"), "vfmadd") if "vfmadd" in line]
    assert len(sums) >= 8 and all(register in line for line in sums)


@pytest.mark.parametrize("size", [(2, 2), (3, 3), (4, 7), (5, 5), (9, 11)])
def test_whole_vectors_of_a_small_image_are_right(size):
    for stride, kernel in ((1, 3), (2, 3), (1, 5)):
        x, w = small(RNG, (2, 16, *size)), small(RNG, (37, 16, kernel, kernel))
        options = {"padding": kernel // 2, "stride": stride}
        exact(both(x, w, None, **options), np.maximum(images.conv(x, w, **options), 0), "float32")


def test_rows_of_a_weight_at_the_call_have_places_in_the_first_cache():
    """1024 channels of 3 × 3 are nine pages: 28 rows of them, of which a line each was to stay, share a set
    of 8 places."""
    x, w = te.placeholder((1, 1024, 5, 5), name="x"), te.placeholder((512, 1024, 3, 3), name="w")
    conv = conv_of(ops.conv2d(x, w, padding=1, stride=2).op)
    assert conv is not None
    assert plan(conv, as_target(AVX512), fixed=False).high <= 8 < plan(conv, as_target(AVX512)).high
