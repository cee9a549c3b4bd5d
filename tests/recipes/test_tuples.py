"""Reducers of the user's whose parts stand alone, as two sums at once: in vectors along memory, as those that are
known; others as they are declared."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.analysis import reducer_kind
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import default_schedule
from tensorlang.te import serialize

PARTS = {
    "sum": (lambda x, y: x + y, lambda t: te.const(0, t), lambda a: a.sum(-1)),
    "mirrored": (lambda x, y: y + x, lambda t: te.const(0, t), lambda a: a.sum(-1)),
    "min": (te.min, te.max_value, lambda a: a.min(-1)),
    "max": (te.max, te.min_value, lambda a: a.max(-1)),
}


def reducer(*names):
    parts = [PARTS[n] for n in names]
    return te.comm_reducer(
        lambda x, y: tuple(f(a, b) for (f, _, _), a, b in zip(parts, x, y, strict=True)),
        lambda *types: tuple(start(t) for (_, start, _), t in zip(parts, types, strict=True)),
        name="several",
    )


def ints(*shape, dtype="float32"):
    return np.random.default_rng(sum(shape)).integers(0, 4, shape).astype(dtype)


@pytest.mark.parametrize("n", [1, 5, 16, 33, 100, 257, 1000])
@pytest.mark.parametrize(
    "names", [("sum", "sum"), ("min", "max"), ("mirrored", "max", "sum"), ("max",)], ids=str
)
def test_rows(names, n):
    a = ints(9, n)
    A, k = te.placeholder(a.shape, name="A"), te.reduce_axis((0, n), name="k")
    outs = te.compute(
        (9,), lambda i: reducer(*names)(tuple(A[i, k] * (p + 1) for p in range(len(names))), axis=k)
    )
    outs = outs if isinstance(outs, tuple) else (outs,)
    assert reducer_kind(outs[0].op) == "each"
    want = [PARTS[name][2](a * (p + 1)) for p, name in enumerate(names)]
    got = tl.compile([A, *outs])(a)
    got = got if isinstance(got, tuple) else (got,)
    assert all(np.array_equal(g, w) for g, w in zip(got, want, strict=True))
    out = [np.full_like(w, 7) for w in want]
    interpret(tl.lower(default_schedule(list(outs)), [A, *outs]), a, *out)
    assert all(np.array_equal(g, w) for g, w in zip(out, want, strict=True))


@pytest.mark.parametrize("dtype", ["float64", "int32", "int8", "uint16", "int64", "float16"])
@pytest.mark.parametrize("shape", [(4, 100), (100, 4), (2, 40000), (3, 4, 33)], ids=str)
def test_types_and_shapes(dtype, shape):
    a = ints(*shape, dtype=dtype)
    A, k = te.placeholder(shape, dtype, name="A"), te.reduce_axis((0, shape[-1]), name="k")
    low, high = te.compute(
        shape[:-1], lambda *i: reducer("min", "max")((A[(*i, k)], A[(*i, k)] + A[(*i, k)]), axis=k)
    )
    for got, want in zip(tl.compile([A, low, high])(a), (a.min(-1), (a + a).max(-1)), strict=True):
        assert np.array_equal(got, want)


def test_conditions_starts_and_open_lengths():
    n = te.var("n")
    A, k = te.placeholder((5, n), name="A"), te.reduce_axis((0, n), name="k")
    both = reducer("sum", "max")
    S, M = te.compute(
        (5,),
        lambda i: both((A[i, k], A[i, k]), axis=k, where=k % 3 == 0, init=(te.const(2.0), te.const(1.0))),
    )
    f = tl.compile([A, S, M])
    for m in (0, 1, 16, 50, 200):
        a = ints(5, m)
        total, most = f(a)
        assert np.array_equal(total, a[:, ::3].sum(1) + 2)
        assert np.array_equal(most, a[:, ::3].max(1, initial=1))


def test_stages_of_a_row():
    a = ints(6, 300)
    A, k, q = te.placeholder(a.shape, name="A"), te.reduce_axis((0, 300)), te.reduce_axis((0, 300))
    top = te.compute((6,), lambda i: te.max(A[i, k], axis=k), name="top")
    less = lambda i: top[i] - A[i, q]
    S, Q = te.compute((6,), lambda i: reducer("sum", "sum")((less(i), less(i) * less(i)), axis=q))
    O = te.compute((6, 300), lambda i, j: A[i, j] * S[i] - Q[i])
    d = a.max(1, keepdims=True) - a
    want = a * d.sum(1, keepdims=True) - (d * d).sum(1, keepdims=True)
    assert np.array_equal(tl.compile([A, O])(a), want)
    three = d.sum(1), (d * d).sum(1), want
    assert all(np.array_equal(g, w) for g, w in zip(tl.compile([A, S, Q, O])(a), three, strict=True))


def test_lanes_by_hand():
    a = ints(7, 64)
    A, k = te.placeholder(a.shape, name="A"), te.reduce_axis((0, 64), name="k")
    S, M = te.compute((7,), lambda i: reducer("sum", "max")((A[i, k], A[i, k]), axis=k), name="S")
    s = te.create_schedule(S.op)
    s[S].vectorize(s[S].split(k, 16)[1])
    assert "max(A[i, " in str(tl.lower(s, [A, S, M]))
    for got, want in zip(tl.build(s, [A, S, M])(a), (a.sum(1), a.max(1)), strict=True):
        assert np.array_equal(got, want)


def test_what_is_not_alone():
    A, k = te.placeholder((4, 8), name="A"), te.reduce_axis((0, 8), name="k")

    def kind(combine, start):
        made = te.comm_reducer(combine, start, name="mine")
        return reducer_kind(te.compute((4,), lambda i: made((A[i, k], A[i, k]), axis=k))[0].op)

    zeros = lambda t, u: (te.const(0, t), te.const(0, u))
    assert kind(lambda x, y: (x[0] + y[0], x[1] + y[1]), zeros) == "each"
    assert (
        kind(lambda x, y: (x[0] + y[0], x[1] + y[1]), lambda t, u: (te.const(1, t), te.const(0, u)))
        == "custom"
    )
    assert kind(lambda x, y: (x[0] + y[0], x[1] + y[0]), zeros) == "custom"
    assert kind(lambda x, y: (x[0] + y[0], x[1] - y[1]), zeros) == "custom"


def test_kept_in_a_file():
    A, k = te.placeholder((4, 8), name="A"), te.reduce_axis((0, 8), name="k")
    S, _ = te.compute((4,), lambda i: reducer("sum", "max")((A[i, k], A[i, k]), axis=k), name="S")
    again = serialize.from_json(serialize.to_json([S]))
    assert reducer_kind(again[-1].op) == "each"
