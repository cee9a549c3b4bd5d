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


def test_tuples():
    first = te.comm_reducer(
        lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.select(x[1] >= y[1], x[1], y[1])),
        lambda t, u: (te.const(-1, t), te.min_value(u)),
        name="first",
    )
    a = numbers(7, 20, 37)
    A, k = te.placeholder(a.shape, name="A"), te.reduce_axis((0, 7), name="k")
    I, V = te.compute((37, 20), lambda i, j: first((k.var, A[k, j, i]), axis=k), name="F")
    at, most = tl.compile([A, I, V])(a)
    assert np.array_equal(at, a.argmax(0).T) and np.array_equal(most, a.max(0).T)


def test_what_is_left_as_it_is():
    A, B = te.placeholder((6, 20, 37), name="A"), te.placeholder((6, 37, 20), name="B")
    k = te.reduce_axis((0, 6), name="k")
    assert read_order(reduced(A, 0, (1, 0)).op) == [1, 0]
    assert read_order(reduced(A, 0, (0, 1)).op) == [0, 1]
    assert read_order(reduced(A, 2, (1, 0)).op) is None  # along memory
    both = te.compute((20, 37), lambda i, j: te.sum(A[k, i, j] * B[k, j, i], axis=k))
    assert read_order(both.op) is None
    few = reduced(te.placeholder((6, 20, 3), name="A"), 0, (1, 0))
    assert [st.name for st in default_schedule(few).stages] == ["A", "R.local", "R"]
    assert [st.name for st in default_schedule(reduced(A, 0, (1, 0))).stages] == ["A", "R.global", "R"]
