"""Loops that hold something (a stage, its memory, initial values, a pragma, a prefetch) are split and fused
like any other."""

from __future__ import annotations

from pathlib import Path

import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.errors import LowerError
from tensorlang.schedule.state import At
from tensorlang.schedule.trace import Trace
from tests import golden
from tests.fuzz.functions import DOUBLE
from tests.fuzz.harness import run

TREES = Path(__file__).parent / "trees.txt"


def chain(rows=10, columns=12):
    """A, P = A + 1, Q = P * 2, C = Q + P; a schedule of C with P and Q at C.i."""
    A = te.placeholder((rows, columns), name="A")
    P = te.compute((rows, columns), lambda i, j: A[i, j] + 1, "P")
    Q = te.compute((rows, columns), lambda i, j: P[i, j] * 2, "Q")
    C = te.compute((rows, columns), lambda i, j: Q[i, j] + P[i, j], "C")
    s = te.create_schedule(C.op)
    s[Q].compute_at(s[C], C.op.axis[0])
    s[P].compute_at(s[C], C.op.axis[0])
    return s, A, P, Q, C


def right(s, A, C):
    """All oracles agree, and the trace replays to the same kernel."""
    run([A, C], [C], {"A": (-4, 5)}, s, [{}])
    again = Trace.from_json(s.trace.to_json()).apply(te.create_schedule(C.op))
    assert str(tl.lower(again, [A, C])) == str(tl.lower(s, [A, C]))


@pytest.mark.parametrize("factor", [2, 3])
@pytest.mark.parametrize("tail", ["auto", "peel", "shift"])
def test_split_of_a_loop_that_holds_stages(factor, tail):
    """They stay once an iteration: inside the inner half, whether the tiles fit or not."""
    s, A, P, Q, C = chain()
    _, inner = s[C].split(C.op.axis[0], factor=factor, tail=tail)
    assert s[P].state.attach == s[Q].state.attach == At("C", inner.name)
    right(s, A, C)


def test_fuse_of_loops_that_hold_stages(request):
    s, A, P, Q, C = chain()
    s[Q].compute_at(s[C], C.op.axis[1])
    fused = s[C].fuse(*C.op.axis)
    s[C].split(fused, factor=7)
    golden.same(request.config, TREES, "fused and split around stages", s.tree())
    right(s, A, C)


def test_memory_further_out_follows_too():
    s, A, P, Q, C = chain()
    i, j = C.op.axis
    s[Q].compute_at(s[C], j)
    s[P].compute_at(s[C], j)
    s[P].store_at(s[C], i)
    io, ii = s[C].split(i, factor=4)
    assert s[P].state.store == At("C", ii.name)
    s[P].store_at(s[C], io)
    s[C].split(io, nparts=2)
    s[C].split(j, factor=5)
    right(s, A, C)


def test_a_stage_that_waits_keeps_its_place():
    s, A, P, Q, C = chain()
    s[Q].compute_root()
    assert list(s.pending) == ["P"]
    _, inner = s[C].split(C.op.axis[0], factor=4)
    assert s.pending["P"].startswith("C.i.inner: ")
    s[Q].compute_at(s[C], inner)
    assert not s.pending
    right(s, A, C)


def test_start_values_stay_before_their_loop():
    A = te.placeholder((6, 8, 5), name="A")
    k = te.reduce_axis((0, 5), "k")
    C = te.compute((6, 8), lambda i, j: te.sum(A[i, j, k], axis=k), "C")
    for change in ("split", "fuse"):
        s = te.create_schedule(C.op)
        i, j = C.op.axis
        s[C].decompose_reduction(j)
        if change == "split":
            outer, _ = s[C].split(j, factor=3)
        else:
            outer = s[C].fuse(i, j)
        assert s[C].state.init_at == outer.name
        right(s, A, C)


def test_pragmas_and_prefetches_are_kept():
    A = te.placeholder((8, 8), name="A")
    C = te.compute((8, 8), lambda i, j: A[i, j] + 1, "C")
    s = te.create_schedule(C.op)
    i, j = C.op.axis
    s[C].pragma(i, "auto_unroll_max_step", 4)
    s[C].pragma(j, "stream_stores")
    s[C].prefetch(A, j, 2)
    _, ji = s[C].split(j, factor=4)
    assert [x.name for x in s[C].state.pragmas] == ["i", "j.outer"] and s[C].state.prefetches[0][1] == ji.name
    assert "prefetch" in str(tl.lower(s, [A, C], simple=True))
    s[C].fuse(i, s[C].loop("j.outer"))
    ((loop, said),) = s[C].state.pragmas.items()
    assert loop.name == "i.j.outer.fused" and dict(said) == {"auto_unroll_max_step": 4, "stream_stores": None}
    right(s, A, C)


@pytest.mark.parametrize(
    "change",
    [
        lambda s, C: s[C].split(s[C].loop("j.outer"), factor=3),
        lambda s, C: s[C].split(s[C].fuse(C.op.axis[0], s[C].loop("j.outer")), nparts=5),
        lambda s, C: s[C].parallel(s[C].split(C.op.axis[0], factor=4)[0]),
    ],
)
def test_the_loops_around_an_intrinsic_are_split_afterwards(change):
    """Tiles that fit not are tested for around the call: an intrinsic has no tails of its own."""
    A = te.placeholder((6, 16), name="A")
    C = te.compute((6, 16), lambda i, j: A[i, j] * 2, "C")
    s = te.create_schedule(C.op)
    _, ji = s[C].split(C.op.axis[1], factor=4)
    s[C].tensorize(ji, DOUBLE["fuzz.double4.float32"][2])
    change(s, C)
    right(s, A, C)


def test_split_loops_of_an_intrinsic_wait_for_another():
    A = te.placeholder((6, 16), name="A")
    C = te.compute((6, 16), lambda i, j: A[i, j] * 2, "C")
    s = te.create_schedule(C.op)
    _, ji = s[C].split(C.op.axis[1], factor=4)
    s[C].tensorize(ji, DOUBLE["fuzz.double4.float32"][2])
    s[C].split(ji, factor=2)
    assert s.pending["C"].endswith("loop C.j.inner is gone")
    with pytest.raises(LowerError, match=r"loop C\.j\.inner is gone"):
        tl.lower(s, [A, C])
