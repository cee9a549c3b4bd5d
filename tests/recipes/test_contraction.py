"""Contractions over several axes are products of matrices where tiles along single axes would be mostly empty."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.recipes import default_schedule
from tests.codegen.test_assembly import AVX2, AVX512, NEON

RNG = np.random.default_rng(5)
# letters in any order, and the size of each
SHORT = ("bfae,dcfe->dacb", {"a": 18, "b": 3, "c": 12, "d": 20, "e": 4, "f": 71})
BATCH_LAST = ("ebad,dcae->bca", {"a": 3, "b": 151, "c": 35, "d": 22, "e": 4})
SEVERAL = ("gabfc,afdeg->ceabd", {"a": 4, "b": 12, "c": 8, "d": 5, "e": 19, "f": 16, "g": 7})
PLAIN = ("ac,cb->ab", {"a": 65, "b": 77, "c": 33})
# both operands the other way round: few rows, many rows of a small result, a batch
TURNED = ("ca,bc->ab", {"a": 7, "b": 13, "c": 51})
TURNED_DEEP = ("ca,bc->ab", {"a": 40, "b": 30, "c": 300})
TURNED_BATCH = ("dca,dbc->dab", {"a": 8, "b": 16, "c": 16, "d": 9})
# columns that lie together in the tensor and in the result, in the tensor alone, of a vector, and of one whose
# result lies otherwise
TOGETHER = ("fcba,afde->abcde", {"a": 4, "b": 25, "c": 2, "d": 31, "e": 5, "f": 11})
TOGETHER_THERE = ("ad,dbc->cba", {"a": 3, "b": 48, "c": 20, "d": 44})
OF_A_VECTOR = ("ad,adbc->abc", {"a": 13, "b": 55, "c": 4, "d": 36})
OF_A_VECTOR_THERE = ("dae,adebc->cab", {"a": 14, "b": 94, "c": 2, "d": 3, "e": 5})
ONES = ("abe,aecd->bacd", {"a": 1, "b": 3, "c": 40, "d": 1, "e": 9})
# sums that the operands have in different orders
CROSSED = ("acd,bdc->ab", {"a": 11, "b": 102, "c": 21, "d": 29})

# axes of a side that are no neighbours, or of which the last in memory is short; the columns of a side alone,
# that lie in another order than the result; sums that only the smaller tensor has in their order
APART = ("bace,aed->cbda", {"a": 6, "b": 53, "c": 44, "d": 6, "e": 41})
SHORT_LAST = ("feab,fceda->abcd", {"a": 3, "b": 2, "c": 53, "d": 9, "e": 2, "f": 31})
TURNED_COLUMNS = ("cd,dcba->ab", {"a": 5, "b": 46, "c": 17, "d": 29})
SMALLER_FIRST = ("acd,badc->ba", {"a": 33, "b": 40, "c": 13, "d": 60})
STRIDED = ("eda,debc->acb", {"a": 4, "b": 168, "c": 108, "d": 6, "e": 3})
BATCH_WITHIN = ("fceba,aefd->dbca", {"a": 39, "b": 3, "c": 7, "d": 2, "e": 5, "f": 11})
FAR = ("ebac,aed->cdab", {"a": 4, "b": 86, "c": 22, "d": 13, "e": 89})


def declared(spec, sizes, dtype="float32"):
    first, second = spec.partition("->")[0].split(",")
    A, B = (te.placeholder([sizes[c] for c in s], dtype, n) for s, n in ((first, "A"), (second, "B")))
    return A, B, ops.einsum(spec, A, B)


def values(spec, sizes, dtype="float32"):
    parts = spec.partition("->")[0].split(",")
    a, b = (RNG.integers(-3, 4, [sizes[c] for c in s]).astype(dtype) for s in parts)
    return a, b, np.einsum(spec, a, b)


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize(
    ("spec", "sizes"),
    [
        SHORT,
        BATCH_LAST,
        SEVERAL,
        PLAIN,
        TURNED,
        TURNED_DEEP,
        TURNED_BATCH,
        TOGETHER,
        TOGETHER_THERE,
        OF_A_VECTOR,
        OF_A_VECTOR_THERE,
        ONES,
        CROSSED,
        APART,
        SHORT_LAST,
        TURNED_COLUMNS,
        SMALLER_FIRST,
        STRIDED,
        BATCH_WITHIN,
        FAR,
    ],
)
def test_contractions_are_exact(spec, sizes, dtype):
    A, B, out = declared(spec, sizes, dtype)
    a, b, want = values(spec, sizes, dtype)
    assert (tl.compile([A, B, out])(a, b) == want).all()
    assert (tl.compile([A, out], constants={B: b})(a) == want).all()
    assert (tl.compile([A, B, ops.relu(out)])(a, b) == np.maximum(want, 0)).all()


@pytest.mark.parametrize("target", [AVX512, AVX2, NEON])
@pytest.mark.parametrize(("spec", "sizes"), [SHORT, BATCH_LAST, SEVERAL])
def test_sums_are_in_whole_vectors_of_the_axes_of_a_side(spec, sizes, target):
    """Along one axis of three elements a contraction reached a seventh of the speed."""
    one = tl.Target(f"{target} -num-cores=1")
    A, B, out = declared(spec, sizes)
    ir = tl.build(default_schedule(out, one), [A, B, out], target=one).get_source("ir")
    sums = [s for s in ir.splitlines() if re.search(r" (\S+\.local\[[^=]*\]) = \1 \+ ", s)]
    widths = [max(map(int, re.findall(r"x(\d+)\(", s)), default=1) for s in sums]
    assert widths and max(widths) >= one.vector_lanes("float32"), sums


@pytest.mark.parametrize(("spec", "sizes"), [TURNED, TURNED_DEEP, TURNED_BATCH])
def test_operands_that_both_lie_the_other_way_round_are_read_where_they_lie(spec, sizes):
    """Each element of the result was a sum along memory of a copy of the left operand."""
    A, B, out = declared(spec, sizes)
    tree = str(default_schedule(out, tl.Target(f"{AVX512} -num-cores=1")).tree())
    # of small matrices the right one is copied instead: 100 of 8 × 16 × 16 take 0.76 of the time (Zen 5)
    copied = "B.global" if (spec, sizes) == TURNED_BATCH else "einsum.global"
    assert [n for n in ("A.global", "B.global", "einsum.global") if n in tree] == [copied], tree
    assert ".rf" not in tree, tree


@pytest.mark.parametrize("target", [AVX512, AVX2, NEON])
@pytest.mark.parametrize(("spec", "sizes"), [TOGETHER, OF_A_VECTOR])
def test_axes_that_lie_together_are_one_where_they_are(spec, sizes, target):
    """Vectors were as long as the last axis, of 5 and 4 elements: nine times the time."""
    one = tl.Target(f"{target} -num-cores=1")
    A, B, out = declared(spec, sizes)
    s = default_schedule(out, one)
    tree, built = str(s.tree()), tl.build(s, [A, B, out], target=one)
    assert "B.global" not in tree and "einsum.global" not in tree, tree
    ir = built.get_source("ir").splitlines()
    sums = [line for line in ir if re.search(r" (\S+\.local\[[^=]*\]) = \1 \+ ", line)]
    widths = [int(n) for line in sums for n in re.findall(r"x(\d+)\(", line)]
    assert max(widths, default=1) >= one.vector_lanes("float32"), sums
    # quotients tell the columns of the tensor apart, of which no code is left
    assert "gather" not in built.get_source("asm")


@pytest.mark.parametrize(("spec", "sizes"), [TOGETHER_THERE, OF_A_VECTOR_THERE])
def test_a_tensor_whose_axes_lie_together_is_not_copied(spec, sizes):
    A, B, out = declared(spec, sizes)
    tree = str(default_schedule(out, tl.Target(f"{AVX512} -num-cores=1")).tree())
    assert "B.global" not in tree.replace("einsum.global", "") and "einsum.global" in tree, tree


@pytest.mark.parametrize("places", [(4,), (3, 4), (0, 1), (0, 3, 4), (1, 3)])
def test_what_is_added_to_columns_that_are_one(places):
    """Of a tensor that has some of the columns alone elements would be gathered."""
    spec, sizes = TOGETHER
    A, B, out = declared(spec, sizes)
    axes = spec.partition("->")[2]
    bias = te.placeholder([sizes[axes[d]] for d in places], name="bias")
    added = te.compute(out.shape, lambda *i: out[i] + bias[tuple(i[d] for d in places)], name="added")
    a, b, want = values(spec, sizes)
    c = RNG.integers(-3, 4, [sizes[axes[d]] for d in places]).astype("float32")
    shape = [sizes[x] if d in places else 1 for d, x in enumerate(axes)]
    assert (tl.compile([A, B, bias, added])(a, b, c) == want + c.reshape(shape)).all()


@pytest.mark.parametrize(("spec", "sizes"), [APART, SHORT_LAST, STRIDED, FAR])
def test_copies_have_each_dimension_by_itself(spec, sizes):
    """Copies that counted several axes as one gathered their elements: 3 to 9 cycles of each, for one half."""
    A, B, out = declared(spec, sizes)
    s = default_schedule(out, tl.Target(f"{AVX512} -num-cores=1"))
    built = tl.build(s, [A, B, out], target=tl.Target(f"{AVX512} -num-cores=1"))
    written = [st for st in built.get_source("ir").splitlines() if re.search(r"global\[.* = [AB]\[", st)]
    assert not any("//" in st.partition(" = ")[0] and "ramp" in st.partition(" = ")[0] for st in written)
    assert "gather" not in built.get_source("asm")


def test_results_of_both_operands_stay_where_neighbours_are_in_memory():
    """A product of matrices for each of them would copy the larger tensor: twice the time."""
    A, B, out = declared(*BATCH_WITHIN)
    tree = str(default_schedule(out, tl.Target(f"{AVX512} -num-cores=1")).tree())
    assert "A.global" not in tree and "B.global" in tree, tree


def test_columns_that_lie_together_in_another_order_than_the_result():
    """Vectors had the five elements of the last axis: three times the time."""
    A, B, out = declared(*TURNED_COLUMNS)
    one = tl.Target(f"{AVX512} -num-cores=1")
    ir = tl.build(default_schedule(out, one), [A, B, out], target=one).get_source("ir")
    widths = [int(n) for line in ir.splitlines() if ".local" in line for n in re.findall(r"x(\d+)\(", line)]
    assert max(widths) >= one.vector_lanes("float32"), ir


def test_sums_of_a_vector_are_in_the_order_of_the_larger_tensor():
    """They were in that of the smaller one, along which the elements of the larger were gathered."""
    A, B, out = declared(*SMALLER_FIRST)
    s = default_schedule(out, tl.Target(f"{AVX512} -num-cores=1"))
    tree = str(s.tree())
    assert "A.global" in tree and "B.global" not in tree, tree


def test_sums_that_operands_have_in_different_orders_are_in_that_of_the_larger():
    """The smaller operand is copied in the order of the other one: 0.06 of the time, which had gathered."""
    A, B, out = declared(*CROSSED)
    s = default_schedule(out, tl.Target(f"{AVX512} -num-cores=1"))
    tree = str(s.tree())
    assert "A.global" in tree and "B.global" not in tree, tree
    sums = re.findall(r"local\.(\w+) .*reduce", tree)
    assert sums == ["d", "c"], tree


@pytest.mark.parametrize("red", [(34, 6), (5, 7, 3), (3, 3)])
def test_sums_along_memory_take_all_axes_that_are_one_stretch(red):
    """Rows of six elements of each vector were lanes of sixteen: four times the time."""
    x, y = te.placeholder((63, *red), name="x"), te.placeholder(red, name="y")
    ks = [te.reduce_axis((0, n), f"k{i}") for i, n in enumerate(red)]
    out = te.compute((63,), lambda i: te.sum(x[(i, *ks)] * y[tuple(ks)], axis=ks), name="out")
    if len(red) == 2 and red[0] > 3:
        assert "k0.k1.fused" in str(default_schedule(out, AVX512).tree())
    X, Y = (RNG.integers(-3, 4, s).astype("float32") for s in ((63, *red), red))
    assert (tl.compile([x, y, out])(X, Y) == (X * Y).reshape(63, -1).sum(1)).all()


@pytest.mark.parametrize("known", [False, True])
def test_a_product_of_matrices_stays_as_it_is(known):
    A, B, out = declared(*PLAIN)
    tree = str(default_schedule(out, AVX512, [B] if known else []).tree())
    assert "A.global" not in tree and "einsum.global" not in tree


def test_rows_of_two_axes_and_a_sum_over_two():
    """The rows were counted as one in a product that then was none, and no schedule was left for it."""
    spec, sizes = "abcfg,afgde->abcde", {"a": 3, "b": 5, "c": 27, "d": 16, "e": 12, "f": 16, "g": 7}
    A, B, out = declared(spec, sizes)
    a, b, want = values(spec, sizes)
    assert (tl.compile([A, B, out])(a, b) == want).all()


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4), (3, 0, 1, 4, 2), (4, 2, 0, 3, 1)])
def test_short_axes_of_a_weight_are_columns_whatever_windows_it_is_for(order):
    """A convolution of capsules had vectors of the four elements of the last axis: twice the time."""
    n, extents = 14, [3, 4, 6, 5, 4]  # taps, channels, and of the weight: outputs, sums, columns
    x = te.placeholder((n + 2, n, 4, 5), name="x")
    w = te.placeholder([extents[d] for d in order], name="w")
    r, c, k = (te.reduce_axis((0, extents[d]), name) for d, name in ((0, "r"), (1, "c"), (3, "k")))

    def element(i, f, j, b):
        at = (r, c, f, k, b)
        return te.sum(x[i + r, j, c, k] * w[tuple(at[d] for d in order)], axis=[r, c, k])

    out = te.compute((n, 6, n, 4), element, name="out")
    assert "w.global" in str(default_schedule(out, AVX512).tree())
    X, W = (RNG.integers(-3, 4, [int(str(s)) for s in t.shape]).astype("float32") for t in (x, w))
    windows = np.lib.stride_tricks.sliding_window_view(X, 3, axis=0)  # i, j, c, k, r
    want = np.einsum("ijckr,rcfkb->ifjb", windows, np.transpose(W, np.argsort(order)))
    assert (tl.compile([x, w, out])(X, W) == want).all()
    assert (tl.compile([x, out], constants={w: W})(X) == want).all()


@pytest.mark.parametrize("open_at", ["i", "l", "il", "k"])
def test_columns_that_lie_together_where_other_sizes_are_open(open_at):
    """Vectors of the five elements of the last axis took twice the time; a last axis of open length is counted
    by itself."""
    sizes = {"i": 40, "j": 30, "k": 20, "l": 5}
    now = {c: te.dim(c, 1, 99) if c in open_at else n for c, n in sizes.items()}
    A, B = (te.placeholder([now[c] for c in part], name=n) for part, n in (("ij", "A"), ("jkl", "B")))
    out = ops.einsum("ij,jkl->ikl", A, B)
    if open_at == "i":
        assert "i1.i2.fused" in str(default_schedule(out, AVX512).tree())
    f = tl.compile([A, B, out])
    for n in (1, 7, 40):
        at = {c: n if c in open_at else size for c, size in sizes.items()}
        a, b, want = values("ij,jkl->ikl", at)
        assert (f(a, b) == want).all()
