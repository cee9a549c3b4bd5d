"""Nests of a kernel compiled apart: which stand apart, and that the kernel is what it was."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tensorlang.codegen.llvm.nests import taken_apart
from tensorlang.expr import make
from tensorlang.expr.nodes import Expr, Var
from tensorlang.loopir.stmt import Alloc, Extern, Func, Stmt, preorder

from . import helper
from .helper import PARALLEL, SERIAL, Buffer, Kernel, Let, Store, buffer, load, loop, seq, var

LARGE = 1 << 15  # floats, of the heap


def add(source: Buffer, to: Buffer, kind: str = SERIAL, extent: int | Expr = 64, by: float = 1.0) -> Stmt:
    return loop(extent, lambda i: Store(to, load(source, (i,)) + by, (i,)), kind)


def apart(func: Func) -> tuple[Func, list[Func]]:
    number = itertools.count()
    return taken_apart(func, lambda nest: f"nest_{next(number)}")


def chain(size: int = LARGE, kind: str = SERIAL, scope: str = "global") -> tuple[Func, Buffer]:
    """Y = X + 3, by way of a workspace."""
    x, y, t = (
        buffer("X", "float32", 64),
        buffer("Y", "float32", 64),
        buffer("t", "float32", size, scope=scope),
    )
    return Func("k", (x, y), Alloc(t, seq(add(x, t, kind), add(t, y, kind, by=2.0))), (), (y,)), t


def called(func: Func) -> list[Extern]:
    return [s for s in preorder(func.body) if isinstance(s, Extern)]


@pytest.mark.parametrize("kind", [SERIAL, PARALLEL])
def test_nests_apart_do_what_they_did_together(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorlang.codegen.llvm import parallel

    monkeypatch.setattr(parallel, "PIECE", 1)
    func, t = chain(kind=kind)
    main, nests = apart(func)
    assert [c.name for c in called(main)] == [n.name for n in nests] == ["nest_0", "nest_1"]
    assert [n.outputs for n in nests] == [(t,), (func.outputs[0],)]
    helper.regions.clear()
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    assert Kernel(main, nests=nests)(x, y) == 0
    assert (y == x + 3).all() and not helper.live_blocks
    assert len(helper.regions) == (2 if kind == PARALLEL else 0)


def test_one_nest_stays_where_it_is() -> None:
    x, y = buffer("X", "float32", 64), buffer("Y", "float32", 64)
    func = Func("k", (x, y), add(x, y), (), (y,))
    assert apart(func) == (func, [])


@pytest.mark.parametrize(("size", "scope"), [(64, "global"), (64, "local"), (1023, "global")])
def test_what_may_be_registers_stays_with_all_who_use_it(size: int, scope: str) -> None:
    func, _ = chain(size, scope=scope)
    assert apart(func) == (func, [])


@pytest.mark.parametrize("size", [1024, 1 << 14])
def test_what_no_registers_hold_is_given_to_nests_also_on_the_stack(size: int) -> None:
    func, t = chain(size)
    main, nests = apart(func)
    assert len(nests) == 2 and all(t in n.params for n in nests)
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    assert Kernel(main, nests=nests)(x, y) == 0
    assert (y == x + 3).all() and not helper.live_blocks  # it was on the stack


def tiled(rows: int, columns: int, kind: str = SERIAL) -> Func:
    """For each of so many rows T = 2 X and Y = T + X, a workspace T for each, by two nests of two statements
    an element."""
    x, y, t = (buffer(name, "float32", *shape) for name, shape in _shapes(rows, columns).items())

    def row(i: Var) -> Stmt:
        twice = loop(columns, lambda j: seq(*[Store(t, load(x, (i, j)) * 2.0, (j,)) for _ in "ab"]))
        both = lambda j: seq(*[Store(y, load(t, (j,)) + load(x, (i, j)), (i, j)) for _ in "ab"])
        return Alloc(t, seq(twice, loop(columns, both)))

    return Func("k", (x, y), loop(rows, row, kind, name="row"), (), (y,))


def _shapes(rows: int, columns: int) -> dict[str, tuple[int, ...]]:
    return {"X": (rows, columns), "Y": (rows, columns), "t": (columns,)}


@pytest.mark.parametrize("kind", [SERIAL, PARALLEL])
def test_nests_in_a_loop_are_given_its_variable(kind: str) -> None:
    rows, columns = (5, 2048) if kind == SERIAL else (3, 1 << 14)
    main, nests = apart(tiled(rows, columns, kind))
    assert len(nests) == 2 and len({c.args[-1] for c in called(main)}) == 1
    assert [(n.params[-1].lo, n.params[-1].hi) for n in nests] == [(0, rows - 1)] * 2  # type: ignore[union-attr]
    x = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
    y = np.zeros_like(x)
    assert Kernel(main, nests=nests)(x, y) == 0
    assert (y == 3 * x).all()


def test_a_nest_in_a_loop_is_worth_a_call() -> None:
    """The loop with two short ones is short too, and the one nest of the kernel."""
    func = tiled(5, 1024 // 8)
    assert apart(func) == (func, [])


def test_names_are_made_only_of_nests_that_are_taken() -> None:
    """Each is made of all that a nest says: of loops in loops it would be the dearest part."""
    number = itertools.count()
    main, nests = taken_apart(tiled(5, 2048), lambda nest: f"nest_{next(number)}")
    assert [n.name for n in nests] == [c.name for c in called(main)] == ["nest_0", "nest_1"]
    assert next(number) == 2


def test_a_nest_that_cannot_be_named_stays() -> None:
    func = tiled(5, 2048)
    main, nests = taken_apart(func, lambda nest: None)
    assert not nests and not called(main)
    assert str(main) == str(func)


def test_a_row_of_what_threads_share_is_not_opened_in_a_nest() -> None:
    """It would begin where that of all threads does."""
    rows, columns = 3, 1 << 14
    x, y = (buffer(name, "float32", rows, columns) for name in "XY")
    space, t = buffer("space", "float32", 2, columns), buffer("t", "float32", columns, scope="global")

    def row(i: Var) -> Stmt:
        twice = loop(columns, lambda j: seq(*[Store(t, load(x, (i, j)) * 2.0, (j,)) for _ in "ab"]))
        once = loop(columns, lambda j: seq(*[Store(y, load(t, (j,)), (i, j)) for _ in "ab"]))
        alone = lambda: loop(2, lambda _: Alloc(t, seq(twice, once), space), name="again")
        return seq(alone(), alone())

    func = Func("k", (x, y, space), loop(rows, row, PARALLEL, name="row"), (), (y,))
    main, nests = apart(func)
    assert not any(isinstance(s, Alloc) and s.within is space for n in nests for s in preorder(n.body))
    assert len(nests) == 4 and len([s for s in preorder(main.body) if isinstance(s, Alloc)]) == 2


def test_only_those_that_can_be_apart_are() -> None:
    x, y, z = (buffer(name, "float32", 64) for name in "XYZ")
    v = var("v")
    named = Let(v, make.const(3), loop(8, lambda i: Store(z, load(x, (i + v,)), (i,))))
    main, nests = apart(Func("k", (x, y, z), seq(add(x, y), named, add(y, z, by=5.0)), (), (y, z)))
    assert len(nests) == 2 and any(isinstance(s, Let) for s in preorder(main.body))
    a, b, c = np.arange(64, dtype=np.float32), np.zeros(64, np.float32), np.zeros(64, np.float32)
    assert Kernel(main, nests=nests)(a, b, c) == 0
    assert (b == a + 1).all() and (c == a + 6).all()


def test_a_kernel_of_open_sizes_stays_whole() -> None:
    n = var("n", kind="dim")
    x, y, z = (buffer(name, "float32", n) for name in "XYZ")
    body = seq(add(x, y, extent=n), add(y, z, extent=n))
    func = Func("k", (x, y, z), body, (n,), (y, z))
    assert apart(func) == (func, [])


def test_a_nest_that_finds_no_memory_ends_the_kernel() -> None:
    """What was allocated before is given back, and the status is that of the nest."""
    x, y = buffer("X", "float32", 64), buffer("Y", "float32", 64)
    t, own = (buffer(name, "float32", LARGE, scope="global") for name in ("t", "own"))
    # a loop that needs memory of its own in each iteration
    needs = loop(4, lambda i: Alloc(own, seq(add(t, own), Store(y, load(own, (i,)), (i,)))), name="o")
    func = Func("k", (x, y), Alloc(t, seq(add(x, t), needs, add(t, y, by=2.0))), (), (y,))  # Y = X + 3
    main, nests = apart(func)
    assert len(nests) == 3
    kernel = Kernel(main, nests=nests)
    got = []
    for n in (0, 1, None):
        helper.fail_after[0] = n
        y_ = np.zeros(64, np.float32)
        got.append(kernel(np.ones(64, np.float32), y_))
        assert not helper.live_blocks and ((y_ == 4).all() or got[-1] == 1)
    assert got == [1, 1, 0]
