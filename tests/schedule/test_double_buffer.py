"""double_buffer: two copies, filled an iteration ahead; and where it keeps one."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.expr.nodes import const_int
from tensorlang.loopir.stmt import Alloc, preorder
from tensorlang.passes.double_buffer import double_buffer
from tests.te.oracles import agree


def copies(s, args, name):
    """How many copies of a buffer of rank 1 the pass makes."""
    buffers = [
        st.buffer
        for st in preorder(double_buffer(tl.lower(s, args, simple=True)).body)
        if isinstance(st, Alloc)
    ]
    shape = next(b.shape for b in buffers if b.name == name)
    return 1 if len(shape) == 1 else const_int(shape[0])


def ints(*shape):
    return np.random.default_rng(0).integers(0, 5, shape).astype("float32")


@pytest.mark.parametrize("n,m,depth,factor", [(8, 8, 8, 4), (7, 5, 9, 4), (3, 3, 2, 8)])
def test_tiles_of_a_product(n, m, depth, factor):
    A, B = te.placeholder((n, depth), name="A"), te.placeholder((depth, m), name="B")
    k = te.reduce_axis((0, depth), "k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), "C")

    def schedule(s):
        AA = s.cache_read(A, "local", [C])
        outer, inner = s[C].split(k, factor)
        s[C].reorder(outer, *s[C].op.axis, inner)
        s[AA].compute_at(s[C], outer)
        s[AA].double_buffer()

    agree(C, {A: ints(n, depth), B: ints(depth, m)}, schedule=schedule, lanes=(1,))


def chain():
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    P = te.compute((n,), lambda i: A[i] * 2, "P")
    Q = te.compute((n,), lambda i: P[i] + 1, "Q")
    return A, P, Q, te.compute((n,), lambda i: Q[i] * Q[i], "R")


@pytest.mark.parametrize("n", [0, 1, 4, 9])
def test_one_that_reads_another(n):
    A, P, Q, R = chain()

    def schedule(s):
        outer, _ = s[R].split(R.op.axis[0], 4)
        for T in (Q, P):
            s[T].compute_at(s[R], outer)
            s[T].double_buffer()

    s = te.create_schedule(R.op)
    schedule(s)
    assert copies(s, [A, R], "P") == copies(s, [A, R], "Q") == 2
    agree(R, {A: ints(n)}, schedule=schedule, lanes=(1,))


def test_one_copy_of_what_is_made_of_the_same_iteration():
    A, P, Q, R = chain()
    s = te.create_schedule(R.op)
    outer, _ = s[R].split(R.op.axis[0], 4)
    for T in (Q, P):
        s[T].compute_at(s[R], outer)
    s[Q].double_buffer()
    assert copies(s, [A, R], "Q") == 1


def test_one_copy_in_a_parallel_loop():
    A, P, Q, R = chain()
    s = te.create_schedule(R.op)
    outer, _ = s[R].split(R.op.axis[0], 4)
    s[Q].compute_inline()
    s[P].compute_at(s[R], outer)
    s[P].double_buffer()
    s[R].parallel(outer)
    assert copies(s, [A, R], "P") == 1
    assert "double" in s.tree()


def test_outputs_have_one_copy():
    A, P, Q, R = chain()
    s = te.create_schedule(R.op)
    with pytest.raises(tl.ScheduleError, match="is an output"):
        s[R].double_buffer()


def test_tiles_that_an_intrinsic_reads():
    A, B = te.placeholder((6, 8), name="A"), te.placeholder((8,), name="B")
    k = te.reduce_axis((0, 8), "k")
    P = te.compute((6, 8), lambda i, j: A[i, j] * 2, "P")
    C = te.compute((6,), lambda i: te.sum(P[i, k] * B[k], axis=k), "C")
    a, b = te.placeholder((8,), name="a"), te.placeholder((8,), name="b")
    r = te.reduce_axis((0, 8), "r")
    dot = te.compute((1,), lambda i: te.sum(a[r] * b[r], axis=r), "dot")
    tl.register_func("test.dot", lambda x, y, out: np.copyto(out, np.sum(x * y)), override=True)
    intrin = te.decl_tensor_intrin(
        dot.op, lambda ins, outs: te.call_packed("test.dot", ins[0], ins[1], outs[0]), name="test.dot"
    )

    def schedule(s):
        outer, inner = s[C].split(C.op.axis[0], 1)
        s[P].compute_at(s[C], outer)
        s[P].double_buffer()
        s[C].tensorize(inner, intrin)

    agree(C, {A: ints(6, 8), B: ints(8)}, schedule=schedule, lanes=(1,))


def test_one_copy_of_what_reads_the_row_before_of_a_scan():
    state, X = te.placeholder((6, 4), name="state"), te.placeholder((6, 4), name="X")
    start = te.compute((1, 4), lambda _, i: X[0, i], "start")
    gate = te.compute((6, 4), lambda t, i: state[t - 1, i] * 2, "gate")
    update = te.compute((6, 4), lambda t, i: gate[t, i] + X[t, i], "update")
    result = te.scan(start, update, state, name="result")
    agree(result, {X: ints(6, 4)}, schedule=lambda s: s[gate].double_buffer(), lanes=(1,))
