"""Reductions whose results are declared across memory: computed as they lie, copied in tiles, right to the last
bit on small integers whatever else is asked of them."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.analysis import read_order
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import default_schedule
from tests.codegen.test_assembly import AVX2, AVX512


def numbers(*shape, dtype="float32"):
    a = np.random.default_rng(sum(shape)).integers(-3, 4, shape)
    return (a > 0) if dtype == "bool" else abs(a).astype(dtype) if dtype[0] == "u" else a.astype(dtype)


def reduced(A, axis, order, how="sum"):
    """The reduction over ``axis``, its other axes in this order."""
    k = te.reduce_axis((0, A.shape[axis]), name="k")
    rest = [d for d in range(len(A.shape)) if d != axis]
    axes = [rest[p] for p in order]

    def element(*ix):
        at = dict(zip(axes, ix, strict=True)) | {axis: k}
        return getattr(te, how)(A[tuple(at[d] for d in range(len(A.shape)))], axis=k)

    return te.compute(tuple(A.shape[d] for d in axes), element, name="R")


CASES = [
    ((5, 19, 33), 0, (1, 0)),
    ((19, 5, 33), 1, (1, 0)),
    ((6, 40, 70), 0, (1, 0)),
    ((3, 4, 5, 17), 2, (2, 0, 1)),
    ((3, 4, 5, 17), 0, (1, 2, 0)),
    ((3, 9, 4, 17), 1, (2, 1, 0)),
    ((4, 1, 20), 0, (1, 0)),
    ((4, 20, 1), 0, (1, 0)),
    ((4, 20, 3), 0, (1, 0)),
    ((0, 20, 8), 0, (1, 0)),
    ((4, 0, 8), 0, (1, 0)),
    ((5, 40, 4), 2, (1, 0)),  # along memory
    ((5, 40, 19), 2, (1, 0)),
    ((40, 3, 17), 2, (1, 0)),
    ((6, 7, 8, 70), 3, (2, 0, 1)),
    ((6, 0, 8), 2, (1, 0)),
    ((12, 5, 22, 1), 0, (2, 1, 0)),
    ((6, 5, 0), 2, (1, 0)),
]


@pytest.mark.each_value
@pytest.mark.parametrize(("shape", "axis", "order"), CASES, ids=str)
@pytest.mark.parametrize("how", ["sum", "max"])
def test_transposed_results(shape, axis, order, how):
    a = numbers(*shape)
    A = te.placeholder(shape, name="A")
    R = reduced(A, axis, order, how)
    want = a.sum(axis) if how == "sum" else a.max(axis, initial=-np.inf)
    want = np.ascontiguousarray(want.transpose(order))
    assert np.array_equal(tl.compile([A, R])(a), want)
    got = np.full_like(want, 7)
    interpret(tl.lower(default_schedule(R), [A, R]), a, got)
    assert np.array_equal(got, want)
    again = te.compute(R.shape, lambda *i: te.max(R[i], 0.0) * 2.0, name="E")
    assert np.array_equal(tl.compile([A, again])(a), np.maximum(want, 0) * 2)
    assert all(
        np.array_equal(g, w)
        for g, w in zip(tl.compile([A, R, again])(a), (want, np.maximum(want, 0) * 2), strict=True)
    )


@pytest.mark.parametrize("target", [AVX512, AVX2])
@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "int8", "uint16", "int64"])
def test_other_types(dtype, target):
    a = numbers(6, 20, 37, dtype=dtype)
    A = te.placeholder(a.shape, dtype, name="A")
    R = reduced(A, 0, (1, 0))
    assert len(tl.compile([A, R], target).get_source("asm")) > 50
    assert np.array_equal(tl.compile([A, R])(a), a.sum(0, dtype=dtype).T)


def test_conditions():
    a = numbers(6, 20, 37, dtype="bool")
    A = te.placeholder(a.shape, "bool", name="A")
    for how, want in (("any", a.any(0)), ("all", a.all(0))):
        assert np.array_equal(tl.compile([A, reduced(A, 0, (1, 0), how)])(a), want.T)


@pytest.mark.parametrize("open_", [(0,), (1,), (2,), (0, 2), (0, 1, 2)], ids=str)
def test_open_sizes(open_):
    sizes = [te.var(f"n{d}") if d in open_ else n for d, n in enumerate((6, 20, 37))]
    A = te.placeholder(sizes, name="A")
    f = tl.compile([A, reduced(A, 0, (1, 0))])
    for n in (0, 1, 5, 24):
        a = numbers(*(n if d in open_ else m for d, m in enumerate((6, 20, 37))))
        assert np.array_equal(f(a), a.sum(0).T)


def test_weights_and_windows():
    a, w = numbers(4, 3, 18, 22), numbers(4)
    A, W = te.placeholder(a.shape, name="A"), te.placeholder(w.shape, name="W")
    k, r, q = te.reduce_axis((0, 4)), te.reduce_axis((0, 2)), te.reduce_axis((0, 3))
    weighted = te.compute((22, 18, 3), lambda x, y, c: te.sum(A[k, c, y, x] * W[k], axis=k))
    assert np.array_equal(tl.compile([A, W, weighted])(a, w), np.einsum("kcyx,k->xyc", a, w))
    pooled = te.compute((4, 9, 20, 3), lambda n, y, x, c: te.max(A[n, c, 2 * y + r, x + q], axis=[r, q]))
    view = np.lib.stride_tricks.sliding_window_view(a, (2, 3), (2, 3))[:, :, ::2]
    assert np.array_equal(tl.compile([A, pooled])(a), view.max((-1, -2)).transpose(0, 2, 3, 1))


def of_the_first_largest():
    return te.comm_reducer(
        lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.select(x[1] >= y[1], x[1], y[1])),
        lambda t, u: (te.const(-1, t), te.min_value(u)),
        name="first",
    )


def test_tuples():
    first = of_the_first_largest()
    a = numbers(7, 20, 37)
    A, k = te.placeholder(a.shape, name="A"), te.reduce_axis((0, 7), name="k")
    I, V = te.compute((37, 20), lambda i, j: first((k.var, A[k, j, i]), axis=k), name="F")
    at, most = tl.compile([A, I, V])(a)
    assert np.array_equal(at, a.argmax(0).T) and np.array_equal(most, a.max(0).T)


def test_few_terms_of_results_across_memory():
    """Vectors would be picked together of elements far apart, as those of short rows are."""
    A = te.placeholder((4, 40, 211, 8), name="A")
    k = te.reduce_axis((0, 4), name="k")
    R = te.compute((8, 40, 211), lambda c, i, j: te.max(A[k, i, j, c], axis=k), name="R")
    a = numbers(4, 40, 211, 8)
    assert "R.global" in [st.name for st in default_schedule(R).stages]
    assert np.array_equal(tl.compile([A, R])(a), a.max(0).transpose(2, 0, 1))


@pytest.mark.parametrize("shape", [(50, 27, 3, 1), (6, 70, 5, 1)])
def test_a_last_dimension_of_one_element_does_not_part_what_is_summed(shape):
    A, a = te.placeholder(shape, name="A"), numbers(*shape)
    ks = [te.reduce_axis((0, n)) for n in shape[:3]]
    R = te.compute((1,), lambda c: te.sum(A[(*ks, c)], axis=ks), name="R")
    assert np.array_equal(tl.compile([A, R])(a), a.sum((0, 1, 2)))
    assert "fused" in default_schedule(R).tree()


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "int8"])
def test_sums_along_memory(dtype):
    a = numbers(6, 20, 9, dtype=dtype)
    A = te.placeholder(a.shape, dtype, name="A")
    R = reduced(A, 2, (1, 0))
    assert [st.name for st in default_schedule(R).stages][-1] == "R"
    assert np.array_equal(tl.compile([A, R])(a), a.sum(2, dtype=dtype).T)
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n, 20, m), dtype, name="A")
    f = tl.compile([A, reduced(A, 2, (1, 0))])
    for high, long in ((0, 5), (5, 0), (1, 1), (7, 3), (9, 40)):
        a = numbers(high, 20, long, dtype=dtype)
        assert np.array_equal(f(a), a.sum(2, dtype=dtype).T)


def test_places_and_products_along_memory():
    a, v = numbers(6, 20, 9), numbers(6, 9)
    A, V, k = (
        te.placeholder(a.shape, name="A"),
        te.placeholder(v.shape, name="V"),
        te.reduce_axis((0, 9), "k"),
    )
    first = of_the_first_largest()
    I, W = te.compute((20, 6), lambda j, i: first((k.var, A[i, j, k]), axis=k), name="F")
    at, most = tl.compile([A, I, W])(a)
    assert np.array_equal(at, a.argmax(2).T) and np.array_equal(most, a.max(2).T)
    out = te.compute((20, 6), lambda j, i: te.sum(A[i, j, k] * V[i, k], axis=k), name="P")
    assert np.array_equal(tl.compile([A, V, out])(a, v), np.einsum("ijk,ik->ji", a, v))
    names = [st.name for st in default_schedule(out).stages]
    assert names[-1] == "P" and "P.global" in names  # row by row as it lies, then turned


def test_what_is_left_as_it_is():
    A, B = te.placeholder((6, 20, 37), name="A"), te.placeholder((6, 37, 20), name="B")
    k = te.reduce_axis((0, 6), name="k")
    assert read_order(reduced(A, 0, (1, 0)).op) == [1, 0]
    assert read_order(reduced(A, 0, (0, 1)).op) == [0, 1]
    assert read_order(reduced(A, 2, (1, 0)).op) == [1, 0]  # along memory
    both = te.compute((20, 37), lambda i, j: te.sum(A[k, i, j] * B[k, j, i], axis=k))
    assert read_order(both.op) is None
    one = reduced(te.placeholder((6, 20, 1), name="A"), 0, (1, 0))
    assert "R.global" not in [st.name for st in default_schedule(one).stages]
    few = reduced(te.placeholder((6, 20, 2), name="A"), 0, (1, 0))
    assert "R.global" in [st.name for st in default_schedule(few).stages]
    assert [st.name for st in default_schedule(reduced(A, 0, (1, 0))).stages] == ["A", "R.global", "R"]


def _pixels_as_one_axis(n, c, o):
    x, w = te.placeholder((1, c, n + 2, n + 2), name="x"), te.placeholder((o, c, 3, 3), name="w")
    r, p, q = (te.reduce_axis((0, k), name) for k, name in ((c, "r"), (3, "p"), (3, "q")))
    at = lambda b, f, i: te.sum(x[b, r, i // n + p, i % n + q] * w[f, r, p, q], axis=[r, p, q])
    return x, w, te.compute((1, o, n * n), at, name="out")


@pytest.mark.parametrize("epilogue", [False, True])
def test_pixels_that_are_counted_in_one_axis_are_those_of_an_image(epilogue):
    """Sums of single elements: 57 times the time of the same convolution with an axis for rows and columns."""
    x, w, out = _pixels_as_one_axis(9, 5, 7)
    result = te.compute(out.shape, lambda *i: te.max(out[i], 0.0), name="relu") if epilogue else out
    tree = str(default_schedule(result, "llvm -mcpu=znver4").tree())
    assert "vectorized" in tree and "i.inner" in tree, tree
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-3, 4, [int(str(n)) for n in t.shape]).astype("float32") for t in (x, w))
    windows = np.lib.stride_tricks.sliding_window_view(a, (3, 3), axis=(2, 3))
    want = np.einsum("bcijpq,ocpq->boij", windows, b).reshape(1, 7, 81)
    assert (tl.compile([x, w, result])(a, b) == (np.maximum(want, 0) if epilogue else want)).all()


def test_three_digits_of_a_number():
    A, B = te.placeholder((4, 5, 6, 8), name="A"), te.placeholder((8, 33), name="B")
    k = te.reduce_axis((0, 8), "k")
    at = lambda i, j: te.sum(A[i // 30, i // 6 % 5, i % 6, k] * B[k, j], axis=k)
    out = te.compute((120, 33), at, name="out")
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-3, 4, s).astype("float32") for s in ((4, 5, 6, 8), (8, 33)))
    assert (tl.compile([A, B, out])(a, b) == a.reshape(120, 8) @ b).all()


@pytest.mark.parametrize(
    "places",
    [
        lambda i: (i // 7, i),
        lambda i: (i // 7, i % 3),
        lambda i: (i // 7 + i, i % 7),
        lambda i: (i // 7, i % 7 * 2),
        lambda i: (i // 6, i % 6),
    ],
    ids=["plain", "no multiple", "beside", "twice", "a rest"],
)
def test_axes_that_are_more_than_numbers_of_digits(places):
    A = te.placeholder((64, 16, 64), name="A")
    k = te.reduce_axis((0, 16), "k")

    def element(i):
        first, last = places(i)
        return te.sum(A[first, k, last], axis=k)

    out = te.compute((35,), element, name="out")
    a = np.random.default_rng(2).integers(-3, 4, (64, 16, 64)).astype("float32")
    first, last = places(np.arange(35))
    assert (tl.compile([A, out])(a) == a[first, :, last].sum(1)).all()


@pytest.mark.parametrize("step", [-1, 2, 3, 4])
def test_sums_along_memory_backwards_or_of_some_elements_are_in_vectors(step):
    n, m = 100, 9
    A = te.placeholder((m, n * abs(step)), name="A")
    k = te.reduce_axis((0, n), "k")
    out = te.compute((m,), lambda i: te.sum(A[i, n - 1 - k if step < 0 else k * step], axis=k), name="out")
    assert "vectorized" in str(default_schedule(out, "llvm -mcpu=znver4").tree())
    a = np.random.default_rng(2).integers(-3, 4, (m, n * abs(step))).astype("float32")
    assert (tl.compile([A, out])(a) == a[:, :: abs(step)].sum(1)).all()
