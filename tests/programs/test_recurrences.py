"""Recurrences, steps done by others, and tensor intrinsics: TVM's tutorials on scan, extern and tensorize; an
LSTM, running sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tests.programs.check import agree, ints, rng


def test_running_sum_as_in_the_scan_tutorial() -> None:
    m, n = te.var("m"), te.var("n")
    X = te.placeholder((m, n), name="X")
    s_state = te.placeholder((m, n))
    s_init = te.compute((1, n), lambda _, i: X[0, i])
    s_update = te.compute((m, n), lambda t, i: s_state[t - 1, i] + X[t, i])
    s_scan = te.scan(s_init, s_update, s_state, inputs=[X])

    s = te.create_schedule(s_scan.op)
    s[s_init].vectorize(s[s_init].split(s_init.op.axis[1], factor=8)[1])
    xo, xi = s[s_update].split(s_update.op.axis[1], factor=8)
    s[s_update].vectorize(xi)
    r = rng()
    for shape in ((1, 3), (6, 8), (11, 21)):
        x = ints(r, *shape)
        agree(s, [X, s_scan], [x], x.cumsum(0))


def test_scan_with_several_stages_in_a_turn() -> None:
    m, n = te.var("m"), te.var("n")
    X = te.placeholder((m, n), name="X")
    s_state = te.placeholder((m, n))
    s_init = te.compute((1, n), lambda _, i: X[0, i])
    s_update_s1 = te.compute((m, n), lambda t, i: s_state[t - 1, i] * 2, name="s1")
    s_update_s2 = te.compute((m, n), lambda t, i: s_update_s1[t, i] + X[t, i], name="s2")
    s_scan = te.scan(s_init, s_update_s2, s_state, inputs=[X])

    s = te.create_schedule(s_scan.op)
    xo, xi = s[s_update_s2].split(s_update_s2.op.axis[1], factor=16)
    s[s_update_s1].compute_at(s[s_update_s2], xo)
    x = ints(rng(), 6, 21)
    want = x.copy()
    for t in range(1, 6):
        want[t] = want[t - 1] * 2 + x[t]
    agree(s, [X, s_scan], [x], want)


def test_fibonacci_and_factorials_with_two_states() -> None:
    m, n = te.var("m"), 5
    X = te.placeholder((m, n), dtype="int32", name="X")
    s_state1, s_state2 = te.placeholder((m, n), dtype="int32"), te.placeholder((m, n), dtype="int32")
    s_init1 = te.compute((2, n), lambda t, i: X[t, i])
    s_init2 = te.compute((2, n), lambda t, i: te.const(1, "int32"))
    s_update1 = te.compute((m, n), lambda t, i: s_state1[t - 1, i] + s_state1[t - 2, i] + X[t, i] * 0)
    s_update2 = te.compute((m, n), lambda t, i: s_state2[t - 1, i] * 2 - s_state1[t - 1, i])
    s_scan1, s_scan2 = te.scan([s_init1, s_init2], [s_update1, s_update2], [s_state1, s_state2], inputs=[X])
    s = te.create_schedule(s_scan1.op)
    x = ints(rng(), 9, n, dtype="int32")
    one, two = x.copy(), np.ones_like(x)
    for t in range(2, 9):
        one[t], two[t] = one[t - 1] + one[t - 2], two[t - 1] * 2 - one[t - 1]
    agree(s, [X, s_scan1, s_scan2], [x], one, two)


def test_lstm() -> None:
    num_step, batch, size = 5, 3, 8
    X = te.placeholder((num_step, batch, size), name="X")
    Wh2h = te.placeholder((4, size, size), name="Wh2h")
    Wi2h = te.placeholder((4, size, size), name="Wi2h")
    s_state_h = te.placeholder((num_step, batch, size))
    s_state_c = te.placeholder((num_step, batch, size))
    s_init_c = te.compute((1, batch, size), lambda *i: te.const(0, "float32"), name="init_c")
    s_init_h = te.compute((1, batch, size), lambda *i: te.const(0, "float32"), name="init_h")
    k, ki = te.reduce_axis((0, size), name="ki2h"), te.reduce_axis((0, size), name="kx")
    i2h = te.compute(
        (num_step, 4, batch, size),
        lambda t, x, i, j: te.sum(X[t, i, ki] * Wi2h[x, j, ki], axis=ki),
        name="i2h",
    )
    s_h2h = te.compute(
        (num_step, 4, batch, size),
        lambda t, x, i, j: te.sum(s_state_h[t - 1, i, k] * Wh2h[x, j, k], axis=k),
        name="s_h2h",
    )
    gates = te.compute(
        (num_step, 4, batch, size), lambda t, x, i, j: i2h[t, x, i, j] + s_h2h[t, x, i, j], name="gates"
    )
    gshape = (num_step, batch, size)
    in_gate = te.compute(gshape, lambda t, i, j: te.sigmoid(gates[t, 0, i, j]), name="in_gate")
    in_transform = te.compute(gshape, lambda t, i, j: te.tanh(gates[t, 1, i, j]), name="in_transform")
    forget_gate = te.compute(gshape, lambda t, i, j: te.sigmoid(gates[t, 2, i, j]), name="forget_gate")
    out_gate = te.compute(gshape, lambda t, i, j: te.sigmoid(gates[t, 3, i, j]), name="out_gate")
    next_c = te.compute(
        gshape,
        lambda t, i, j: (
            forget_gate[t, i, j] * s_state_c[t - 1, i, j] + in_gate[t, i, j] * in_transform[t, i, j]
        ),
        name="next_c",
    )
    next_h = te.compute(gshape, lambda t, i, j: out_gate[t, i, j] * te.tanh(next_c[t, i, j]), name="next_h")
    update_c = te.compute(gshape, lambda *i: next_c(*i), name="update_c")
    update_h = te.compute(gshape, lambda *i: next_h(*i), name="update_h")
    scan_h, scan_c = te.scan(
        [s_init_h, s_init_c], [update_h, update_c], [s_state_h, s_state_c], inputs=[X], name="lstm_scan"
    )

    s = te.create_schedule(scan_h.op)
    s[gates].compute_inline()
    for gate in (in_gate, in_transform, forget_gate, out_gate):
        s[gate].compute_inline()
    s[s_h2h].vectorize(s[s_h2h].op.axis[3])
    s[i2h].parallel(i2h.op.axis[0])
    r = rng()
    x, wh, wi = (
        r.standard_normal(z).astype("float32") * 0.5
        for z in ((num_step, batch, size), (4, size, size), (4, size, size))
    )

    def sigmoid(v: Any) -> Any:
        return 1 / (1 + np.exp(-v))

    h, c = np.zeros((num_step, batch, size)), np.zeros((num_step, batch, size))
    for t in range(1, num_step):
        g = np.einsum("ik,xjk->xij", x[t].astype("float64"), wi) + np.einsum("ik,xjk->xij", h[t - 1], wh)
        c[t] = sigmoid(g[2]) * c[t - 1] + sigmoid(g[0]) * np.tanh(g[1])
        h[t] = sigmoid(g[3]) * np.tanh(c[t])
    agree(
        s,
        [X, Wi2h, Wh2h, scan_h, scan_c],
        [x, wi, wh],
        h.astype("float32"),
        c.astype("float32"),
        tolerance=2e-6,
    )


def test_extern_matmul_by_a_packed_function() -> None:
    @tl.register_func("tests.programs.matmul", override=True)
    def matmul(a, b, c):  # type: ignore[no-untyped-def]
        c[...] = a @ b

    n, l, m = 9, 7, 11
    bias = te.var("bias", dtype="float32")
    A = te.placeholder((n, l), name="A")
    B = te.placeholder((l, m), name="B")
    C = te.extern(
        (n, m),
        [A, B],
        lambda ins, outs: te.call_packed("tests.programs.matmul", ins[0], ins[1], outs[0]),
        name="C",
    )
    D = te.compute(C.shape, lambda i, j: C[i, j] + bias, name="D")
    s = te.create_schedule(D.op)
    s[D].vectorize(s[D].split(D.op.axis[1], 8)[1])
    r = rng()
    a, b, d = ints(r, n, l), ints(r, l, m), np.empty((n, m), "float32")
    for f in (tl.build(s, [A, B, bias, D], "llvm"), tl.compile([A, B, bias, D])):
        f(a, b, 3.0, d)
        np.testing.assert_array_equal(d, a @ b + 3)


def test_extern_of_what_python_computes() -> None:
    @tl.register_func("tests.programs.addone", override=True)
    def my_addone(x, y):  # type: ignore[no-untyped-def]
        y[...] = x + 1

    n = 15
    A = te.placeholder((n,), name="A")
    P = te.compute((n,), lambda i: A[i] * 2, name="P")
    B = te.extern(
        P.shape, [P], lambda ins, outs: te.call_packed("tests.programs.addone", ins[0], outs[0]), name="C"
    )
    s = te.create_schedule(B.op)
    a = ints(rng(), n)
    agree(s, [A, B], [a], 2 * a + 1)


@pytest.mark.parametrize("N, M", ((16, 32), (10, 16)))
def test_tensorize_with_a_matrix_vector_product(N: int, M: int) -> None:
    L, factor = 8, 16

    def intrin_gemv(m, l):  # type: ignore[no-untyped-def]
        a = te.placeholder((l,), name="a")
        b = te.placeholder((m, l), name="b")
        k = te.reduce_axis((0, l), name="k")
        c = te.compute((m,), lambda i: te.sum(a[k] * b[i, k], axis=k), name="c")

        def intrin_func(ins, outs):  # type: ignore[no-untyped-def]
            aa, bb = ins
            (cc,) = outs
            return te.call_packed(
                "tests.programs.gemv", aa.access_ptr("r"), bb.access_ptr("r"), cc.access_ptr("w")
            )

        return te.decl_tensor_intrin(c.op, intrin_func, name="gemv_program")

    @tl.register_func("tests.programs.gemv", override=True)
    def gemv(a, b, c):  # type: ignore[no-untyped-def]
        c[...] = b @ a

    A = te.placeholder((N, L), name="A")
    B = te.placeholder((M, L), name="B")
    k = te.reduce_axis((0, L), name="k")
    C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[j, k], axis=k), name="C")
    s = te.create_schedule(C.op)
    x, y = C.op.axis
    (z,) = C.op.reduce_axis
    yo, yi = s[C].split(y, factor=factor)
    s[C].reorder(x, yo, yi, z)
    gemv_intrin = intrin_gemv(factor, L)
    s[C].tensorize(yi, gemv_intrin)
    r = rng()
    a, b = ints(r, N, L), ints(r, M, L)
    agree(s, [A, B, C], [a, b], a @ b.T)
