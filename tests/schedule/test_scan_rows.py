"""The memory of a scan of which only the last rows are read is a ring of the rows that live."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.loopir.interpret import interpret
from tensorlang.loopir.stmt import Alloc, preorder
from tensorlang.te.reference import evaluate
from tests.te import test_scan_helpers as helpers
from tests.te.oracles import agree


def rows(s, args, name):
    """The first extent of a scan's memory."""
    func = tl.lower(s, args)
    found = {
        str(st.buffer.shape[0])
        for st in preorder(func.body)
        if isinstance(st, Alloc) and st.buffer.name.startswith(name)
    }
    assert found
    return found


def fibonacci(m, first=2, name="S"):
    X, state = te.placeholder((m, 5), "int32", name="X"), te.placeholder((m, 5), "int32", name="state")
    init = te.compute((first, 5), lambda t, i: X[t, i], name="init")
    update = te.compute((m, 5), lambda t, i: state[t - 1, i] + state[t - 2, 4 - i], name="update")
    return X, init, update, te.scan(init, update, state, name=name)


def right(s, args, X, out, sizes):
    """The three oracles, for every number of rows."""
    func, compiled = tl.lower(s, args), tl.build(s, args)
    for m in sizes:
        x = np.random.default_rng(m).integers(-4, 5, (m, 5)).astype("int32")
        (want,) = evaluate(out, {X: x})
        got = np.full_like(want, 77)
        interpret(func, x, got)
        assert np.array_equal(got, want) and np.array_equal(compiled(x), want)


def test_fibonacci_keeps_three_rows_of_any_number():
    m = te.var("m")
    X, _, update, S = fibonacci(m)
    L = te.compute((5,), lambda i: S[m - 1, i] * 2, name="L")
    s = te.create_schedule(L.op)
    s[update].vectorize(s[update].split(update.op.axis[1], 4)[1])
    assert "int32[3, 5]  global  60 B  ring of 3" in s.tree()
    text = str(tl.lower(s, [X, L], simple=True))
    assert "S: int32[3, 5] global" in text and " = S[(m + 2) % 3, " in text
    right(s, [X, L], X, L, (2, 3, 4, 5, 9))


def test_as_many_rows_as_begin_or_are_read_at_the_end():
    m = te.var("m")
    X, _, _, S = fibonacci(m, first=4)
    L = te.compute((5,), lambda i: S[m - 1, i] * 2, name="L")
    s = te.create_schedule(L.op)
    assert rows(s, [X, L], "S") == {"4"}
    right(s, [X, L], X, L, (4, 5, 7, 8, 9))
    X, _, _, S = fibonacci(m)
    L = te.compute((5, 5), lambda j, i: S[m - 1 - j, i] + S[m - 2, i], name="L")
    s = te.create_schedule(L.op)
    assert rows(s, [X, L], "S") == {"5"}
    s[L].vectorize(L.op.axis[0])
    right(s, [X, L], X, L, (5, 6, 9, 11))


def test_all_rows_where_others_are_read():
    m, n = te.var("m"), te.var("n")
    X, init, _, S = fibonacci(m)
    I = te.placeholder((5,), "int32", name="I")
    state = te.placeholder((m, 5), "int32")
    again = te.scan(
        te.compute((1, 5), lambda t, i: S[0, i]),
        te.compute((m, 5), lambda t, i: state[t - 1, i] + S[t, i]),
        state,
        name="R",
    )
    for element in (
        lambda i: S[0, i],
        lambda i: S[m // 2, i],
        lambda i: S[te.max(m - 3, 0), i],
        lambda i: S[I[i] % m, i],
        lambda i: S[m - 1, i] + init[0, i],
        lambda i: S[m - 1, i] + again[m - 1, i],
        lambda i: S[te.min(n, m - 1), i],
    ):
        L = te.compute((5,), element, name="L")
        s = te.create_schedule(L.op)
        assert rows(s, [m, n, X, I, L], "S") == {"m"}, str(L.op.body[0])


def test_a_scan_that_the_caller_gets_has_all_rows():
    X, _, _, S = fibonacci(9)
    L = te.compute((5,), lambda i: S[8, i] * 2, name="L")
    x = np.arange(45, dtype="int32").reshape(9, 5)
    want = evaluate([S, L], {X: x})
    for s in (te.create_schedule(L.op), te.create_schedule([S.op, L.op])):
        assert "%" not in str(tl.lower(s, [X, S, L]))
        got = tl.build(s, [X, S, L])(x)
        assert all(np.array_equal(g, w) for g, w in zip(got, want, strict=True))


def test_a_function_of_others_gets_all_rows():
    @tl.register_func("tests.scan_rows.last", override=True)
    def last(x, y):
        y[...] = x[-1]

    X, _, _, S = fibonacci(9)
    E = te.extern(
        (5,), [S], lambda ins, outs: te.call_packed("tests.scan_rows.last", ins[0], outs[0]), name="E"
    )
    s = te.create_schedule(E.op)
    assert rows(s, [X, E], "S") == {"9"}
    x = np.arange(45, dtype="int32").reshape(9, 5)
    assert np.array_equal(tl.build(s, [X, E])(x), evaluate(S, {X: x})[0][-1])


def test_helpers_of_a_turn_that_look_further_back():
    """Rows of a helper that reads the row before its own; a copy of what an iteration reads; an update that
    collects elsewhere."""
    X, state = te.placeholder((9, 5), name="X"), te.placeholder((9, 5), name="state")
    init = te.compute((3, 5), lambda t, i: X[t, i], name="init")
    helper = te.compute((9, 5), lambda t, i: state[t - 1, i] * 2, name="helper")
    update = te.compute(
        (9, 5), lambda t, i: helper[t, 4 - i] - helper[t - 1, i] + state[t - 3, i], name="update"
    )
    S = te.scan(init, update, state, name="S")
    L = te.compute((5,), lambda i: S[8, i], name="L")
    values = {X: np.arange(45, dtype="float32").reshape(9, 5) % 7}

    def schedule(s):
        s.cache_read(state, "local", [helper])
        s.cache_write(update, "local")
        assert rows(s, [X, L], "S") == {"4"}

    agree(L, values, lanes=(0,))
    agree(L, values, lanes=(0,), schedule=schedule)


def test_the_last_hidden_state_of_an_lstm():
    X, Wi, Wh, _, inner, hs, _ = helpers.lstm(7)
    L = te.compute((helpers.B, helpers.H), lambda b, i: hs[6, b, i], name="L")
    values = helpers.arrays(X, Wi, Wh)

    def schedule(s):
        for g in inner:
            s[g].compute_inline()
        assert rows(s, [X, Wi, Wh, L], "lstm") == {"2"}

    for how in (None, schedule):
        (got,) = agree(L, values, ulp=64, lanes=(0,), schedule=how)
        np.testing.assert_allclose(got, helpers.by_numpy(*values.values())[0][-1], atol=1e-6)
    np.testing.assert_allclose(tl.compile([X, Wi, Wh, L])(*values.values()), got, atol=1e-6)


@pytest.mark.parametrize("batch", [0, 3])
def test_online_softmax(batch):
    """Running maximum and sum, of one row or of several."""
    n = te.var("n")
    more = (batch,) if batch else ()
    X = te.placeholder((n, *more), name="X")
    top, total = (te.placeholder((n, *more), name=name) for name in ("top", "total"))
    tops = te.compute((n, *more), lambda t, *i: te.max(top(t - 1, *i), X(t, *i)), name="tops")
    totals = te.compute(
        (n, *more),
        lambda t, *i: (
            total(t - 1, *i) * te.exp(top(t - 1, *i) - tops(t, *i)) + te.exp(X(t, *i) - tops(t, *i))
        ),
        name="totals",
    )
    first = te.compute((1, *more), lambda t, *i: X(t, *i), name="first")
    one = te.compute((1, *more), lambda t, *i: 1.0, name="one")
    M, Z = te.scan([first, one], [tops, totals], [top, total], name="online")
    Y = te.compute((n, *more), lambda t, *i: te.exp(X(t, *i) - M(n - 1, *i)) / Z(n - 1, *i), name="Y")
    s = te.create_schedule(Y.op)
    assert rows(s, [X, Y], "online") == {"2"}
    func, compiled = tl.lower(s, [X, Y]), tl.build(s, [X, Y])
    for size in (1, 2, 9):
        x = np.random.default_rng(size).standard_normal((size, *more)).astype("float32")
        want = np.exp(x - x.max(0)) / np.exp(x - x.max(0)).sum(0)
        got = np.full_like(x, 77)
        interpret(func, x, got)
        np.testing.assert_allclose(got, want, rtol=1e-5)
        np.testing.assert_allclose(compiled(x), want, rtol=1e-5)
        np.testing.assert_allclose(tl.compile([X, Y])(x), want, rtol=1e-5)
