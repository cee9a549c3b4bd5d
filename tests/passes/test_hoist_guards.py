"""Guards that a loop does not change are tested once, in front of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tensorlang.expr import make
from tensorlang.expr.nodes import Expr
from tensorlang.loopir.stmt import Alloc, For, Func, If, Let, Stmt, Store, preorder, seq
from tensorlang.passes import hoist_guards as module
from tensorlang.passes.hoist_guards import hoist_guards
from tests.loopir.kernels import buffer, dim, func, loop, n, read, store, var
from tests.passes.same import body_text, same


@pytest.fixture
def _each(monkeypatch: pytest.MonkeyPatch) -> None:
    """A version for each number of rows, of few bytes too."""
    monkeypatch.setattr(module, "THIN", 0)


def tile(rows: int, least: int = 0, at: Callable[[Expr, int], Expr] = lambda i, r: i + r) -> Func:
    """A row sum of a matrix in tiles of some rows, as unrolling leaves it. There are ``least`` rows or more;
    ``at`` is where a row is read that is written at i + r."""
    m, k = dim("m", least), dim("k", 1)
    a, c = buffer("A", m, k), buffer("C", m)
    acc = buffer("acc", rows, scope="local")
    io, ko = var("io"), var("k")

    def guarded(r: int, s: Stmt) -> Stmt:
        return If(make.lt(io * rows + r, m), s) if r else s

    init = [guarded(r, store(acc, n(r), 0.0)) for r in range(rows)]
    step = [guarded(r, store(acc, n(r), read(acc, r) + read(a, at(io * rows, r), ko))) for r in range(rows)]
    out = [guarded(r, store(c, io * rows + r, read(acc, r))) for r in range(rows)]
    body = loop(io, make.ceildiv(m, rows), Alloc(acc, seq(*init, loop(ko, k, seq(*step)), *out)))
    return func("rows", (a, c), body, (m, k))


def in_loops_tested(f: Func) -> list[Expr]:
    """Conditions tested in loops over k."""
    return [
        t.cond
        for s in preorder(f.body)
        if isinstance(s, For) and s.var.name == "k"
        for t in preorder(s.body)
        if isinstance(t, If)
    ]


@pytest.mark.usefixtures("_each")
def test_each_number_of_rows_gets_a_tile_without_tests() -> None:
    before = tile(3)
    after = hoist_guards(before)
    assert (
        body_text(after)
        == """\
for io in range(0, (m + 2) // 3):
    if io*3 + 2 < m:
        acc: float32[3] local
        acc[0] = 0.0
        acc[1] = 0.0
        acc[2] = 0.0
        for k_1 in range(0, k):
            acc[0] = acc[0] + A[io*3, k_1]
            acc[1] = acc[1] + A[io*3 + 1, k_1]
            acc[2] = acc[2] + A[io*3 + 2, k_1]
        C[io*3] = acc[0]
        C[io*3 + 1] = acc[1]
        C[io*3 + 2] = acc[2]
    elif io*3 + 1 < m:
        acc: float32[3] local
        acc[0] = 0.0
        acc[1] = 0.0
        for k_1 in range(0, k):
            acc[0] = acc[0] + A[io*3, k_1]
            acc[1] = acc[1] + A[io*3 + 1, k_1]
        C[io*3] = acc[0]
        C[io*3 + 1] = acc[1]
    else:
        acc: float32[3] local
        acc[0] = 0.0
        for k_1 in range(0, k):
            acc[0] = acc[0] + A[io*3, k_1]
        C[io*3] = acc[0]"""
    )
    same(before, after, [{"m": m, "k": 2} for m in range(8)])


@pytest.mark.usefixtures("_each")
def test_it_changes_nothing_the_second_time() -> None:
    once = hoist_guards(tile(4))
    assert hoist_guards(once) is once


def heights(f: Func) -> list[int]:
    """Sums in each version, of which there are as many as buffers for them."""
    versions = [s for s in preorder(f.body) if isinstance(s, Alloc)]
    return [
        sum(isinstance(s, Store) for x in preorder(v) if isinstance(x, For) for s in preorder(x.body))
        for v in versions
    ]


@pytest.mark.usefixtures("_each")
def test_two_heights_share_a_version_where_rows_are_many() -> None:
    """The row that may not be there is read where the last one is, and is not written."""
    before = tile(9, 17)
    after = hoist_guards(before)
    assert heights(after) == [9, 8, 6, 4, 2]
    assert not in_loops_tested(after)
    assert "A[min(io*9 + 3, m - 1), k_1]" in body_text(after)
    same(before, after, [{"m": m, "k": 2} for m in range(17, 37)])
    assert heights(hoist_guards(tile(9, 16))) == list(range(9, 0, -1))
    assert heights(hoist_guards(tile(6, 16))) == list(range(6, 0, -1))


@pytest.mark.usefixtures("_each")
def test_a_row_that_has_no_last_one_to_read_keeps_its_version() -> None:
    """Rows that are read in turns: no index is the last of them."""
    before = tile(8, 20, lambda i, r: make.floormod(i + r, 5))
    after = hoist_guards(before)
    assert heights(after) == list(range(8, 0, -1))
    same(before, after, [{"m": n, "k": 1} for n in range(20, 30)])


def test_thin_rows_share_a_version_up_to_four() -> None:
    """Sums of one vector wait for each other: four rows take no longer than one."""
    before = tile(8)
    after = hoist_guards(before)
    assert heights(after) == [8, 7, 4]
    same(before, after, [{"m": n, "k": 2} for n in range(20)])


def test_rows_of_stores_keep_the_tests_of_three() -> None:
    """A transposed block: as many rows as are transposed together are a version."""
    m, n_, rows = dim("m", 0), dim("n", 0), 16
    a, c = buffer("A", n_, m), buffer("C", m, n_)
    io, j = var("io"), var("j")
    copies = [
        If(make.lt(io * rows + r, m), store(c, (io * rows + r, j), read(a, j, io * rows + r)))
        for r in range(rows)
    ]
    f = func("turned", (a, c), loop(io, make.ceildiv(m, rows), loop(j, n_, seq(*copies))), (m, n_))
    after = hoist_guards(f)
    versions = [s for s in preorder(after.body) if isinstance(s, For) and s.var.name == "j"]
    assert len(versions) == 5
    same(f, after, [{"m": k, "n": 3} for k in (0, 1, 3, 4, 15, 16, 17, 30, 33)])


@pytest.mark.usefixtures("_each")
def test_a_family_too_large_keeps_some_of_its_tests() -> None:
    before = tile(40)
    after = hoist_guards(before)
    versions = [s for s in preorder(after.body) if isinstance(s, Alloc)]
    assert 3 < len(versions) < 40
    assert (
        sum(1 for _ in preorder(after.body)) < sum(1 for _ in preorder(before.body)) + 2 * module.MOST_ADDED
    )
    full = versions[0]
    assert not any(isinstance(s, If) for s in preorder(full))
    same(before, after, [{"m": m, "k": 1} for m in (0, 1, 7, 39, 40, 41, 63)])


def test_a_condition_of_any_kind_leaves_the_loop() -> None:
    a, c = buffer("A", 4, 8), buffer("C", 4)
    i, k = var("i"), var("k")
    test = make.eq(make.floormod(i, 2), 1)
    step = seq(
        store(c, i, read(c, i) + read(a, i, k)),
        If(test, store(c, i, read(c, i) + 1.0), store(c, i, read(c, i) * 2.0)),
    )
    before = func("f", (a, c), loop(i, 4, seq(store(c, i, 0.0), loop(k, 8, step))))
    after = hoist_guards(before)
    assert (
        body_text(after)
        == """\
for i in range(0, 4):
    C[i] = 0.0
    if i % 2 == 1:
        for k in range(0, 8):
            C[i] = C[i] + A[i, k]
            C[i] = C[i] + 1.0
    else:
        for k in range(0, 8):
            C[i] = C[i] + A[i, k]
            C[i] = C[i] * 2.0"""
    )
    same(before, after)


def test_a_loop_left_with_nothing_to_do_goes() -> None:
    m = dim("m", 0)
    a, c = buffer("A", m), buffer("C", 8)
    k = var("k")
    before = func("f", (a, c), loop(k, 8, If(make.lt(n(7), m), store(c, k, read(a, k)))), (m,))
    after = hoist_guards(before)
    assert (
        body_text(after)
        == """\
if 7 < m:
    for k in range(0, 8):
        C[k] = A[k]"""
    )
    same(before, after, [{"m": 3}, {"m": 9}], coverage=False)


def test_what_the_loop_changes_stays() -> None:
    m = dim("m", 0)
    a, c = buffer("A", 8), buffer("C", 8)
    k, x = var("k"), var("x")
    moving = loop(k, 8, If(make.lt(k * 2, m), store(c, k, read(a, k))))
    of_memory = loop(k, 8, seq(If(make.lt(read(a, 0), 1.0), store(c, k, 1.0))))
    of_value = loop(k, 8, Let(x, k * 3, If(make.lt(x, m), store(c, k, 2.0))))
    by_zero = loop(k, 8, If(make.lt(make.floordiv(n(100), m), n(3)), store(c, k, 3.0)))
    for body in (moving, of_memory, of_value, by_zero):
        before = func("f", (a, c), body, (m,))
        assert hoist_guards(before) is before


def test_other_parts_of_a_loop_are_not_copied() -> None:
    """A guarded tile beside something large: only the tile is versioned."""
    m = dim("m", 0)
    a, c, big = buffer("A", 8, 8), buffer("C", 8), buffer("D", 8)
    i, k, j = var("i"), var("k"), var("j")
    guarded = loop(k, 8, If(make.lt(i + 1, m), store(c, i, read(a, i, k))))
    before = func("f", (a, c, big), loop(i, 8, seq(loop(j, 8, store(big, j, read(a, i, j))), guarded)), (m,))
    after = hoist_guards(before)
    assert sum(isinstance(s, Store) and s.buffer is big for s in preorder(after.body)) == 1
    assert in_loops_tested(after) == []
    same(before, after, [{"m": 5}], coverage=False)


def test_conditions_that_are_equal_in_whole_numbers_are_one() -> None:
    """``i * 6 + 4 < 100`` and ``i * 6 + 5 < 100`` hold for the same ``i``: two versions, not three."""
    i, k = var("i"), var("k")
    a, c = buffer("A", 102, 4), buffer("C", 102)
    rows = [If(make.lt(i * 6 + r, n(100)), store(c, i * 6 + r, read(a, i * 6 + r, k))) for r in (4, 5)]
    before = func("f", (a, c), loop(i, 17, loop(k, 4, seq(store(c, i * 6, read(a, i * 6, k)), *rows))))
    after = hoist_guards(before)
    assert (
        body_text(after)
        == """\
for i in range(0, 17):
    if i*6 + 4 < 100:
        for k in range(0, 4):
            C[i*6] = A[i*6, k]
            C[i*6 + 4] = A[i*6 + 4, k]
            C[i*6 + 5] = A[i*6 + 5, k]
    else:
        for k in range(0, 4):
            C[i*6] = A[i*6, k]"""
    )
    same(before, after, coverage=False)
