"""reverse_compute_inline: the consumer's body in the producer's loops."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.schedule.state import At
from tests.te.oracles import agree


def chain():
    A = te.placeholder((10, 9), name="A")
    P = te.compute((10, 9), lambda i, j: A[i, j] * 2, "P")
    Q = te.compute((10, 9), lambda i, j: P[i, j] + 1, "Q")
    return A, P, Q, te.compute((9, 10), lambda j, i: Q[i, j] * Q[i, j], "R")


def test_loops_of_the_producer_and_what_is_computed_in_them():
    A, P, Q, R = chain()

    def schedule(s):
        outer, inner = s[Q].split(Q.op.axis[0], 4)
        s[P].compute_at(s[Q], outer)
        s[Q].vectorize(Q.op.axis[1])
        s[R].reverse_compute_inline()
        assert [iv.name for iv in s[R].leaf_iter_vars] == ["i.outer", "i.inner", "j"]
        assert [s.state.stage("R").kind(iv) for iv in s[R].leaf_iter_vars] == [
            "serial",
            "serial",
            "vectorized",
        ]
        assert s.state.stage("P").attach == At("R", "i.outer")
        assert "Q" not in s.tree()

    agree(R, {A: np.arange(90, dtype="float32").reshape(10, 9)}, schedule=schedule, lanes=(1,))


def test_twice():
    A, P, Q, R = chain()

    def schedule(s):
        s[P].split(P.op.axis[1], 4)
        s[Q].reverse_compute_inline()
        s[R].reverse_compute_inline()
        assert [iv.name for iv in s[R].leaf_iter_vars] == ["i", "j.outer", "j.inner"]

    agree(R, {A: np.arange(90, dtype="float32").reshape(10, 9)}, schedule=schedule, lanes=(1,))


def test_with_no_schedule_at_all():
    A, P, Q, R = chain()

    def refused(s):
        s[Q].compute_at(s[R], R.op.axis[0])
        s[Q].reverse_compute_inline()

    agree(
        R,
        {A: np.arange(90, dtype="float32").reshape(10, 9)},
        schedule=lambda s: s[Q].reverse_compute_inline(),
        lanes=(1,),
    )
    with pytest.raises(tl.ScheduleError, match="is scheduled already"):
        refused(te.create_schedule(R.op))


def test_a_trace_replays():
    A, P, Q, R = chain()
    s = te.create_schedule(R.op)
    s[Q].split(Q.op.axis[0], 4)
    s[R].reverse_compute_inline()
    again = te.create_schedule(R.op)
    tl.Trace.from_json(s.trace.to_json()).apply(again)
    assert str(tl.lower(again, [A, R])) == str(tl.lower(s, [A, R]))
    scope = {}
    exec(s.trace.to_python(), scope)
    assert str(tl.lower(scope["apply"](te.create_schedule(R.op)), [A, R])) == str(tl.lower(s, [A, R]))


def test_what_it_refuses():
    A = te.placeholder((10, 9), name="A")
    k = te.reduce_axis((0, 9), "k")
    S = te.compute((10,), lambda i: te.sum(A[i, k], axis=k), "S")
    T = te.compute((10,), lambda i: S[i] + 1, "T")
    U = te.compute((10,), lambda i: T[9 - i] * 2, "U")
    s = te.create_schedule(U.op)
    before = s.tree()
    for stage, why in ((S, "is a reduction"), (T, "`S` is a reduction"), (U, "at its own place")):
        with pytest.raises(tl.ScheduleError, match=why):
            s[stage].reverse_compute_inline()
    assert s.tree() == before
    first = te.create_schedule(S.op)
    with pytest.raises(tl.ScheduleError, match="is a reduction"):
        first[S].reverse_compute_inline()
    P = te.compute((10, 9), lambda i, j: A[i, j] * 2, "P")
    with pytest.raises(tl.ScheduleError, match="arguments only"):
        te.create_schedule(P.op)[P].reverse_compute_inline()
    two = te.create_schedule([P.op, te.compute((10, 9), lambda i, j: P[i, j] + 1, "Q").op])
    with pytest.raises(tl.ScheduleError, match="an output"):
        two["Q"].reverse_compute_inline()


def test_an_extern_has_no_loops_to_take():
    A = te.placeholder((4,), name="A")
    E = te.extern((4,), [A], lambda ins, outs: te.call_extern("int32", "f", ins[0], outs[0]), name="E")
    R = te.compute((4,), lambda i: E[i] + 1, "R")
    for call in (lambda s: s[R].reverse_compute_inline(), lambda s: s[R].reverse_compute_at(s[E], "i")):
        with pytest.raises(tl.ScheduleError, match=r"extern|no loop"):
            call(te.create_schedule(R.op))
