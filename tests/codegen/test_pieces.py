"""Parallel loops in pieces that are worth a thread: how many, that they cover every iteration once, and plain
loops where one is all."""

from __future__ import annotations

import numpy as np
import pytest

from tensorlang.codegen.llvm import parallel
from tensorlang.expr.nodes import Expr

from . import helper
from .helper import PARALLEL, Buffer, Func, If, Kernel, Let, Stmt, Store, buffer, i32, load, loop, var


def counting(extent: int | Expr, y: Buffer, inner: int | Expr = 1, begin: int | Expr = 0) -> Func:
    """y[i, j] += 1 for every i of the loop and ``inner`` j: a unit of work each."""
    n = [extent] if isinstance(extent, Expr) else []
    m = [inner] if isinstance(inner, Expr) else []
    body = loop(
        extent,
        lambda i: loop(inner, lambda j: Store(y, load(y, (i, j)) + 1, (i, j)), name="j"),
        PARALLEL,
        begin=begin,
    )
    return Func("k", (y,), body, (*n, *m), (y,))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("iterations", "inner", "pieces"),
    [(100, 1, 10), (105, 1, 10), (99, 1, 9), (25, 1, 2), (7, 100, 7), (7, 20, 7), (7, 10, 7), (7, 5, 3)],
)
def test_pieces_of_known_loops(
    iterations: int, inner: int, pieces: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "REGION", 1)
    monkeypatch.setattr(parallel, "PIECE", 10)
    y = buffer("Y", "int32", iterations, inner)
    helper.regions.clear()
    got = np.zeros((iterations, inner), np.int32)
    assert Kernel(counting(iterations, y, inner))(got) == 0
    assert (got == 1).all()
    assert helper.regions == [(0, pieces)]


def test_halves_of_the_pieces_are_halves_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neighbouring pieces are a thread's: those that are longer by one stood in front."""
    monkeypatch.setattr(parallel, "REGION", 1)
    monkeypatch.setattr(parallel, "PIECE", 14)
    monkeypatch.setattr(helper, "only_half", [True])
    helper.regions.clear()
    got = np.zeros((28, 10), np.int32)
    assert Kernel(counting(28, buffer("Y", "int32", 28, 10), 10))(got) == 0
    assert helper.regions == [(0, 20)] and got.sum() == 14 * 10


def test_a_small_loop_is_a_plain_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "PIECE", 4096)
    y = buffer("Y", "int32", 4000, 1)
    kernel = Kernel(counting(4000, y))
    assert "tensorlang_parallel" not in kernel.ll
    got = np.zeros((4000, 1), np.int32)
    assert kernel(got) == 0 and (got == 1).all()


def test_what_a_shared_value_takes_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by a camera pipe, whose loop ran on one thread: all its work stood in a value that two factors
    of one store share."""
    monkeypatch.setattr(parallel, "REGION", 1)
    monkeypatch.setattr(parallel, "PIECE", 10)
    x, y = buffer("X", "float32", 12, 4), buffer("Y", "float32", 12)
    part = var("part", "float32", kind="let")

    def body(i: Expr) -> Stmt:
        total = load(x, (i, i32(0))) + load(x, (i, i32(1))) * load(x, (i, i32(2))) + load(x, (i, i32(3)))
        return Let(part, total, Store(y, part * part, (i,)))

    helper.regions.clear()
    a, got = np.arange(48, dtype=np.float32).reshape(12, 4), np.zeros(12, np.float32)
    assert Kernel(Func("k", (x, y), loop(12, body, PARALLEL), (), (y,)))(a, got) == 0
    np.testing.assert_array_equal(got, (a[:, 0] + a[:, 1] * a[:, 2] + a[:, 3]) ** 2)
    assert helper.regions == [(0, 7)]  # a store, a value and four reads: six units of twelve iterations


@pytest.mark.parametrize("begin", [0, 3])
def test_pieces_of_loops_known_at_run_time(begin: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "REGION", 1)
    monkeypatch.setattr(parallel, "PIECE", 10)
    n, m = var("n", kind="dim"), var("m", kind="dim")
    y = buffer("Y", "int32", n + begin, m)
    kernel = Kernel(counting(n, y, m, begin))
    for iterations, inner, pieces in (
        (1, 1, 1),
        (9, 1, 1),
        (25, 1, 2),
        (105, 1, 10),
        (7, 100, 7),
        (13, 4, 5),
        (1000, 3, 300),
    ):
        helper.regions.clear()
        got = np.zeros((iterations + begin, inner), np.int32)
        assert kernel(got, dims=(iterations, inner)) == 0
        assert (got[begin:] == 1).all() and not got[:begin].any()
        assert helper.regions == [(0, pieces)]


def test_a_region_is_worth_waking_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Below ``WAKING`` pieces of work in all, only those that are awake take part, below ``REGION`` nobody."""
    monkeypatch.setattr(parallel, "PIECE", 10)
    n = var("n", kind="dim")
    y = buffer("Y", "int32", n, 1)
    kernel = Kernel(counting(n, y))
    for iterations, pieces in ((29, 1), (30, 3), (239, 23), (240, 24), (255, 25)):
        short = iterations < parallel.WAKING * 10
        helper.regions.clear(), helper.short_regions.clear()
        got = np.zeros((iterations, 1), np.int32)
        assert kernel(got, dims=(iterations,)) == 0 and (got == 1).all()
        assert helper.regions == [(0, pieces)] and helper.short_regions == [(0, pieces)] * short
        fixed = Kernel(counting(iterations, buffer("Y", "int32", iterations, 1)))
        assert (f"@{parallel.SHORT}(" in fixed.ll) == (short and pieces > 1)
        assert ("@tensorlang_parallel(" in fixed.ll) == (not short)


def test_of_bodies_that_exclude_each_other_the_larger_one_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tile has a body for each rest of rows, of which it runs one."""
    monkeypatch.setattr(parallel, "PIECE", 10)
    n = var("n", kind="dim")
    y = buffer("Y", "int32", n, 1)

    def body(i: Expr) -> Stmt:
        at = (i, i * 0)
        once = Store(y, load(y, at) + 1, at)
        return If(i < 70, once, If(i < 90, once, Store(y, 1 + load(y, at), at)))

    kernel = Kernel(Func("k", (y,), loop(n, body, PARALLEL), (n,), (y,)))
    for iterations, pieces in ((29, 1), (80, 8), (99, 9)):
        helper.regions.clear()
        got = np.zeros((iterations, 1), np.int32)
        assert kernel(got, dims=(iterations,)) == 0 and (got == 1).all()
        assert helper.regions == [(0, pieces)]


def test_no_turns_at_run_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool is asked for nothing."""
    monkeypatch.setattr(parallel, "PIECE", 10)
    n = var("n", kind="dim")
    y = buffer("Y", "int32", 8)
    func = Func("k", (y,), loop(n - 5, lambda i: Store(y, i, (i,)), PARALLEL), (n,), (y,))
    kernel = Kernel(func)
    for size in (0, 3, 5):
        helper.regions.clear()
        got = np.full(8, -1, np.int32)
        assert kernel(got, dims=(size,)) == 0
        assert (got == -1).all() and all(begin >= end for begin, end in helper.regions)
    assert kernel(got, dims=(9,)) == 0
    assert got.tolist() == [0, 1, 2, 3, -1, -1, -1, -1]


def test_unknown_work_is_worth_a_thread_each_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    """An extent that is read from memory."""
    monkeypatch.setattr(parallel, "PIECE", 4096)
    x, y = buffer("X", "int32", 6), buffer("Y", "int32", 6)
    body = loop(
        6, lambda i: loop(load(x, (i,)), lambda j: Store(y, load(y, (i,)) + j, (i,)), name="j"), PARALLEL
    )
    helper.regions.clear()
    counts, got = np.array([0, 1, 5, 100, 2, 3], np.int32), np.zeros(6, np.int32)
    assert Kernel(Func("k", (x, y), body, (), (y,)))(counts, got) == 0
    np.testing.assert_array_equal(got, counts * (counts - 1) // 2)
    assert helper.regions == [(0, 6)]


def test_reading_memory_is_work_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """As much as a sum in registers at least: what is read from memory and goes to other memory counts, what
    a loop adds to in its place does not."""
    monkeypatch.setattr(parallel, "REGION", 1)
    monkeypatch.setattr(parallel, "PIECE", 10)
    x, y, z = (buffer(name, "int32", 100) for name in "XYZ")
    body = loop(100, lambda i: Store(z, load(x, (i,)) + load(y, (i,)), (i,)), PARALLEL)
    helper.regions.clear()
    a, b, got = np.arange(100, dtype=np.int32), np.arange(100, dtype=np.int32), np.zeros(100, np.int32)
    assert Kernel(Func("k", (x, y, z), body, (), (z,)))(a, b, got) == 0
    assert (got == 2 * a).all() and helper.regions == [(0, 30)]
