"""split by a size that is known at the call: an argument, or a dim of the program."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.errors import CallError, ScheduleError
from tensorlang.loopir.interpret import InterpretError, interpret
from tensorlang.loopir.verify import verify
from tensorlang.schedule.trace import Trace
from tests.fuzz.harness import run

FACTORS = (1, 3, 4, 64)


def tile(s, P, C, size):
    """The last stage in tiles of that size, the one before in each tile."""
    outer, inner = s[C].split(C.op.axis[0], **size)
    s[P].compute_at(s[C], outer)


def both_loops(s, P, C, size):
    i, j = C.op.axis
    io, ii = s[C].split(i, **size)
    jo, ji = s[C].split(j, **size)
    s[C].reorder(io, jo, ii, ji)
    s[C].parallel(io)
    s[P].compute_at(s[C], jo)


def again(s, P, C, size):
    outer, inner = s[C].split(C.op.axis[1], 4)
    s[C].split(inner, **size)
    s[C].split(outer, **size)
    s[P].split(s[P].op.reduce_axis[0], **size)


def of_a_fused_loop(s, P, C, size):
    s[C].split(s[C].fuse(*C.op.axis), **size)


SCHEDULES = [tile, both_loops, again, of_a_fused_loop]


def stages(m, n):
    A, k = te.placeholder((m, n), name="A"), te.reduce_axis((0, 5), "k")
    P = te.compute((m, n), lambda i, j: te.sum(A[i, j] * k, axis=k), name="P")
    return A, P, te.compute((m, n), lambda i, j: P[i, j] + i, name="C")


@pytest.mark.parametrize("word", ["factor", "nparts"])
@pytest.mark.parametrize("change", SCHEDULES)
@pytest.mark.parametrize("open_sizes", [False, True])
def test_by_an_argument(change, word, open_sizes):
    f = te.var("f")
    A, P, C = stages(*((te.var("m"), te.var("n")) if open_sizes else (6, 9)))
    s = te.create_schedule(C.op)
    change(s, P, C, {word: f})
    func = tl.lower(s, [A, C, f])
    verify(func)
    built = tl.build(s, [A, C, f])
    for m, n in ((6, 9), (1, 1), (0, 2)) if open_sizes else ((6, 9),):
        a = np.arange(m * n, dtype="float32").reshape(m, n)
        want = a * 10 + np.arange(m, dtype="float32")[:, None]
        for size in FACTORS:
            for call in (lambda *args: interpret(func, *args), built):
                got = np.full_like(want, 55)
                call(a, got, size)
                assert np.array_equal(got, want), (m, n, size)


@pytest.mark.parametrize("change", SCHEDULES)
def test_by_a_dim_of_the_program(change):
    m, n = te.var("m"), te.var("n")
    A, P, C = stages(m, n)
    s = te.create_schedule(C.op)
    change(s, P, C, {"factor": n})
    run([A, C], [C], {"A": (-9, 9)}, s, [{"m": 5, "n": 2}, {"m": 1, "n": 7}, {"m": 0, "n": 1}])
    want = str(tl.lower(s, [A, C]))
    for replayed in (Trace.from_json(s.trace.to_json()).apply(s.fresh()), by_text(s)):
        assert replayed.trace == s.trace and str(tl.lower(replayed, [A, C])) == want


def by_text(s):
    scope: dict = {}
    exec(s.trace.to_python(), scope)
    return scope["apply"](s.fresh())


@pytest.mark.parametrize("size", [0, -1, -(2**31), 2**31 - 1])
def test_a_size_that_cuts_no_loop_is_refused_at_the_call(size):
    A, P, C = stages(6, 9)
    f = te.var("f")
    s = te.create_schedule(C.op)
    s[C].split(C.op.axis[0], factor=f)
    a, got = np.ones((6, 9), "float32"), np.full((6, 9), 55, "float32")
    with pytest.raises(CallError, match=r"C\.i is split by f, which needs"):
        tl.build(s, [A, C, f])(a, got, size)
    with pytest.raises(InterpretError):
        interpret(tl.lower(s, [A, C, f]), a, got, size)
    assert (got == 55).all()


def test_what_is_refused_when_the_schedule_is_made():
    m, f = te.var("m"), te.var("f")
    A, P, C = stages(m, 9)
    s = te.create_schedule(C.op)
    with pytest.raises(ScheduleError, match="several sizes are called `m`"):
        s[C].split(C.op.axis[0], factor=te.var("m"))
    with pytest.raises(ScheduleError, match="tail='shift' of tiles whose size f is known only at the call"):
        s[C].split(C.op.axis[0], factor=f, tail="shift")
    with pytest.raises(ScheduleError, match="no size of the program is called `f`"):
        s[C].split(C.op.axis[0], factor=s.size("f"))
    outer, inner = s[C].split(C.op.axis[0], factor=f)
    with pytest.raises(ScheduleError, match="no size of the program is called `f`"):
        Trace.from_json(s.trace.to_json()).apply(s.fresh())
    with pytest.raises(ScheduleError):
        s[C].vectorize(inner)
    with pytest.raises(ScheduleError, match="is not a number yet"):
        s.cache_write(C, "local")
    assert len(s.trace) == 1
    with pytest.raises(tl.LowerError, match="`f` is given by no argument"):
        tl.lower(s, [A, C])


def test_a_trace_finds_the_size_in_another_declaration_of_the_program():
    first, second = (stages(te.var("m"), te.var("n")) for _ in range(2))
    s, other = (te.create_schedule(C.op) for _, _, C in (first, second))
    s[first[2]].split("i", factor=first[0].shape[1])
    s.trace.apply(other)
    run([second[0], second[2]], [second[2]], {"A": (-9, 9)}, other, [{"m": 5, "n": 2}])


def test_a_size_of_64_bits_is_checked_whole():
    A, P, C = stages(6, 9)
    f = te.var("f", "int64")
    s = te.create_schedule(C.op)
    s[C].split(C.op.axis[0], factor=f)
    built = tl.build(s, [A, C, f])
    a, got = np.ones((6, 9), "float32"), np.full((6, 9), 55, "float32")
    with pytest.raises(CallError):
        built(a, got, 2**32 + 2)
    built(a, got, 4)
    assert np.array_equal(got, 10 + np.arange(6)[:, None] + np.zeros((6, 9)))
