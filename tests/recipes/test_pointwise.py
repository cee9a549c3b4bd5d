"""The recipe for convolutions of single pixels of known sizes: right bit for bit on odd shapes, whole vectors
of pixels in its sums, and left alone where vectors of outputs take less time."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.analysis import conv_of
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import default_schedule
from tensorlang.recipes.pointwise import _evenly, _tile
from tensorlang.target import as_target
from tests.codegen.test_assembly import AVX2, AVX512, IN_VECTORS, NEON, inner_loop
from tests.ops import images
from tests.ops.arrays import exact
from tests.ops.images import small
from tests.recipes.long import LONG
from tests.recipes.test_conv import both, declared

RNG = np.random.default_rng(12)
# (images, channels, outputs, image, options): a rest of outputs, of vectors and of lanes; few outputs; strides
CASES = [
    (2, 5, 13, (7, 9), {}),
    (1, 8, 24, (1, 37), {}),
    (3, 6, 3, (29, 1), {}),
    (2, 7, 17, (11, 13), {"stride": (2, 3)}),
    (1, 4, 32, (16, 32), {"stride": 2}),
    (1, 16, 1, (5, 7), {}),  # a tile of one output, whose panel has no place within
    (2, 3, 1, (1, 19), {"stride": (1, 2)}),
    (2, 9, 21, (3, 7), {}),  # fewer pixels than a tile, and than a vector
    (1, 9, 40, (2, 3), {"stride": (1, 2)}),
    (1, 260, 120, (23, 29), {}),  # channels and outputs in pages of their own
]


@pytest.mark.parametrize(("n", "channels", "outputs", "image", "options"), CASES, ids=str)
def test_odd_shapes(n, channels, outputs, image, options):
    x, w = small(RNG, (n, channels, *image)), small(RNG, (outputs, channels, 1, 1))
    b = small(RNG, (outputs,))
    exact(both(x, w, b, **options), np.maximum(images.conv(x, w, b, **options), 0), "float32")


@pytest.mark.parametrize(("op", "image"), [(ops.conv1d, (53,)), (ops.conv3d, (3, 5, 7))], ids=["1d", "3d"])
def test_one_and_three_dimensions(op, image):
    x, w = small(RNG, (2, 6, *image), "float64"), small(RNG, (11, 6, *[1] * len(image)), "float64")
    exact(both(x, w, None, op=op), np.maximum(images.conv(x, w), 0), "float64")


def schedule(target, channels, outputs, height, **options):
    x, w = np.zeros((1, channels, height, height), "f4"), np.zeros((outputs, channels, 1, 1), "f4")
    X, W, B, out = declared(x, w, np.zeros(outputs, "f4"), **options)
    return default_schedule(out, target, constants=[W]), [X, W, B, out]


@IN_VECTORS
@pytest.mark.parametrize("stride", [1, 2])
def test_sums_are_whole_vectors_in_registers(target, register, fma, stack, stride):
    s, args = schedule(target, 32, 24, 28 * stride, stride=stride)
    asm = tl.build(s, args, target=target).get_source("asm")
    body = inner_loop(asm, fma)
    assert len([x for x in body if fma in x and re.search(rf"\b{register}\d", x)]) >= 12
    assert not [x for x in body if re.search(stack, x) or "div" in x or "gather" in x]
    assert not re.search(r"vfmadd\w+ss|fmadd\ts", asm), "a sum of one lane"


@pytest.mark.parametrize(("height", "stride"), [(6, 1), (5, 1), (5, 2)])
def test_sums_of_few_pixels_are_whole_vectors_in_registers(height, stride):
    """Of an image that a tile is larger than, masks of its last lanes kept the sums in memory."""
    s, args = schedule(AVX512, 76, 366, height * stride, stride=stride)
    body = inner_loop(tl.build(s, args, target=AVX512).get_source("asm"), "vfmadd")
    assert len([x for x in body if "vfmadd" in x and "zmm" in x]) >= 12
    assert not [x for x in body if re.search(r"\(%r[sb]p", x) or "{%k" in x]


def test_channels_and_outputs_far_apart_are_read_side_by_side_and_written_in_runs():
    """Each in a page of its own: 256 channels of 56 × 56 are copied for a few tiles at a time, of which a block
    of outputs is computed for several in turn. Channels and outputs that are near are not."""
    (s, args), (near, _) = schedule(AVX512, 256, 128, 56), schedule(AVX512, 64, 64, 28)
    text = str(tl.lower(s, args))
    copied = re.search(r"X\.global: float32\[1, 256, (\d+)\]", text)
    tile = re.search(r"conv2d: float32\[1, \d+, (\d+)\] local", text)
    assert copied and tile and int(copied[1]) in [n * int(tile[1]) for n in range(2, 9)]
    assert "X.global" not in near.tree()


def test_neither_image_nor_result_is_transposed():
    s, args = schedule(AVX512, 64, 64, 28)
    assert not re.search(r"X\.global|relu\.local", s.tree())


def test_where_vectors_of_pixels_would_be_empty_vectors_are_of_outputs():
    """49 pixels are 4 vectors of 16, of which one holds a single pixel."""
    s, _ = schedule(AVX512, 512, 512, 7)
    assert "relu.local" in s.tree()


def test_strided_pixels_that_are_not_read_are_not_copied():
    s, args = schedule(AVX512, 32, 64, 28, stride=2)
    shape = re.search(r"X\.global: float32\[([\d, ]+)\]", str(tl.lower(s, args)))
    assert shape and math.prod(map(int, shape[1].split(","))) <= 32 * 14 * 14


def test_one_output_of_a_constant_weight():
    """Its panels are one row wide."""
    X, W = te.placeholder((1, 16, 4), name="X"), te.placeholder((1, 16, 1), name="W")
    x, w = (RNG.integers(-2, 3, s).astype("float32") for s in ((1, 16, 4), (1, 16, 1)))
    found = tl.compile([X, W, ops.conv1d(X, W)], constants={W: w})(x)
    assert np.array_equal(found, np.einsum("bcn,oc->bon", x, w[..., 0]))


@pytest.mark.parametrize(
    ("n", "channels", "outputs", "width", "taps", "options"),
    [
        (2, 5, 11, 53, 3, {"padding": 1}),
        (1, 3, 7, 100, 5, {"stride": 3}),
        (2, 4, 6, 61, 4, {"stride": 2, "padding": ((1, 2),)}),
        (1, 6, 9, 40, 3, {"dilation": 4, "padding": 4}),
    ],
    ids=str,
)
def test_windows_in_one_row(n, channels, outputs, width, taps, options):
    x, w = small(RNG, (n, channels, width)), small(RNG, (outputs, channels, taps))
    b = small(RNG, (outputs,))
    got = both(x, w, b, op=ops.conv1d, **options)
    exact(got, np.maximum(images.conv(x, w, b, **options), 0), "float32")


@pytest.mark.parametrize(("target", "register"), [(AVX2, "ymm"), (AVX512, "zmm")], ids=["avx2", "avx512"])
@pytest.mark.parametrize("stride", [1, 2])
def test_sums_of_windows_in_one_row_are_whole_vectors_in_registers(target, register, stride):
    x, w = np.zeros((1, 16, 600), "f4"), np.zeros((48, 16, 3), "f4")
    X, W, B, out = declared(x, w, np.zeros(48, "f4"), op=ops.conv1d, padding=1, stride=stride)
    s = default_schedule(out, target, constants=[W])
    asm = tl.build(s, [X, W, B, out], target=target).get_source("asm")
    body = inner_loop(asm, "vfmadd")
    assert len([x for x in body if "vfmadd" in x and register in x]) >= 12
    assert not [x for x in body if re.search(r"\(%r[sb]p", x) or "div" in x or "gather" in x]
    assert "relu.local" not in s.tree() and not re.search(r"vfmadd\w+ss", asm)


@pytest.mark.parametrize("count", [1, 3])
def test_vectors_of_pixels_run_over_the_ends_of_rows_and_of_planes(count):
    """Of three and four axes counted as one as of two: rows of 29 in planes of 19 were gathered."""
    x, w = small(RNG, (count, 3, 6, 19, 29)), small(RNG, (7, 3, 1, 1, 1))
    exact(both(x, w, None, op=ops.conv3d), np.maximum(images.conv(x, w), 0), "float32")
    X, W = te.placeholder(x.shape, name="X"), te.placeholder(w.shape, name="W")
    asm = tl.compile([X, W, ops.conv3d(X, W)], target=AVX512).get_source("asm")
    assert "gather" not in asm and "zmm" in asm and not re.search(r"vpmul|vfmadd\w+ss", asm)


@pytest.mark.parametrize("target", [AVX2, AVX512], ids=["avx2", "avx512"])
@pytest.mark.parametrize(
    ("channels", "outputs", "image"),
    [(64, 56, (48, 2)), (64, 56, (31, 3)), (28, 45, (2, 28)), (64, 56, (24, 5)), (33, 40, (7, 12))],
    ids=str,
)
def test_pixels_over_the_ends_of_rows_are_neighbours(channels, outputs, image, target):
    """Whole rows that were taken out of a pixel's quotient do not part it from its remainder: each pixel was
    gathered, at 2.6 times the time."""
    X, W = (
        te.placeholder((1, channels, *image), name="X"),
        te.placeholder((outputs, channels, 1, 1), name="W"),
    )
    out = ops.conv2d(X, W)
    s = default_schedule(out, target, constants=[W])
    asm = tl.build(s, [X, W, out], target=target).get_source("asm")
    assert not re.search(r"\tv\w*(gather|scatter)", asm)


def test_an_image_of_one_row_has_its_outputs_side_by_side():
    """The axis of one row was once taken for that of the outputs: a loop over outputs around two sums, and
    half the speed."""
    x, w = np.zeros((1, 60, 1, 80), "f4"), np.zeros((120, 60, 1, 1), "f4")
    X, W, B, out = declared(x, w, np.zeros(120, "f4"))
    f = tl.build(default_schedule(out, AVX2, [W]), [X, W, B, out], AVX2, constants={W: w}, load=False)
    assert len([line for line in inner_loop(f.get_source("asm"), "vfmadd") if "vfmadd" in line]) >= 8


def test_a_last_run_of_tiles_is_nearly_full():
    """11 tiles in runs of ten were once computed as 20: a third of the speed; 7 in runs of four as 8."""
    assert [_evenly(tiles, 10, 1) for tiles in (10, 11, 20, 21, 61)] == [10, 11, 10, 7, 9]
    assert _evenly(5, 1, 1) == 1 and _evenly(7, 4, 1) == 7
    for tiles in range(1, 100):
        run = _evenly(tiles, 8, 1)
        assert 4 < run < 16 and -(-tiles // run) * run - tiles < run


@pytest.mark.parametrize(("channels", "width", "taps", "dilation"), [(128, 700, 3, 4), (100, 610, 7, 1)])
def test_threads_with_runs_of_their_own_have_the_same_to_do(channels, width, taps, dilation):
    """11 tiles in runs of four were once shared out as 8 and 3: two threads took as long as one."""
    X = te.placeholder((1, channels, width), name="X")
    W = te.placeholder((channels, channels, taps), name="W")
    margin = dilation * (taps - 1)
    out = ops.conv1d(X, W, padding=margin // 2, dilation=dilation)
    tree = str(default_schedule(out, f"{AVX512} -num-cores=2", [W]).tree())
    own = re.search(rf"0\.\.2  parallel\n +├─ storage conv1d.pad +float32\[1, {channels}, (\d+)\]", tree)
    assert own and int(own[1]) - margin <= 4 / 3 * width / 2, tree


@pytest.mark.parametrize(
    ("count", "channels", "outputs", "image", "stride"),
    [(1, 40, 130, (14, 14), 1), (3, 24, 200, (7, 7), 1), (2, 33, 97, (13, 9), 2), (1, 130, 260, (5, 37), 1)],
    ids=str,
)
def test_a_weight_at_the_call_is_read_where_it_lies(count, channels, outputs, image, stride):
    """Beside pixels in whole vectors: no copy of the weight, and the last tile is as wide as there are."""
    x, w = small(RNG, (count, channels, *image)), small(RNG, (outputs, channels, 1, 1))
    exact(both(x, w, None, stride=stride), np.maximum(images.conv(x, w, stride=stride), 0), "float32")


@pytest.mark.parametrize("cores", [1, 2])
def test_the_last_tile_of_a_copied_image_is_one_vector(cores):
    """Of 13, in tiles of two or three: others, whose lanes were all masked, were computed with it."""
    target = f"llvm -mcpu=emeraldrapids -num-cores={cores}"
    X, W, B, out = declared(*(np.zeros(n, "f4") for n in ((1, 1008, 14, 14), (256, 1008, 1, 1), 256)))
    text = str(tl.lower(default_schedule(out, target), [X, W, B, out]))
    assert "W.global" not in text and "X.global" in text
    loops = [nest.partition("relu[")[0] for nest in text.split("for rc in ")[1:]]
    assert loops and not any("mask" in nest for nest in loops)
    assert min(nest.count("] = conv2d[0, 0, ") for nest in loops) == 1
    short = str(tl.lower(default_schedule(out, AVX2), [X, W, B, out]))
    assert "W.global" in short


@pytest.mark.parametrize("size", [(4, 20, 20), (3, 4, 12), (2, 8, 6), (4, 14, 14)], ids=str)
def test_pixels_of_volumes_are_read_as_they_lie(size: tuple[int, int, int]) -> None:
    """A plane of a whole number of vectors lost the plane to a scalar, and row and column were gathered."""
    x = te.placeholder((2, 5, *size), name="x")
    w = te.placeholder((7, 5, 1, 1, 1), name="w")
    y = ops.conv3d(x, w)
    for target in (AVX2, AVX512):
        assert "gather" not in tl.compile([x, w, y], target=target).get_source("asm")
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-4, 5, [int(str(n)) for n in t.shape]).astype("float32") for t in (x, w))
    want = np.einsum("nczyx,oc->nozyx", a, b[:, :, 0, 0, 0])
    for target in (None, AVX2):
        assert np.array_equal(tl.compile([x, w, y], target=target)(a, b), want)


def test_each_thread_copies_what_a_stride_picks_for_its_own_tiles():
    """All threads copied it together and waited for each other's lines: two took as long as one. In a part
    that begins at a later row pixels were gathered, for a quotient less a number is no quotient."""
    x, w = small(RNG, (1, 20, 43, 43)), small(RNG, (48, 20, 1, 1))
    X, W, _, out = declared(x, w, None, relu=False, stride=2)
    target = f"{AVX512} -num-cores=2"
    s = default_schedule(out, target, [W])
    tree = str(s.tree())
    assert re.search(r"0\.\.2  parallel\n +├─ storage X", tree) and tree.count("parallel") == 1, tree
    f = tl.build(s, [X, W, out], target=target)
    assert "gather" not in f.get_source("asm")
    exact(both(x, w, None, stride=2), np.maximum(images.conv(x, w, stride=2), 0), "float32")


@pytest.mark.each_value
@pytest.mark.parametrize("cores", [2, 3])
@pytest.mark.parametrize(
    ("channels", "outputs", "width", "taps", "by_outputs"),
    [
        (3, 67, 143, 9, True),
        (2, 104, 210, 9, None),
        (3, 40, 300, 9, None),
        (5, 117, 56, 3, None),
        # the interpreter takes as long as there are channels
        pytest.param(41, 117, 56, 3, None, marks=LONG),
        pytest.param(23, 67, 143, 9, True, marks=LONG),
        pytest.param(16, 104, 210, 9, None, marks=LONG),
        pytest.param(100, 40, 300, 9, None, marks=LONG),
    ],
)
def test_threads_share_few_tiles_of_a_line_evenly(
    channels, outputs, width, taps, by_outputs, cores, monkeypatch
):
    """Of five tiles of pixels one thread had three and the other two: tiles are chosen for threads, or those
    share outputs out, each with the whole line."""
    monkeypatch.delenv("TENSORLANG_COST", raising=False)
    x, w = small(RNG, (1, channels, width)), small(RNG, (outputs, channels, taps))
    X, W = te.placeholder(x.shape, name="X"), te.placeholder(w.shape, name="W")
    out = ops.conv1d(X, W, padding=taps // 2)
    target = f"llvm -mcpu=znver4 -num-cores={cores}"
    s = default_schedule(out, target)
    tree = str(s.tree())
    shared = re.search(r"loop conv1d\.(\w)\.\S+ +0\.\.(\d+)  parallel", tree)
    assert shared and int(shared[2]) == cores, tree
    if cores == 2 and by_outputs is not None:
        assert (shared[1] == "o") is by_outputs, tree
    func, want = tl.lower(s, [X, W, out]), images.conv(x, w, padding=taps // 2)
    got = np.zeros(want.shape, "float32")
    interpret(func, x, w, got)
    exact(got, want, "float32")
    f = tl.build(default_schedule(out, f"{AVX512} -num-cores={cores}"), [X, W, out], AVX512)
    exact(f(x, w), want, "float32")


@pytest.mark.parametrize("images", [2, 8])
def test_images_for_every_thread_are_one_thread_each(images):
    """Two parallel loops for each of them took longer than one thread does."""
    x, w = te.placeholder((images, 12, 301), name="x"), te.placeholder((24, 12, 3), name="w")
    out = ops.conv1d(x, w, stride=2, padding=1)
    s = default_schedule(out, "llvm -num-cores=2")
    loops = [line for line in str(s.tree()).splitlines() if "parallel" in line]
    assert len(loops) == 1 and "n " in loops[0]
    rng = np.random.default_rng(images)
    a, b = (rng.integers(-3, 4, [int(str(d)) for d in t.shape]).astype("float32") for t in (x, w))
    (right,) = te.reference.evaluate([out], {x: a, w: b})
    assert np.array_equal(tl.compile([x, w, out], target="llvm -num-cores=2")(a, b), right)


@pytest.mark.parametrize(("channels", "most"), [(1024, 8), (1000, 28), (512, 16)])
def test_rows_of_a_weight_in_the_call_stay_in_the_first_cache(channels: int, most: int) -> None:
    """Rows of 1024 channels lie in the places of one set: tiles of 28 of them, for images of 4 × 4, took
    three times as long on a Zen 5, whose sets have 12."""
    x, w = te.placeholder((1, channels, 4, 4), name="x"), te.placeholder((128, channels, 1, 1), name="w")
    conv, target = conv_of(ops.conv2d(x, w).op), as_target("llvm -mcpu=znver4 -mtriple=x86_64-linux-gnu")
    assert conv is not None
    (here, _), (packed, _) = _tile(conv, target, fixed=False), _tile(conv, target, fixed=True)
    assert here <= most and packed > 16 and (here < packed) == (most < 28)


@pytest.mark.parametrize("rows", [20, 5, None], ids=str)
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(("channels", "outputs", "groups"), [(64, 24, 2), (48, 6, 6), (64, 40, 1)], ids=str)
def test_images_of_one_column_are_products(channels, outputs, groups, stride, rows):
    """Their last axis has one element, and no family knew few outputs of a group, or few pixels whose weight
    comes with the call: scalar loops, 4 to 100 times as long."""
    x = te.placeholder((2, channels, te.dim("h") if rows is None else rows, 1), name="x")
    w = te.placeholder((outputs, channels // groups, 1, 1), name="w")
    y = ops.conv2d(x, w, stride=(stride, 1), groups=groups)
    for constants in ({}, {w: small(RNG, (outputs, channels // groups, 1, 1))}):
        f = tl.compile([x, w, y], constants=constants)
        assert rows is None or not re.search("loop rc.*scalar", str(f.explain()))
        for n in (1, 7, 33) if rows is None else (rows,):
            a = small(RNG, (2, channels, n, 1))
            b = constants.get(w, small(RNG, (outputs, channels // groups, 1, 1)))
            want = images.conv(a, b, stride=(stride, 1), groups=groups)
            exact(f(a) if constants else f(a, b), want, "float32")


def test_rows_whose_weight_comes_with_the_call_are_not_packed_for_few_pixels():
    """What tiles of outputs want packed first was counted for images alone."""
    x, w = te.placeholder((1, 96, 16), name="x"), te.placeholder((576, 96, 7), name="w")
    y, target = ops.conv1d(x, w, padding=3), as_target("llvm -mcpu=znver5 -num-cores=1")
    assert "w.global" not in str(default_schedule(y, target).tree())
    assert "w.global" in str(default_schedule(y, target, [w]).tree())
