"""Moving data: layout transforms with // and %, transposes, concatenation, flips, pixel shuffle, triangles,
sparse rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tensorlang import te
from tests.programs.check import agree, ints, rng


@pytest.mark.parametrize("c", (16, 13))
def test_nchw_to_nchw8c_with_zeros_beyond(c: int) -> None:
    n, h, w, b = 2, 5, 6, 8
    X = te.placeholder((n, c, h, w), name="X")
    Y = te.compute(
        (n, (c + b - 1) // b, h, w, b),
        lambda n, C, y, x, i: te.if_then_else(C * b + i < c, X[n, C * b + i, y, x], te.const(0.0)),
        name="Y",
    )
    s = te.create_schedule(Y.op)
    s[Y].parallel(s[Y].fuse(*Y.op.axis[:3]))
    s[Y].vectorize(Y.op.axis[4])
    x = ints(rng(), n, c, h, w)
    p = np.zeros((n, -(-c // b) * b, h, w), "float32")
    p[:, :c] = x
    agree(s, [X, Y], [x], np.ascontiguousarray(p.reshape(n, -1, b, h, w).transpose(0, 1, 3, 4, 2)))


def test_reshape_and_transpose_through_flat_positions() -> None:
    a, b, c = 4, 6, 5
    X = te.placeholder((a, b, c), name="X")
    flat = te.compute((a * b * c,), lambda i: X[i // (b * c), (i // c) % b, i % c], name="flat")
    Y = te.compute((c, a * b), lambda i, j: flat[j * c + i], name="Y")
    s = te.create_schedule(Y.op)
    s[flat].vectorize(s[flat].split(flat.op.axis[0], factor=8)[1])
    io, jo, ii, ji = s[Y].tile(Y.op.axis[0], Y.op.axis[1], 4, 8)
    s[flat].compute_at(s[Y], io)
    s[Y].vectorize(ji)
    x = ints(rng(), a, b, c)
    agree(s, [X, Y], [x], np.ascontiguousarray(x.reshape(a * b, c).T))


def test_concatenation_and_flip() -> None:
    m, n = te.var("m"), 9
    A, B = te.placeholder((m, n), name="A"), te.placeholder((m, 6), name="B")
    C = te.compute((m, n + 6), lambda i, j: te.if_then_else(j < n, A[i, j], B[i, j - n]), name="C")
    F = te.compute((m, n + 6), lambda i, j: C[i, n + 5 - j], name="F")
    s = te.create_schedule(F.op)
    s[C].compute_at(s[F], F.op.axis[0])
    s[C].vectorize(s[C].split(C.op.axis[1], 4)[1])
    s[F].vectorize(s[F].split(F.op.axis[1], 4)[1])
    r = rng()
    a, b = ints(r, 7, n), ints(r, 7, 6)
    agree(s, [A, B, F], [a, b], np.ascontiguousarray(np.concatenate((a, b), 1)[:, ::-1]))


def test_pixel_shuffle() -> None:
    c, h, w, f = 3, 4, 5, 2
    X = te.placeholder((c * f * f, h, w), name="X")
    Y = te.compute(
        (c, h * f, w * f),
        lambda ch, y, x: X[
            ch * (f * f) + te.indexmod(y, f) * f + te.indexmod(x, f), te.indexdiv(y, f), te.indexdiv(x, f)
        ],
        name="Y",
    )
    s = te.create_schedule(Y.op)
    ch, y, x = Y.op.axis
    yo, yi = s[Y].split(y, f)
    xo, xi = s[Y].split(x, f)
    s[Y].reorder(ch, yi, xi, yo, xo)
    s[Y].unroll(xi)
    s[Y].vectorize(xo)
    v = ints(rng(), c * f * f, h, w)
    agree(
        s,
        [X, Y],
        [v],
        np.ascontiguousarray(v.reshape(c, f, f, h, w).transpose(0, 3, 1, 4, 2)).reshape(c, h * f, w * f),
    )


def test_lower_triangle_and_causal_mask() -> None:
    n = 19
    A = te.placeholder((n, n), name="A")
    T = te.compute(
        (n, n),
        lambda i, j: te.if_then_else(
            te.all(j <= i, te.any(i - j < 6, j == 0)), A[i, j], te.min_value("float32")
        ),
        name="T",
    )
    s = te.create_schedule(T.op)
    io, jo, ii, ji = s[T].tile(*T.op.axis, 4, 8)
    s[T].vectorize(ji)
    s[T].unroll(ii)
    a = ints(rng(), n, n)
    i, j = np.indices((n, n))
    agree(
        s,
        [A, T],
        [a],
        np.where((j <= i) & ((i - j < 6) | (j == 0)), a, np.finfo("float32").min).astype("float32"),
    )


def test_sparse_rows_of_equal_length_times_a_vector() -> None:
    rows, cols, nnz = te.var("rows"), 40, 7
    values = te.placeholder((rows, nnz), name="values")
    columns = te.placeholder((rows, nnz), dtype="int32", name="columns")
    x = te.placeholder((cols,), name="x")
    k = te.reduce_axis((0, nnz), "k")
    y = te.compute((rows,), lambda i: te.sum(values[i, k] * x[columns[i, k]], axis=k), name="y")
    s = te.create_schedule(y.op)
    io, ii = s[y].split(y.op.axis[0], factor=8)
    s[y].reorder(io, k, ii)
    s[y].vectorize(ii)
    s[y].parallel(io)
    r = rng()
    v, c, xs = ints(r, 21, nnz), r.integers(0, cols, (21, nnz)).astype("int32"), ints(r, cols)
    agree(s, [values, columns, x, y], [v, c, xs], (v * xs[c]).sum(1))


def test_permutation_scattered_back_by_its_inverse() -> None:
    n = te.var("n")
    data, order = te.placeholder((n,), name="data"), te.placeholder((n,), dtype="int32", name="order")
    k = te.reduce_axis((0, n), "k")
    inverse = te.compute((n,), lambda i: te.sum(k.var, axis=k, where=order[k] == i), name="inverse")
    back = te.compute((n,), lambda i: data[order[inverse[i]]] * 2, name="back")
    s = te.create_schedule(back.op)
    s[inverse].compute_at(s[back], back.op.axis[0])
    d, o = ints(rng(), 17), rng().permutation(17).astype("int32")
    inv = np.empty(17, "int32")
    inv[o] = np.arange(17)
    agree(s, [data, order, back], [d, o], d[o[inv]] * 2)


def attention(q: Any, k: Any, v: Any) -> Any:
    p = q.astype("float64") @ k.astype("float64").T / np.sqrt(q.shape[1])
    e = np.exp(p - p.max(1, keepdims=True))
    return (e / e.sum(1, keepdims=True)) @ v


def test_attention_of_one_head_row_by_row() -> None:
    n, m, d = te.var("n"), te.var("m"), 16
    Q, K, V = (
        te.placeholder((n, d), name="Q"),
        te.placeholder((m, d), name="K"),
        te.placeholder((m, d), name="V"),
    )
    r, c1, c2, c3 = (
        te.reduce_axis((0, d), "r"),
        te.reduce_axis((0, m), "c1"),
        te.reduce_axis((0, m), "c2"),
        te.reduce_axis((0, m), "c3"),
    )
    S = te.compute((n, m), lambda i, j: te.sum(Q[i, r] * K[j, r], axis=r), name="S")
    M = te.compute((n,), lambda i: te.max(S[i, c1], axis=c1), name="M")
    E = te.compute((n, m), lambda i, j: te.exp((S[i, j] - M[i]) * te.const(0.25, "float32")), name="E")
    Z = te.compute((n,), lambda i: te.sum(E[i, c2], axis=c2), name="Z")
    O = te.compute((n, d), lambda i, j: te.sum(E[i, c3] * V[c3, j], axis=c3), name="O")
    Y = te.compute((n, d), lambda i, j: O[i, j] / Z[i], name="Y")
    s = te.create_schedule(Y.op)
    i, j = Y.op.axis
    s[Y].parallel(i)
    s[Y].vectorize(j)
    for stage in (O, Z, E, M, S):
        s[stage].compute_at(s[Y], i)
    s[O].reorder(O.op.axis[0], c3, O.op.axis[1])
    s[O].vectorize(O.op.axis[1])
    s[S].vectorize(s[S].split(S.op.axis[1], 8)[1])
    g = rng()
    q, k, v = (g.standard_normal(z).astype("float32") for z in ((9, d), (21, d), (21, d)))
    agree(s, [Q, K, V, Y], [q, k, v], attention(q, k, v).astype("float32"), tolerance=5e-6)
