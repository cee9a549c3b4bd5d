"""Values of any depth: declared, read by the reference, lowered into named parts, printed, interpreted and
built; equal all along."""

from __future__ import annotations

import inspect
import sys
from functools import partial

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.loopir.interpret import interpret
from tensorlang.loopir.verify import verify
from tensorlang.te.reference import evaluate

N = 8
x = te.placeholder((N,), name="x")
c = te.placeholder((N,), "int32", name="c")
X = np.array([3, 0, 700, 1, 250, 2, 5, 40], "float32")
C = np.array([7, 0, 3, 1, 6, 2, 5, 4], "int32")


def chain(start, step, n):
    e = start
    for k in range(n):
        e = step(e, k)
    return e


DEEP = {
    "sum": lambda i, n: chain(x[i], lambda e, k: x[(i + k) % N] - e, n),
    "maximum": lambda i, n: chain(x[i], lambda e, k: te.max(e + 1, x[i]), n),
    "call": lambda i, n: chain(x[i], lambda e, k: te.abs(e - 1), n),
    "cast": lambda i, n: chain(x[i], lambda e, k: (e.astype("int32") + 1).astype("float32"), n),
    "select": lambda i, n: chain(x[i], lambda e, k: te.select(x[i] > k, e + 1, x[i]), n),
    "and": lambda i, n: te.select(te.all(*[x[(i + k) % N] > k - n for k in range(n)]), 1.0, 0.0),
    "data": lambda i, n: chain(c[i], lambda e, k: te.max(e * 3, c[(i + k) % N]), n).astype("float32"),
    "gather": lambda i, n: x[chain(c[i], lambda e, k: c[te.min(te.max(e, 0), N - 1)], n)],
    "index": lambda i, n: x[chain(i, lambda e, k: te.max(te.min(e + 1, N - 1) - 1, 0), n)],
    "first side": lambda i, n: chain(x[i], lambda e, k: te.if_then_else(x[i] > k, e + 1, x[i]), n),
    "second side": lambda i, n: chain(x[i], lambda e, k: te.if_then_else(x[i] > n - k, x[i], e + 1), n),
    "condition": lambda i, n: chain(x[i], lambda e, k: te.if_then_else(e > k, x[i] + k, x[i]), n),
    "both sides": lambda i, n: chain(x[i], lambda e, k: te.if_then_else(x[i] > k, e + 1, e * 0.5), n),
    "shared": lambda i, n: chain(x[i], lambda e, k: e * 0.5 + te.abs(e), n),
}


@pytest.fixture
def room(request):
    """No more of Python's stack than a fresh process has: libraries of other tests raise the limit."""
    request.addfinalizer(partial(sys.setrecursionlimit, sys.getrecursionlimit()))
    sys.setrecursionlimit(1000 + len(inspect.stack(0)))


def checked(s, y, ins) -> None:
    """The schedule by each oracle, and what its text has of lines."""
    args = [*ins, y]
    arrays = [{x: X, c: C}[t] for t in ins]
    (want,) = evaluate(y, dict(zip(ins, arrays, strict=True)))
    func = tl.lower(s, args)
    verify(func)
    assert max(map(len, str(func).splitlines())) < 50_000
    out = np.zeros(want.shape, want.dtype)
    interpret(func, *arrays, out)
    np.testing.assert_array_equal(out, want)
    np.testing.assert_array_equal(tl.build(s, args)(*arrays), want)


def inputs_of(y):
    return [t for t in (x, c) if t in y.op.input_tensors]


@pytest.mark.parametrize("kind", DEEP)
def test_hundreds_of_operations(kind: str, room) -> None:
    y = te.compute((N,), lambda i: DEEP[kind](i, 110 if kind in ("gather", "data") else 250), name="y")
    s = te.create_schedule(y.op)
    checked(s, y, inputs_of(y))


@pytest.mark.parametrize("kind", ["select", "first side", "both sides"])
def test_in_vectors(kind: str, room) -> None:
    y = te.compute((N,), lambda i: DEEP[kind](i, 90), name="y")
    s = te.create_schedule(y.op)
    s[y].vectorize(s[y].split(y.op.axis[0], 3)[1])
    checked(s, y, inputs_of(y))


def test_in_a_reduction_and_its_condition(room) -> None:
    k = te.reduce_axis((0, N), name="k")
    deep = partial(DEEP["first side"], n=200)
    y = te.compute(
        (2,), lambda i: te.sum(deep(k) + i, axis=k, where=DEEP["both sides"](k, 100) > 3), name="y"
    )
    s = te.create_schedule(y.op)
    checked(s, y, [x])


def test_a_thousand_choices_are_printed(room) -> None:
    y = te.compute((N,), lambda i: DEEP["second side"](i, 1000), name="y")
    assert len(str(y.op.body[0])) > 25_000
    assert "taken" in str(tl.lower(te.create_schedule(y.op), [x, y], simple=True))


def test_text_that_doubles_is_cut() -> None:
    y = te.compute((N,), lambda i: DEEP["shared"](i, 60), name="y")
    assert "…" in str(y.op.body[0])


def test_what_a_side_reads_is_read_only_where_it_is_taken(room) -> None:
    """Parts of a side far inside of others: each read is in range only where all conditions around it
    hold."""

    def f(i):
        e = x[i]
        for k in range(120):
            e = te.if_then_else(te.all(i + k % 5 < N, x[i] > k - 120), e + x[i + k % 5], x[i] - k)
        return e

    y = te.compute((N,), f, name="y")
    s = te.create_schedule(y.op)
    checked(s, y, [x])
    verify(tl.lower(s, [x, y], simple=True), in_bounds=True)


def test_a_part_on_two_ways_is_read_on_these_alone(room) -> None:
    """``far`` is read where c is 3, and where it is not and x is positive; elsewhere its index is out of
    range."""

    def f(i):
        far = chain(
            x[i + 8 * te.if_then_else(te.any(c[i] == 3, x[i] > 2), 0, 1)], lambda e, k: e * 0.5 + k, 80
        )
        return te.if_then_else(c[i] == 3, far + 1, te.if_then_else(x[i] > 2, far * 2, x[i]))

    y = te.compute((N,), f, name="y")
    s = te.create_schedule(y.op)
    checked(s, y, [x, c])


def test_a_part_that_its_own_condition_asks_for(room) -> None:
    def f(i):
        deep = chain(x[i], lambda e, k: e * 0.5 + k, 80)
        cond = te.if_then_else(c[i] > 2, deep > 100, x[i] > 1)
        return te.if_then_else(
            cond, deep + 1, chain(deep, lambda e, k: te.if_then_else(x[i] > k, e, deep), 9)
        )

    y = te.compute((N,), f, name="y")
    checked(te.create_schedule(y.op), y, [x, c])


@pytest.mark.parametrize("factor", [4, 5, "size"])
@pytest.mark.parametrize("symbolic", [False, True])
def test_split_reorder_fuse_again_and_again(symbolic: bool, factor) -> None:
    n = te.var("n") if symbolic else 12
    a = te.placeholder((n, 3), name="a")
    y = te.compute((n, 3), lambda i, j: a[i, j] + 1, name="y")
    s = te.create_schedule(y.op)
    loop = y.op.axis[0]
    for iteration in range(40):
        outer, inner = s[y].split(loop, 3 + iteration % 3 if factor == "size" else factor)
        s[y].reorder(inner, outer)
        loop = s[y].fuse(inner, outer)
    func = tl.lower(s, [a, y])
    assert len(str(func)) < 20_000
    data = np.arange(36, dtype="float32").reshape(12, 3)
    out = np.zeros_like(data)
    interpret(func, data, out)
    np.testing.assert_array_equal(out, data + 1)
    np.testing.assert_array_equal(tl.build(s, [a, y])(data), data + 1)


def test_a_producer_inside_of_a_loop_split_and_fused_many_times() -> None:
    a = te.placeholder((30, 4), name="a")
    p = te.compute((30, 4), lambda i, j: a[i, j] * 2, name="p")
    y = te.compute((30, 4), lambda i, j: p[i, j] + p[i, 3 - j], name="y")
    s = te.create_schedule(y.op)
    loop = y.op.axis[0]
    for _ in range(20):
        outer, inner = s[y].split(loop, 7)
        s[y].reorder(inner, outer)
        loop = s[y].fuse(inner, outer)
    s[p].compute_at(s[y], loop)
    data = np.arange(120, dtype="float32").reshape(30, 4)
    np.testing.assert_array_equal(tl.build(s, [a, y])(data), 2 * (data + data[:, ::-1]))
