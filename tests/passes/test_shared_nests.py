"""Two kernels of one computation as one: what both begin and end with stands once."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.expr import make
from tensorlang.loopir.stmt import Alloc, Buffer, Func, If, Stmt, preorder, seq
from tensorlang.passes.shared_nests import unless
from tests.loopir.kernels import buffer, loop, read, store, var

A, B, N = buffer("A", 8), buffer("B", 8), te.var("n")


def step(src: Buffer, dst: Buffer, by: int) -> Stmt:
    i = var("i")
    return loop(i, 8, store(dst, i, read(src, i) + by))


def opened(within: list[Buffer], items: list[Stmt]) -> Stmt:
    body = seq(*items)
    for b in reversed(within):
        body = Alloc(b, body)
    return body


def steps(*by: int) -> Func:
    """A chain of nests, each adding one of these, in workspaces of its own."""
    within = [buffer(f"T{n}", 8, scope="global") for n in range(len(by) - 1)]
    places = [A, *within, B]
    return Func(
        "main",
        (A, B),
        opened(within, [step(places[i], places[i + 1], b) for i, b in enumerate(by)]),
        (),
        (B,),
    )


def asked(f: Func) -> list[If]:
    return [s for s in preorder(f.body) if isinstance(s, If)]


def added(s: Stmt) -> list[str]:
    return [x.split("+ ")[1] for x in str(Func("main", (A, B), s)).splitlines() if "+ " in x]


COND = make.lt(N, 4)


def test_what_both_begin_and_end_with_stands_once() -> None:
    f = unless(steps(1, 2, 3), COND, steps(1, 7, 3))
    (test,) = asked(f)
    assert test.orelse is not None
    assert added(test.then) == ["7.0"] and added(test.orelse) == ["2.0"]
    assert added(f.body) == ["1.0", "7.0", "2.0", "3.0"]


def test_more_nests_between_in_one_than_in_the_other() -> None:
    f = unless(steps(1, 3), COND, steps(1, 7, 3))
    (test,) = asked(f)
    assert "7.0" in added(test.then) and added(f.body)[0] == "1.0"


def test_the_same_loops_need_no_test() -> None:
    f = unless(steps(1, 2, 3), COND, steps(1, 2, 3))
    assert not asked(f) and added(f.body) == ["1.0", "2.0", "3.0"]


def test_nothing_in_common() -> None:
    f = unless(steps(1, 2), COND, steps(3, 4))
    assert isinstance(f.body, If) and added(f.body.then) == ["3.0", "4.0"]


def test_a_nest_that_reads_a_workspace_the_other_has_not() -> None:
    """The last nests say the same but for where they read: of one, a workspace of another length."""
    long = buffer("T0", 9, scope="global")
    other = Func("main", (A, B), opened([long], [step(A, long, 1), step(long, B, 2)]), (), (B,))
    f = unless(steps(1, 2), COND, other)
    assert isinstance(f.body, If) and len(added(f.body)) == 4


def product(target: str | None = None) -> tl.Module:
    n, m, k = (te.var(x) for x in "nmk")
    a, b = te.placeholder((n, m), "int8", "a"), te.placeholder((m, k), "int8", "b")
    return tl.compile([a, b, ops.matmul_integer(a, b)], target=target)


def test_schedules_that_differ_in_little_write_the_product_once() -> None:
    """Three of four differ in the sums of columns: the tiles of the product were written three times, which
    was most of 13,760 lines of LLVM."""
    assert product("llvm -mcpu=znver5 -num-cores=2").get_source("ll").count("\n") < 8000


@pytest.fixture(scope="module")
def multiply() -> tl.Module:
    return product()


@pytest.mark.parametrize("n", [1, 4, 5, 40])
@pytest.mark.parametrize("m", [1, 64, 65, 130])
@pytest.mark.parametrize("k", [1, 16, 17, 300])
def test_every_way_of_a_call(multiply: tl.Module, n: int, m: int, k: int) -> None:
    rng = np.random.default_rng(n + m + k)
    a, b = (rng.integers(-128, 128, s).astype("int8") for s in ((n, m), (m, k)))
    np.testing.assert_array_equal(multiply(a, b), a.astype("int32") @ b.astype("int32"))
