"""Unrolled loops are written out, within a budget that is reported where it stops one."""

from __future__ import annotations

import pytest

from tensorlang.loopir.code_size import instructions, written_out
from tensorlang.loopir.stmt import For, preorder, seq
from tensorlang.passes import unroll as module
from tensorlang.passes.unroll import unroll
from tests.loopir.kernels import buffer, func, loop, read, store, var
from tests.passes.same import body_text, same

A, C = buffer("A", 4, 3), buffer("C", 4, 3)


def test_one_copy_of_the_body_for_each_turn() -> None:
    i, j = var("i"), var("j")
    before = func(
        "f",
        (A, C),
        loop(i, 2, loop(j, 3, store(C, (i, j), read(A, i, j) * 2.0), "unrolled"), "unrolled", begin=1),
    )
    after = unroll(before)
    assert (
        body_text(after)
        == """\
C[1, 0] = A[1, 0] * 2.0
C[1, 1] = A[1, 1] * 2.0
C[1, 2] = A[1, 2] * 2.0
C[2, 0] = A[2, 0] * 2.0
C[2, 1] = A[2, 1] * 2.0
C[2, 2] = A[2, 2] * 2.0"""
    )
    same(before, after, coverage=False)


def test_what_exceeds_the_budget_stays_a_loop_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUDGET", 7)
    i, j = var("i"), var("j")
    body = seq(store(C, (i, j), read(A, i, j)), store(C, (i, j), read(C, i, j) + 1.0))
    before = func("f", (A, C), loop(i, 4, loop(j, 3, body, "unrolled"), "unrolled"))
    after = unroll(before)
    assert body_text(after).splitlines()[:2] == [
        "for i in range(0, 4):  # kept: unrolling 4 x 6 statements exceeds the budget of 7",
        "    C[i, 0] = A[i, 0]",
    ]
    same(before, after)


def test_a_huge_loop_is_kept_without_making_its_copies() -> None:
    i, j = var("i"), var("j")
    a = buffer("A", 100_000, 100_000)
    f = func("f", (a,), loop(i, 100_000, loop(j, 100_000, store(a, (i, j), 0.0), "unrolled"), "unrolled"))
    kept = [s for s in preorder(unroll(f).body) if isinstance(s, For)]
    assert [dict(s.attrs)["kept"] for s in kept] == [
        "unrolling 100000 x 2 statements exceeds the budget of 20000",
        "unrolling 100000 x 1 statements exceeds the budget of 20000",
    ]


def test_the_size_of_written_out_loops_is_known_before() -> None:
    """The budget is asked of the short form: counting the copies took a third of the pass."""
    i, j = var("i"), var("j")
    copied = store(C, (i, j), read(A, i, j) * 2.0)
    before = seq(
        loop(i, 2, seq(loop(j, 3, copied, "unrolled"), copied), "unrolled"), loop(i, 4, copied, "serial")
    )
    after = unroll(func("f", (A, C), before)).body
    assert instructions(after) <= written_out(before) == 9 * instructions(copied) + 4
