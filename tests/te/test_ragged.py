"""Reductions whose range depends on the axes of the result: triangles, bands, causal softmax; under every
kind of schedule."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tests.te.oracles import agree

N = 9


def matrix(n=N):
    return te.placeholder((n, n), name="A"), np.random.default_rng(2).integers(-4, 5, (N, N)).astype(
        "float32"
    )


def over(A, begin, end, reducer=te.sum):
    def element(i):
        k = te.reduce_axis((begin(i), end(i)), name="k")
        return reducer(A[i, k], axis=k)

    return te.compute((A.shape[0],), element, name="C")


RANGES = {
    "lower": (lambda i: 0, lambda i: i + 1),
    "below": (lambda i: 0, lambda i: i),
    "upper": (lambda i: i, lambda i: N),
    "band": (lambda i: te.max(i - 2, 0), lambda i: te.min(i + 2, N)),
    "halves": (lambda i: 0, lambda i: (i + 1) // 2),
    "none": (lambda i: 5, lambda i: i - 4),
}


@pytest.mark.parametrize("name", RANGES)
def test_ranges(name):
    A, a = matrix()
    begin, end = RANGES[name]
    C = over(A, begin, end)
    (got,) = agree(C, {A: a})
    ends = [
        (int(te.convert(begin(te.const(i, "int32")))), int(te.convert(end(te.const(i, "int32")))))
        for i in range(N)
    ]
    assert got.tolist() == [a[i, lo : max(hi, lo)].sum() for i, (lo, hi) in enumerate(ends)]


def vector_of_rows(s, C):
    _, inner = s[C].split(C.op.axis[0], 4)
    s[C].reorder(s[C].op.reduce_axis[0], inner)
    s[C].vectorize(inner)


def vector_of_the_sum(s, C):
    _, inner = s[C].split(s[C].op.reduce_axis[0], 4)
    s[C].vectorize(inner)


def parts(s, C):
    part = s.rfactor(C, s[C].split(s[C].op.reduce_axis[0], 4)[1])
    s[part].compute_at(s[C], s[C].op.axis[0])


def threads(s, C):
    outer, inner = s[C].split(C.op.axis[0], nparts=2)
    s[C].parallel(outer)
    s[C].unroll(inner)


def own_buffer(s, C):
    acc = s.cache_write(C, "local")
    outer, _ = s[C].split(C.op.axis[0], 4)
    s[acc].compute_at(s[C], outer)


@pytest.mark.parametrize(
    "schedule", [vector_of_rows, vector_of_the_sum, parts, threads, own_buffer], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("name", ["lower", "band"])
def test_schedules(schedule, name):
    A, a = matrix()
    C = over(A, *RANGES[name])
    agree(C, {A: a}, lanes=(0,), schedule=lambda s: schedule(s, C))


def test_a_plain_loop_ends_where_the_range_ends():
    A, _ = matrix()
    C = over(A, *RANGES["lower"])
    assert "for k in range(0, i + 1):" in str(tl.lower(te.create_schedule(C.op), [A, C]))


@pytest.mark.parametrize(
    ("reducer", "meaning"),
    [(te.max, np.max), (te.min, np.min), (te.prod, np.prod)],
    ids=["max", "min", "prod"],
)
def test_other_reducers(reducer, meaning):
    A, a = matrix()
    (got,) = agree(over(A, lambda i: 0, lambda i: i + 1, reducer), {A: a}, lanes=(0, 4))
    assert np.array_equal(got, np.array([meaning(a[i, : i + 1]) for i in range(N)], "float32"))


def test_symbolic_sizes():
    n = te.size_var("n")
    A, _ = matrix(n)
    C = over(A, lambda i: i, lambda i: n)
    f = tl.build(te.create_schedule(C.op), [A, C])
    for size in (0, 1, 7):
        a = np.arange(size * size, dtype="float32").reshape(size, size)
        assert np.array_equal(f(a), np.triu(a).sum(1))


def test_ranges_that_depend_on_another_range():
    def element(i):
        k = te.reduce_axis((0, i), name="k")
        m = te.reduce_axis((k, i), name="m")
        return te.sum(k + 10 * m, axis=[k, m])

    C = te.compute((6,), element, name="C")
    (got,) = agree(C, {}, lanes=(0,))
    assert got.tolist() == [sum(k + 10 * m for k in range(i) for m in range(k, i)) for i in range(6)]


def test_a_condition_of_its_own_is_kept():
    A, a = matrix()

    def element(i):
        k = te.reduce_axis((0, i + 1), name="k")
        return te.sum(A[i, k], axis=k, where=A[i, k] > 0)

    (got,) = agree(te.compute((N,), element, name="C"), {A: a})
    assert np.array_equal(got, np.tril(a.clip(0)).sum(1))


def test_several_results_of_one_range():
    A, a = matrix()
    both = te.comm_reducer(
        lambda x, y: (x[0] + y[0], te.max(x[1], y[1])),
        lambda s, t: (te.const(0, s), te.min_value(t)),
        name="both",
    )

    def element(i):
        k = te.reduce_axis((0, i + 1), name="k")
        return both((A[i, k], A[i, k]), axis=k)

    total, top = agree(te.compute((N,), element, name="C"), {A: a}, lanes=(0,))
    assert np.array_equal(total, np.tril(a).sum(1)) and top.tolist() == [
        a[i, : i + 1].max() for i in range(N)
    ]


def test_causal_attention():
    tokens, width = 7, 4
    Q, K, V = (te.placeholder((tokens, width), name=n) for n in "QKV")
    d = te.reduce_axis((0, width), name="d")
    S = te.compute((tokens, tokens), lambda i, j: te.sum(Q[i, d] * K[j, d], axis=d), name="S")

    def seen(f, reducer):
        def element(i, *rest):
            j = te.reduce_axis((0, i + 1), name="j")
            return reducer(f(i, j, *rest), axis=j)

        return element

    top = te.compute((tokens,), seen(lambda i, j: S[i, j], te.max), name="top")
    E = te.compute((tokens, tokens), lambda i, j: te.exp(S[i, j] - top[i]), name="E")
    total = te.compute((tokens,), seen(lambda i, j: E[i, j], te.sum), name="total")
    O = te.compute((tokens, width), seen(lambda i, j, c: E[i, j] * V[j, c] / total[i], te.sum), name="O")
    rng = np.random.default_rng(4)
    q, k, v = (rng.standard_normal((tokens, width)).astype("float32") for _ in range(3))
    scores = np.where(np.tri(tokens, dtype=bool), q @ k.T, -np.inf)
    e = np.exp(scores - scores.max(1, keepdims=True))
    want = e / e.sum(1, keepdims=True) @ v
    for f in (tl.compile([Q, K, V, O]), tl.build(te.create_schedule(O.op), [Q, K, V, O])):
        np.testing.assert_allclose(f(q, k, v), want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(te.reference.evaluate(O, {Q: q, K: k, V: v})[0], want, rtol=1e-5, atol=1e-6)


def test_it_travels_and_is_tuned_like_any_reduction():
    A, a = matrix()
    C = over(A, *RANGES["lower"])
    assert np.array_equal(tl.compile([A, C])(a), np.tril(a).sum(1))
    assert "where" in str(C.op.body[0]) and [int(x.extent) for x in C.op.reduce_axis] == [N]
