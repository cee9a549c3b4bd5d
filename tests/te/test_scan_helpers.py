"""Stages beside a scan that read ``X[t - 1]``: of them the rows of the iterations exist and no others. TVM's
LSTM is written so."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tests.te.oracles import agree

T, B, D, H = 4, 2, 3, 5


def lstm(steps=T):
    X = te.placeholder((steps - 1, B, D), name="X")
    Wi, Wh = te.placeholder((4, H, D), name="Wi2h"), te.placeholder((4, H, H), name="Wh2h")
    state_h, state_c = te.placeholder((steps, B, H)), te.placeholder((steps, B, H))
    init_c = te.compute((1, B, H), lambda *i: 0.0, name="init_c")
    init_h = te.compute((1, B, H), lambda *i: 0.0, name="init_h")
    k = te.reduce_axis((0, D), name="ki2h")
    i2h = te.compute(
        (steps, 4, B, H), lambda t, x, i, j: te.sum(X[t - 1, i, k] * Wi[x, j, k], axis=k), name="i2h"
    )
    k = te.reduce_axis((0, H), name="kh2h")
    h2h = te.compute(
        (steps, 4, B, H), lambda t, x, i, j: te.sum(state_h[t - 1, i, k] * Wh[x, j, k], axis=k), name="h2h"
    )
    gates = te.compute(i2h.shape, lambda *i: i2h(*i) + h2h(*i), name="gates")
    shape = (steps, B, H)
    enter, forget, leave = (
        te.compute(shape, lambda t, i, j, x=x: te.sigmoid(gates[t, x, i, j]), name=f"gate{x}")
        for x in (0, 2, 3)
    )
    new = te.compute(shape, lambda t, i, j: te.tanh(gates[t, 1, i, j]), name="new")
    next_c = te.compute(
        shape,
        lambda t, i, j: forget[t, i, j] * state_c[t - 1, i, j] + enter[t, i, j] * new[t, i, j],
        name="next_c",
    )
    next_h = te.compute(shape, lambda t, i, j: leave[t, i, j] * te.tanh(next_c[t, i, j]), name="next_h")
    update_c = te.compute(shape, lambda *i: next_c(*i), name="update_c")
    update_h = te.compute(shape, lambda *i: next_h(*i), name="update_h")
    hs, cs = te.scan([init_h, init_c], [update_h, update_c], [state_h, state_c], inputs=[X], name="lstm")
    return X, Wi, Wh, i2h, (gates, enter, forget, leave, new), hs, cs


def arrays(*tensors):
    rng = np.random.default_rng(0)
    return {t: (rng.standard_normal([int(n) for n in t.shape]) * 0.5).astype("float32") for t in tensors}


def by_numpy(x, wi, wh):
    steps = len(x) + 1
    h, c = np.zeros((steps, B, H)), np.zeros((steps, B, H))
    sigmoid = lambda z: 1 / (1 + np.exp(-z))
    for t in range(1, steps):
        g = np.einsum("ik,xjk->xij", x[t - 1], wi) + np.einsum("ik,xjk->xij", h[t - 1], wh)
        c[t] = sigmoid(g[2]) * c[t - 1] + sigmoid(g[0]) * np.tanh(g[1])
        h[t] = sigmoid(g[3]) * np.tanh(c[t])
    return h, c


@pytest.mark.parametrize("inline", [False, True])
def test_lstm(inline):
    X, Wi, Wh, i2h, inner, hs, cs = lstm()
    values = arrays(X, Wi, Wh)

    def schedule(s):
        for g in inner if inline else ():
            s[g].compute_inline()

    got = agree([hs, cs], values, ulp=64, schedule=schedule)
    for g, w in zip(got, by_numpy(*values.values()), strict=True):
        np.testing.assert_allclose(g, w, atol=1e-6)


def test_lstm_by_default_and_with_its_input_product_scheduled():
    X, Wi, Wh, i2h, inner, hs, cs = lstm()
    values = arrays(X, Wi, Wh)
    want = by_numpy(*values.values())
    np.testing.assert_allclose(tl.compile([X, Wi, Wh, hs, cs])(*values.values())[0], want[0], atol=1e-6)
    s = te.create_schedule(hs.op)
    assert "i2h" in s.tree() and [int(te.schedule.InferBound(s)[a].extent) for a in i2h.op.axis] == [
        T - 1,
        4,
        B,
        H,
    ]
    acc = s.cache_write(i2h, "local")
    s[i2h].parallel(i2h.op.axis[1])
    jo, ji = s[i2h].split(i2h.op.axis[3], 2)
    s[acc].compute_at(s[i2h], jo)
    part = s.rfactor(acc, s[acc].split(s[acc].op.reduce_axis[0], 2)[1])
    s[part].compute_at(s[acc], s[acc].op.axis[3])
    got = tl.build(s, [X, Wi, Wh, hs, cs])(*values.values())
    np.testing.assert_allclose(got[0], want[0], atol=1e-6)


def test_lstm_of_any_number_of_steps():
    n = te.size_var("n")
    X, Wi, Wh, _, _, hs, cs = lstm(n)
    f = tl.build(te.create_schedule(hs.op), [X, Wi, Wh, n, hs, cs])
    for steps in (1, 2, 5):
        rng = np.random.default_rng(steps)
        x, wi, wh = (
            rng.standard_normal(s).astype("float32") for s in ((steps - 1, B, D), (4, H, D), (4, H, H))
        )
        h, c = (np.full((steps, B, H), 7, "float32") for _ in range(2))
        f(x, wi, wh, steps, h, c)
        np.testing.assert_allclose(h, by_numpy(x, wi, wh)[0], atol=1e-5)


def sums(back=1, twice=False):
    """S[t] = S[t-1] + doubled X[t-back], with the doubling beside the scan."""
    X = te.placeholder((T - 1, B), name="X")
    state = te.placeholder((T, B), name="S")
    init = te.compute((1, B), lambda *i: 0.0, name="init")
    helper = te.compute((T, B), lambda t, i: X[t - back, i] * 2.0, name="helper")
    read = te.compute((T, B), lambda t, i: helper[t, i] + 0.0, name="second") if twice else helper
    update = te.compute((T, B), lambda t, i: state[t - 1, i] + read[t, i], name="update")
    return X, helper, te.scan(init, update, state, name="R")


@pytest.mark.parametrize("twice", [False, True])
def test_helpers_of_helpers(twice):
    X, _, R = sums(twice=twice)
    x = np.arange((T - 1) * B, dtype="float32").reshape(T - 1, B)
    (got,) = agree(R, {X: x}, lanes=(0,))
    assert np.array_equal(got[1:], np.cumsum(2 * x, axis=0)) and (got[0] == 0).all()


def test_a_cache_of_a_helper_has_its_rows_only():
    X, helper, R = sums()
    x = np.arange((T - 1) * B, dtype="float32").reshape(T - 1, B)

    def cached(s):
        s.cache_read(helper, "global", [s["update"].op.output(0)])

    agree(R, {X: x}, lanes=(0,), schedule=cached)


def test_rows_that_the_turns_do_read_must_be_there():
    _, _, R = sums(back=2)
    with pytest.raises(tl.DeclareError, match="index 0 is -1 at one point"):
        te.create_schedule(R.op)
    _, _, R = sums(back=0)
    with pytest.raises(tl.DeclareError, match="index 0 is 3 at one point"):
        te.create_schedule(R.op)


def test_a_helper_that_is_wanted_whole_is_refused():
    X, helper, R = sums()
    with pytest.raises(tl.DeclareError, match="index 0 is -1"):
        te.create_schedule([R.op, helper.op])
    with pytest.raises(tl.LowerError, match="only the rows that a scan reads"):
        tl.lower(te.create_schedule(R.op), [X, helper, R])


def test_constants_beside_a_scan():
    X, _, R = sums()
    x = np.arange((T - 1) * B, dtype="float32").reshape(T - 1, B)
    got = tl.build(te.create_schedule(R.op), [R], constants={X: x})()
    assert np.array_equal(got[1:], np.cumsum(2 * x, axis=0))
