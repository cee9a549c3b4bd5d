"""Reductions of the columns of a matrix, and of nearly everything: right to the last bit on small integers,
read row by row."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.analysis.cost_known import KNOWN
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import columns, common, default_schedule
from tensorlang.recipes.choices import asking
from tests.codegen.test_assembly import AVX2, AVX512


def whole(shape, dtype="float32"):
    return np.random.default_rng(sum(shape)).integers(-4, 5, shape).astype(dtype)


@pytest.mark.parametrize("shape", [(1, 9), (2, 64), (9, 65), (64, 1024), (300, 33), (17, 4099), (4000, 12)])
@pytest.mark.parametrize(("op", "want"), [(ops.sum, np.sum), (ops.max, np.max), (ops.min, np.min)])
def test_columns(shape, op, want):
    a = whole(shape)
    x = te.placeholder(shape, name="x")
    assert np.array_equal(tl.compile([x, op(x, axis=0)])(a), want(a, axis=0))


@pytest.mark.parametrize("dtype", ["float64", "int32", "int8", "float16"])
def test_columns_of_other_types(dtype):
    a = whole((130, 70), dtype)
    x = te.placeholder(a.shape, dtype, name="x")
    assert np.array_equal(tl.compile([x, ops.sum(x, axis=0)])(a), a.sum(0))


@pytest.mark.parametrize("axis", [0, 1, 2, (0, 1), (0, 2), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("shape", [(5, 7, 9), (8, 33, 28), (3, 64, 7), (70, 60, 40)])
def test_any_axes(shape, axis):
    a = whole(shape)
    x = te.placeholder(shape, name="x")
    assert np.array_equal(tl.compile([x, ops.sum(x, axis=axis)])(a), a.sum(axis))


@pytest.mark.each_value
@pytest.mark.parametrize("target", [AVX512, AVX2])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((19, 17, 5), 0),
        ((5, 6, 7, 7), 0),
        ((3, 11, 3, 5), 1),
        ((40, 5, 3), 0),
        ((2, 9, 20), 0),
        ((33, 2, 3), 0),
    ],
    ids=str,
)
def test_short_columns_are_one_stretch(shape, axis, target):
    a = whole(shape)
    x = te.placeholder(shape, name="x")
    for op, want in ((ops.sum, a.sum(axis)), (ops.max, a.max(axis))):
        y = op(x, axis=axis)
        got = np.zeros(want.shape, "float32")
        interpret(tl.lower(default_schedule(y, target), [x, y]), a, got)
        assert np.array_equal(got, want)
        assert np.array_equal(tl.compile([x, y])(a), want)


@pytest.mark.parametrize("target", [AVX512, AVX2])
def test_a_stretch_is_read_in_whole_vectors(target):
    x = te.placeholder((32, 64, 7, 7), name="x")
    asm = tl.compile([x, ops.sum(x, axis=0)], target=target).get_source("asm")
    assert "gather" not in asm and "vaddss" not in asm and "vaddps\t%xmm" not in asm


def test_strips_of_a_stretch_are_even():
    """Of 142 vectors not 128 and 14: a fused loop asks for each vector of the rest."""
    x = te.placeholder((8, 45, 12, 189), name="x")
    y = ops.sum(x, axis=1)
    assert "range(0, 71)" in str(tl.lower(default_schedule(y, AVX512), [x, y]))


@pytest.mark.parametrize("open_at", [0, 1, 2])
def test_a_stretch_of_open_sizes(open_at):
    n = te.dim("n", 1, 1000)
    sizes = [n if d == open_at else s for d, s in enumerate((12, 9, 5))]
    x = te.placeholder(sizes, name="x")
    f = tl.compile([x, ops.sum(x, axis=0)])
    for m in (1, 3, 17, 64):
        a = whole([m if d == open_at else s for d, s in enumerate((12, 9, 5))])
        assert np.array_equal(f(a), a.sum(0))


def test_a_strip_of_an_open_stretch_ends_with_it():
    """Each strip was walked to its end, whatever lies in it: 1000 × 5 × 3 of open sizes took 90 µs to add up,
    and take 1.7."""
    sizes = [te.dim(name) for name in "nmc"]
    x = te.placeholder(sizes, name="x")
    out = ops.sum(x, axis=0)
    text = str(tl.lower(default_schedule(out, AVX512), [x, out]))
    ends = re.findall(r"fused.outer.inner\w* in range\(0, (.*)\):", text)
    assert ends and all(end.startswith("min(") for end in ends), text
    f = tl.compile([x, out])
    for shape in ((0, 2, 3), (3, 0, 2), (3, 2, 0), (1, 1, 1), (13, 5, 3), (100, 5, 3), (7, 40, 100)):
        a = whole(shape)
        assert np.array_equal(f(a), a.sum(0)), shape


@pytest.mark.parametrize(("m", "n"), [(1, 1), (100, 7), (7, 100), (1000, 300)])
def test_symbolic_sizes(m, n):
    a = whole((m, n))
    x = te.placeholder((te.var("m"), te.var("n")), name="x")
    total, first, last = (tl.compile([x, ops.sum(x, axis=axis)]) for axis in (None, 0, 1))
    assert (
        np.array_equal(total(a), a.sum())
        and np.array_equal(first(a), a.sum(0))
        and np.array_equal(last(a), a.sum(1))
    )


def test_some_rows_are_added_for_one_turn_of_the_partial_results():
    x = te.placeholder((4096, 1024), name="x")
    f = tl.compile([x, ops.sum(x, axis=0)], target="llvm -mcpu=haswell")
    additions = [line for line in f.get_source("asm").splitlines() if "vaddps" in line]
    stores = [line for line in f.get_source("asm").splitlines() if "vmovups\t%ymm" in line]
    assert len(additions) >= columns.ROWS > 2 * len(stores) - columns.ROWS, (
        "partial results go to memory for every row"
    )


def test_few_columns_are_shared_out_by_rows():
    x = te.placeholder((100000, 16), name="x")
    tree = default_schedule(ops.sum(x, axis=0), "llvm -num-cores=2").tree()
    assert "sum.rf" in tree and "parallel" in tree


def test_a_sum_of_everything_is_shared_out():
    x = te.placeholder((4096, 1024), name="x")
    tree = default_schedule(ops.sum(x), "llvm -num-cores=2").tree()
    assert "parallel" in tree and "vectorized" in tree


def test_a_product_is_no_sum_of_columns():
    a, b = te.placeholder((8, 8), name="a"), te.placeholder((8, 8), name="b")
    k = te.reduce_axis((0, 8), name="k")
    c = te.compute((8, 8), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    d = te.compute((8,), lambda j: te.sum(a[k, j], axis=k), name="d")
    s = te.create_schedule([c, d])
    assert not columns.applies(s[c]) and columns.applies(s[d])


def test_rows_from_memory_are_asked_for_while_those_before_are_added():
    """Into the second cache, all eight of them; not where a cache holds them."""
    x = te.placeholder((1 << 16, 1000), name="x")
    s = default_schedule(ops.sum(x, 0), "llvm -mcpu=znver4 -num-cores=1")
    (asked,) = s["sum"].state.prefetches
    assert asked.tensor is x and (asked.offset, asked.level) == (1, 2) and asked.of != asked.loop
    small = default_schedule(ops.sum(te.placeholder((640, 1000), name="x"), 0), "llvm -mcpu=znver4")
    assert not small["sum"].state.prefetches


@pytest.mark.parametrize("axis", [0, 1, None])
def test_a_processor_that_sees_rows_coming_is_not_asked_for_them(
    monkeypatch: pytest.MonkeyPatch, axis: int | None
) -> None:
    """On Zen 5 sums of columns from memory took twice as long with requests as without."""
    monkeypatch.setattr(common, "cost_of", lambda target: KNOWN["znver5"])
    x = te.placeholder((1 << 15, 1024), name="x")
    s = default_schedule(ops.sum(x, axis), "llvm -mcpu=znver5 -num-cores=1")
    assert not any(stage.state.prefetches for stage in s.stages)


def test_few_columns_stay_in_registers():
    x = te.placeholder((500, 21), name="x")
    s = default_schedule(ops.sum(x, 0), "llvm -mcpu=znver4 -mtriple=x86_64-linux-gnu -num-cores=1")
    assert "storage sum.local" in str(s)


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize(("op", "want"), [(ops.sum, np.sum), (ops.max, np.max), (ops.argmin, np.argmin)])
def test_columns_of_an_open_number_that_fit_into_a_vector_stay_in_registers(op, want, cores):
    """Rows of 3 were added to a vector in memory, eight at a time: twice the time, threads sharing rows or
    not."""
    m, n = te.dim("m"), te.dim("n")
    x = te.placeholder((m, n), name="x")
    y = op(x, 0)
    target = f"llvm -mcpu=znver5 -mtriple=x86_64-linux-gnu -num-cores={cores}"
    with asking({n: 16}):
        tree = default_schedule(y, target).tree()
    assert ".local" in tree and "0..16  vectorize" in tree, tree
    with asking() as open_sizes:
        default_schedule(y, target)
    assert 16 in open_sizes.asked[n]
    f = tl.compile([x, y])
    for shape in ((1, 1), (7, 3), (65, 7), (129, 16), (130, 17), (1003, 3)):
        a = whole(shape)
        assert np.array_equal(f(a), want(a, axis=0))


def test_threads_share_the_outermost_of_several_axes():
    x = te.placeholder((16, 56, 56, 40), name="x")
    s = default_schedule(ops.sum(x, (0, 1, 2)), "llvm -mcpu=znver4 -mtriple=x86_64-linux-gnu -num-cores=2")
    assert "0..2  parallel" in str(s)


@pytest.mark.parametrize(
    ("rows", "columns", "kept"), [(40_000, 200, True), (2000, 144, True), (40_000, 500, False)]
)
def test_results_of_many_columns_stay_in_registers(rows, columns, kept):
    """54,633 rows of 144 took twice as long as in other libraries."""
    x = te.placeholder((rows, columns), name="x")
    tree = default_schedule(ops.sum(x, 0), "llvm -mcpu=znver4 -num-cores=1").tree()
    assert ("sum.local" in tree) is kept, tree
    if kept:
        a = np.random.default_rng(1).integers(-8, 9, (rows, columns)).astype("float32")
        np.testing.assert_array_equal(tl.compile([x, ops.sum(x, 0)])(a), a.sum(0))


@pytest.mark.parametrize(
    ("rows", "columns", "dtype"),
    [(4005, 152, "float32"), (4000, 152, "float32"), (501, 90, "float64"), (4000, 152, "int32")],
)
def test_registers_are_not_stored_between_rows(rows, columns, dtype):
    """63,205 rows of 152 took 2.2 times as long as they do, for a test in the loop stored all of them."""
    x = te.placeholder((rows, columns), dtype, name="x")
    y = ops.sum(x, 0)
    target = "llvm -mcpu=znver4 -mtriple=x86_64-unknown-linux-gnu -num-cores=1"
    asm = tl.build(default_schedule(y, target), [x, y], target).get_source("asm")
    assert "zmm" in asm
    assert not [line for line in asm.splitlines() if "vmov" in line and "rsp)" in line]
    a = np.random.default_rng(1).integers(-8, 9, (rows, columns)).astype(dtype)
    np.testing.assert_array_equal(tl.compile([x, y])(a), a.sum(0, dtype=y.dtype.name))
