"""Places in any order: what a later call makes legal waits, says why, and is an error only when the schedule
is lowered."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

import autosched
import tensorlang as tl
from tensorlang import te
from tensorlang.errors import LowerError, ScheduleError
from tensorlang.schedule.trace import Trace
from tests import golden
from tests.fuzz.harness import run

TREES = Path(__file__).parent / "trees.txt"


def softmax():
    """M = max of A's rows, E = A - M, S = sum of E's rows, O = E * S + M: three stages, each read by a later
    one and by the last."""
    A = te.placeholder((6, 8), name="A")
    k, r = te.reduce_axis((0, 8), "k"), te.reduce_axis((0, 8), "r")
    M = te.compute((6,), lambda i: te.max(A[i, k], axis=k), "M")
    E = te.compute((6, 8), lambda i, j: A[i, j] - M[i], "E")
    S = te.compute((6,), lambda i: te.sum(E[i, r], axis=r), "S")
    O = te.compute((6, 8), lambda i, j: E[i, j] * S[i] + M[i], "O")
    return A, M, E, S, O


def right(s, *args):
    run(list(args), [args[-1]], {a.name: (-4, 5) for a in args[:-1]}, s, [{}])


def test_every_order_of_compute_at_gives_one_kernel():
    A, M, E, S, O = softmax()
    texts = set()
    for order in itertools.permutations((M, E, S)):
        s = te.create_schedule(O.op)
        for T in order:
            s[T].compute_at(s[O], O.op.axis[0])
        assert not s.pending
        texts.add(str(tl.lower(s, [A, O])))
    assert len(texts) == 1
    right(s, A, O)


def test_what_waits_says_so_everywhere(request):
    A, M, E, S, O = softmax()
    s = te.create_schedule(O.op)
    i = O.op.axis[0]
    verdict = s.can("compute_at", M, O, i)
    assert (
        not verdict and verdict.pending and verdict.reason == "`E` also reads `M` and runs outside loop O.i"
    )
    assert s.legal_places(M) == [] and s.legal_places(M, pending=True) == [
        ("O", iv.name, f"`E` also reads `M` and runs outside loop O.{iv.name}") for iv in O.op.axis
    ]
    s[M].compute_at(s[O], i)
    s[E].compute_at(s[O], i)
    golden.same(request.config, TREES, "two stages wait", f"{s.tree()}\n\n{s.trace}\n\n{s.trace.to_python()}")
    assert s.pending == {
        "M": "O.i: `E` also reads `M` and runs outside loop O.i",
        "E": "O.i: `S` also reads `E` and runs outside loop O.i",
    }
    with pytest.raises(LowerError, match=r"`E` waits for its place at O\.i"):
        tl.build(s, [A, O])
    s[S].compute_at(s[O], i)
    assert not s.pending and "pending" not in s.tree() + str(s.trace)
    right(s, A, O)


def test_a_trace_with_pending_steps_replays():
    A, M, E, S, O = softmax()
    s = te.create_schedule(O.op)
    s[M].compute_at(s[O], O.op.axis[0])
    s[M].vectorize(s[M].op.axis[0])
    half = Trace.from_json(s.trace.to_json()).apply(te.create_schedule(O.op))
    assert half.pending == s.pending and half.tree() == s.tree()
    scope = {}
    exec(s.trace.to_python(), scope)
    assert scope["apply"](te.create_schedule(O.op)).tree() == s.tree()
    for T in (S, E):
        half[T].compute_at(half[O], O.op.axis[0])
    assert half.stage_name(M) == "M" and not half.pending
    again = half.trace.apply(te.create_schedule(O.op))
    assert str(tl.lower(again, [A, O])) == str(tl.lower(half, [A, O]))
    right(again, A, O)


def test_inlining_the_other_reader_makes_the_place_legal():
    A, M, E, S, O = softmax()
    s = te.create_schedule(O.op)
    s[M].compute_at(s[O], O.op.axis[0])
    s[S].compute_at(s[O], O.op.axis[0])
    assert list(s.pending) == ["M"]
    s[E].compute_inline()
    assert not s.pending
    right(s, A, O)


def test_a_reader_that_moves_away_makes_its_producer_wait_and_brings_it_back():
    A, M, E, S, O = softmax()
    s = te.create_schedule(O.op)
    for T in (S, E, M):
        s[T].compute_at(s[O], O.op.axis[0])
    before = s.tree()
    assert s.can("compute_root", S).pending
    s[S].compute_root()
    assert list(s.pending) == ["M", "E"]
    s[S].compute_at(s[O], O.op.axis[0])
    assert s.tree() == before


def test_reorder_and_compute_at_in_both_orders():
    """The loops of a place are reordered before and after the stages are put there."""
    texts = set()
    for early in (True, False):
        A = te.placeholder((4, 8), name="A")
        P = te.compute((4, 8), lambda i, j: A[i, j] + 1, "P")
        Q = te.compute((4, 8), lambda i, j: P[i, j] * 2, "Q")
        C = te.compute((4, 8), lambda i, j: Q[i, j] + P[i, j], "C")
        s = te.create_schedule(C.op)
        i, j = C.op.axis
        if early:
            s[C].reorder(j, i)
        s[P].compute_at(s[C], j)
        s[Q].compute_at(s[C], i)
        if not early:
            assert list(s.pending) == ["P"]  # j is still the inner loop
            s[C].reorder(j, i)
        assert not s.pending
        texts.add(str(tl.lower(s, [A, C])))
    assert len(texts) == 1
    right(s, A, C)


def test_storage_comes_back_with_the_place():
    A, M, E, S, O = softmax()
    s = te.create_schedule(O.op)
    i, j = O.op.axis
    s[S].compute_at(s[O], i)
    s[E].compute_at(s[O], i)
    s[M].compute_at(s[O], i)
    io, ii = i, j
    s[E].store_at(s[O], io)
    s[S].compute_root()
    assert "pending E" in s.tree()
    s[S].compute_at(s[O], io)
    assert s[E].state.store is not None and ii is j
    right(s, A, O)


def test_caches_of_a_waiting_stage_wait_with_it():
    A, M, E, S, O = softmax()
    s = te.create_schedule(O.op)
    s[M].compute_at(s[O], O.op.axis[0])
    cached = s.cache_write(M, "local")
    for T in (E, S):
        s[T].compute_at(s[O], O.op.axis[0])
    assert not s.pending and s[cached].state.attach == s[M].state.attach
    right(s, A, O)


def test_what_no_later_call_could_make_legal_is_refused_at_once():
    A, M, E, S, O = softmax()
    for outputs, T, target in ([O, S], E, O), ([O], O, E), ([O], S, E), ([O, E], M, O):
        s = te.create_schedule([t.op for t in outputs])
        tree = s.tree()
        with pytest.raises(ScheduleError):
            s[T].compute_at(s[target], target.op.axis[0])
        assert s.tree() == tree and not s.can("compute_at", T, target, target.op.axis[0]).pending
        assert target.name not in {place[0] for place in s.legal_places(T, pending=True)}


def test_an_extern_stays_where_it_is():
    A = te.placeholder((8,), name="A")
    P = te.compute((8,), lambda i: A[i] + 1, "P")
    X = te.extern(
        (8,),
        [P],
        lambda ins, outs: te.call_extern("int32", "copy", ins[0], outs[0]),
        name="X",
        dtype="float32",
    )
    C = te.compute((8,), lambda i: X[i] + P[i], "C")
    s = te.create_schedule(C.op)
    with pytest.raises(ScheduleError, match="`X` also reads `P`"):
        s[P].compute_at(s[C], C.op.axis[0])


def test_the_loop_of_stages_that_wait_becomes_a_vector():
    A, M, E, S, O = softmax()
    s = te.create_schedule(O.op)
    s[M].compute_at(s[O], O.op.axis[1])
    cached = s.cache_write(O, "local")
    assert s.pending["M"] == "O.j: `E`, `O.local` read `M` and run outside loop O.j"
    s[O].vectorize(O.op.axis[1])
    for T in (S, E, cached):
        s[T].compute_at(s[O], O.op.axis[1])
    assert not s.pending
    right(s, A, O)


def test_the_search_takes_no_schedule_with_a_waiting_stage():
    def softened(n):
        A = te.placeholder((n, 8), name="A")
        P = te.compute((n, 8), lambda i, j: A[i, j] + 1, "P")
        Q = te.compute((n, 8), lambda i, j: P[i, j] * 2, "Q")
        return [A, te.compute((n, 8), lambda i, j: Q[i, j] + P[i, j], "C")]

    def template(s, tensors):
        C = tensors[-1]
        s[s.stages[1].op.outputs[0]].compute_at(s[C], C.op.axis[0])
        s[C].split(C.op.axis[1], factor=s.sample_tile(C.op.axis[1], max_factor=4))

    with pytest.raises(tl.TensorLangError, match="the template leaves P waiting"):
        autosched.tune(autosched.SearchTask(softened, (16,), template=template), trials=1)
    task = autosched.SearchTask(softened, (16,))
    s = task.schedule()
    s[s.tensor("P")].compute_at(s[task.tensors[-1]], task.tensors[-1].op.axis[0])
    from autosched.records.replay import replay

    with pytest.raises(ScheduleError, match=r"P waits for C\.i"):
        replay(s.trace.to_json(), task.schedule())


def test_loops_cut_while_a_tensorized_stage_waits():
    """It goes to the root all the same, and says there what it would say at once: tensorize again."""
    A = te.placeholder((8, 8), "int32", name="A")
    T = te.compute((8, 8), lambda i, j: A[i, j] * 2, name="T")
    U = te.compute((8, 8), lambda i, j: T[i, j] + 1, name="U")
    V = te.compute((8, 8), lambda i, j: U[i, j] + T[i, j], name="V")
    s = te.create_schedule(V.op)
    _, inner = s[T].split(T.op.axis[1], factor=4)
    a = te.placeholder((4,), "int32", name="a")
    c = te.compute((4,), lambda i: a[i] * 2, name="c")

    def call(ins, outs):
        return te.call_packed("unused", ins[0].access_ptr("r"), outs[0].access_ptr("w"))

    s[T].tensorize(inner, te.decl_tensor_intrin(c.op, call, name="cut.while.waiting"))
    s[T].compute_at(s[V], V.op.axis[0])  # U reads it outside
    s[T].split(inner, factor=2)
    assert list(s.pending) == ["T"]
    s[T].compute_root()
    assert "T.j.inner is gone" in s.pending["T"]
    with pytest.raises(LowerError, match=r"tensorize\(T, j\.inner, cut\.while\.waiting\)"):
        tl.lower(s, [A, V])
