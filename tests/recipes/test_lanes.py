"""Products with few columns: sums along memory from a copy of the right operand, exact on awkward sizes."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.analysis.cost_known import KNOWN
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import common, default_schedule
from tests.codegen.test_assembly import AVX2, AVX512
from tests.recipes.few_columns import gives_the_product, product


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize(
    ("m", "k", "n"), [(500, 1000, 2), (500, 1000, 3), (777, 333, 6), (4000, 40, 2), (300, 700, 5)]
)
def test_few_columns_are_summed_along_memory(m: int, k: int, n: int, fixed: bool) -> None:
    """A vector of two columns was masked, and fourteen of its lanes empty."""
    tensors = product(m, k, n)
    s = default_schedule(tensors[-1], AVX512, constants=[tensors[1]] if fixed else [])
    assert "B.global" in s.tree()
    assert re.search(r"matmul\.\S*rf\S* +0\.\.(16|8) +vectorized", s.tree()), s.tree()


@pytest.mark.parametrize(("m", "k", "n"), [(500, 1000, 16), (500, 8, 2), (20000, 16, 4), (1828, 42, 7)])
def test_short_sums_and_full_vectors_stay_tiles(m: int, k: int, n: int) -> None:
    assert not re.search(r"matmul\.\S*rf", default_schedule(product(m, k, n)[-1], AVX512).tree())


@pytest.mark.each_value
@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize(
    ("m", "k", "n", "batch"),
    [
        (37, 101, 2, 0),
        (41, 333, 3, 0),
        (1, 100, 7, 0),
        (53, 64, 6, 0),
        (29, 47, 2, 3),
        (5, 1, 3, 0),
        (0, 40, 2, 0),
    ],
)
def test_few_columns_give_the_product(m: int, k: int, n: int, batch: int, dtype: str, fixed: bool) -> None:
    gives_the_product(m, k, n, batch, dtype, fixed)


@pytest.mark.parametrize(("m", "k", "n"), [(1000, 64, 4), (1000, 256, 4), (500, 32, 4), (2970, 95, 4)])
@pytest.mark.parametrize("cpu", ["skylake-avx512", "znver4"])
def test_tiles_of_short_sums_have_columns_whose_lanes_are_added_together(
    m: int, k: int, n: int, cpu: str
) -> None:
    """A tile of 14 rows by two columns took least for the sums, and most of its time to add up their lanes."""
    target = f"llvm -mtriple=x86_64-unknown-linux-gnu -mcpu={cpu}"
    tree = default_schedule(product(m, k, n)[-1], target).tree()
    assert re.search(r"storage matmul\.rf +float32\[\d+, 4, (16|8)\]", tree), tree


def test_a_few_long_rows_are_worth_a_copy_of_few_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy was counted twice what it takes."""
    monkeypatch.delenv("TENSORLANG_COST", raising=False)
    for m, k, n in [(11, 18402, 3), (7, 1056, 4)]:
        tree = default_schedule(product(m, k, n)[-1], "llvm -mtriple=x86_64-linux-gnu -mcpu=znver4").tree()
        assert "B.global" in tree and re.search(r"matmul\.\S*rf", tree), tree


@pytest.mark.parametrize(("m", "k", "n"), [(49, 133, 7), (1828, 42, 8)])
def test_columns_of_half_a_vector_stay_tiles_where_a_whole_one_takes_two_turns(
    m: int, k: int, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TENSORLANG_COST", raising=False)
    tree = default_schedule(product(m, k, n)[-1], "llvm -mtriple=x86_64-linux-gnu -mcpu=znver4").tree()
    assert not re.search(r"matmul\.\S*rf", tree), tree


@pytest.mark.parametrize(
    ("k", "n", "fixed"), [(256, 4, False), (64, 3, False), (279, 3, True), (300, 5, False)]
)
def test_open_rows_of_few_columns_are_summed_along_memory(k: int, n: int, fixed: bool) -> None:
    """Thirty rows of masked vectors had code for each number of rows that is left."""
    for target in (None, AVX2, AVX512):
        A = te.placeholder((te.var("m"), k), name="A")
        B = te.placeholder((k, n), name="B")
        C = ops.matmul(A, B)
        if target == AVX512:
            tree = default_schedule(C, target, constants=[B] if fixed else []).tree()
            assert re.search(r"matmul\.\S*rf\S* +float32\[[1-4], ", tree), tree
        b = np.random.default_rng(k).integers(-4, 5, (k, n)).astype("float32")
        f = tl.compile([A, C] if fixed else [A, B, C], target=target, constants={B: b} if fixed else {})
        for m in (0, 1, 2, 5, 7, 8, 15, 16, 17, 31, 33, 130):
            a = np.random.default_rng(m).integers(-4, 5, (m, k)).astype("float32")
            assert np.array_equal(f(a) if fixed else f(a, b), a @ b), m


def test_few_columns_read_vectors_along_the_rows() -> None:
    """No masked loads in the sums of a depth that is a number of vectors."""
    tensors = product(512, 1024, 2)
    text = tl.compile(tensors, target=AVX512).get_source("asm")
    sums = [line for line in text.splitlines() if "vfmadd" in line and "zmm" in line]
    assert len(sums) >= 16
    assert not any("{%k" in line for line in sums)


@pytest.mark.parametrize(
    ("m", "k", "n", "shared"), [(1000, 1, 1000, True), (200, 16, 200, True), (60, 16, 60, False)]
)
def test_short_sums_are_worth_a_thread_for_what_they_write(m: int, k: int, n: int, shared: bool) -> None:
    """An outer product of a million elements was written by one thread."""
    tree = default_schedule(product(m, k, n)[-1], "llvm -mcpu=emeraldrapids -num-cores=2").tree()
    assert ("parallel" in tree) == shared, tree


def test_rows_from_memory_are_asked_for_a_kilobyte_before_their_use():
    """Into the second cache; not where a cache holds them."""
    x = te.placeholder((1 << 15, 1024), name="x")
    s = default_schedule(ops.sum(x, 1), "llvm -mcpu=znver4 -num-cores=1")
    (asked,) = (p for st in s.stages for p in st.state.prefetches)
    assert asked.tensor is x and asked.level == 2 and 1 << 10 <= asked.offset * 64 * 4 <= 2 << 10
    text = str(tl.lower(s, [x, s["sum"].op.output(0)]))
    assert text.count(", 0, 2)") == 4  # four lines of an iteration, written out
    small = default_schedule(ops.sum(te.placeholder((100, 1024), name="x"), 1), "llvm -mcpu=znver4")
    assert not any(st.state.prefetches for st in small.stages)
    apart = default_schedule(
        ops.sum(te.placeholder((256, 64, 31, 66), name="x")), "llvm -mcpu=znver4 -num-cores=1"
    )
    assert not any(st.state.prefetches for st in apart.stages)  # the place takes longer than the line


@pytest.mark.parametrize(
    ("n", "reduce", "asked"),
    [
        (34, ops.sum, True),
        (300, ops.sum, True),
        (500, ops.sum, False),
        (500, ops.max, True),
        (5000, ops.max, True),
    ],
)
def test_short_rows_from_memory_are_asked_for_sooner_on_a_zen_5(n, reduce, asked, monkeypatch):
    """Its processor is busy adding up lanes: sums of 34 columns took 0.94 of the speed of the best peer. Long
    rows of plain sums it sees coming."""
    monkeypatch.setattr(common, "cost_of", lambda target: KNOWN["znver5"])
    x = te.placeholder((10_000_000 // n, n), name="x")
    s = default_schedule(reduce(x, -1), "llvm -mcpu=znver5 -num-cores=1")
    found = [p for st in s.stages for p in st.state.prefetches]
    assert len(found) == asked
    for p in found:
        assert p.level == 2 and p.offset * 64 * (4 if n > 100 else 1) == 8 << 10
    for shape in ((200, n), (10_000_000,)):  # near, and one row
        s = default_schedule(reduce(te.placeholder(shape, name="x"), -1), "llvm -mcpu=znver5 -num-cores=1")
        assert not [p for st in s.stages for p in st.state.prefetches]


@pytest.mark.parametrize("shape", [(3001, 3001), (7, 1135, 1135)], ids=str)
def test_of_rows_that_are_one_stretch_no_more_lines_are_asked_for_than_are_read(shape):
    """A vector that may lie in two rows asked for both, or for whole images, at each iteration."""
    x = te.placeholder(shape, name="x")
    made = ops.sum(x)
    s = default_schedule(made, "llvm -mcpu=znver4 -num-cores=1")
    text = str(tl.lower(s, [x, made]))
    assert text.count("prefetch(") == 8 and "ahead" not in text  # four of each half of the loop, written out
    looked_up = str(tl.lower(default_schedule(ops.argmax(x), "llvm -mcpu=znver4"), [x]))
    assert "ahead" not in looked_up  # of the row that has the largest element
    small = te.placeholder((3, 37, 41), name="x")
    out = ops.sum(small)
    plain = tl.create_schedule(out)
    partial = plain.rfactor("sum", plain["sum"].split(plain["sum"].fuse(*out.op.reduce_axis), 16)[1])
    plain[partial].prefetch(small, plain[partial].op.reduce_axis[-1], 2)
    value = np.arange(3 * 37 * 41, dtype="float32").reshape(3, 37, 41) % 5
    low = tl.lower(plain, [small, out])
    assert "prefetch(" in str(low)
    got = np.zeros((), "float32")
    interpret(low, value, got)
    assert got == value.sum() == tl.build(plain, [small, out])(value)


@pytest.mark.each_value
@pytest.mark.parametrize("reduce", [ops.sum, ops.max, ops.logsumexp, ops.std, ops.prod])
@pytest.mark.parametrize("shape", [(200, 300), (277, 299), (20000, 7), (3, 5, 4001)])
def test_threads_share_everything_in_stretches_of_memory(
    shape: tuple[int, ...], reduce: Callable[..., te.Tensor]
) -> None:
    """Each thread had a part of every row, which left a rest in each."""
    x = te.placeholder(shape, name="x")
    out = reduce(x)
    s = default_schedule(out, f"{AVX512} -num-cores=2")
    tree = s.tree()
    assert re.search(r"fused\.outer\.outer +0\.\.2 +parallel", tree), tree
    values = np.random.default_rng(1).integers(-3, 4, shape).astype("float32")
    if reduce is ops.prod:
        values = np.where(values > 2, -1, 1).astype("float32")
    want = te.reference.evaluate(out, {x: values})[0]
    got = tl.build(default_schedule(out), [x, out], name="everything")(values)
    np.testing.assert_allclose(got, want, rtol=1e-5)
    if reduce is ops.sum and len(shape) == 2 and shape[1] == 299:  # which leaves a rest
        read = np.empty_like(want)
        interpret(tl.lower(s, [x, out]), values, read)
        np.testing.assert_allclose(read, want, rtol=1e-5)


@pytest.mark.each_value
@pytest.mark.parametrize("target", [AVX512, AVX2], ids=["avx512", "avx2"])
@pytest.mark.parametrize("dtype", ["float32", "uint8", "int8", "float64", "int32"])
@pytest.mark.parametrize(
    "shape", [(9, 7, 7, 7), (7, 3, 7, 3), (5, 3, 5, 3), (6, 2, 3, 5), (4, 2, 2, 9)], ids=str
)
def test_short_rows_that_are_one_stretch(shape: tuple[int, ...], dtype: str, target: str) -> None:
    x = te.placeholder(shape, dtype, "x")
    a = np.random.default_rng(5).integers(0, 5, shape).astype(dtype)
    for op, want in ((ops.sum, np.sum), (ops.max, np.max)):
        for axes in ((2, 3), (0, 2, 3)):
            out = op(x, axis=axes)
            result = want(a, axis=axes).astype(out.dtype.name)
            got = np.zeros(result.shape, result.dtype)
            interpret(tl.lower(default_schedule(out, target), [x, out]), a, got)
            assert np.array_equal(got, result)
            assert np.array_equal(tl.compile([x, out])(a), result)


@pytest.mark.parametrize(
    ("rows", "dtype", "lanes"),
    [((7, 7), "int8", 32), ((7, 3), "float32", 16), ((5, 3), "float32", 15), ((2, 15), "float32", 15)],
    ids=str,
)
def test_short_rows_that_are_one_stretch_fill_vectors(rows: tuple[int, int], dtype: str, lanes: int) -> None:
    """49 bytes were reduced in seven vectors of as many, each of three parts."""
    x = te.placeholder((50, 3, *rows), dtype, "x")
    tree = default_schedule(ops.max(x, axis=(2, 3)), AVX512).tree()
    assert re.search(rf" 0\.\.{lanes} .*vectorized", tree), tree


@pytest.mark.parametrize("shape", [(5003, 1), (70, 80, 1), (5003, 1, 1)])
@pytest.mark.parametrize("open_size", [False, True])
def test_a_column_is_reduced_along_memory(shape: tuple[int, ...], open_size: bool) -> None:
    """Behind an axis of one element nothing was taken for neighbours: sums of a column went one by one, in
    twelve times of the time, and its largest in forty."""
    axes = tuple(range(len(shape) - 1))
    sizes = (te.var("n"), *shape[1:]) if open_size else shape
    x = te.placeholder(sizes, name="x")
    total = ops.sum(x, axes)
    tree = str(default_schedule(total, AVX512).tree())
    assert re.search(r"vectorized\n\S* *(│ *)*└─ compute \S+ +reads x", tree), tree
    a = np.random.default_rng(0).integers(-9, 9, shape).astype("float32")
    assert (tl.compile([x, total])(a) == a.sum(axes)).all()
    first = ops.argmax(x, 0)
    assert (tl.compile([x, first])(a) == a.argmax(0)).all()


@pytest.mark.parametrize("behind", [(7650,), (16, 55), (32, 64)], ids=str)
def test_what_is_joined_of_long_runs_is_one_stretch(behind: tuple[int, ...]) -> None:
    """Each line asked which tensor it is of; a loop of vectors alone is a run for each tensor."""
    xs = [te.placeholder((n, *behind), name=f"x{n}") for n in (12, 4, 6)]
    trees = [
        default_schedule(ops.concatenate(xs), f"llvm -mcpu={cpu}").tree() for cpu in ("znver5", "znver4")
    ]
    loop = re.compile(rf"fused\.outer +0\.\.{22 * np.prod(behind) // 16 + (22 * np.prod(behind) % 16 > 0)} ")
    assert loop.search(trees[0]) and "unrolled" not in trees[0], trees[0]
    assert not loop.search(trees[1]), trees[1]


def test_some_lines_that_are_copied_are_one_stretch() -> None:
    x = te.placeholder((1000, 512), name="x")
    some = ops.split(x, [384])[1]
    tree = default_schedule(some, "llvm -mcpu=znver5").tree()
    assert re.search(rf"fused\.outer +0\.\.{616 * 512 // 16} ", tree), tree
    # a row that is added to each line is none of the stretch
    row = te.placeholder((512,), name="row")
    moved = te.compute((616, 512), lambda i, j: x[i + 384, j] + row[j], "moved")
    assert "fused" not in default_schedule(moved, "llvm -mcpu=znver5 -num-cores=1").tree()
