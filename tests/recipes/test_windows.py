"""Convolutions of open sizes in tiles of pixels and vectors of outputs."""

from __future__ import annotations

import re

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.recipes import default_schedule
from tests.codegen.test_assembly import inner_loop
from tests.ops import images

RNG = np.random.default_rng(0)
SIZES = [(1, 7, 9), (2, 16, 15), (1, 33, 40), (3, 5, 4), (1, 1, 1)]


def whole(shape, kind="float32"):
    return RNG.integers(-3, 4, shape).astype(kind)


def expected(x, w, stride, pad, dilation):
    """[n, o, y, x], by windows of the padded image."""
    x = np.pad(x, [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    reach = tuple(dilation * (k - 1) + 1 for k in w.shape[2:])
    seen = sliding_window_view(x, reach, (2, 3))[:, :, ::stride, ::stride, ::dilation, ::dilation]
    return np.einsum("ncyxij,ocij->noyx", seen, w)


def built(shape, stride, pad, dilation, kind="float32", stored="", target=None, batch="n"):
    """relu(conv2d(x, w) + r) of an open image, and the weight's elements."""
    n = te.var("n") if batch == "n" else batch
    x = te.placeholder((n, shape[1], te.var("h"), te.var("v")), kind, name="x")
    w = te.placeholder(shape, stored or kind, name="w")
    wide = te.compute(w.shape, lambda *i: te.cast(kind, w[i]), name="wide") if stored else w
    y = ops.conv2d(x, wide, stride=stride, padding=pad, dilation=dilation)
    r = te.placeholder(y.shape, kind, name="r")
    y = ops.relu(ops.add(y, r))
    weight = whole(shape, stored or kind)
    s = default_schedule(y, target, [w])
    return s, tl.build(s, [x, w, r, y], constants={w: weight}, target=target), weight


CASES = {
    "stride": ((32, 16, 3, 3), 2, 1, 1, {}),
    "vectors left over": ((48, 16, 3, 3), 2, 1, 1, {}),
    "no stride": ((32, 64, 3, 3), 1, 1, 1, {}),
    "no margin": ((32, 16, 3, 3), 2, 0, 1, {}),
    "no margin, one image": ((32, 16, 3, 3), 2, 0, 1, {"batch": 1}),
    "five taps of a stride of three": ((32, 8, 5, 5), 3, 2, 1, {"batch": 1}),
    "taps apart": ((32, 72, 3, 3), 1, 2, 2, {}),
    "seven taps": ((32, 4, 7, 7), 2, 3, 1, {}),
    "one tap": ((64, 64, 1, 1), 1, 0, 1, {}),
    "one tap of a stride": ((32, 72, 1, 1), 2, 0, 1, {}),
    "outputs that nearly fill vectors": ((60, 72, 1, 1), 1, 0, 1, {}),
    "the same of nine taps": ((44, 16, 3, 3), 2, 1, 1, {"target": "llvm -mcpu=haswell"}),
    "taps of one row": ((32, 64, 1, 3), 2, 1, 1, {}),
    "doubles": ((16, 16, 3, 3), 2, 1, 1, {"kind": "float64"}),
    "a smaller target": ((32, 16, 3, 3), 2, 1, 1, {"target": "llvm -mcpu=haswell"}),
    "halves": ((32, 16, 3, 3), 2, 1, 1, {"kind": "float16"}),
    "halves, no margin, one image": ((32, 16, 3, 3), 2, 0, 1, {"kind": "float16", "batch": 1}),
    "halves, no stride": ((32, 20, 3, 3), 1, 1, 1, {"kind": "float16"}),
    "halves, one tap": ((64, 64, 1, 1), 1, 0, 1, {"kind": "float16"}),
    "halves, a smaller target": (
        (32, 16, 3, 3),
        2,
        1,
        1,
        {"kind": "float16", "target": "llvm -mcpu=haswell"},
    ),
    "whole numbers as weights": ((32, 16, 3, 3), 2, 1, 1, {"stored": "int8"}),
}


@pytest.mark.parametrize("case", CASES)
def test_every_size_is_right(case):
    shape, stride, pad, dilation, more = CASES[case]
    s, f, weight = built(shape, stride, pad, dilation, **more)
    assert "w.global" in {st.name for st in s.stages}  # the panels of a tile's outputs
    kind = more.get("kind", "float32")
    for n, h, v in SIZES:
        n = n if more.get("batch", "n") == "n" else more["batch"]
        sizes = [
            (a + 2 * pad - dilation * (k - 1) - 1) // stride + 1
            for a, k in zip((h, v), shape[2:], strict=True)
        ]
        if min(sizes) < 1:
            continue
        x, r = whole((n, shape[1], h, v), kind), whole((n, shape[0], *sizes), kind)
        out = np.full(r.shape, np.nan, kind)
        f(x, r, out)
        assert np.array_equal(out, np.maximum(expected(x, weight.astype(kind), stride, pad, dilation) + r, 0))


def test_lanes_are_outputs_however_narrow_a_row_is():
    """The last pixels of a row, three of them here, are summed in vectors of outputs."""
    s, f, _ = built((32, 16, 3, 3), 2, 1, 1, target="llvm -mcpu=skylake-avx512")
    (total,) = (st.name for st in s.stages if st.op.reduce_axis)
    sums = [line for line in f.get_source("ir").splitlines() if f"] = {total}[" in line]
    assert sums and all(re.search(r"\b(0 : 16|16 : 32)\] = ", line) for line in sums)


def test_halves_have_outputs_as_lanes_and_an_image_that_is_converted_with_its_margin():
    """Pixels as lanes, of rows of four, took four times as long."""
    s, f, _ = built((32, 16, 3, 3), 2, 1, 1, kind="float16", target="llvm -mcpu=skylake-avx512")
    (total,) = (st.name for st in s.stages if st.op.reduce_axis)
    sums = [line for line in f.get_source("ir").splitlines() if f"] = {total}[" in line and " + " in line]
    assert sums and all(" + x" in line and "* float32x" in line for line in sums)
    (image,) = (st for st in s.stages if st.name.endswith("pad.global"))
    assert image.op.outputs[0].dtype == "float32"


@pytest.mark.parametrize(
    ("cpu", "rest", "shallow"), [("skylake-avx512", 40, 24), ("haswell", 20, 12)], ids=["avx512", "avx2"]
)
def test_shallow_sums_and_few_outputs_keep_pixels_as_lanes(cpu, rest, shallow):
    kept = ((32, 3, 3, 3), 2), ((rest, 32, 3, 3), 2), ((64, shallow, 3, 3), 1), ((64, shallow, 1, 1), 1)
    for shape, stride in kept:
        s, *_ = built(shape, stride, 1, 1, target=f"llvm -mcpu={cpu} -mtriple=x86_64-linux-gnu")
        assert not any(st.name.endswith(".local") for st in s.stages)


@pytest.mark.each_value
@pytest.mark.parametrize(("groups", "inputs", "outputs"), [(2, 32, 64), (4, 64, 64), (2, 64, 96)])
@pytest.mark.parametrize("stride", [1, 2])
def test_groups_of_whole_vectors_of_outputs(groups, inputs, outputs, stride):
    """Each panel of the weight is of one group; pixels along a row left most lanes empty in small images."""
    n, h, v = te.var("n"), te.var("h"), te.var("v")
    x = te.placeholder((n, inputs, h, v), name="x")
    w = te.placeholder((outputs, inputs // groups, 3, 3), name="w")
    y = ops.conv2d(x, w, stride=stride, padding=1, groups=groups)
    weight = whole((outputs, inputs // groups, 3, 3))
    f = tl.compile([x, y], "llvm -mcpu=skylake-avx512 -mtriple=x86_64-linux-gnu", constants={w: weight})
    sums = [line for line in f.get_source("ir").splitlines() if "conv2d.local" in line and " + x16(" in line]
    assert sums and all("w.global[" in line for line in sums)
    assert not re.search(r"vfmadd\w+ss|gather", f.get_source("asm"))
    f = tl.compile([x, y], constants={w: weight})
    for batch, height, wide in [*SIZES, (0, 5, 5), (1, 3, 61)]:
        image = whole((batch, inputs, height, wide))
        assert np.array_equal(f(image), images.conv(image, weight, groups=groups, padding=1, stride=stride))


def test_groups_that_fill_no_vector_and_single_pixels_keep_pixels_as_lanes():
    for shape, taps in ((48, 3), (64, 1)):
        x = te.placeholder((1, shape, te.var("h"), te.var("v")), name="x")
        w = te.placeholder((shape, shape // 4 if taps == 3 else shape // 2, taps, taps), name="w")
        y = ops.conv2d(x, w, groups=4 if taps == 3 else 2)
        f = tl.compile([x, w, y], "llvm -mcpu=skylake-avx512 -mtriple=x86_64-linux-gnu")
        assert "recipes.windows" not in str(f.explain())


@pytest.mark.parametrize(("cpu", "written_out"), [("skylake-avx512", True), ("haswell", False)])
def test_taps_are_written_out_where_their_sums_stay_in_registers(cpu, written_out):
    """With 16 registers LLVM spilled half of the sums beside what neighbouring taps share."""
    s, module, _ = built((64, 64, 3, 3), 1, 1, 1, target=f"llvm -mcpu={cpu} -mtriple=x86_64-linux-gnu")
    assert ("reduce  unrolled" in s.tree()) is written_out
    body = inner_loop(module.get_source("asm"), "vfmadd")
    assert not [line for line in body if re.search(r"vmov\w+\s+%[yz]mm\d+, .*\(%rsp\)", line)]


VNNI = "llvm -mcpu=cascadelake -mtriple=x86_64-linux-gnu"


def of_bytes(outputs, channels, size, target=None):
    """conv_integer(x, w) of bytes 3×3 with a zero point, and the weight's elements."""
    x = te.placeholder((te.var("n"), channels, te.var("h"), te.var("v")) if size is None else size, "uint8")
    w = te.placeholder((outputs, channels, 3, 3), "int8", name="w")
    z = te.placeholder((), "uint8", name="z")
    weight = RNG.integers(-128, 128, w.shape).astype("int8")
    y = ops.conv_integer(x, w, z, None, 2, 1)
    return tl.build(default_schedule(y, target, [w]), [x, w, z, y], target, constants={w: weight}), weight


@pytest.mark.each_value
@pytest.mark.parametrize("open_size", [False, True])
@pytest.mark.parametrize("outputs", [16, 24, 32, 40, 96])
def test_bytes_are_multiplied_four_at_a_time_however_many_outputs_there_are(outputs, open_size):
    """Outputs that were no whole number of tiles were once tested lane by lane in each product, and images of
    open sizes converted element by element: 5 and 10 times as slow."""
    size = None if open_size else (2, 8, 17, 23)
    f, _ = of_bytes(outputs, 8, size, VNNI)
    text = f.get_source("asm")
    assert text.count("vpdpbusd") >= 8
    # the zero point times a sum of the weight, once a pixel and vector of outputs
    assert text.count("vpmulld") <= text.count("vpdpbusd")
    f, weight = of_bytes(outputs, 8, size)
    for n, h, v in [(2, 17, 23)] if size else SIZES:
        x = RNG.integers(0, 256, (n, 8, h, v)).astype("uint8")
        want = expected(x.astype("int32") - 7, weight.astype("int32"), 2, 1, 1)
        assert np.array_equal(f(x, np.array(7, "uint8")), want)


@pytest.mark.parametrize(("outputs", "shares"), [(64, 2), (384, 12)], ids=["stretches", "outputs"])
def test_an_image_of_a_few_rows_has_work_for_all_threads(outputs, shares):
    """A strip of four rows was the least that threads shared out: a text line of three rows had one thread."""
    target = "llvm -mcpu=skylake-avx512 -mtriple=x86_64-linux-gnu -num-cores=2"
    _, f, _ = built((outputs, 64, 1, 1), 1, 0, 1, target=target, batch=1)
    (loop,) = re.findall(r"in parallel\(0, (.*)\):", f.get_source("ir"))
    assert loop.endswith(f"*{shares}")


@pytest.mark.parametrize(("rows", "shares"), [(3, 2), (12, 6), (16, 4)], ids=["one strip", "three", "four"])
def test_strips_that_are_not_as_many_for_each_thread_are_shared_out_in_stretches(rows, shares):
    """A text line of three rows had one thread, with a margin too."""
    target = "llvm -mcpu=haswell -mtriple=x86_64-linux-gnu -num-cores=2"
    x, w = te.placeholder((1, 64, rows, te.var("v")), name="x"), te.placeholder((64, 64, 3, 3), name="w")
    y = ops.relu(ops.conv2d(x, w, padding=1))
    weight = whole((64, 64, 3, 3))
    f = tl.build(default_schedule(y, target, [w]), [x, w, y], constants={w: weight}, target=target)
    (loop,) = re.findall(r"in parallel\(0, (.*)\):", f.get_source("ir"))
    assert loop == str(shares)
    for v in (1, 5, 40):
        image = whole((1, 64, rows, v))
        assert np.array_equal(f(image), np.maximum(expected(image, weight, 1, 1, 1), 0))


def of_open_height(outputs, channels, groups, wide, kernel, stride, pad, target=None):
    """relu(conv2d(x, w)) of an image of known width and open height, and the weight's elements."""
    x = te.placeholder((1, channels, te.var("h"), wide), name="x")
    w = te.placeholder((outputs, channels // groups, *kernel), name="w")
    y = ops.relu(ops.conv2d(x, w, stride=stride, padding=pad, groups=groups))
    weight = whole((outputs, channels // groups, *kernel))
    s = default_schedule(y, target, [w])
    return s, tl.build(s, [x, w, y], constants={w: weight}, target=target), weight


@pytest.mark.parametrize("wide", [1, 3, 19, 40])
@pytest.mark.parametrize(
    ("outputs", "channels", "groups", "kernel", "stride"),
    [
        (48, 24, 1, (3, 3), 2),
        (64, 32, 2, (3, 3), 2),
        (32, 16, 4, (3, 3), 1),
        (80, 32, 1, (5, 3), 1),
        (64, 32, 1, (1, 1), 1),
        (20, 24, 1, (3, 3), 1),
    ],
)
def test_an_image_of_known_width_and_open_height(outputs, channels, groups, kernel, stride, wide):
    """A spectrogram: so many bands, of as long as somebody spoke."""
    pad = kernel[0] // 2, kernel[1] // 2
    *_, f, weight = of_open_height(outputs, channels, groups, wide, kernel, stride, pad)
    for h in (1, 4, 13, 34):
        image = whole((1, channels, h, wide))
        right = images.conv(image, weight, groups=groups, padding=pad, stride=stride)
        assert np.array_equal(f(image), np.maximum(right, 0))


@pytest.mark.parametrize(
    ("outputs", "channels", "wide", "kernel", "stride"),
    [(144, 144, 39, (3, 3), 2), (64, 64, 1, (5, 1), 1), (64, 64, 26, (5, 2), 1)],
    ids=["bands", "one pixel in a row", "no stride"],
)
def test_open_height_of_known_width_is_in_panels_of_outputs(outputs, channels, wide, kernel, stride):
    """They took 2 to 25 times as long in tiles whose vectors were gathered, or of one lane."""
    s, f, _ = of_open_height(outputs, channels, 1, wide, kernel, stride, 0, "llvm -mcpu=skylake-avx512")
    assert "w.global" in {st.name for st in s.stages}
    assert not re.search(r"vfmadd\w+ss|gather", f.get_source("asm"))


@pytest.mark.parametrize(("wide", "several"), [(2, True), (3, True), (1, False), (4, False)])
def test_rows_of_two_and_three_pixels_fill_vectors_together(wide, several):
    s, *_ = of_open_height(64, 64, 1, wide, (1, 1), 1, 0, "llvm -mcpu=skylake-avx512")
    assert ("w.global" not in {st.name for st in s.stages}) == several


def test_a_known_row_of_few_pixels_is_not_shared_out():
    """Two threads had three of its pixels each, in tiles of three: they share strips of rows and panels."""
    target = "llvm -mcpu=skylake-avx512 -mtriple=x86_64-linux-gnu -num-cores=2"
    _, f, _ = of_open_height(80, 64, 1, 7, (5, 2), 1, 0, target)
    loops = re.findall(r"for (\S+) in ", f.get_source("ir"))
    assert loops[0] == "i0.i2.outer.i1.outer.fused" and not any("i3" in name for name in loops)


@pytest.mark.parametrize(
    ("outputs", "groups", "wide", "kernel", "stride"),
    [(48, 2, 12, (3, 3), 2), (17, 1, 1, (3, 1), 1)],
    ids=["groups", "one pixel in a row"],
)
def test_tiles_of_any_reduction_are_left_where_they_find_no_vectors(outputs, groups, wide, kernel, stride):
    """One sum or two were made at a time, and waited for each other; now those of twelve outputs."""
    s, f, _ = of_open_height(outputs, 48, groups, wide, kernel, stride, 0, "llvm -mcpu=skylake-avx512")
    (total,) = (st.name for st in s.stages if st.op.reduce_axis)
    sums = [line for line in f.get_source("ir").splitlines() if f"] = {total}[" in line and " + " in line]
    assert len(sums) >= 12
