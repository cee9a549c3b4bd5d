"""Transposed convolutions by phases, and windows with strides on images of open sizes: right for every size."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.recipes import default_schedule
from tests.codegen.test_assembly import AVX2, AVX512, inner_loop

RNG = np.random.default_rng(0)


def small(*shape):
    return RNG.integers(-3, 4, shape).astype("float32")


def exact(out, inputs, arrays):
    """Of a kernel for these inputs the results for ``arrays``, each as the reference says."""
    f = tl.compile([*inputs, out])
    for a in arrays:
        (expected,) = te.reference.evaluate(out, dict(zip(inputs, a, strict=True)))
        assert np.array_equal(f(*a), expected)


@pytest.mark.parametrize(
    ("kernel", "options"),
    [
        ((5, 7, 2, 2), {"stride": 2}),
        ((4, 3, 3, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
        ((4, 2, 4, 4), {"stride": (2, 1), "padding": 1, "groups": 2}),
        ((3, 1, 3, 5), {"stride": 3, "padding": (0, 2)}),
    ],
)
def test_transposed_convolutions_of_open_sizes(kernel, options):
    x = te.placeholder((te.dim("n", 1, 8), kernel[0], te.dim("h", 1, 64), te.dim("w", 1, 64)), name="x")
    w, b = te.placeholder(kernel, name="w"), te.placeholder((1,), name="b")
    y = ops.relu(ops.add(ops.conv_transpose2d(x, w, None, **options), b))
    shapes = [(1, 4, 5), (2, 1, 3), (1, 3, 33)]
    exact(y, [x, w, b], [(small(n, kernel[0], *at), small(*kernel), small(1)) for n, *at in shapes])


def test_transposed_convolutions_of_one_dimension_and_fixed_sizes():
    for shape in [(1, 3, 1), (2, 3, 40)]:
        x, w = te.placeholder(shape, name="x"), te.placeholder((3, 9, 4), name="w")
        exact(ops.conv_transpose1d(x, w, None, 2, 1), [x, w], [(small(*shape), small(3, 9, 4))])


def test_each_load_of_the_image_serves_all_phases_and_some_channels():
    x = te.placeholder((1, 8, te.dim("h"), te.dim("w")), name="x")
    w = te.placeholder((8, 6, 2, 2), name="w")
    text = str(default_schedule(ops.conv_transpose2d(x, w, None, 2), AVX2).tree())
    assert "float32[1, 3, 2, 1, 2, 8]" in text  # channels × rows' phases × pixels' phases × a vector


@pytest.mark.each_value
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("groups", [1, 3])
def test_windows_with_strides_on_images_of_open_sizes(stride, groups):
    x = te.placeholder((1, 3, te.dim("h", 1, 256), te.dim("w", 1, 256)), name="x")
    w = te.placeholder((6, 3 // groups, 3, 3), name="w")
    y = ops.relu(ops.conv2d(x, w, None, stride, 1, groups=groups))
    exact(y, [x, w], [(small(1, 3, *at), small(6, 3 // groups, 3, 3)) for at in [(1, 1), (5, 40), (7, 99)]])


def test_pixels_of_a_stride_are_computed_in_vectors():
    """Neither one at a time, nor in lanes of a window's few taps."""
    x = te.placeholder((1, 3, te.dim("h"), te.dim("w")), name="x")
    w = te.placeholder((16, 3, 3, 3), name="w")
    for y in (ops.conv2d(x, w, None, 2, 1), ops.max_pool2d(x, 2, 2)):
        lines = str(default_schedule(y, AVX2).tree()).splitlines()
        reduced = next(i for i, line in enumerate(lines) if "reduce" in line)
        sums = next(i for i, line in enumerate(lines) if i > reduced and "compute" in line)
        assert "vectorized" in lines[sums - 1] and "0..8" in lines[sums - 1]


@pytest.mark.parametrize(
    ("image", "kernel", "options"),
    [
        ((1, 12, 5, 14), (12, 8, 3, 3), {"stride": 2, "padding": 1, "groups": 3}),
        ((2, 3, 3, 9), (3, 2, 5, 4), {"stride": 4}),
        ((1, 2, 2, 7), (2, 3, 16, 16), {"stride": 16}),
        ((1, 4, 40), (4, 5, 20), {"stride": 10, "padding": 5, "groups": 2}),
        ((1, 2, 21), (2, 3, 34), {"stride": 17, "padding": 1}),
        ((1, 4, 3, 4, 9), (4, 2, 3, 3, 3), {"stride": 2, "groups": 2}),
        ((1, 8, 5, 14), (8, 4, 3, 3), {"padding": 1, "groups": 2}),
    ],
)
def test_groups_and_long_strides_keep_their_sums_in_registers(image, kernel, options):
    """Phases that no tile has room for are loops around it. They were plain loops, 50 times as slow."""
    x, w = te.placeholder(image, name="x"), te.placeholder(kernel, name="w")
    y = getattr(ops, f"conv_transpose{len(image) - 2}d")(x, w, None, **options)
    lines = str(default_schedule(y, AVX2).tree()).splitlines()
    sums = next(i for i, line in enumerate(lines) if "compute conv" in line)
    assert "vectorized" in lines[sums - 1] and any("local" in line for line in lines)
    exact(y, [x, w], [(small(*image), small(*kernel))])


@pytest.mark.parametrize("stride", [2, (1, 2)])
def test_sums_of_groups_do_not_go_through_the_stack(stride):
    """What reads the sums says where as ``4 i % 16 - 4 (i % 4)``: seen to be nothing, or they stay in
    memory."""
    x, w = te.placeholder((1, 64, 28, 28), name="x"), te.placeholder((64, 16, 3, 3), name="w")
    y = ops.conv_transpose2d(x, w, None, stride, 1, groups=4)
    asm = tl.compile([x, w, y], "llvm -mcpu=skylake-avx512 -num-cores=1").get_source("asm")
    loop = inner_loop(asm, "vfmadd")
    assert sum("vfmadd" in line for line in loop) >= 8
    assert sum("(%rsp)" in line for line in loop) <= 2  # a register that is spilled, not all of the sums


def test_taps_that_a_phase_lacks_are_not_computed():
    """Of 3 × 3 with stride 2 the four phases have 4, 2, 2 and 1 taps; padded with zeros it were 16."""
    x, w = te.placeholder((1, 8, 12, 32), name="x"), te.placeholder((8, 4, 3, 3), name="w")
    f = tl.compile(
        [x, w, ops.conv_transpose2d(x, w, None, 2, 0, 1)], "llvm -mcpu=skylake-avx512 -num-cores=1"
    )
    assert sum("vfmadd" in line for line in inner_loop(f.get_source("asm"), "vfmadd")) == 9 * 4
    assert ".weight" not in f.get_source("ir")


@pytest.mark.parametrize(
    "options", [{"dilation": 2}, {"stride": 2, "dilation": 2}, {"stride": 3}, {"stride": 5}]
)
def test_phases_with_fewer_taps_are_right(options):
    x, w = te.placeholder((2, 3, 5, 19), name="x"), te.placeholder((3, 4, 2, 3), name="w")
    exact(ops.conv_transpose2d(x, w, None, **options), [x, w], [(small(2, 3, 5, 19), small(3, 4, 2, 3))])


@pytest.mark.parametrize(
    ("image", "kernel", "options"),
    [
        ((1, 5, 7, 7), (5, 6, 4, 4), {"stride": 2, "padding": 1}),
        ((2, 3, 4, 4), (3, 5, 4, 4), {"stride": 2, "padding": 1}),
        ((1, 4, 3, 5, 7), (4, 3, 4, 4, 4), {"stride": 2, "padding": 1}),
        ((1, 4, 9, 6), (4, 3, 6, 3), {"stride": 3, "padding": (1, 0)}),
        ((1, 6, 5, 9), (6, 2, 4, 4), {"stride": 2, "padding": 1, "groups": 3}),
        ((1, 3, 2, 2), (3, 4, 4, 4), {"stride": 2, "padding": 1}),
        ((1, 3, 11, 20), (3, 4, 4, 4), {"stride": (2, 4), "padding": 1}),
        ((1, 5, 7, 7), (5, 6, 3, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
        ((2, 3, 6, 14), (3, 5, 3, 3), {"stride": 2, "padding": 1}),  # the last phase has fewer pixels
        ((1, 3, 5, 15), (3, 4, 3, 3), {"stride": 2}),
        ((1, 3, 5, 9), (3, 4, 5, 5), {"stride": 3, "padding": 2, "output_padding": (0, 1)}),
        ((1, 2, 5, 24), (2, 4, 3, 5), {"stride": 2, "padding": 1}),
        ((1, 4, 4, 20), (4, 3, 3, 3), {"stride": 2, "padding": 1, "output_padding": 1, "groups": 2}),
        ((1, 2, 3, 4, 7), (2, 3, 3, 3, 3), {"stride": 2, "padding": 1}),
        ((1, 3, 6, 7), (3, 2, 2, 3), {"stride": 3, "dilation": (1, 2), "padding": 1}),
        ((2, 5, 5, 5), (5, 3, 2, 2), {"stride": 2}),  # phases of one tap have no margin
        ((1, 3, 3, 20), (3, 4, 4, 3), {"stride": (4, 3)}),
        ((1, 4, 6, 7), (4, 3, 2, 2), {"stride": 2, "groups": 2}),
        ((1, 4, 5, 9), (4, 3, 2, 2), {"stride": 2, "padding": (1, 0)}),
        ((1, 4, 5, 9), (4, 3, 2, 1), {"stride": 2, "output_padding": 1}),
    ],
)
def test_short_rows_are_right(image, kernel, options):
    x, w, b = (te.placeholder(n, name=name) for n, name in ((image, "x"), (kernel, "w"), ((1,), "b")))
    y = ops.relu(ops.add(getattr(ops, f"conv_transpose{len(image) - 2}d")(x, w, None, **options), b))
    exact(y, [x, w, b], [(small(*image), small(*kernel), small(1))])


def test_short_rows_are_summed_in_whole_vectors_of_several():
    """Seven pixels of a phase were four, two and one: a sixth of the speed. What is more than the second
    cache is asked for ahead."""
    x, w = te.placeholder((1, 96, 7, 7), name="x"), te.placeholder((96, 256, 4, 4), name="w")
    y = ops.conv_transpose2d(x, w, None, 2, 1)
    f = tl.compile([x, w, y], "llvm -mcpu=skylake-avx512 -num-cores=1")
    loop = inner_loop(f.get_source("asm"), "vfmadd")
    fused = [line for line in loop if "vfmadd" in line]
    assert len(fused) >= 8 and all("zmm" in line and "{%k" not in line for line in fused)
    assert not any("(%rsp)" in line for line in loop)
    assert "prefetch" in f.get_source("ir")


@pytest.mark.parametrize("side", [5, 7, 20])
def test_short_rows_of_phases_of_one_tap_are_summed_in_whole_vectors(side: int) -> None:
    """2 × 2 with stride 2: without a margin rows stayed apart, and images of 5 × 5 took 2.8 times as long."""
    x, w = te.placeholder((2, 32, side, side), name="x"), te.placeholder((32, 24, 2, 2), name="w")
    y = ops.conv_transpose2d(x, w, None, 2)
    f = tl.compile([x, w, y], "llvm -mcpu=skylake-avx512 -num-cores=1")
    loop = inner_loop(f.get_source("asm"), "vfmadd")
    fused = [line for line in loop if "vfmadd" in line]
    assert len(fused) >= 8 and all("zmm" in line and "{%k" not in line for line in fused)
    assert not any("(%rsp)" in line for line in loop)


@pytest.mark.parametrize("side", [7, 14, 24])
@pytest.mark.parametrize("longer", [0, 1])
def test_short_rows_whose_phases_lack_taps_are_summed_in_whole_vectors(side, longer):
    """3 × 3 with stride 2: rows were parts of vectors behind masks, a third of torch's speed. Of an odd size
    the last phase has fewer pixels, and as many are computed."""
    x, w = te.placeholder((1, 32, side, side), name="x"), te.placeholder((32, 7, 3, 3), name="w")
    f = tl.compile(
        [x, w, ops.conv_transpose2d(x, w, None, 2, 1, longer)], "llvm -mcpu=skylake-avx512 -num-cores=1"
    )
    loop = inner_loop(f.get_source("asm"), "vfmadd")
    fused = [line for line in loop if "vfmadd" in line]
    assert len(fused) % 9 == 0 and all("zmm" in line and "{%k" not in line for line in fused)
    assert sum("(%rsp)" in line for line in loop) <= len(fused) // 8  # three of the weights', with 24


@pytest.mark.parametrize(("kernel", "stride", "padding"), [(3, 2, 1), (5, 2, 2), (5, 3, 2), (5, 4, 2)])
def test_a_row_that_lacks_the_last_output_of_a_phase_is_whole_vectors(kernel, stride, padding):
    """Rows of 31 were counted as one axis, an eighth more sums and a copy of them: 1.2 times the time."""
    x, w = te.placeholder((1, 32, 5, 16), name="x"), te.placeholder((32, 16, kernel, kernel), name="w")
    y = ops.conv_transpose2d(x, w, None, stride, padding)
    assert y.shape[-1] % stride
    f = tl.compile([x, w, y], "llvm -mcpu=skylake-avx512 -num-cores=1")
    fused = [line for line in inner_loop(f.get_source("asm"), "vfmadd") if "vfmadd" in line]
    assert fused and all("zmm" in line and "{%k" not in line for line in fused)
    assert "fused.outer" not in f.get_source("ir"), "rows are counted as one axis"
    exact(y, [x, w], [(small(1, 32, 5, 16), small(32, 16, kernel, kernel))])


def test_an_image_with_a_margin_of_its_own_need_not_hold_whole_phases():
    """The last phase would read behind it: rows stay apart."""
    x, w = te.placeholder((1, 3, 5, 5), name="x"), te.placeholder((3, 2, 2, 2), name="w")
    y = ops.conv_transpose2d(ops.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), w, None, 3, (0, 1))
    exact(y, [x, w], [(small(1, 3, 5, 5), small(3, 2, 2, 2))])
    # of rows that are a vector of each phase, too
    x = te.placeholder((1, 3, 5, 14), name="x")
    y = ops.conv_transpose2d(ops.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), w, None, 3, (0, 1))
    exact(y, [x, w], [(small(1, 3, 5, 14), small(3, 2, 2, 2))])


def test_taps_of_a_phase_are_written_out():
    """Loops of two iterations took as long as the multiply-adds in them."""
    x, w = te.placeholder((1, 32, 16, 16), name="x"), te.placeholder((32, 64, 4, 4), name="w")
    f = tl.compile([x, w, ops.conv_transpose2d(x, w, None, 2, 1)], "llvm -mcpu=skylake-avx512 -num-cores=1")
    loop = inner_loop(f.get_source("asm"), "vfmadd")
    assert sum("vfmadd" in line for line in loop) == 16 * 7
    assert sum(line.startswith("vmovup") for line in loop) <= 9 + 2  # nine places of the image, each once


@pytest.mark.parametrize("outputs", [6, 7])
@pytest.mark.parametrize("options", [{"stride": 2}, {"stride": 2, "padding": 1}])
def test_a_weight_of_many_channels_is_read_where_those_of_a_tile_lie_together(outputs, options):
    x = te.placeholder((1, 40, 26, 40), name="x")
    w = te.placeholder((40, outputs, 2, 2), name="w")
    y = ops.conv_transpose2d(x, w, None, **options)
    assert "storage w.global" in str(default_schedule(y, AVX2).tree())
    assert "w.global" not in str(default_schedule(y, AVX512).tree())
    f = tl.compile([x, w, y], target=AVX2)
    a = [small(1, 40, 26, 40), small(40, outputs, 2, 2)]
    (expected,) = te.reference.evaluate(y, dict(zip([x, w], a, strict=True)))
    assert np.array_equal(f(*a), expected)


@pytest.mark.parametrize(("channels", "side"), [(8, 40), (40, 6)])
def test_a_weight_that_few_read_is_read_where_it_lies(channels, side):
    x, w = te.placeholder((1, channels, side, side), name="x"), te.placeholder((channels, 6, 2, 2), name="w")
    text = str(default_schedule(ops.conv_transpose2d(x, w, None, 2), AVX2).tree())
    assert "w.global" not in text


def test_the_weight_of_groups_of_many_channels_is_read_where_it_lies():
    """Its channel is a sum of a group's and its place in it, which is no loop to be compared with one."""
    x, w = te.placeholder((1, 80, 26, 35), name="x"), te.placeholder((80, 4, 2, 2), name="w")
    y = ops.conv_transpose2d(x, w, None, 2, groups=2)
    assert "storage w.global" not in str(default_schedule(y, AVX2).tree())
    f = tl.compile([x, w, y], target=AVX2)
    a = [small(1, 80, 26, 35), small(80, 4, 2, 2)]
    (expected,) = te.reference.evaluate(y, dict(zip([x, w], a, strict=True)))
    assert np.array_equal(f(*a), expected)


@pytest.mark.parametrize("cores", [1, 2])
def test_two_images_shifted_against_each_other_are_no_phases(cores: int) -> None:
    """A correlation volume: the axis of the shifts is divided, but no operand is a weight with one for each
    phase."""
    c, h, w, r = 5, 7, 37, 2
    x, y = te.placeholder((c, h, w), name="x"), te.placeholder((c, h + 2 * r, w + 2 * r), name="y")
    n, k = 2 * r + 1, te.reduce_axis((0, c), "k")
    out = te.compute(
        (n * n, h, w), lambda q, i, j: te.sum(x[k, i, j] * y[k, i + q // n, j + q % n], axis=k), name="out"
    )
    s = default_schedule(out, f"llvm -mcpu=znver4 -num-cores={cores}")
    assert "q.inner" in s.tree() and "q.inner.outer" not in s.tree()
    rng = np.random.default_rng(0)
    a = rng.integers(-3, 4, (c, h, w)).astype("float32")
    b = rng.integers(-3, 4, (c, h + 2 * r, w + 2 * r)).astype("float32")
    want = [(a * b[:, p : p + h, q : q + w]).sum(0) for p in range(n) for q in range(n)]
    assert (tl.build(s, [x, y, out])(a, b) == np.stack(want)).all()
