"""Transposes and changes of layout: right for all sizes and types, transposed in registers, never read
element by element."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.analysis import transposed
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import default_schedule


def counted(shape, dtype="float32"):
    return np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)


@pytest.mark.parametrize(
    "shape", [(1, 9), (4, 4), (5, 3), (8, 8), (17, 31), (64, 1024), (1024, 64), (129, 67)]
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "float16"])
def test_transpose(shape, dtype):
    a = (counted(shape) % 120).astype(dtype)
    x = te.placeholder(shape, dtype, name="x")
    assert np.array_equal(tl.compile([x, ops.transpose(x)])(a), a.T)


@pytest.mark.parametrize("axes", list(itertools.permutations(range(3))))
def test_permutations(axes):
    a = counted((6, 17, 20))
    x = te.placeholder(a.shape, name="x")
    assert np.array_equal(tl.compile([x, ops.transpose(x, axes)])(a), a.transpose(axes))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((2, 31, 7, 5, 2), (2, 3, 4, 0, 1)),
        ((11, 13, 9, 2, 3), (0, 2, 3, 4, 1)),
        ((30, 40, 3, 3), (2, 3, 0, 1)),
        ((3, 5, 3, 50), (3, 0, 1, 2)),
        ((2, 2, 2, 2), (2, 3, 0, 1)),
        ((33, 160, 2, 70, 3), (0, 3, 4, 1, 2)),
        ((4, 1, 3, 1, 2), (3, 4, 0, 1, 2)),
    ],
)
def test_short_axes_are_one_in_tiles(shape, axes, dtype, cores):
    """A last axis of two or three elements, here or there, is taken with those before it where all of them
    are one in both: elements were gathered."""
    a = (counted(shape) % 120).astype(dtype)
    x = te.placeholder(shape, dtype, name="x")
    y = ops.transpose(x, axes)
    s = default_schedule(y, tl.Target(f"llvm -mcpu=znver5 -num-cores={cores}"))
    assert np.array_equal(
        tl.build(default_schedule(y, f"llvm -num-cores={cores}"), [x, y])(a), a.transpose(axes)
    )
    if 1 not in shape and a.size > 16:
        assert s[y].op.axis and "fused" in str(s.tree()), s.tree()
    if a.size < 3000:
        out = np.zeros([shape[d] for d in axes], dtype)
        interpret(tl.lower(s, [x, y]), a, out)
        assert np.array_equal(out, a.transpose(axes))


def test_far_larger_than_the_caches():
    """Blocks are transposed in the first cache: a size that is not a multiple of them."""
    a = counted((1500, 4100))
    x = te.placeholder(a.shape, name="x")
    f = tl.compile([x, ops.transpose(x)], target="llvm -num-cores=2")
    assert np.array_equal(f(a), a.T)


@pytest.mark.parametrize(("m", "n"), [(1, 1), (16, 16), (33, 70), (200, 3)])
def test_symbolic_sizes(m, n):
    a = counted((m, n))
    x = te.placeholder((te.var("m"), te.var("n")), name="x")
    assert np.array_equal(tl.compile([x, ops.transpose(x)])(a), a.T)


def test_blocks_of_channels_there_and_back():
    """NCHW to NCHW8c and back: the second reads along ``c % 8``."""
    a = counted((2, 24, 5, 9))
    x = te.placeholder(a.shape, name="x")
    there = te.compute((2, 3, 5, 9, 8), lambda n, o, h, w, c: x[n, o * 8 + c, h, w], name="there")
    packed = tl.compile([x, there])(a)
    assert np.array_equal(packed, a.reshape(2, 3, 8, 5, 9).transpose(0, 1, 3, 4, 2))
    y = te.placeholder(packed.shape, name="y")
    back = te.compute(a.shape, lambda n, c, h, w: y[n, c // 8, h, w, c % 8], name="back")
    assert transposed(back.op).every == 8
    assert np.array_equal(tl.compile([y, back])(packed), a)


@pytest.mark.parametrize("shape", [(64, 1024), (224, 224)])
def test_a_tile_is_turned_in_registers(shape):
    x = te.placeholder(shape, name="x")
    asm = tl.compile([x, ops.transpose(x)], target="llvm -mcpu=haswell").get_source("asm")
    assert (
        asm.count("vunpcklps") + asm.count("vunpckhps") + asm.count("vshufps") + asm.count("vunpcklpd") >= 8
    )
    assert "vinsertps" not in asm and "vpinsrd" not in asm, "columns are gathered element by element"


def test_what_is_read_in_its_order_is_not_turned():
    x = te.placeholder((64, 64), name="x")
    for y in (
        ops.relu(x),
        ops.strided_slice(x, [1, 2], [60, 60]),
        ops.transpose(te.placeholder((4, 5, 6), name="z"), (1, 0, 2)),
    ):
        assert transposed(y.op) is None


@pytest.mark.parametrize("shape", [(96,), (1, 96), (1, 1, 96)], ids=str)
def test_one_row_that_is_repeated(shape):
    """The loop over its repetitions is the only one there is to share out."""
    a = te.placeholder(shape, name="a")
    y = ops.tile(a, 5000)
    x = np.random.default_rng(0).random(shape, "float32")
    assert np.array_equal(tl.compile([a, y])(x), np.tile(x, 5000))


def test_a_row_that_is_repeated_is_read_as_it_lies():
    """Not gathered element by element: 5 times as slow."""
    a = te.placeholder((5, 50), name="a")
    y = ops.tile(a, (2, 3))
    s = default_schedule(y)
    assert "%" not in str(tl.lower(s, [a, y])).split("= a[")[1].split(",")[1].split("\n")[0]
    x = np.arange(250, dtype="float32").reshape(5, 50)
    assert np.array_equal(tl.compile([a, y])(x), np.tile(x, (2, 3)))


@pytest.mark.parametrize("sizes", [(5, 57), (5, 70), (5, None)])
@pytest.mark.parametrize("mode", ["reflect", "edge"])
def test_vectors_that_touch_no_margin_are_read_as_they_lie(sizes, mode):
    """A mirrored edge is ``min`` and ``max`` of two lines: vectors in which one of them is meant throughout
    read neighbours, also where the size of a row is open."""
    x = te.placeholder((sizes[0], sizes[1] or te.var("w")), name="x")
    kernel = tl.compile([x, tl.ops.pad(x, ((0, 0), (1, 1)), mode=mode)])
    text = kernel.get_source("ir")
    assert re.search(r"= x\[[^\]]* : [^\]]*\]$", text, re.M), text
    for w in (sizes[1],) if sizes[1] else (2, 15, 16, 17, 33, 64):
        a = np.arange(5 * w, dtype="float32").reshape(5, w)
        np.testing.assert_array_equal(kernel(a), np.pad(a, ((0, 0), (1, 1)), mode))


@pytest.mark.parametrize("dtype", ["int8", "uint16", "float16", "bool"])
def test_narrow_elements_of_open_sizes(dtype):
    x = te.placeholder((te.var("m"), te.var("n")), dtype, name="x")
    f = tl.compile([x, ops.transpose(x)], target="llvm -mcpu=skylake-avx512 -num-cores=1")
    # the ends of tiles: one function that gathers, not a branch and a load for each lane at 137 places
    assert len(re.findall(r"call .*@llvm.masked.gather", f.get_source("ll"))) <= 2
    f = tl.compile([x, ops.transpose(x)])
    for m, n in [(1, 1), (16, 32), (33, 70), (200, 3)]:
        a = (counted((m, n)) % 2 if dtype == "bool" else counted((m, n)) % 120).astype(dtype)
        assert np.array_equal(f(a), a.T), (m, n)


@pytest.mark.parametrize(("rows", "along_rows"), [(300, True), (100, False), (1000, False)])
def test_many_long_rows_are_walked_along(rows, along_rows):
    """Down a column every tile would begin in sixteen other pages."""
    x = te.placeholder((rows, 400), name="x")
    target = "llvm -mcpu=skylake-avx512 -num-cores=1"
    leaves = default_schedule(y := ops.transpose(x), target)[y].state.leaves
    assert leaves[0].name.startswith(y.op.axis[1 if along_rows else 0].name)
    a = counted((rows, 400))
    assert np.array_equal(tl.compile([x, ops.transpose(x)])(a), a.T)


@pytest.mark.parametrize("shape", [(1100, 1030), (1041, 1201), (2, 1030, 1100)])
def test_many_rows_are_read_in_parts(shape):
    """A processor does not keep the addresses of more pages: the outermost loop is over parts of the rows."""
    x = te.placeholder(shape, name="x")
    axes = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
    target = "llvm -mcpu=skylake-avx512 -num-cores=1"
    leaves = default_schedule(y := ops.transpose(x, axes), target)[y].state.leaves
    assert leaves[0].name == f"{y.op.axis[-1].name}.outer.outer"
    for threads in (1, 2):
        f = tl.compile([x, y], target=f"llvm -num-cores={threads}")
        assert np.array_equal(f(counted(shape)), counted(shape).transpose(axes))


def test_rows_that_share_pages_are_read_in_one_part():
    """Each part is shared out among the threads anew."""
    y = ops.transpose(te.placeholder((1537, 88), name="x"))
    leaves = default_schedule(y, "llvm -mcpu=skylake-avx512 -num-cores=2")[y].state.leaves
    assert leaves[0].name == f"{y.op.axis[0].name}.outer"


@pytest.mark.parametrize(("shape", "walked"), [((300, 700), 1), ((700, 300), 0), ((1537, 88), 0)])
def test_the_shorter_side_is_walked_first_where_registers_are_few(shape, walked):
    """The innermost loop over tiles is over the shorter side."""
    x = te.placeholder(shape, name="x")
    target = "llvm -mcpu=znver3 -num-cores=1"
    leaves = default_schedule(y := ops.transpose(x), target)[y].state.leaves
    assert leaves[1].name.startswith(y.op.axis[walked].name)
    a = counted(shape)
    assert np.array_equal(tl.compile([x, y])(a), a.T)


@pytest.mark.parametrize(("rows", "wide"), [(374, 32), (48, 16), (49, 32), (300, 16)])
def test_tiles_are_of_two_vectors_where_few_elements_are_copied_twice(rows, wide):
    x = te.placeholder((rows, 200 if rows == 300 else 169), name="x")  # (300: along rows, a vector)
    target = "llvm -mcpu=skylake-avx512 -num-cores=1"
    lines = tl.compile([x, ops.transpose(x)], target=target).get_source("ir").splitlines()
    stores = [line.partition(" = ")[0] for line in lines if " = x[" in line]
    assert stores and all(re.search(rf"\+ {wide}\]$|0 : {wide}\]$", store) for store in stores)
    a = counted((rows, int(str(x.shape[1]))))
    assert np.array_equal(tl.compile([x, ops.transpose(x)])(a), a.T)


@pytest.mark.each_value
@pytest.mark.parametrize("open_", ["bhw", "hw", "w", "h"])
@pytest.mark.parametrize("order", ["last", "last of three", "within"])
def test_rows_of_open_pixels_are_transposed_over_their_ends(open_, order):
    """Pixels that a reshape counts: each vector of channels was gathered."""
    dims = {
        name: te.dim(name, 0, 10**5) if name in open_ else n for name, n in (("b", 2), ("h", 5), ("w", 7))
    }
    b, h, w = dims.values()
    middle = (3,) if order == "last of three" else ()
    x = te.placeholder((b, 20, *middle, h, w), name="x")
    pixels = ops.reshape(x, (b, 20, 3 * h * w if middle else h * w))
    y = ops.relu(ops.transpose(pixels, (0, 2, 1) if order != "within" else (2, 0, 1)))
    assert re.search(r"(?s)loop relu\.\S+ +0\.\.(16|\d)\s+unrolled\s.*vectorized", default_schedule(y).tree())
    f = tl.compile([x, y])
    for batch, high, wide in ((2, 5, 7), (1, 1, 1), (3, 16, 16), (0, 3, 4), (2, 0, 3), (1, 13, 31)):
        at = {"b": batch, "h": high, "w": wide}
        sizes = [at[n] if n in open_ else dims[n] for n in "bhw"]
        a = counted((sizes[0], 20, *middle, *sizes[1:])) - 1000
        want = np.maximum(a.reshape(sizes[0], 20, np.prod(a.shape[2:])), 0)
        want = want.transpose((0, 2, 1) if order != "within" else (2, 0, 1))
        np.testing.assert_array_equal(f(a), want)


def test_what_comes_from_far_is_read_by_half_lines_and_asked_for():
    """Few lines of the result are written side by side, and each iteration asks for the lines that it reads
    one line further on."""
    x = te.placeholder((1000, 3000), name="x")
    s = default_schedule(ops.transpose(x), "llvm -mcpu=znver4 -num-cores=1")
    (asked,) = s["transpose"].state.prefetches
    assert asked.tensor is x and (asked.offset, asked.level) == (2, 2)
    assert "8  unrolled" in s.tree() and "16  vectorized" in s.tree()
    text = str(tl.lower(s, [x, s["transpose"].op.output(0)]))
    assert text.count("prefetch(") % 16 == 0 and "prefetch(" in text  # one for each row of a tile
    small = default_schedule(ops.transpose(te.placeholder((500, 600), name="x")), "llvm -mcpu=znver4")
    assert not small["transpose"].state.prefetches


@pytest.mark.parametrize("axes", [(1, 0), (2, 0, 1), (0, 2, 3, 1), (2, 1, 0)])
@pytest.mark.parametrize("cores", [1, 2])
def test_far_copies_are_right(axes, cores):
    """Sizes that leave rests along both sides of a tile, in tensors beyond the second cache."""
    shape = {2: (1003, 1701), 3: (119, 101, 141), 4: (5, 87, 53, 77)}[len(axes)]
    a = counted(shape)
    x = te.placeholder(shape, name="x")
    f = tl.compile([x, ops.transpose(x, axes)], target=f"llvm -num-cores={cores}")
    assert np.array_equal(f(a), a.transpose(axes))


@pytest.mark.parametrize("shape", [(64, 70), (3, 64, 70), (64, te.var("n"))])
@pytest.mark.parametrize("chosen", [False, True])
def test_one_number_in_all_places(shape: tuple[Any, ...], chosen: bool) -> None:
    """A tensor without a dimension has no last index to ask about."""
    s = te.placeholder((), "int64", name="s")
    x = te.placeholder(shape, "int64", name="x")
    y = te.compute(shape, lambda *i: s(), name="y")
    if chosen:
        y = ops.where(ops.less(x, x), x, s)
    number, like = np.int64(-7), np.zeros([n if isinstance(n, int) else 5 for n in shape], "int64")
    kernel = tl.compile([s, x, y])
    out = np.empty_like(like)
    kernel(np.asarray(number), like, out)
    assert (out == number).all()


@pytest.mark.parametrize("shape", [(4, 4), (37, 50), (1, 20), (2, 33, 40), (300, 410)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
def test_what_is_turned_by_a_right_angle_is_transposed(shape, dtype):
    """Rows that are read from their ends were gathered, an element for each lane."""
    a = (counted(shape) % 120).astype(dtype)
    x = te.placeholder(shape, dtype, name="x")
    swapped = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
    out = ops.transpose(ops.flip(x, (-1,)), swapped)
    s = default_schedule(out, "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512")
    assert transposed(s[out].op) is not None or min(shape[-2:]) < 4
    want = np.rot90(a, axes=(-2, -1))
    assert np.array_equal(tl.compile([x, out])(a), want)
    both = ops.flip(out, (-1, -2))
    assert np.array_equal(tl.compile([x, both])(a), want[..., ::-1, ::-1])
    if a.size < 2000:
        got = np.zeros_like(want)
        interpret(tl.lower(s, [x, out]), a, got)
        assert np.array_equal(got, want)


@pytest.mark.parametrize("shape", [(891725, 5), (300000, 7), (100001, 3), (5, 891725)])
def test_threads_share_out_the_side_that_has_tiles(shape):
    """Of a matrix of few columns all tiles are along its rows: threads shared out the one tile of columns."""
    x = te.placeholder(shape, name="x")
    s = default_schedule(ops.transpose(x), "llvm -mtriple=x86_64-linux-gnu -mcpu=znver5 -num-cores=2")
    (shared,) = (line for line in str(s.tree()).splitlines() if " parallel" in line)
    assert int(re.search(r"0\.\.(\d+)", shared)[1]) > 2
