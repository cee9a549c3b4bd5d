"""Reductions: TVM's tutorials on reduction, rfactor and tuple inputs; softmax in stages, norms, histograms
through one-hot rows."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tests.programs.check import agree, ints, rng


def test_sum_of_rows_as_in_the_reduction_tutorial() -> None:
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    ko, ki = s[B].split(B.op.reduce_axis[0], factor=16)
    xo, xi = s[B].split(B.op.axis[0], factor=32)
    s[B].parallel(xo)
    a = ints(rng(), 45, 67)
    agree(s, [A, B], [a], a.sum(1))


@pytest.mark.parametrize("n, m", ((5, 64), (5, 67), (1, 3)))
def test_rfactor_and_parallel_partial_sums(n: int, m: int) -> None:
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    ko, ki = s[B].split(B.op.reduce_axis[0], factor=16)
    BF = s.rfactor(B, ki)
    assert len(s[B].op.body[0].axes) == 1
    s[BF].vectorize(s[BF].op.axis[0])
    s[BF].reorder(s[BF].op.axis[1], s[BF].op.reduce_axis[0], s[BF].op.axis[0])
    s[B].parallel(s[B].op.axis[0])
    a = ints(rng(), n, m)
    agree(s, [A, B], [a], a.sum(1))


def test_rfactor_attached_to_its_sum() -> None:
    n = 100
    A = te.placeholder((n,), name="A")
    k = te.reduce_axis((0, n), "k")
    B = te.compute((), lambda: te.sum(A[k], axis=k), name="B")
    s = te.create_schedule(B)
    ko, ki = s[B].split(k, nparts=4)
    BF = s.rfactor(B, ko)
    s[BF].parallel(BF.op.axis[0])
    inner = s[BF].op.reduce_axis[0]
    s[BF].unroll(s[BF].split(inner, factor=4)[1])
    a = ints(rng(), n)
    agree(s, [A, B], [a], np.asarray(a.sum(), "float32"))


def test_two_dimensional_convolution_as_reduction() -> None:
    n = te.var("n")
    Input = te.placeholder((n, n), name="Input")
    Filter = te.placeholder((3, 3), name="Filter")
    di = te.reduce_axis((0, 3), name="di")
    dj = te.reduce_axis((0, 3), name="dj")
    Output = te.compute(
        (n - 2, n - 2),
        lambda i, j: te.sum(Input[i + di, j + dj] * Filter[di, dj], axis=[di, dj]),
        name="Output",
    )
    s = te.create_schedule(Output.op)
    r = rng()
    x, f = ints(r, 19, 19), ints(r, 3, 3)
    agree(
        s,
        [Input, Filter, Output],
        [x, f],
        sum(x[i : i + 17, j : j + 17] * f[i, j] for i in range(3) for j in range(3)),
    )


def test_product_with_a_general_commutative_reduction() -> None:
    n, m = te.var("n"), te.var("m")
    product = te.comm_reducer(lambda x, y: x * y, lambda t: te.const(1, dtype=t), name="product")
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    B = te.compute((n,), lambda i: product(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    ko, ki = s[B].split(k, 4)
    s[B].unroll(ki)
    a = ints(rng(), 13, 7, lo=1, hi=4)
    agree(s, [A, B], [a], a.prod(1))


def test_argmax_with_tuple_inputs() -> None:
    # x and y are the operands of reduction, both of them is a tuple of index and value
    def fcombine(x, y):  # type: ignore[no-untyped-def]
        lhs = te.Select((x[1] >= y[1]), x[0], y[0])
        rhs = te.Select((x[1] >= y[1]), x[1], y[1])
        return lhs, rhs

    # our identity element also needs to be a tuple, so `fidentity` accepts two types as inputs
    def fidentity(t0, t1):  # type: ignore[no-untyped-def]
        return te.const(-1, t0), te.min_value(t1)

    argmax = te.comm_reducer(fcombine, fidentity, name="argmax")
    m = te.var("m")
    n = te.var("n")
    idx = te.placeholder((m, n), name="idx", dtype="int32")
    val = te.placeholder((m, n), name="val", dtype="int32")
    k = te.reduce_axis((0, n), "k")
    T0, T1 = te.compute((m,), lambda i: argmax((idx[i, k], val[i, k]), axis=k), name="T")
    s = te.create_schedule(T0.op)
    io, ii = s[T0].split(T0.op.axis[0], factor=4)
    s[T0].parallel(io)
    assert "argmax" in str(T0.op.body[0])
    i = np.tile(np.arange(31, dtype="int32"), (9, 1))
    v = rng().permuted(np.tile(np.arange(31, dtype="int32"), (9, 1)), axis=1)
    agree(s, [idx, val, T0, T1], [i, v], v.argmax(1).astype("int32"), v.max(1))


def test_argmax_through_rfactor() -> None:
    argmax = te.comm_reducer(
        lambda x, y: (
            te.Select((x[1] > y[1]) | ((x[1] == y[1]) & (x[0] < y[0])), x[0], y[0]),
            te.max(x[1], y[1]),
        ),
        lambda t0, t1: (te.const(10**6, t0), te.min_value(t1)),
        name="argmax",
    )
    M, N = 7, 45
    val = te.placeholder((M, N), name="val")
    k = te.reduce_axis((0, N), "k")
    T0, T1 = te.compute((M,), lambda i: argmax((k.var, val[i, k]), axis=k), name="T")
    s = te.create_schedule(T0.op)
    ko, ki = s[T0].split(k, factor=8)
    F0, F1 = s.rfactor(T0, ki, factor_axis=1)
    s[F0].vectorize(F0.op.axis[1])
    s[F0].compute_at(s[T0], T0.op.axis[0])
    v = ints(rng(), M, N, lo=-9, hi=9)
    agree(s, [val, T0, T1], [v], v.argmax(1).astype("int32"), v.max(1))


def test_softmax_in_four_stages() -> None:
    m, n = 13, 45
    A = te.placeholder((m, n), name="A")
    k = te.reduce_axis((0, n), name="k")
    max_elem = te.compute((m,), lambda i: te.max(A[i, k], axis=k), name="T_softmax_maxelem")
    exp = te.compute((m, n), lambda i, j: te.exp(A[i, j] - max_elem[i]), name="T_softmax_exp")
    k1 = te.reduce_axis((0, n), name="k")
    expsum = te.compute((m,), lambda i: te.sum(exp[i, k1], axis=k1), name="T_softmax_expsum")
    B = te.compute((m, n), lambda i, j: exp[i, j] / expsum[i], name="T_softmax_norm")
    # as topi's x86 schedule: everything inside the parallel loop of the last stage
    s = te.create_schedule(B.op)
    outer = B.op.axis[0]
    s[B].parallel(outer)
    s[expsum].compute_at(s[B], outer)
    s[exp].compute_at(s[B], outer)
    s[max_elem].compute_at(s[B], outer)
    s[exp].vectorize(s[exp].split(exp.op.axis[1], 8)[1])
    s[B].vectorize(s[B].split(B.op.axis[1], 8)[1])
    s[max_elem].vectorize(s[max_elem].split(max_elem.op.reduce_axis[0], 8)[1])
    a = rng().standard_normal((m, n)).astype("float32")
    e = np.exp(a.astype("float64") - a.max(1, keepdims=True))
    agree(s, [A, B], [a], (e / e.sum(1, keepdims=True)).astype("float32"), tolerance=2e-6)


def test_layer_norm() -> None:
    n, d, eps = te.var("n"), 37, 1e-5
    X = te.placeholder((n, d), name="X")
    gamma = te.placeholder((d,), name="gamma")
    beta = te.placeholder((d,), name="beta")
    k1, k2 = te.reduce_axis((0, d), name="k1"), te.reduce_axis((0, d), name="k2")
    mean = te.compute((n,), lambda i: te.sum(X[i, k1] / d, axis=k1), name="mean")
    var = te.compute(
        (n,), lambda i: te.sum((X[i, k2] - mean[i]) * (X[i, k2] - mean[i]) / d, axis=k2), name="var"
    )
    Y = te.compute(
        (n, d), lambda i, j: (X[i, j] - mean[i]) * te.rsqrt(var[i] + eps) * gamma[j] + beta[j], name="Y"
    )
    s = te.create_schedule(Y.op)
    i, j = Y.op.axis
    s[Y].parallel(i)
    s[Y].vectorize(s[Y].split(j, 16)[1])
    s[var].compute_at(s[Y], i)
    s[mean].compute_at(s[Y], i)
    r = rng()
    x, g, b = (r.standard_normal(shape).astype("float32") for shape in ((11, d), (d,), (d,)))
    y = x.astype("float64")
    want = (y - y.mean(1, keepdims=True)) / np.sqrt(y.var(1, keepdims=True) + eps) * g + b
    agree(s, [X, gamma, beta, Y], [x, g, b], want.astype("float32"), tolerance=5e-6)


def test_welford_mean_and_variance_in_one_pass() -> None:
    def combine(a, b):  # type: ignore[no-untyped-def]
        count = a[0] + b[0]
        safe = te.max(count, te.const(1, "float32"))
        delta = b[1] - a[1]
        return count, a[1] + delta * b[0] / safe, a[2] + b[2] + delta * delta * a[0] * b[0] / safe

    welford = te.comm_reducer(combine, lambda *t: tuple(te.const(0, x) for x in t), name="welford")
    m, n = 6, 50
    A = te.placeholder((m, n), name="A")
    k = te.reduce_axis((0, n), "k")
    count, mean, m2 = te.compute(
        (m,), lambda i: welford((te.const(1, "float32"), A[i, k], te.const(0, "float32")), axis=k), name="W"
    )
    s = te.create_schedule(mean.op)
    ko, ki = s[mean].split(k, 8)
    fs = s.rfactor(mean, ki)
    s[fs[0]].vectorize(fs[0].op.axis[0])
    a = rng().standard_normal((m, n)).astype("float32")
    agree(s, [A, count, mean, m2], [a], np.full(m, n, "float32"), a.mean(1), a.var(1) * n, tolerance=1e-4)


def test_histogram_as_a_sum_of_one_hot_rows() -> None:
    n, bins = 200, 10
    data = te.placeholder((n,), dtype="int32", name="data")
    weight = te.placeholder((n,), name="weight")
    k = te.reduce_axis((0, n), name="k")
    H = te.compute(
        (bins,),
        lambda b: te.sum(te.if_then_else(data[k] == b, weight[k], te.const(0, "float32")), axis=k),
        name="H",
    )
    W = te.compute((bins,), lambda b: te.sum(weight[k], axis=k, where=data[k] == b), name="W")
    s = te.create_schedule([H.op, W.op])
    ko, ki = s[H].split(k, 16)
    HF = s.rfactor(H, ko)
    s[HF].parallel(HF.op.axis[0])
    s[HF].vectorize(HF.op.axis[1])
    s[W].reorder(W.op.reduce_axis[0], W.op.axis[0])
    s[W].vectorize(W.op.axis[0])
    r = rng()
    d, w = r.integers(0, bins, n).astype("int32"), ints(r, n)
    want = np.bincount(d, w, bins).astype("float32")
    agree(s, [data, weight, H, W], [d, w], want, want)


def test_embedding_lookup_and_mean() -> None:
    vocabulary, width, n, words = 50, 24, te.var("n"), 5
    table = te.placeholder((vocabulary, width), name="table")
    ids = te.placeholder((n, words), dtype="int64", name="ids")
    rows = te.compute((n, words, width), lambda i, w, d: table[ids[i, w], d], name="rows")
    k = te.reduce_axis((0, words), "k")
    bag = te.compute((n, width), lambda i, d: te.sum(rows[i, k, d], axis=k), name="bag")
    s = te.create_schedule(bag.op)
    i, d = bag.op.axis
    s[rows].compute_at(s[bag], i)
    s[rows].vectorize(s[rows].split(rows.op.axis[2], 8)[1])
    s[bag].vectorize(s[bag].split(d, 8)[1])
    s[bag].parallel(i)
    r = rng()
    t, x = ints(r, vocabulary, width), r.integers(0, vocabulary, (9, words))
    agree(s, [table, ids, bag], [t, x], t[x].sum(1))


def test_the_lowered_code_names_what_it_does() -> None:
    A = te.placeholder((16, 16), name="A")
    k = te.reduce_axis((0, 16), "k")
    B = te.compute((16,), lambda i: te.sum(A[i, k], axis=k), name="B")
    text = str(tl.lower(te.create_schedule(B.op), [A, B], simple=True))
    assert "B[i] = 0" in text and "B[i] = B[i] + A[i, k]" in text
