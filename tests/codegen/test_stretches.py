"""A loop whose body differs from some iteration on becomes a loop for each stretch."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.codegen.llvm import parallel
from tensorlang.codegen.llvm.stretches import of_a_piece, stretches
from tensorlang.expr.nodes import const_int

from .helper import PARALLEL, Func, If, Kernel, Store, buffer, make, var
from .helper import For as Loop


def body(v, *conds):
    """Stores of 0, 1, 2, …: each where the condition of its place holds and none before."""
    out = buffer("C", "int32", 20)
    stmts = [Store(out, make.const(k, "int32"), (v,)) for k in range(len(conds) + 1)]
    found = stmts[-1]
    for cond, stmt in zip(reversed(conds), reversed(stmts[:-1]), strict=True):
        found = If(cond, stmt, found)
    return out, found


def of(begin, extent, *conds, kind="serial"):
    v = var("i")
    out, inside = body(v, *[c(v) for c in conds])
    return out, Loop(v, make.const(begin, v.dtype), make.const(extent, v.dtype), kind, inside)


def ends(loop):
    found = stretches(loop)
    return found and [(const_int(s.begin), const_int(s.extent)) for s in found]


def test_where_a_loop_is_cut():
    assert ends(of(0, 20, lambda v: v <= 16)[1]) == [(0, 17), (17, 3)]
    assert ends(of(0, 20, lambda v: make.le(5, v))[1]) == [(0, 5), (5, 15)]
    assert ends(of(2, 10, lambda v: v < 4, lambda v: make.le(9, v))[1]) == [(2, 1), (3, 1), (4, 5), (9, 3)]
    assert ends(of(0, 20, lambda v: v * 8 < 100)[1]) == [(0, 13), (13, 7)]
    assert ends(of(0, 20, lambda v: v < 40)[1]) == [(0, 20)]
    within = lambda v: make.and_(make.le(3, v), v < 9)
    assert ends(of(0, 20, within)[1]) == [(0, 3), (3, 6), (9, 11)]
    assert ends(of(0, 20, lambda v: make.and_(make.le(9, v), v < 3))[1]) == [(0, 9), (9, 11)]


def test_a_condition_of_something_else_stays():
    other = var("n")
    assert ends(of(0, 20, lambda v: v < other)[1]) is None
    assert ends(of(0, 20, lambda v: make.and_(v < 9, v < other))[1]) is None
    assert ends(of(0, 40, *[lambda v, k=k: v <= k for k in range(2, 22)])[1]) is None


def test_a_loop_that_threads_do_not_share_is_cut_as_others():
    assert ends(of(0, 20, lambda v: v <= 16, kind=PARALLEL)[1]) == [(0, 17), (17, 3)]


def test_a_value_that_is_one_or_the_other_is_two_stores():
    v, out = var("i"), buffer("C", "int32", 20)
    value = make.if_then_else(v < 5, make.const(1, "int32"), make.const(2, "int32"))
    loop = Loop(v, make.const(0, v.dtype), make.const(20, v.dtype), "serial", Store(out, value, (v,)))
    assert ends(loop) == [(0, 5), (5, 15)]


def parts(loop, lo=None, hi=None):
    found = of_a_piece(loop.var, lo, hi, loop.body)
    return found and [p.past if p.past is None else const_int(p.past) for p in found]


def test_stretches_of_a_piece():
    first, second = var("n"), var("m")
    _, loop = of(0, 20, lambda v: v < first, lambda v: make.le(second, v))
    found = of_a_piece(loop.var, None, None, loop.body)
    assert [p.past for p in found[:-1]] == [first, second] and found[-1].past is None
    assert parts(of(0, 20, lambda v: v < 4, lambda v: make.le(9, v))[1], 0, 19) == [4, 9, 20]
    assert parts(of(0, 20, lambda v: v < 40)[1], 0, 19) == [20]
    # where there is nothing to do in front, or between, a piece would begin too early
    v, out = var("i"), buffer("C", "int32", 20)
    store = Store(out, make.const(1, "int32"), (v,))
    assert of_a_piece(v, 0, 19, If(make.le(4, v), store)) is None
    assert of_a_piece(v, None, None, If(make.le(first, v), store)) is None
    assert [const_int(p.past) for p in of_a_piece(v, 0, 19, If(v < 4, store))] == [4]
    inner = Loop(var("j"), make.const(0, "int32"), make.const(3, "int32"), "serial", store)
    assert of_a_piece(v, 0, 19, If(v < 4, inner, store)) is None


@pytest.mark.parametrize("first, second", [(4, 9), (0, 5), (19, 20), (1, 2), (5, 5)])
def test_values_of_pieces(first, second, monkeypatch):
    """The pool of the tests runs two halves."""
    monkeypatch.setattr(parallel, "PIECE", 1)
    out, loop = of(0, 20, lambda v: v < first, lambda v: make.le(second, v), kind=PARALLEL)
    data = np.full(20, -1, "int32")
    assert Kernel(Func("k", (out,), loop, (), (out,)))(data) == 0
    at = np.arange(20)
    np.testing.assert_array_equal(data, np.where(at < first, 0, np.where(at >= second, 1, 2)))


@pytest.mark.parametrize("first, second", [(4, 9), (0, 5), (19, 20), (1, 2), (5, 5)])
def test_values(first, second):
    out, loop = of(0, 20, lambda v: v < first, lambda v: make.le(second, v))
    data = np.full(20, -1, "int32")
    assert Kernel(Func("k", (out,), loop, (), (out,)))(data) == 0
    at = np.arange(20)
    np.testing.assert_array_equal(data, np.where(at < first, 0, np.where(at >= second, 1, 2)))


def test_one_iteration_has_its_counter_for_a_constant():
    _, loop = of(0, 20, lambda v: make.and_(make.le(1, v), v < 19))
    data, (v, inside) = buffer("D", "int32", 40), (loop.var, loop.body)
    then = Store(data, make.const(1, "int32"), (make.min_(v * 2, 37),))
    first, *_, last = stretches(
        Loop(v, loop.begin, loop.extent, "serial", If(inside.cond, inside.then, then))
    )
    assert const_int(first.body.indices[0]) == 0 and const_int(last.body.indices[0]) == 37


def test_the_rest_of_a_row_has_constant_masks():
    """One masked vector behind the loop, and no mask that is computed from a counter."""
    x = te.placeholder((9, 2021), name="x")
    target = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=znver3 -num-cores=1"
    text = tl.compile([x, ops.max(x, -1)], target).get_source("asm")
    assert "vmaskmov" in text and "vpminu" not in text and "vpmaxu" not in text


@pytest.mark.parametrize("n", [31, 33, 63, 255, 257, 1001, 2021])
def test_rows(n):
    x = te.placeholder((9, n), name="x")
    data = np.random.default_rng(n).integers(-99, 99, (9, n)).astype("float32")
    np.testing.assert_array_equal(tl.compile([x, ops.max(x, -1)])(data), data.max(1))
    np.testing.assert_array_equal(tl.compile([x, ops.sum(x, -1)])(data), data.sum(1))
