"""What nobody reads is not computed."""

from __future__ import annotations

from tensorlang.core.dtype import FLOAT32
from tensorlang.core.node import intern
from tensorlang.expr import make
from tensorlang.expr.nodes import Call
from tensorlang.loopir.stmt import Alloc, Evaluate, If, Let, seq
from tensorlang.passes.dead_code import dead_code
from tests.loopir.kernels import buffer, func, loop, n, read, store, var
from tests.passes.same import body_text, same


def test_a_row_of_a_tile_that_is_not_written_back_is_not_computed() -> None:
    a, c = buffer("A", 3, 8), buffer("C", 2)
    t = buffer("t", 3, scope="local")
    k = var("k")
    step = seq(*[store(t, r, read(t, r) + read(a, r, k)) for r in range(3)])
    before = func(
        "f",
        (a, c),
        Alloc(
            t,
            seq(
                *[store(t, r, 0.0) for r in range(3)],
                loop(k, 8, step),
                store(c, 0, read(t, 0)),
                store(c, 1, read(t, 2)),
            ),
        ),
    )
    after = dead_code(before)
    assert (
        body_text(after)
        == """\
t: float32[3] local
t[0] = 0.0
t[2] = 0.0
for k in range(0, 8):
    t[0] = t[0] + A[0, k]
    t[2] = t[2] + A[2, k]
C[0] = t[0]
C[1] = t[2]"""
    )
    same(before, after)
    assert dead_code(after) is after


def test_vectors_are_told_apart_by_their_lanes() -> None:
    c, t = buffer("C", 8), buffer("t", 2, 8, scope="local")
    lanes = make.ramp(n(0), 1, 8)
    eight = make.broadcast(make.const(2.0), 8)
    odd = make.ramp(n(1), 2, 4)
    four = make.broadcast(make.const(1.0), 4)
    body = seq(
        store(t, (n(0), lanes), eight),
        store(t, (n(1), lanes), eight),
        store(t, (n(0), odd), four),
        store(t, (n(1), odd), four),
        store(c, lanes, read(t, 0, lanes)),
    )
    before = func("f", (c,), Alloc(t, body))
    after = dead_code(before)
    assert (
        body_text(after)
        == """\
t: float32[2, 8] local
t[0, 0 : 8] = x8(2.0)
t[0, 1 : 9 : 2] = x4(1.0)
C[0 : 8] = t[0, 0 : 8]"""
    )
    same(before, after)


def test_at_indices_that_move_the_whole_buffer_lives() -> None:
    a, c, t = buffer("A", 8), buffer("C", 8), buffer("t", 8, scope="global")
    i, j = var("i"), var("j")
    before = func(
        "f",
        (a, c),
        Alloc(t, seq(loop(i, 8, store(t, i, read(a, i))), loop(j, 8, store(c, j, read(t, 7 - j))))),
    )
    assert dead_code(before) is before


def test_a_chain_of_buffers_that_ends_nowhere_goes_as_a_whole() -> None:
    a, c = buffer("A", 8), buffer("C", 8)
    t, u = buffer("t", 8, scope="global"), buffer("u", 8, scope="global")
    i, j, k = var("i"), var("j"), var("k")
    nest = seq(
        loop(i, 8, store(t, i, read(a, i))),
        loop(j, 8, store(u, j, read(t, j) * 2.0)),
        loop(k, 8, store(c, k, read(a, k))),
    )
    before = func("f", (a, c), Alloc(t, Alloc(u, nest)))
    after = dead_code(before)
    assert body_text(after) == "for k in range(0, 8):\n    C[k] = A[k]"
    same(before, after)


def test_copies_of_a_nest_that_share_a_buffer_are_judged_one_by_one() -> None:
    """Partition leaves such copies: what one of them reads does not keep the other's alive."""
    a, c, t = buffer("A", 2), buffer("C", 4), buffer("t", 2, scope="local")
    i = var("i")
    fill = seq(store(t, 0, read(a, 0)), store(t, 1, read(a, 1)))
    full = Alloc(t, seq(fill, store(c, i * 2, read(t, 0)), store(c, i * 2 + 1, read(t, 1))))
    part = Alloc(t, seq(fill, store(c, i * 2, read(t, 0))))
    before = func("f", (a, c), loop(i, 2, If(make.lt(i, n(1)), full, part)))
    after = dead_code(before)
    assert (
        body_text(after)
        == """\
for i in range(0, 2):
    if i < 1:
        t: float32[2] local
        t[0] = A[0]
        t[1] = A[1]
        C[i*2] = t[0]
        C[i*2 + 1] = t[1]
    else:
        t: float32[2] local
        t[0] = A[0]
        C[i*2] = t[0]"""
    )
    same(before, after, coverage=False)


def test_values_loops_and_tests_with_nothing_to_do_go() -> None:
    a, c, t = buffer("A", 8), buffer("C", 8), buffer("t", 8, scope="local")
    i, j, x = var("i"), var("j"), var("x")
    body = seq(
        loop(i, 8, Let(x, i * 2, If(make.lt(i, n(3)), store(t, i, 1.0), store(c, i, read(a, i))))),
        loop(j, 8, If(make.lt(j, n(3)), store(c, j, 0.0), store(t, j, 1.0))),
    )
    before = func("f", (a, c), Alloc(t, body))
    after = dead_code(before)
    assert (
        body_text(after)
        == """\
for i in range(0, 8):
    if 3 <= i:
        C[i] = A[i]
for j in range(0, 8):
    if j < 3:
        C[j] = 0.0"""
    )
    same(before, after)


def test_effects_stay() -> None:
    a, c = buffer("A", 8), buffer("C", 8)
    i = var("i")
    hint = Evaluate(intern(Call, FLOAT32, "prefetch", (read(a, i + 9),)))
    before = func("f", (a, c), loop(i, 8, seq(hint, store(c, i, 1.0))))
    assert dead_code(before) is before
