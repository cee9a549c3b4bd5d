"""te.scan: declaration, its schedule tree, what is refused, and its result by all three oracles."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.loopir.interpret import interpret
from tensorlang.te.reference import evaluate


def cumsum(m, n, rows=1):
    X = te.placeholder((m, n), name="X")
    state = te.placeholder((m, n), name="state")
    init = te.compute((rows, n), lambda t, i: X[t, i], name="init")
    update = te.compute((m, n), lambda t, i: state[t - 1, i] + X[t, i], name="update")
    return X, init, update, te.scan(init, update, state, inputs=[X], name="S")


def rnn(T=6, B=3, H=10):
    X = te.placeholder((T, B, H), name="X")
    W = te.placeholder((H, H), name="W")
    h = te.placeholder((T, B, H), name="h")
    h0 = te.compute((1, B, H), lambda _, b, i: 0.0, name="h0")
    k = te.reduce_axis((0, H), name="k")
    mm = te.compute((T, B, H), lambda t, b, i: te.sum(h[t - 1, b, k] * W[k, i], axis=k), name="mm")
    new = te.compute((T, B, H), lambda t, b, i: te.max(mm[t, b, i] + X[t, b, i], 0.0), name="new")
    R = te.scan(h0, new, h, name="R")
    return X, W, mm, new, R, te.compute((T, B, H), lambda t, b, i: R[t, b, i] * 2, name="O")


@pytest.mark.parametrize("shape", [(1, 1), (5, 13), (20, 8), (3, 0)])
def test_a_running_sum_over_symbolic_sizes(shape):
    X, _, update, S = cumsum(te.var("m"), te.var("n"))
    s = te.create_schedule(S.op)
    s[update].vectorize(s[update].split(s[update].op.axis[1], 8)[1])
    x = np.random.default_rng(1).integers(-5, 6, shape).astype("float32")
    assert np.array_equal(tl.build(s, [X, S])(x), x.cumsum(0))
    assert np.array_equal(evaluate(S, {X: x})[0], x.cumsum(0))
    out = np.zeros_like(x)
    interpret(tl.lower(s, [X, S]), x, out)
    assert np.array_equal(out, x.cumsum(0))


def test_several_first_rows():
    m, n = 7, 4
    X = te.placeholder((m, n), name="X")
    state = te.placeholder((m, n), name="state")
    init = te.compute((2, n), lambda t, i: X[t, i], name="init")
    update = te.compute((m, n), lambda t, i: state[t - 1, i] + state[t - 2, i], name="update")
    S = te.scan(init, update, state)
    x = np.arange(28, dtype="float32").reshape(7, 4)
    want = x.copy()
    for t in range(2, m):
        want[t] = want[t - 1] + want[t - 2]
    assert np.array_equal(tl.build(te.create_schedule(S), [X, S])(x), want)


def test_two_states_at_once():
    m = 9
    X = te.placeholder((m,), name="X")
    lo, hi = te.placeholder((m,), name="lo"), te.placeholder((m,), name="hi")
    lo0 = te.compute((1,), lambda t: X[t], name="lo0")
    hi0 = te.compute((1,), lambda t: X[t], name="hi0")
    lo1 = te.compute((m,), lambda t: te.min(lo[t - 1], X[t]), name="lo1")
    hi1 = te.compute((m,), lambda t: te.max(hi[t - 1], X[t]) + 0 * lo[t - 1], name="hi1")
    L, Hi = te.scan([lo0, hi0], [lo1, hi1], [lo, hi], inputs=[X])
    x = np.random.default_rng(3).integers(-9, 9, m).astype("float32")
    a, b = tl.build(te.create_schedule([L.op]), [X, L, Hi])(x)
    assert np.array_equal(a, np.minimum.accumulate(x))
    assert np.array_equal(b, np.maximum.accumulate(x))


def test_a_recurrent_cell_scheduled_inside_the_scan():
    X, W, mm, new, R, O = rnn()
    rng = np.random.default_rng(2)
    x, w = rng.integers(-3, 4, (6, 3, 10)).astype("float32"), rng.integers(-1, 2, (10, 10)).astype("float32")
    want = np.zeros_like(x)
    for t in range(1, 6):
        want[t] = np.maximum(want[t - 1] @ w + x[t], 0)
    s = te.create_schedule(O)
    assert np.array_equal(tl.build(s, [X, W, O])(x, w), 2 * want)
    cached = s.cache_write(new, "local")
    s[mm].compute_at(s[cached], s[cached].op.axis[1])
    s[mm].vectorize(s[mm].op.axis[2])
    s[new].parallel(s[new].op.axis[1])
    assert np.array_equal(tl.build(s, [X, W, O])(x, w), 2 * want)
    assert np.array_equal(evaluate(O, {X: x, W: w})[0], 2 * want)
    assert np.array_equal(tl.compile([X, W, O])(x, w), 2 * want)
    replayed = tl.Trace.from_json(s.trace.to_json()).apply(te.create_schedule(O))
    assert str(tl.lower(replayed, [X, W, O])) == str(tl.lower(s, [X, W, O]))


@pytest.mark.parametrize(
    "call, because",
    [
        (lambda s, mm, new, R: s[mm].compute_root(), "must run inside its loop"),
        (lambda s, mm, new, R: s[R].parallel(s[R].op.axis[0]), "each iteration needs the one before"),
        (lambda s, mm, new, R: s[R].vectorize(s[R].op.axis[0]), "each iteration needs the one before"),
        (lambda s, mm, new, R: s.cache_write(R), "its rows are written by its update"),
        (lambda s, mm, new, R: s[new].compute_inline(), "written straight into the scan"),
        (lambda s, mm, new, R: s[new].set_scope("local"), "written straight into the scan"),
        (lambda s, mm, new, R: s[R].split(s[R].op.axis[0], 2), "its iterations are the rows"),
    ],
)
def test_what_a_scan_does_not_allow(call, because):
    _, _, mm, new, R, O = rnn()
    s = te.create_schedule(O)
    before = s.tree()
    with pytest.raises(tl.ScheduleError, match=because):
        call(s, mm, new, R)
    assert s.tree() == before
    assert len(s.trace) == 0


@pytest.mark.parametrize(
    "init, update, state, message",
    [
        ((2, 4), (7, 5), (7, 4), "dimension 1 of update"),
        ((9, 4), (7, 4), (7, 4), "init init has 9 rows of 7"),
        ((2,), (7, 4), (7, 4), "dimension"),
    ],
)
def test_states_that_do_not_fit_are_refused(init, update, state, message):
    S = te.placeholder(state, name="state")
    i = te.compute(init, lambda *a: 0.0, name="init")
    u = te.compute(update, lambda *a: 1.0, name="update")
    with pytest.raises(tl.DeclareError, match=message):
        te.scan(i, u, S)
