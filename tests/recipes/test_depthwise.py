"""The recipe for depthwise convolutions: right bit for bit on odd shapes, without masks or spills in its
sums."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import default_schedule
from tests.codegen.test_assembly import AVX2, AVX512, inner_loop
from tests.ops import images
from tests.ops.arrays import exact
from tests.ops.images import small

RNG = np.random.default_rng(9)


def declared(x, w, b, op=ops.conv2d, **options):
    X, W, B = (te.placeholder(a.shape, str(a.dtype), n) for a, n in ((x, "X"), (w, "W"), (b, "B")))
    return X, W, B, ops.relu(op(X, W, B, **options))


# (channels, outputs of each, height, width, kernel, options): rows shorter than a vector, with a rest, and
# exact
SHAPES = [
    (5, 1, 14, 14, (3, 3), {"padding": 1}),
    (5, 1, 14, 14, (3, 3), {"padding": 1, "stride": 2}),
    (4, 1, 7, 7, (3, 3), {"padding": 1}),
    (3, 2, 9, 17, (3, 3), {"padding": 1}),
    (3, 1, 11, 16, (3, 3), {}),
    (2, 1, 12, 31, (5, 5), {"padding": 2, "stride": (1, 2)}),
    (2, 3, 12, 13, (3, 2), {"padding": ((1, 0), (2, 1)), "dilation": (1, 2), "stride": 3}),
    (2, 1, 1, 300, (1, 3), {"padding": (0, 1)}),
    (2, 1, 9, 1, (3, 1), {"padding": (1, 0)}),
    (2, 1, 9, 9, (7, 7), {"padding": 3}),
    (2, 1, 11, 21, (7, 7), {"padding": 3, "stride": (1, 2)}),
    (2, 1, 13, 19, (11, 9), {"padding": ((5, 5), (4, 4))}),
    (2, 1, 23, 25, (7, 8), {"padding": 3, "stride": 3}),
    (2, 1, 1, 50, (1, 31), {"padding": (0, 15)}),
    (2, 1, 101, 151, (3, 3), {"padding": 1}),
    (2, 1, 101, 151, (5, 5), {"padding": 2, "stride": 3}),
    (2, 1, 113, 131, (3, 2), {"padding": ((2, 0), (1, 1)), "stride": (3, 2)}),
]


@pytest.mark.parametrize(("channels", "each", "height", "width", "kernel", "options"), SHAPES, ids=str)
def test_odd_shapes(channels, each, height, width, kernel, options):
    x, w = small(RNG, (2, channels, height, width)), small(RNG, (channels * each, 1, *kernel))
    b = small(RNG, (channels * each,))
    X, W, B, out = declared(x, w, b, groups=channels, **options)
    want = np.maximum(images.conv(x, w, b, groups=channels, **options), 0)
    exact(tl.compile([X, W, B, out])(x, w, b), want, "float32")
    exact(tl.compile([X, B, out], constants={W: w})(x, b), want, "float32")


@pytest.mark.parametrize("kernel, stride", [(3, 1), (5, 2), (5, (2, 1)), (7, 1), (9, 3)])
def test_an_open_batch_height_and_width(kernel, stride):
    n, h, v = te.var("n"), te.var("h"), te.var("v")
    w, b = small(RNG, (5, 1, kernel, kernel)), small(RNG, (5,))
    X, W, B = te.placeholder((n, 5, h, v), name="X"), te.placeholder(w.shape, name="W"), te.placeholder((5,))
    out = ops.relu(ops.conv2d(X, W, B, groups=5, padding=kernel // 2, stride=stride))
    f = tl.compile([X, B, out], constants={W: w})
    for shape in [(1, 1, 1), (1, 2, 3), (2, 3, 16), (1, 4, 17), (3, 9, 40), (1, 21, 66), (0, 4, 4)]:
        x = small(RNG, (shape[0], 5, *shape[1:]))
        want = images.conv(x, w, b, groups=5, padding=kernel // 2, stride=stride)
        exact(f(x, b), np.maximum(want, 0), "float32")


def test_an_open_row_that_is_always_short():
    b, n = te.dim("b", 1, 64), te.dim("n", 20, 25)
    w, bias = small(RNG, (5, 1, 4)), small(RNG, (5,))
    X, W, B = te.placeholder((b, 5, n), name="X"), te.placeholder(w.shape, name="W"), te.placeholder((5,))
    f = tl.compile([X, W, B, ops.relu(ops.conv1d(X, W, B, groups=5, padding=3))])
    for shape in [(1, 20), (3, 25)]:
        x = small(RNG, (shape[0], 5, shape[1]))
        exact(f(x, w, bias), np.maximum(images.conv(x, w, bias, groups=5, padding=3), 0), "float32")


def of_open_sizes(kernel, stride):
    """The assembly of 64 channels of images of any size."""
    n, h, v = te.var("n"), te.var("h"), te.var("v")
    X, W = te.placeholder((n, 64, h, v), name="X"), te.placeholder((64, 1, kernel, kernel), name="W")
    s = default_schedule(ops.conv2d(X, W, groups=64, padding=kernel // 2, stride=stride), AVX512)
    return tl.build(s, [X, W, s.outputs[0].output(0)], target=AVX512).get_source("asm")


@pytest.mark.each_value
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("padding", [0, 1])
def test_open_rows_shorter_than_a_vector_are_not_gathered(stride, padding):
    """Lanes behind the end of a row are read from padded memory as they come, from an image by masked loads;
    every sum of a padded one stays as it is in the versions for few rows."""
    n, h, v = te.var("n"), te.var("h"), te.var("v")
    X = te.placeholder((n, 8, h, v), name="X")
    out = ops.max_pool2d(X, 3, stride=stride, padding=padding)
    s = default_schedule(out, AVX2)
    text = str(tl.lower(s, [X, out]))
    assert padding == 0 or not re.search(r"if_then_else\(.*max_pool2d\.pad\[", text)
    assert "gather" not in tl.build(s, [X, out], target=AVX2).get_source("asm")
    f = tl.compile([X, out])
    for shape in [(1, 8, 3, 3), (2, 8, 7, 7), (1, 8, 4, 14), (1, 8, 13, 6), (1, 8, 9, 40)]:
        x = small(RNG, shape)
        edge = ((0, 0), (0, 0), (padding, padding), (padding, padding))
        wide = np.pad(x, edge, constant_values=-np.inf)
        want = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (2, 3))[:, :, ::stride, ::stride]
        exact(f(x), want.max((4, 5)), "float32")


@pytest.mark.parametrize("stride", [1, 2])
def test_open_rows_of_half_a_vector_have_loops_of_their_own(stride):
    """Of vectors of 8: rows of 7 took the time of 16. What lies behind a row is more of its margin, and the
    one vector of a row is no loop."""
    h, v = te.dim("h"), te.dim("v")
    X = te.placeholder((1, 8, h, v), name="X")
    out = ops.max_pool2d(X, 3, stride=stride, padding=1)
    ir = tl.compile([X, out], target=AVX512).get_source("ir")
    short, _, long = ir.partition("    elif ")
    assert f"if v <= {8 * stride}:" in short and "0 : 16]" not in short and "0 : 16]" in long
    assert "for x.outer" not in short and "for x.outer" in long
    assert "x8(0.0)" not in short and "x16(0.0)" not in long


@pytest.mark.parametrize(("kernel", "stride", "padding"), [(2, 2, 0), (3, 2, 1), (3, 1, 1)])
def test_tiles_of_open_images_have_no_masks_but_in_small_ones(kernel, stride, padding):
    """A last tile begins earlier, so that sizes alone say whether one is whole: asked once for all loops."""
    h, v = te.dim("h"), te.dim("v")
    X = te.placeholder((1, 8, h, v), name="X")
    out = ops.max_pool2d(X, kernel, stride, padding)
    nests = str(tl.lower(default_schedule(out, AVX512), [X, out])).split("parallel(")
    whole = [
        text for text in nests[1:] if not re.search(r"\] = .* if mask", text.partition("max_pool2d[")[2])
    ]
    assert len(nests) == 3 and len(whole) == 1
    tiles = whole[0][whole[0].index("for y.outer") :]
    assert "if " not in tiles.partition("\n    el")[0]
    f = tl.compile([X, out])
    for shape in [(1, 8, 3, 3), (1, 8, 2, 90), (1, 8, 90, 2), (1, 8, 16, 31), (1, 8, 61, 67), (1, 8, 5, 33)]:
        x = small(RNG, shape)
        exact(f(x), images.pool(x, "max", kernel, stride, padding), "float32")


@pytest.mark.parametrize("padding", [(1, 0), (0, 2), (0, 0)])
def test_an_open_row_without_a_margin(padding):
    """Behind its end there is nothing that could be read as more margin: the schedule was refused."""
    v = te.var("v")
    X, W = te.placeholder((1, 16, 14, v), name="X"), te.placeholder((16, 1, 3, 3), name="W")
    f = tl.compile([X, W, ops.conv2d(X, W, groups=16, stride=(1, 3), padding=padding)])
    w = small(RNG, (16, 1, 3, 3))
    for wide in (3, 5, 8, 9, 17, 40):
        x = small(RNG, (1, 16, 14, wide))
        exact(f(x, w), images.conv(x, w, groups=16, stride=(1, 3), padding=padding), "float32")


@pytest.mark.parametrize("stride", [1, 2])
def test_open_sizes_are_summed_in_vectors_with_one_plane_of_memory(stride):
    asm = of_open_sizes(5, stride)
    assert "gather" not in asm and not re.search(r"vfmadd\w+ss", asm) and "vfmadd" in asm
    body = inner_loop(asm, "vfmadd")
    assert not [x for x in body if "div" in x]
    assert asm.count("tensorlang_alloc") == 2  # where all tiles are whole, and where one may not be


@pytest.mark.parametrize("stride", [1, 2])
def test_windows_of_many_taps_are_summed_in_vectors_where_they_overlap(stride):
    asm = of_open_sizes(11, stride)
    assert "gather" not in asm and not re.search(r"vfmadd\w+ss", asm)
    body = inner_loop(asm, "vfmadd")
    assert len([x for x in body if "vfmadd" in x]) == 4 * 11
    assert not [x for x in body if "div" in x or re.search(r"vmov\w+\s+%zmm\d+, .*\(%rsp\)", x)]


def test_mean_of_windows_side_by_side_keeps_its_rows():
    """Windows of many taps that do not overlap are no work for tiles of this recipe."""
    X = te.placeholder((1, 4, 56, 56), name="X")
    pooled = ops.avg_pool2d(X, 8, stride=8)
    text = str(tl.lower(default_schedule(pooled, AVX512), [X, pooled]))
    assert "x8(0.0)" in text and "X[0, c, y*8 + ry, x*8 : x*8 + 8]" in text


@pytest.mark.parametrize("types", ["float64", "int8", "float16"])
def test_dtypes(types):
    x, w, b = (
        small(RNG, (1, 3, 6, 7), types, -2, 3),
        small(RNG, (3, 1, 3, 3), types, -2, 3),
        small(RNG, (3,), types),
    )
    X, W, B, out = declared(x, w, b, groups=3, padding=1)
    exact(
        tl.compile([X, W, B, out])(x, w, b),
        np.maximum(images.conv(x, w, b, groups=3, padding=1), 0),
        "int32" if types == "int8" else types,
    )


def test_one_and_three_dimensions_and_a_symbolic_batch():
    n = te.var("n")
    for op, shape, kernel in [
        (ops.conv1d, (2, 3, 37), (3, 1, 3)),
        (ops.conv3d, (1, 3, 4, 5, 9), (3, 1, 3, 3, 3)),
    ]:
        x, w, b = small(RNG, shape), small(RNG, kernel), small(RNG, (3,))
        X, W, B = (
            te.placeholder((n, *shape[1:]), name="X"),
            te.placeholder(kernel, name="W"),
            te.placeholder((3,), name="B"),
        )
        f = tl.compile([X, B, ops.relu(op(X, W, B, groups=3, padding=1))], constants={W: w})
        exact(f(x, b), np.maximum(images.conv(x, w, b, groups=3, padding=1), 0), "float32")


@pytest.mark.parametrize("size", [(4, 7, 7), (5, 12, 13), (3, 27, 33)], ids=str)
@pytest.mark.parametrize("stride", [(1, 2, 2), 2, 3], ids=str)
def test_volumes_at_a_stride_have_the_taps_of_a_plane_written_out(size, stride):
    """27 taps are more than of any image that is taken at a stride that leaves out what they see."""
    x, w, b = small(RNG, (2, 5, *size)), small(RNG, (5, 1, 3, 3, 3)), small(RNG, (5,))
    options = {"groups": 5, "padding": 1, "stride": stride}
    X, W, B, out = declared(x, w, b, ops.conv3d, **options)
    f = tl.compile([X, W, B, out])
    assert "depthwise" in str(f.explain())
    exact(f(x, w, b), np.maximum(images.conv(x, w, b, **options), 0), "float32")


def test_one_image_written_by_hand_is_known_by_its_shape():
    """No batch, no tag: the taps are written out around rows of vectors."""
    X, W = te.placeholder((5, 12, 20), name="X"), te.placeholder((5, 3, 3), name="W")
    y, x = te.reduce_axis((0, 3), "y"), te.reduce_axis((0, 3), "x")
    C = te.compute(
        (5, 10, 18), lambda c, i, j: te.sum(X[c, i + y, j + x] * W[c, y, x], axis=[y, x]), name="C"
    )
    text = str(tl.lower(default_schedule(C, AVX2), [X, W, C]))
    assert "for y" not in text and "for x" not in text
    a, w = small(RNG, (5, 12, 20)), small(RNG, (5, 3, 3))
    exact(tl.compile([X, W, C])(a, w), images.conv(a[None], w[:, None], groups=5)[0], "float32")


@pytest.mark.parametrize("stride", [1, 2])
def test_rows_of_sums_are_in_registers_and_one_plane_is_padded_at_a_time(stride):
    x, w, b = np.zeros((1, 64, 32, 32), "f4"), np.zeros((64, 1, 3, 3), "f4"), np.zeros(64, "f4")
    X, W, B, out = declared(x, w, b, groups=64, stride=stride, padding=1)
    s = default_schedule(out, AVX2, constants=[W])
    assert re.search(
        r"conv2d\.pad: float32\[1, 1, 3[34], 1, \d+\]", str(tl.lower(s, [X, B, out], constants=[W]))
    )
    body = inner_loop(tl.build(s, [X, B, out], AVX2, constants={W: w}).get_source("asm"), "vfmadd")
    sums = [line for line in body if re.search(r"vf(n?m)(add|sub)\w+ps", line)]
    assert len(sums) + sum("vmulps" in line for line in body) >= 36  # four rows of nine taps
    assert not [line for line in body if "vmaskmov" in line]
    # nine weights and four sums leave three registers; the shuffles that thin out a stride of 2 want one more
    assert len([line for line in body if re.search(r"vmov\w+\s+%ymm\d+, .*\(%rsp\)", line)]) < stride, (
        "sums are spilled"
    )


@pytest.mark.parametrize("kernel, stride", [(3, 1), (3, 2), (3, 3), (5, 3)])
def test_of_a_plane_beyond_the_first_cache_a_strip_is_padded_at_a_time(kernel, stride):
    X, W = te.placeholder((1, 16, 224, 224), name="X"), te.placeholder((16, 1, kernel, kernel), name="W")
    options = {"stride": stride, "padding": kernel // 2}
    pools = [ops.max_pool2d(X, kernel, **options), ops.avg_pool2d(X, kernel, **options)]
    if 2 * kernel <= 3 * stride:  # their margin is no copy, but read as it is needed
        pools = []
    for args in (*([X, out] for out in pools), [X, W, ops.conv2d(X, W, groups=16, **options)]):
        for target in (AVX2, AVX512):
            text = str(tl.lower(default_schedule(args[-1], target), args))
            rows = re.search(r"\.pad: float32\[1, 1, (\d+), 1, \d+\]", text)
            assert rows and int(rows[1]) < 8 * stride + kernel, text


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("wide", [7, 11, 14, 27])
def test_the_rest_of_a_row_is_one_vector_where_masks_are_free(wide, stride):
    """Rows of 7 pixels were vectors of 4 and 2 and 1 of them: 1.6 times the time."""
    X, W = te.placeholder((1, 32, 9, wide * stride), name="X"), te.placeholder((32, 1, 3, 3), name="W")
    out = ops.conv2d(X, W, groups=32, padding=1, stride=stride)
    s = default_schedule(out, AVX512, constants=[W])
    sums = [
        line
        for line in str(tl.lower(s, [X, out], constants=[W])).splitlines()
        if re.match(r"\s*(conv2d\.local\[\S+ .*) = \1 \+ ", line)
    ]
    assert sums and not [x for x in sums if " : " not in x.partition("=")[0]]
    lanes = {m[1] for x in sums for m in [re.search(r"\* x(\d+)\(", x)] if m}
    assert lanes <= {"8", "16"}, lanes


@pytest.mark.parametrize(
    "kernel, stride, high", [(2, 2, 1), (3, 3, 1), (3, 4, 1), ((3, 2), (3, 1), 1), (3, 1, None), (2, 1, None)]
)
def test_windows_that_share_no_row_are_computed_row_by_row(kernel, stride, high):
    X = te.placeholder((1, 3, 25, 70), name="X")
    out = ops.max_pool2d(X, kernel, stride=stride)
    for target in (AVX2, AVX512):
        text = str(tl.lower(default_schedule(out, target), [X, out]))
        heights = set(re.findall(r"local: float32\[1, 1, (\d+), \d+\]", text))
        assert (heights == {"1"}) is (high == 1), text
    x = small(RNG, (1, 3, 25, 70))
    exact(tl.compile([X, out])(x), images.pool(x, "max", kernel, stride), "float32")


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("wide", [28, 61, 67])
def test_the_last_vector_of_a_longer_row_begins_earlier_and_has_no_mask(wide, stride):
    X, W = te.placeholder((1, 3, 9, wide * stride), name="X"), te.placeholder((3, 1, 3, 3), name="W")
    out = ops.conv2d(X, W, groups=3, padding=1, stride=stride)
    text = str(tl.lower(default_schedule(out, AVX512), [X, W, out]))
    stores = [line for line in text.splitlines() if re.match(r"\s*conv2d\[", line)]
    assert stores and not [line for line in stores if re.search(r" if |mask", line)]
    columns = re.search(r"conv2d\.pad: float32\[1, 1, \d+, 1, (\d+)\]", text)
    assert columns and int(columns[1]) <= wide * stride + 2
    x, w = small(RNG, (1, 3, 9, wide * stride)), small(RNG, (3, 1, 3, 3))
    exact(tl.compile([X, W, out])(x, w), images.conv(x, w, groups=3, padding=1, stride=stride), "float32")


@pytest.mark.each_value
@pytest.mark.parametrize("kernel, stride", [(3, 1), (3, 2), (5, 1), (7, 3)])
@pytest.mark.parametrize("wide, target", [(17, AVX512), (37, AVX512), (12, AVX2), (14, AVX2)])
def test_a_small_rest_of_a_row_is_a_shorter_vector_beside_the_others(wide, target, kernel, stride):
    """A row of 17 was two vectors of 16, or with AVX2 one of 14 was sums of 8, of 4 and of 2."""
    X = te.placeholder((1, 3, 9, wide * stride), name="X")
    W = te.placeholder((3, 1, kernel, kernel), name="W")
    out = ops.conv2d(X, W, groups=3, padding=kernel // 2, stride=stride)
    func = tl.lower(default_schedule(out, target), [X, W, out])
    text = str(func)
    if target is AVX512 or kernel > 2 * stride:
        columns = re.findall(r"conv2d\.local: float32\[1, 1, \d+, (\d+)\] local", text)
        assert (max(map(int, columns)) >= wide) is (wide != 14), text
        assert "gather" not in text
    x, w = small(RNG, (1, 3, 9, wide * stride)), small(RNG, (3, 1, kernel, kernel))
    want = images.conv(x, w, groups=3, padding=kernel // 2, stride=stride)
    got = np.zeros(want.shape, "float32")
    interpret(func, x, w, got)
    exact(got, want, "float32")
    exact(tl.compile([X, W, out], target=target)(x, w), want, "float32")


def behind(channels, height, width, kernel, *, stride=1, more=None):
    X = te.placeholder((2, channels, height, width), name="X")
    W = te.placeholder((channels, 1, kernel, kernel), name="W")
    y = ops.conv2d(X, W, groups=channels, padding=kernel // 2, stride=stride)
    return X, W, ops.silu(y if more is None else more(y))


@pytest.mark.parametrize("target", [AVX2, AVX512], ids=["avx2", "avx512"])
@pytest.mark.parametrize(("kernel", "size"), [(3, 14), (5, 7)])
def test_functions_behind_the_sums_are_computed_in_whole_vectors_of_the_plane(kernel, size, target):
    """Of the lanes at the end of each row nothing is computed, and the taps keep the registers."""
    X, W, out = behind(4, size, size, kernel)
    text = str(tl.lower(default_schedule(out, target, constants=[W]), [X, out], constants=[W]))
    plane = rf"conv2d: float32\[1, 1, {size}, {size}\]"
    (at,) = re.finditer(plane, text)
    functions = [m.start() for m in re.finditer(r"\bexp\(|\bsigmoid\(|\btanh\(", text)]
    assert functions and all(f > text.rindex("conv2d.local[") for f in functions)
    assert at.start() < text.index("conv2d.local[")


@pytest.mark.each_value
@pytest.mark.parametrize("size", [(7, 7), (14, 14), (9, 23), (1, 40)], ids=str)
@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2), (5, 1)])
def test_functions_behind_the_sums(size, kernel, stride):
    def rows(y):  # what differs from row to row
        B = te.placeholder((y.shape[2],), name="B")
        return te.compute(y.shape, lambda n, c, i, j: y[n, c, i, j] + B[i])

    for more in (None, lambda y: ops.add(y, ops.reshape(y, y.shape)), rows):
        X, W, out = behind(3, *size, kernel, stride=stride, more=more)
        x, w = small(RNG, (2, 3, *size)), small(RNG, (3, 1, kernel, kernel))
        y = images.conv(x, w, None, groups=3, padding=kernel // 2, stride=stride)
        given = [X, out]
        arrays = [x]
        if more is rows:
            B = next(t for t in te.graph.operations([out.op]) if t.name == "B").output(0)
            b = small(RNG, (y.shape[2],))
            y, given, arrays = y + b[:, None], [X, B, out], [x, b]
        elif more is not None:
            y = y + y
        want = y / (1 + np.exp(-y.astype("float64")))
        got = tl.compile(given, constants={W: w})(*arrays)
        np.testing.assert_allclose(got, want, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("target", [AVX2, AVX512], ids=["avx2", "avx512"])
@pytest.mark.parametrize(("length", "kernel"), [(30, 3), (50, 15)])
def test_functions_behind_the_sums_of_rows_with_a_margin(length, kernel, target):
    """A plane of one dimension has no strips in which it could be padded: an error was raised."""
    X = te.placeholder((2, 3, length), name="X")
    W = te.placeholder((3, 1, kernel), name="W")
    out = ops.silu(ops.conv1d(X, W, padding=kernel // 2, groups=3))
    x, w = small(RNG, (2, 3, length)), small(RNG, (3, 1, kernel))
    y = images.conv(x[:, :, None], w[:, :, None], None, groups=3, padding=(0, kernel // 2))[:, :, 0]
    want = y / (1 + np.exp(-y.astype("float64")))
    got = np.zeros(want.shape, "float32")
    interpret(tl.lower(default_schedule(out, target), [X, W, out]), x, w, got)
    np.testing.assert_allclose(got, want, rtol=2e-6, atol=1e-6)
    got = tl.compile([X, W, out], target=target)(x, w)
    np.testing.assert_allclose(got, want, rtol=2e-6, atol=1e-6)


@pytest.mark.each_value
@pytest.mark.parametrize("target", [AVX512, AVX2], ids=["avx512", "avx2"])
@pytest.mark.parametrize(
    ("height", "width", "kernel", "stride", "margin"),
    [
        (13, 37, (3, 3), 1, 0),
        (13, 37, (3, 3), 1, 1),
        (9, 16, (5, 4), 2, 1),
        (21, 50, (9, 9), 1, 4),
        (7, 8, (7, 7), 1, 3),
    ],
    ids=str,
)
def test_a_filter_of_one_image(height, width, kernel, stride, margin, target):
    """Filters of a grey image, without channels, were tiles of one row and took 1.4 to 1.7 times as long; and
    threads did not share the rows of a plane."""
    long, wide = (height - 1) * stride + kernel[0], (width - 1) * stride + kernel[1]
    X, W = te.placeholder((long - 2 * margin, wide - 2 * margin), name="X"), te.placeholder(kernel, name="W")
    image = ops.pad(X, ((margin, margin), (margin, margin))) if margin else X
    a, b = te.reduce_axis((0, kernel[0]), name="a"), te.reduce_axis((0, kernel[1]), name="b")
    taps = lambda y, x: te.sum(image[stride * y + a, stride * x + b] * W[a, b], axis=[a, b])
    sums = te.compute((height, width), taps, name="sums")
    out = te.compute((height, width), lambda y, x: te.exp(sums[y, x] / 64), name="out")
    x, w = small(RNG, (long - 2 * margin, wide - 2 * margin)), small(RNG, kernel)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, margin), kernel)[::stride, ::stride]
    want = (windows * w).sum((2, 3))
    s = default_schedule(sums, target)
    func, got = tl.lower(s, [X, W, sums]), np.full((height, width), np.nan, "float32")
    interpret(func, x, w, got)
    exact(got, want, "float32")
    exact(tl.build(s, [X, W, sums])(x, w), want, "float32")
    got = tl.compile([X, W, out])(x, w)
    np.testing.assert_allclose(got, np.exp(want / 64), rtol=1e-5)


@pytest.mark.parametrize("planes, shared", [(1, "c.y.outer.fused"), (3, "c.y.outer.fused"), (8, "c")])
def test_threads_share_the_strips_of_few_planes(planes, shared):
    """Of three planes one of two threads would wait for a third of the time."""
    X, W = te.placeholder((planes, 130, 150), name="X"), te.placeholder((planes, 5, 5), name="W")
    a, b = te.reduce_axis((0, 5), name="a"), te.reduce_axis((0, 5), name="b")
    taps = lambda c, y, x: te.sum(X[c, y + a, x + b] * W[c, a, b], axis=[a, b])
    out = te.compute((planes, 126, 146), taps, name="out")
    s = default_schedule(out, f"{AVX512} -num-cores=2")
    assert f"loop out.{shared} " in next(line for line in str(s.tree()).splitlines() if "parallel" in line)
    x, w = small(RNG, (planes, 130, 150)), small(RNG, (planes, 5, 5))
    windows = np.lib.stride_tricks.sliding_window_view(x, (5, 5), (1, 2))
    exact(tl.build(s, [X, W, out])(x, w), (windows * w[:, None, None]).sum((3, 4)), "float32")


@pytest.mark.each_value
@pytest.mark.parametrize("planes", [0, 1, 3], ids=["alone", "one", "three"])
@pytest.mark.parametrize("target", [AVX512, AVX2, "llvm -mcpu=x86-64"], ids=["avx512", "avx2", "sse"])
def test_threads_share_strips_of_an_open_number_of_rows(planes, target):
    """The last strip began earlier and wrote rows of the one before, which no two threads may: refused."""
    n, front = te.dim("n", 1, 4096), (planes,) if planes else ()
    X, W = te.placeholder((*front, n + 1, 41), name="X"), te.placeholder((2, 5), name="W")
    a, b = te.reduce_axis((0, 2), name="a"), te.reduce_axis((0, 5), name="b")
    taps = lambda *i: te.sum(X[(*i[:-2], i[-2] + a, i[-1] + b)] * W[a, b], axis=[a, b])
    out = te.compute((*front, n, 37), taps, name="out")
    f = tl.build(default_schedule(out, f"{target} -num-cores=2"), [X, W, out])
    for rows in (1, 3, 4, 5, 17, 64):
        x, w, got = small(RNG, (*front, rows + 1, 41)), small(RNG, (2, 5)), np.zeros((*front, rows, 37), "f")
        windows = np.lib.stride_tricks.sliding_window_view(x, (2, 5), (-2, -1))
        f(x, w, got)
        exact(got, (windows * w).sum((-2, -1)), "float32")


@pytest.mark.parametrize(
    ("dtype", "target", "most"),
    [("float16", "llvm -mcpu=x86-64", 15_000), ("bfloat16", AVX512, 5_000), ("bfloat16", AVX2, 8_000)],
)
def test_sums_that_are_rounded_at_length_are_not_all_written_out(dtype, target, most):
    """4 × 7 taps of float16, without instructions for it, took 3.7 s to compile."""
    X, W = te.placeholder((46, 27), dtype, "X"), te.placeholder((4, 7), dtype, "W")
    a, b = te.reduce_axis((0, 4), name="a"), te.reduce_axis((0, 7), name="b")
    out = te.compute((15, 8), lambda y, x: te.sum(X[3 * y + a, 2 * x + b] * W[a, b], axis=[a, b]), name="out")
    f = tl.compile([X, W, out], target)
    assert "depthwise" in str(f.explain())
    assert len(f.get_source("asm").splitlines()) < most
    x, w = (RNG.integers(-1, 2, [int(n) for n in t.shape]).astype(out.dtype.to_numpy()) for t in (X, W))
    windows = np.lib.stride_tricks.sliding_window_view(x.astype("f"), (4, 7))[::3, ::2][:15, :8]
    assert np.array_equal(f(x, w).astype("f"), (windows * w.astype("f")).sum((2, 3)))


def test_of_large_windows_the_taps_of_a_column_are_written_out():
    """They read the same rows of a tile; those of a row, written out, took 1.7 times as long."""
    X, W = te.placeholder((1, 6, 40, 40), name="X"), te.placeholder((6, 1, 9, 9), name="W")
    out = ops.conv2d(X, W, groups=6, padding=4)
    s = default_schedule(out, AVX512)
    tree = str(s.tree())
    assert re.search(r"rx +0\.\.9  reduce\n.*ry +0\.\.9  reduce  unrolled\n", tree)
    asm = tl.build(s, [X, W, s.outputs[0].output(0)], target=AVX512).get_source("asm")
    assert sum("vfmadd" in line for line in inner_loop(asm, "vfmadd")) >= 9 * 8


@pytest.mark.parametrize("taps", [3, 5, 7])
def test_windows_of_functions_are_summed_a_row_at_a_time(taps):
    """Tiles of eight rows were as much code: 18,000 lines of 5 × 5 exponentials, 1.2 seconds."""
    x = te.placeholder((20 + taps, 40 + taps), name="x")
    r, q = te.reduce_axis((0, taps), name="r"), te.reduce_axis((0, taps), name="q")
    y = te.compute((21, 41), lambda i, j: te.sum(te.exp(x[i + r, j + q] - x[i, j]), axis=[r, q]), name="y")
    f = tl.compile([x, y])
    assert len(f.get_source("ll").splitlines()) < 400 + 100 * taps * taps
    image = RNG.random((20 + taps, 40 + taps), np.float32)
    around = np.lib.stride_tricks.sliding_window_view(image, (taps, taps)).astype(float)
    want = np.exp(around - around[..., :1, :1]).sum((-1, -2))
    np.testing.assert_allclose(f(image), want, rtol=1e-5)
    got = np.zeros((21, 41), np.float32)
    interpret(tl.lower(default_schedule(y), [x, y]), image, got)
    np.testing.assert_allclose(got, want, rtol=1e-5)
