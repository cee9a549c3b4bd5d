"""The recipe for convolutions: right bit for bit on odd shapes, with weights known ahead and given in the
call; and its machine code."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.analysis.cost_tables import generic
from tensorlang.recipes import default_schedule
from tensorlang.recipes.default_schedule import scheduled
from tensorlang.target import Target, as_target
from tests.codegen.test_assembly import AVX2, AVX512, inner_loop
from tests.ops import images
from tests.ops.arrays import exact
from tests.ops.images import small
from tests.recipes.long import LONG

RNG = np.random.default_rng(8)
ZEN3 = Target.parse("llvm -mcpu=znver3 -num-cores=1")


def declared(x, w, b, relu=True, op=ops.conv2d, **options):
    X, W = (te.placeholder(a.shape, str(a.dtype), n) for a, n in ((x, "X"), (w, "W")))
    B = None if b is None else te.placeholder(b.shape, str(b.dtype), "B")
    out = op(X, W, B, **options)
    return X, W, B, ops.relu(out) if relu else out


def both(x, w, b, relu=True, op=ops.conv2d, **options):
    """The result with the weight known ahead, after checking that it is the same with the weight as an
    argument."""
    X, W, B, out = declared(x, w, b, relu, op, **options)
    rest = [] if B is None else [B]
    values = [] if b is None else [b]
    ahead = tl.compile([X, *rest, out], constants={W: w})(x, *values)
    exact(tl.compile([X, W, *rest, out])(x, w, *values), ahead, str(ahead.dtype))
    return ahead


# (channels, outputs, height, width, kernel, options): sizes that leave a rest in pixels, in tiles, in vectors
# and in blocks
SHAPES = [
    (3, 16, 13, 11, (3, 3), {"padding": 1}),
    (5, 24, 9, 9, (3, 3), {"padding": 1, "stride": 2}),
    (3, 16, 21, 20, (7, 7), {"stride": 2, "padding": 3}),
    (13, 32, 12, 11, (1, 1), {"stride": 2}),
    (8, 16, 11, 13, (1, 1), {"stride": (3, 1)}),
    (70, 16, 33, 31, (1, 1), {}),
    (4, 16, 1, 29, (1, 1), {}),
    (8, 32, 9, 9, (3, 3), {"padding": 1, "groups": 2}),
    (4, 128, 7, 7, (3, 3), {"padding": 1, "groups": 2}),
    (8, 16, 1, 1, (1, 1), {}),
    (4, 19, 8, 25, (1, 3), {"padding": (0, 1), "dilation": (1, 2)}),
    (2, 24, 70, 37, (16, 16), {"stride": 16}),
    (3, 16, 44, 30, (14, 14), {"stride": 14}),
    (12, 24, 16, 28, (2, 2), {"stride": 2}),
    (1, 40, 600, 512, (16, 16), {"stride": 16}),
]
MORE_SHAPES = [
    (6, 33, 5, 23, (1, 3), {"padding": (0, 1), "dilation": (1, 2)}),
    (2, 8, 12, 14, (11, 11), {"padding": 5}),
    (13, 17, 12, 11, (1, 1), {}),
    (8, 16, 11, 13, (1, 1), {"stride": (1, 2), "padding": 1}),
    (4, 16, 29, 1, (3, 1), {"padding": (1, 0)}),
    (6, 60, 9, 5, (3, 3), {"padding": 1, "groups": 3}),
    (8, 32, 9, 9, (1, 1), {"groups": 4}),
    (9, 40, 7, 7, (1, 1), {}),
]


@pytest.mark.parametrize(
    ("channels", "outputs", "height", "width", "kernel", "options"),
    [*SHAPES, *(pytest.param(*shape, marks=LONG) for shape in MORE_SHAPES)],
    ids=str,
)
def test_odd_shapes(channels, outputs, height, width, kernel, options):
    x, w = (
        small(RNG, (2, channels, height, width)),
        small(RNG, (outputs, channels // options.get("groups", 1), *kernel)),
    )
    b = small(RNG, (outputs,))
    exact(both(x, w, b, **options), np.maximum(images.conv(x, w, b, **options), 0), "float32")


@pytest.mark.parametrize("types", ["float64", "int8", "float16", pytest.param("int32", marks=LONG)])
def test_dtypes(types):
    x, w, b = (
        small(RNG, (1, 3, 6, 7), types, -2, 3),
        small(RNG, (16, 3, 3, 3), types, -2, 3),
        small(RNG, (16,), types),
    )
    exact(
        both(x, w, b, padding=1),
        np.maximum(images.conv(x, w, b, padding=1), 0),
        "int32" if types == "int8" else types,
    )
    x, w = small(RNG, (1, 5, 6, 7), types, -2, 3), small(RNG, (16, 5, 1, 1), types, -2, 3)
    exact(both(x, w, None, relu=False), images.conv(x, w), "int32" if types == "int8" else types)


def test_int8_in_int32():
    x, w = small(RNG, (1, 12, 6, 7), "int8", -128, 128), small(RNG, (16, 12, 3, 3), "int8", -128, 128)
    want = images.conv(x.astype("int32"), w.astype("int32"), padding=1)
    exact(both(x, w, None, relu=False, padding=1, out_dtype="int32"), want, "int32")


@pytest.mark.each_value
@pytest.mark.parametrize("kinds", [("uint8", "int8"), ("int8", "uint8")])
@pytest.mark.parametrize(
    ("channels", "outputs", "height", "width", "kernel", "options"),
    [
        (12, 16, 6, 7, (3, 3), {"padding": 1}),
        (8, 40, 11, 13, (1, 1), {}),
        (8, 16, 11, 13, (1, 1), {"stride": (1, 2), "padding": 1}),
        (16, 48, 20, 9, (5, 3), {"stride": 2}),
        (24, 64, 9, 9, (3, 3), {"padding": 1, "groups": 2, "dilation": 2}),
        (6, 16, 9, 9, (3, 3), {"padding": 1}),
    ],
    ids=str,
)
def test_uint8_times_int8(channels, outputs, height, width, kernel, options, kinds):
    """Four channels at a time where the processor does that, and else as other narrow integers."""
    limits = [(np.iinfo(kind).min, np.iinfo(kind).max + 1) for kind in kinds]
    x = small(RNG, (2, channels, height, width), kinds[0], *limits[0])
    w = small(RNG, (outputs, channels // options.get("groups", 1), *kernel), kinds[1], *limits[1])
    want = images.conv(x.astype("int32"), w.astype("int32"), **options)
    exact(both(x, w, None, relu=False, out_dtype="int32", **options), want, "int32")


@pytest.mark.parametrize(
    "op, shape, kernel",
    [
        (ops.conv1d, (2, 5, 37), (16, 5, 3)),
        (ops.conv3d, (1, 3, 4, 5, 6), (16, 3, 3, 3, 3)),
        (ops.conv3d, (1, 9, 3, 4, 5), (16, 9, 1, 1, 1)),
    ],
)
def test_one_and_three_dimensions(op, shape, kernel):
    x, w, b = small(RNG, shape), small(RNG, kernel), small(RNG, kernel[:1])
    padding = kernel[-1] // 2
    exact(
        both(x, w, b, op=op, padding=padding), np.maximum(images.conv(x, w, b, padding=padding), 0), "float32"
    )


def test_a_block_of_pixels_of_three_dimensions_is_no_more_than_its_pixels():
    """Pixels of (depth, row, place) counted as one: a block once held whole layers, and the build took
    minutes."""
    X, W, _, out = declared(
        np.empty((1, 16, 8, 28, 28), "f4"),
        np.empty((16, 16, 3, 3, 3), "f4"),
        None,
        relu=False,
        op=ops.conv3d,
        padding=1,
    )
    func = str(tl.lower(default_schedule(out, f"{AVX2} -num-cores=1"), [X, W, out]))
    held = [
        math.prod(map(int, shape.split(",")))
        for shape in re.findall(r"conv3d\.local\w*: float32\[([\d, ]+)\]", func)
    ]
    assert len(held) >= 2 and max(held) <= 48 * 16 and min(held) <= 16 * 16
    assert len(func.splitlines()) < 200


def test_a_symbolic_batch_is_tiled_and_symbolic_sizes_of_the_image_stay_right():
    w, b = small(RNG, (16, 6, 3, 3)), small(RNG, (16,))
    n, h, v = te.var("n"), te.var("h"), te.var("v")
    for shape, sizes in [
        ((n, 6, 7, 9), [(1, 6, 7, 9), (3, 6, 7, 9)]),
        ((n, 6, h, v), [(1, 6, 5, 4), (2, 6, 9, 17)]),
    ]:
        X, W, B = (
            te.placeholder(shape, name="X"),
            te.placeholder(w.shape, name="W"),
            te.placeholder(b.shape, name="B"),
        )
        out = ops.relu(ops.conv2d(X, W, B, padding=1))
        f = tl.compile([X, B, out], constants={W: w})
        if shape[2] is not h:
            assert re.search(
                r"storage conv2d(\.local)* +float32\[[\d, ]+\]  local", str(default_schedule(out).tree())
            )
        for size in sizes:
            x = small(RNG, size)
            exact(f(x, b), np.maximum(images.conv(x, w, b, padding=1), 0), "float32")


def test_a_convolution_written_by_hand_is_known_by_its_shape():
    """No tag, taps before channels, the weight written first."""
    X, W = te.placeholder((1, 4, 10, 12), name="X"), te.placeholder((16, 4, 3, 3), name="W")
    c, y, x = te.reduce_axis((0, 4), "c"), te.reduce_axis((0, 3), "y"), te.reduce_axis((0, 3), "x")
    C = te.compute(
        (1, 16, 8, 10),
        lambda n, o, i, j: te.sum(W[o, c, y, x] * X[n, c, i + y, j + x], axis=[c, y, x]),
        name="C",
    )
    assert "storage C.local" in default_schedule(C).tree()
    a, w = small(RNG, (1, 4, 10, 12)), small(RNG, (16, 4, 3, 3))
    exact(tl.compile([X, W, C])(a, w), images.conv(a, w), "float32")


# (places of the batch, groups, stride, sizes of the image, taps, order of the weight's axes, spatial axes
# without a tap)
BY_HAND = [
    ((), 1, 1, (9, 13), (3, 3), "ock", ()),
    ((), 1, 2, (9, 14), (3, 3), "cko", ()),
    ((), 1, 1, (41,), (5,), "ock", ()),
    ((), 1, 1, (4, 5, 6), (2, 3, 3), "ock", ()),
    ((), 2, 1, (9, 9), (3, 3), "ock", ()),
    ((), 1, 1, (9, 13), (1, 1), "ock", ()),
    ((2, 3), 1, 1, (9, 13), (3, 3), "kco", ()),
    ((2,), 1, 1, (9, 13), (1, 3), "ock", (0,)),
]


@pytest.mark.parametrize(("batch", "groups", "stride", "image", "taps", "order", "bare"), BY_HAND, ids=str)
def test_roles_of_axes_written_by_hand(batch, groups, stride, image, taps, order, bare):
    """Any number of batch axes, none too, the weight's axes in any order, no tag: the same recipe, the same
    numbers."""
    channels, outputs = 4, 16 * groups
    x, w = small(RNG, (*batch, channels, *image)), small(RNG, (outputs, channels // groups, *taps))
    kept = [d for d in range(len(taps)) if d not in bare]
    where = {"o": [0], "c": [1], "k": [2 + d for d in kept]}
    transposed = w.reshape([n for d, n in enumerate(w.shape) if d - 2 not in bare])
    names = [d for d in range(w.ndim) if d - 2 not in bare]
    at = [d for letter in order for d in where[letter]]
    transposed = np.ascontiguousarray(transposed.transpose([names.index(d) for d in at]))
    X, W = te.placeholder(x.shape, name="X"), te.placeholder(transposed.shape, name="W")
    c, ks = (
        te.reduce_axis((0, channels // groups), "c"),
        {d: te.reduce_axis((0, taps[d]), f"k{d}") for d in kept},
    )
    places = [(n - k) // stride + 1 for n, k in zip(image, taps)]

    def body(*i):
        n, o, at_image = i[: len(batch)], i[len(batch)], i[len(batch) + 1 :]
        role = {0: o, 1: c, **{2 + d: k for d, k in ks.items()}}
        first = o // 16 * (channels // groups) if groups > 1 else 0
        return te.sum(
            X[
                (
                    *n,
                    first + c,
                    *[p * stride + ks[d] if d in ks else p * stride for d, p in enumerate(at_image)],
                )
            ]
            * W[tuple(role[d] for d in at)],
            axis=[c, *ks.values()],
        )

    C = te.compute((*batch, outputs, *places), body, name="C")
    assert "storage C.local" in default_schedule(C).tree()
    want = images.conv(x.reshape(-1, *x.shape[len(batch) :]), w, stride=stride, groups=groups)
    exact(both_of([X, W, C], x, transposed), want.reshape(*batch, *want.shape[1:]), "float32")


def both_of(tensors, x, w):
    """The result with the weight as an argument, after checking that it is the same with the weight known
    ahead."""
    X, W, C = tensors
    out = tl.compile([X, W, C])(x, w)
    exact(tl.compile([X, C], constants={W: w})(x), out, "float32")
    return out


def test_a_padded_image_without_a_batch_is_shared_out_whole():
    X, W = te.placeholder((64, 28, 28), name="X"), te.placeholder((64, 64, 3, 3), name="W")
    padded = ops.pad(X, ((0, 0), (1, 1), (1, 1)))
    c, y, x = te.reduce_axis((0, 64), "c"), te.reduce_axis((0, 3), "y"), te.reduce_axis((0, 3), "x")
    C = te.compute(
        (64, 28, 28),
        lambda o, i, j: te.sum(padded[c, i + y, j + x] * W[o, c, y, x], axis=[c, y, x]),
        name="C",
    )
    a, w = small(RNG, (64, 28, 28)), small(RNG, (64, 64, 3, 3))
    f = tl.build(default_schedule(C, AVX2, constants=[W]), [X, C], AVX2, constants={W: w})
    body = inner_loop(f.get_source("asm"), "vfmadd")
    assert sum("vfmadd" in line and "ymm" in line for line in body) >= 36, (
        "twelve sums for each of three taps of a row"
    )
    exact(tl.compile([X, C], constants={W: w})(a), images.conv(a[None], w, padding=1)[0], "float32")


def test_a_chain_of_two():
    x, v, w = (
        small(RNG, (1, 4, 9, 10)),
        small(RNG, (16, 4, 3, 3), "float32", -2, 3),
        small(RNG, (24, 16, 1, 1), "float32", -2, 3),
    )
    X, V, W = (te.placeholder(a.shape, name=n) for a, n in ((x, "X"), (v, "V"), (w, "W")))
    out = ops.conv2d(ops.relu(ops.conv2d(X, V, padding=1)), W)
    want = images.conv(np.maximum(images.conv(x, v, padding=1), 0), w)
    exact(tl.compile([X, out], constants={V: v, W: w})(x), want, "float32")


@pytest.mark.parametrize(
    ("target", "register", "accumulators", "kernel", "width", "side"),
    [
        (AVX2, "ymm", 12, 1, 24, 1),
        (AVX2, "ymm", 12, 3, 28, 3),
        (AVX2, "ymm", 12, 3, 24, 1),
        (AVX2, "ymm", 8, 3, 21, 3),
        (AVX2, "ymm", 10, 5, 27, 5),
        (AVX512, "zmm", 24, 3, 28, 3),
        *(pytest.param(AVX512, "zmm", 24, kernel, 24, 1, marks=LONG) for kernel in (1, 3)),
    ],
)
def test_the_inner_loop_is_fused_multiply_adds_without_stack_traffic(
    target, register, accumulators, kernel, width, side
):
    """One broadcast for each pixel and one load for each vector of outputs; all taps of a row in an
    iteration, unless tiles of pixels end with the row: their taps would share pixels, and LLVM spilled sums
    to keep them. So it did with tiles of 6 in rows of 21 and 27, where three pixels are always neighbours."""
    x, w = np.zeros((1, 64, width, width), "f4"), np.zeros((128, 64, kernel, kernel), "f4")
    X, W, B, out = declared(x, w, np.zeros(128, "f4"), padding=kernel // 2)
    asm = tl.build(
        default_schedule(out, target, constants=[W]), [X, B, out], target, constants={W: w}
    ).get_source("asm")
    body = inner_loop(asm, "vfmadd")
    fma = [x for x in body if "vfmadd" in x and register in x]
    assert len(fma) >= accumulators * side
    assert not [x for x in body if register in x and re.search(r"\(%r[sb]p", x)], "the register tile spills"
    # the rest counts, and finds the pixels of a tile of several rows
    assert len([x for x in body if register in x]) <= len(fma) * 7 / 4


def test_a_row_of_all_channels_lies_side_by_side_where_registers_are_few(monkeypatch):
    """Planes of 58 × 58 lie in as many pages as there are channels: 64 to 64 of 56 × 56 took 1.2 times as
    long."""
    monkeypatch.delenv("TENSORLANG_COST", raising=False)
    x, w = te.placeholder((1, 64, 56, 56), name="x"), te.placeholder((64, 64, 3, 3), name="w")
    tree = str(default_schedule(ops.relu(ops.conv2d(x, w, padding=1)), ZEN3, [w]).tree())
    assert re.search(r"conv2d.pad +float32\[1, 58, 64, 58\]", tree), tree


@pytest.mark.parametrize(("channels", "size", "loop"), [(128, 28, "ry"), (64, 56, "rc"), (512, 7, "rc")])
def test_a_panel_is_asked_for_in_the_outermost_loop_that_asks_for_few_lines(
    channels, size, loop, monkeypatch
):
    """Asked for with each tap it was panel after panel, eight of them ahead of 200 channels of 38 × 38."""
    monkeypatch.delenv("TENSORLANG_COST", raising=False)
    x = te.placeholder((1, channels, size, size), name="x")
    w = te.placeholder((channels, channels, 3, 3), name="w")
    s = default_schedule(ops.conv2d(x, w, padding=1), ZEN3, [w])
    asked = [p[1] for stage in s.stages for p in stage.state.prefetches]
    assert asked == [loop]


def test_a_processor_whose_vectors_lose_by_crossing_lines_takes_outputs_for_lanes(monkeypatch):
    """128 channels of 28 × 28 and of 56 × 56 at stride 2 took 1.35 and 1.5 times as long over rows on a Zen
    3."""
    monkeypatch.delenv("TENSORLANG_COST", raising=False)
    for size, stride in ((28, 1), (56, 2)):
        x = te.placeholder((1, 128, size, size), name="x")
        w = te.placeholder((128, 128, 3, 3), name="w")
        y = ops.conv2d(x, w, padding=1, stride=stride)
        for cores in (1, 2):
            s, why = scheduled([y], Target.parse(f"llvm -mcpu=znver3 -num-cores={cores}"), [w])
            assert "recipes.conv)" in why["conv2d"]
            # nor does it share rows out, each with a margin of its own
            assert re.search(r"conv2d.pad +float32\[1, (30|5[78]), 128, (30|5[78])\]", str(s.tree()))


def test_finished_pixels_are_turned_in_registers():
    x, w = np.empty((1, 64, 28, 28), "f4"), np.zeros((64, 64, 3, 3), "f4")
    X, W, B, out = declared(x, w, np.empty(64, "f4"), padding=1)
    s = default_schedule(out, AVX2, constants=[W])
    asm = tl.build(s, [X, B, out], AVX2, constants={W: w}).get_source("asm")
    assert len(re.findall(r"vp?unpck[lh]", asm)) >= 8


def test_strided_pixels_that_are_not_read_are_not_copied():
    X, W, _, out = declared(np.empty((1, 32, 28, 28), "f4"), np.empty((64, 32, 1, 1), "f4"), None, stride=2)
    func = str(tl.lower(default_schedule(out), [X, W, out]))
    shape = re.search(r"X\.global: float32\[([\d, ]+)\]", func)
    assert shape and math.prod(map(int, shape[1].split(","))) <= 32 * 14 * 14


@pytest.mark.parametrize("stride", [1, 2])
def test_pixels_of_many_channels_are_an_odd_number_of_lines_apart(stride):
    """A power of two apart, 13 pixels of a tile wanted the same set of 8 lines of the first cache: 2048
    channels of 7 × 7 took up to 1.2 times as long."""
    X, W, _, out = declared(
        np.empty((1, 2048, 7 * stride, 7 * stride), "f4"),
        np.empty((64, 2048, 1, 1), "f4"),
        None,
        stride=stride,
    )
    func = str(tl.lower(default_schedule(out, AVX512, constants=[W]), [X, W, out]))
    strides = re.search(r"X\.global: float32\[[\d, ]+\] strides \[([\d, ]+)\]", func)
    assert strides and int(strides[1].split(", ")[-2]) // 16 % 2 == 1, func[:500]


@pytest.mark.parametrize(("c", "o", "side", "stride"), [(64, 128, 56, 2), (160, 192, 17, 1), (48, 64, 29, 1)])
def test_blocks_that_are_transposed_in_vectors_end_with_a_tile(c, o, side, stride):
    """Three tiles of 13 pixels were computed as four, for 39 pixels are transposed in three vectors of 16."""
    X, W = te.placeholder((1, c, side, side), name="X"), te.placeholder((o, c, 3, 3), name="W")
    out = ops.conv2d(X, W, stride=stride, padding=1)
    for target in (AVX2, AVX512):
        tree = str(default_schedule([out], target, constants=[W]).tree())
        (again,) = re.findall(r"compute conv2d\.local +reads [^\n]*", tree)
        times = re.search(r"each element ([\d.]+) times", again)
        assert times is None or float(times[1]) <= 1.1


@pytest.mark.parametrize(("c", "o", "side", "stride"), [(128, 16, 14, 1), (64, 16, 30, 2), (96, 16, 35, 2)])
def test_tiles_of_one_vector_are_half_a_block(c, o, side, stride, monkeypatch):
    """Of 28 pixels, a block was one tile and a second one whose sums hardly anybody read: 16 to 16 channels of
    49 × 49 took 1.3 times as long."""
    X, W = te.placeholder((1, c, side, side), name="X"), te.placeholder((o, c, 3, 3), name="W")
    monkeypatch.delenv("TENSORLANG_COST")  # with the table that Zen 4 has
    target = "llvm -mtriple=x86_64-linux-gnu -mcpu=znver4 -num-cores=1"
    tree = default_schedule(ops.conv2d(X, W, stride=stride, padding=1), target, [W]).tree()
    assert re.search(r"storage conv2d\.local +\S+\[1, 24, 16\]", str(tree)), tree


def test_an_open_batch_takes_the_tiles_of_one_image():
    """Loops of known axes are counted in 32 bits, whatever other axes have: of 64 bits the tile was not known
    to be 48 pixels, and 84 of each were computed."""
    w = te.placeholder((64, 32, 3, 3), name="w")

    def tile(n):
        x = te.placeholder((n, 32, 28, 28), name="x")
        tree = default_schedule(ops.conv2d(x, w, padding=1), f"{AVX512} -num-cores=1", [w]).tree()
        return re.findall(r"storage (conv2d\S*) +(\S+\[.*\])", str(tree))

    assert tile(te.dim("n", 0, 10**9)) == tile(2)


@pytest.mark.parametrize(
    ("channels", "each", "groups", "kernel", "stride"),
    [(12, 136, 2, 1, 1), (136, 136, 4, 1, 1), (12, 120, 3, 3, 1), (12, 56, 4, 3, 2), (12, 100, 2, 1, 2)],
    ids=["few channels", "pixels", "margin", "stride", "stride of pixels"],
)
def test_groups_that_are_no_whole_number_of_tiles_are_computed_once(channels, each, groups, kernel, stride):
    """The last tile of a group's outputs reached into the next group: each tile computed all outputs of two
    groups, and shufflenet's layers took seven times as long."""
    x = small(RNG, (2, channels * groups, 7, 7))
    w, b = small(RNG, (each * groups, channels, kernel, kernel)), small(RNG, (each * groups,))
    options = {"padding": kernel // 2, "stride": stride, "groups": groups}
    exact(both(x, w, b, **options), np.maximum(images.conv(x, w, b, **options), 0), "float32")
    X, W, _, out = declared(x, w, b, **options)
    tree = str(default_schedule(out, constants=[W]).tree())
    times = [float(n) for n in re.findall(r"each element ([\d.]+) times", tree)]
    assert max(times, default=0) <= 2, tree


@pytest.mark.parametrize(
    ("channels", "outputs", "size", "kernel", "stride"),
    [
        (26, 208, (11, 12), 3, 1),
        (68, 54, (32, 17), 3, 1),
        (24, 58, (23, 25), 3, 2),
        (73, 217, (31, 28), 5, 2),
        (68, 54, (32, 16), 3, 1),
    ],
)
def test_sums_ask_for_no_mask_where_the_outputs_end_within_a_tile(channels, outputs, size, kernel, stride):
    """Neither where rows are whole tiles of pixels, nor where tiles run over the ends of rows; a mask for
    each product took 2.4 times as long."""
    X = te.placeholder((1, channels, *size), name="X")
    W = te.placeholder((outputs, channels, kernel, kernel), name="W")
    out, target = ops.conv2d(X, W, padding=kernel // 2, stride=stride), f"{AVX512} -num-cores=1"
    s = default_schedule(out, target, constants=[W])
    text = tl.build(s, [X, W, out], target=target).get_source("ir")
    sums = [x for x in text.splitlines() if re.search(r"(\S+\[[^=]*\]) = \1 \+ ", x)]
    assert len(sums) >= 8
    assert not [x for x in sums if "if_then_else" in x or "mask" in x]


def test_pages_that_are_found_beside_the_sums_do_not_make_an_image_far(monkeypatch) -> None:
    """The same convolution over rows where its table of costs says that looking for pages shows."""
    monkeypatch.delenv("TENSORLANG_COST", raising=False)

    def recipe(size: int, padding: int = 1) -> str:
        x, w = te.placeholder((1, 64, size, size), name="x"), te.placeholder((64, 64, 3, 3), name="w")
        y = ops.conv2d(x, w, padding=padding)
        _, why = scheduled([y], Target.parse("llvm -mcpu=sapphirerapids -num-cores=1"), (), ["winograd"])
        return why["conv2d"].rpartition("recipes.")[2].rstrip(")")

    with generic():
        assert [recipe(size) for size in (28, 56, 112)] == ["conv", "flat", "flat"]
    # a large one is near where rows of it are copied with their margin, and far where it is read as it lies
    assert [recipe(size) for size in (28, 56, 112)] == ["conv", "conv", "conv"]
    assert recipe(114, padding=0) == "flat"


SHARED = "llvm -mcpu=sapphirerapids -num-cores={}"


@pytest.mark.each_value
@pytest.mark.parametrize("cores", [2, 3, 4])
@pytest.mark.parametrize(
    ("channels", "outputs", "height", "width", "kernel", "options"),
    [
        (40, 32, 14, 14, 3, {"padding": 1}),
        (33, 40, 17, 13, 3, {"padding": 1, "stride": 2}),
        (24, 24, 11, 19, 5, {"padding": 2}),
        (48, 48, 21, 22, 3, {"padding": 2, "dilation": 2, "stride": (3, 2)}),
        (64, 70, 7, 7, 3, {"padding": 1}),
    ],
)
def test_threads_take_rows_of_the_image_with_a_margin_of_their_own(
    channels, outputs, height, width, kernel, options, cores
):
    x, w = small(RNG, (1, channels, height, width)), small(RNG, (outputs, channels, kernel, kernel))
    b = small(RNG, (outputs,))
    X, W, B, out = declared(x, w, b, **options)
    target = f"llvm -num-cores={cores}"
    want = np.maximum(images.conv(x, w, b, **options), 0)
    exact(tl.compile([X, B, out], target, constants={W: w})(x, b), want, "float32")
    exact(tl.compile([X, W, B, out], target)(x, w, b), want, "float32")


def test_what_a_thread_reads_of_an_image_it_has_written():
    """The sums of 128 to 32 channels took as long on two threads as on one, where one of them had put the margin
    around the image: each share of rows has a margin of its own now, and computes the pixels of no other share."""
    x, w = te.placeholder((1, 128, 14, 14), name="x"), te.placeholder((32, 128, 3, 3), name="w")
    tree = str(
        default_schedule(ops.relu(ops.conv2d(x, w, padding=1)), as_target(SHARED.format(2)), [w]).tree()
    )
    assert re.search(r"conv2d.pad +float32\[1, 128, (9|10), 16\]", tree), tree
    assert re.search(r"relu.local +float32\[1, 98, 32\]", tree), tree
    assert tree.count("parallel") == 1, tree
    one = str(
        default_schedule(ops.relu(ops.conv2d(x, w, padding=1)), as_target(SHARED.format(1)), [w]).tree()
    )
    assert re.search(r"conv2d.pad +float32\[1, 128, 16, 16\]", one), one


def test_one_thread_reads_rows_of_a_large_image_from_a_copy_that_is_near():
    """A few pixels of every channel of 32 to 64 channels of 150 × 150 came from behind the second cache: 1.45
    times the time."""
    x, w = te.placeholder((1, 32, 150, 150), name="x"), te.placeholder((64, 32, 3, 3), name="w")
    out, target = ops.relu(ops.conv2d(x, w, padding=1)), as_target(SHARED.format(1))
    tree = str(default_schedule(out, target, [w]).tree())
    rows = re.search(r"conv2d.pad +float32\[1, 32, (\d+), 152\]", tree)
    assert rows and 32 * int(rows[1]) * 152 * 4 <= target.l2_bytes // 2, tree


def test_a_kernel_is_scheduled_for_the_threads_that_run_it(monkeypatch):
    import tensorlang.recipes as recipes

    seen, scheduled_by = [], recipes.scheduled
    monkeypatch.setattr(
        recipes, "scheduled", lambda o, t, *others: (seen.append(t.num_cores), scheduled_by(o, t, *others))[1]
    )
    x = te.placeholder((4, 8), name="x")
    before, other = tl.num_threads(), "llvm -mcpu=haswell -num-cores=6"
    try:
        tl.set_num_threads(1)
        tl.compile([x, ops.relu(x)])
        tl.compile([x, ops.relu(x)], other)
        tl.set_num_threads(1024)
        tl.compile([x, ops.relu(x)])
    finally:
        tl.set_num_threads(before)
    assert seen == [1, 6, tl.Target.host().num_cores]


def test_patches_are_summed_line_by_line_and_a_far_image_comes_once(monkeypatch):
    """A loop over the three channels was innermost, and each panel of outputs brought the whole image."""
    monkeypatch.delenv("TENSORLANG_COST", raising=False)
    x, w = te.placeholder((1, 3, 224, 224), name="x"), te.placeholder((64, 3, 16, 16), name="w")
    y = ops.conv2d(x, w, stride=16)
    for constants, first in (([w], "y.x.fused.outer.o.outer"), ([], "o.outer")):
        tree = str(default_schedule(y, ZEN3, constants).tree())
        assert re.search(r"rc .*\n.*ry .*\n.*rx.outer .*\n.*rx.inner +0..4 +reduce +unrolled", tree), tree
        assert re.search(rf"loop conv2d\.(n\.)?{re.escape(first)}\S* .*parallel", tree), tree


@pytest.mark.parametrize("target", [AVX512, AVX2])
def test_what_is_added_element_by_element_is_read_in_vectors_of_pixels(target):
    """The other branch of a residual layer lies as the output does; lane by lane it was half of the code."""
    x, w, r, b = (
        te.placeholder(n, "float32", name)
        for n, name in (
            ((1, 64, 14, 14), "x"),
            ((64, 64, 3, 3), "w"),
            ((1, 64, 14, 14), "r"),
            ((64, 1, 1), "b"),
        )
    )
    out = ops.relu(ops.add(ops.add(ops.conv2d(x, w, padding=1), b), r))
    s, _ = scheduled([out], Target.parse(target), [w, b])
    lines = str(s.tree()).splitlines()
    reads = next(n for n in lines if " r," in n or n.rstrip().endswith(" r") or "reads r" in n)
    assert "compute relu " in reads  # and not the strip that is transposed
    rng = np.random.default_rng(3)
    values = [rng.integers(-3, 4, [int(n) for n in t.shape]).astype("float32") for t in (x, w, r, b)]
    plain = tl.compile([x, w, ops.conv2d(x, w, padding=1)], without=["winograd"])(*values[:2])
    made = tl.compile([x, r, out], constants={w: values[1], b: values[3]}, without=["winograd"])
    exact(made(values[0], values[2]), np.maximum(plain + values[3] + values[2], 0), "float32")
