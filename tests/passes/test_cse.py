"""Masks that many accesses share get a name."""

from __future__ import annotations

import re

from tensorlang.codegen import emit
from tensorlang.expr import make
from tensorlang.expr.nodes import Expr
from tensorlang.loopir.stmt import Func, If, Let, Stmt, preorder, seq
from tensorlang.loopir.verify import verify
from tensorlang.passes.cse import cse
from tensorlang.target import as_target
from tests.loopir.kernels import buffer, dim, func, loop, n, read, store, var
from tests.passes.same import body_text, same

A, C = buffer("A", 20, 20), buffer("C", 20, 20)


def lanes(base: Expr) -> Expr:
    return make.ramp(base, 1, 8)


def tail(base: Expr) -> Expr:
    return make.lt(lanes(base), make.broadcast(make.const(20), 8))


def row(i: Expr, base: Expr) -> Stmt:
    return store(C, (i, lanes(base)), read(A, i, lanes(base), mask=tail(base)), tail(base))


def names(f: Func) -> int:
    return sum(isinstance(s, Let) for s in preorder(f.body))


def test_a_mask_is_named_in_front_of_the_loops_that_do_not_change_it() -> None:
    i, j = var("i"), var("j")
    before = func("f", (A, C), loop(j, 3, loop(i, 10, seq(row(i * 2, j * 8), row(i * 2 + 1, j * 8)))))
    after = cse(before)
    assert (
        body_text(after)
        == """\
for j in range(0, 3):
    mask = ramp(j*8, 1, 8) < x8(20)
    for i in range(0, 10):
        C[i*2, j*8 : j*8 + 8] = (A[i*2, j*8 : j*8 + 8] if mask) if mask
        C[i*2 + 1, j*8 : j*8 + 8] = (A[i*2 + 1, j*8 : j*8 + 8] if mask) if mask"""
    )
    same(before, after)
    assert cse(after) is after
    verify(after, in_bounds=True)


def test_a_name_lives_where_its_variables_do() -> None:
    i, j = var("i"), var("j")
    two = seq(*[loop(j, 3, loop(i, 20, row(i, j * 8))) for _ in range(2)])
    before = func("f", (A, C), two)
    after = cse(before)
    assert names(after) == 2
    same(before, after)


def test_sides_of_a_test_share_one_name() -> None:
    i, j = var("i"), var("j")
    body = loop(j, 3, loop(i, 20, If(make.lt(i, n(7)), row(i, j * 8), row(i, j * 8))))
    before = func("f", (A, C), body)
    after = cse(before)
    assert names(after) == 1
    same(before, after)


def test_what_is_used_once_or_reads_memory_keeps_no_name() -> None:
    i = var("i")
    once = func(
        "f", (A, C), loop(i, 20, store(C, (i, lanes(n(16))), make.broadcast(make.const(1.0), 8), tail(n(16))))
    )
    assert cse(once) is once
    positive = make.lt(make.broadcast(make.const(0.0), 8), read(A, i, lanes(n(0))))
    by_data = store(C, (i, lanes(n(0))), read(A, i, lanes(n(0)), mask=positive), positive)
    before = func("f", (A, C), loop(i, 20, by_data))
    assert cse(before) is before


def test_no_name_is_carried_into_a_parallel_loop() -> None:
    i, k, m = var("i"), var("k"), dim("m", 1)
    mask = make.lt(lanes(n(12)), make.broadcast(m, 8))
    rows = [
        store(C, (i * 2 + r, lanes(n(12))), read(A, i * 2 + r, lanes(n(12)), mask=mask), mask)
        for r in range(2)
    ]
    sized = buffer("S", m)
    before = func("f", (A, C, sized), loop(k, 1, loop(i, 10, seq(*rows), "parallel")), (m,))
    after = cse(before)
    (let,) = [s for s in preorder(after.body) if isinstance(s, Let)]
    assert "parallel" not in str(let.body)
    same(before, after, [{"m": 20}, {"m": 14}], coverage=False)


def test_the_machine_code_is_the_same() -> None:
    """The name costs nothing: a value of lanes of bool is held as it would be without one."""
    i, j = var("i"), var("j")
    before = func("f", (A, C), loop(j, 3, loop(i, 20, row(i, j * 8))))
    after = cse(before)
    assert names(after) == 1
    texts = [re.sub(r"\b([a-z]+)\d+\b", r"\1", emit(f, as_target(None))) for f in (before, after)]
    assert sorted(texts[0].splitlines()) == sorted(texts[1].splitlines())
