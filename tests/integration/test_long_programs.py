"""Programs of many stages and nests of many loops: nothing that is nested deeply in a program is deep in
Python's calls.

Python's limit is lowered instead of the programs being made longer: what fits 120 stages into little more
than what one stage takes fits thousands into the usual limit.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import operator
import sys
from contextlib import contextmanager

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.codegen.llvm.apart import MOST_NESTS
from tensorlang.core.dtype import FLOAT32
from tensorlang.expr import make
from tensorlang.loopir.stmt import Alloc, Buffer, Store, preorder, seq
from tensorlang.loopir.verify import verify
from tensorlang.passes import hoist_guards

STAGES = 120


@contextmanager
def few_calls(room: int = 130):
    """Python's limit at ``room`` calls beyond those in progress."""
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + room)
    try:
        yield
    finally:
        sys.setrecursionlimit(usual)


def chain(n: int, back: int = 1) -> tuple[te.Tensor, list[te.Tensor]]:
    x = te.placeholder((12,), name="x")
    made = [x]
    for i in range(n):
        made.append(
            te.compute((12,), lambda p, t=made[-1]: t[te.max(p - back, 0) if back else p] + 1.0, name=f"t{i}")
        )
    return x, made[1:]


def shifted(a: np.ndarray, n: int) -> np.ndarray:
    return a[np.maximum(np.arange(12) - n, 0)] + n


def test_many_stages_at_the_root():
    x, made = chain(STAGES)
    s = te.create_schedule(made[-1].op)
    with few_calls():
        func = tl.lower(s, [x, made[-1]])
        verify(func, in_bounds=True)
        text, tree = str(func), s.tree()
        f = tl.build(s, [x, made[-1]])
    assert text.count("for ") == STAGES and tree.count("compute t") == STAGES
    a = np.arange(12, dtype="float32")
    assert (f(a) == shifted(a, STAGES)).all()
    # LLVM takes longer than its share for one of all nests, and for one of each
    functions = f.get_source("ll").count("define internal")
    assert STAGES // MOST_NESTS < functions < STAGES // 4


def test_what_many_allocations_leave_behind_is_given_back_once_each():
    """The ways out of a failure join: a way for each, which gives back all before it, would make the text n²
    long."""

    @tl.register_func("tests.long_programs.refuse", override=True)
    def refuse(a: np.ndarray, out: np.ndarray) -> None:
        raise ValueError("not today")

    size = 20_000  # beyond what lives on the stack
    x = te.placeholder((size,), name="x")
    made = [te.compute((size,), lambda p, n=n: x[p] + float(n), name=f"t{n}") for n in range(40)]
    total = te.compute((size,), lambda p: functools.reduce(operator.add, [t[p] for t in made]), name="total")
    last = te.extern(
        (size,),
        [total],
        lambda ins, outs: te.call_packed("tests.long_programs.refuse", ins[0], outs[0]),
        name="last",
    )
    f = tl.build(te.create_schedule(last.op), [x, last])
    assert f.get_source("ll").count("call void @tensorlang_free") <= 2 * 41
    with pytest.raises(ValueError, match="not today"):
        f(np.zeros(size, "float32"))


@pytest.mark.parametrize("scope", ["global", "local"])
def test_many_nests_inside_one_loop_are_several_functions(scope):
    """Stages computed in the loop of the last one, each in memory of its own."""
    x = t = te.placeholder((3, 100), name="x")
    made = []
    for n in range(STAGES):
        t = te.compute((3, 100), lambda i, j, t=t: t[i, 99 - j] + 1.0, name=f"t{n}")
        made.append(t)
    s = te.create_schedule(t.op)
    for stage in made[:-1]:
        s[stage].set_scope(scope)
        s[stage].compute_at(s[t], t.op.axis[0])
    f = tl.build(s, [x, t])
    a = np.arange(300, dtype="float32").reshape(3, 100)
    assert (f(a) == a + STAGES).all()
    assert 2 < f.get_source("ll").count("define internal") < STAGES // 4


def test_a_kernel_of_few_nests_is_one_function():
    x, made = chain(3)
    f = tl.build(te.create_schedule(made[-1].op), [x, made[-1]])
    assert f.get_source("ll").count("define internal") == 1


def test_each_stage_inside_the_next():
    x, made = chain(STAGES, 0)
    s = te.create_schedule(made[-1].op)
    with few_calls():
        for producer, reader in reversed(list(itertools.pairwise(made))):
            s[producer].compute_at(s[reader], s[reader].op.axis[0])
        func = tl.lower(s, [x, made[-1]])
        f = tl.build(s, [x, made[-1]])
        assert "t0" in [b.name for b in tl.lower(s, [x, made[0], made[-1]]).buffers()]
    assert len(str(func).splitlines()) > STAGES
    a = np.arange(12, dtype="float32")
    assert (f(a) == a + STAGES).all()


@pytest.mark.parametrize("checked", [False, True])
def test_nests_of_many_loops(checked):
    n = te.var("n")
    x = te.placeholder((n,), name="x")
    y = te.compute((n,), lambda i: x[i] + 1.0, name="y")
    s = te.create_schedule(y.op)
    loop = y.op.axis[0]
    with few_calls(200):
        for _ in range(40):
            loop, _ = s[y].split(loop, factor=1)
        f = tl.build(s, [x, y], bounds_check=checked)
    a = np.arange(5, dtype="float32")
    assert (f(a) == a + 1).all()


def test_long_chains_are_inlined_in_parts():
    """An expression of every stage would be as deep as the chain; each read more than once is computed
    once."""
    x = te.placeholder((16,), name="x")
    t = x
    for i in range(STAGES):
        t = te.compute((16,), lambda p, t=t: t[p] * t[p] * 0.25 + t[p] * 0.5, name=f"t{i}")
    with few_calls(400):
        f = tl.compile([x, t])
    want = a = np.linspace(0.5, 1, 16, dtype="float32")
    for _ in range(STAGES):
        want = want * want * 0.25 + want * 0.5
    np.testing.assert_allclose(f(a), want, rtol=1e-4)
    assert len(f.get_source("ll")) < 200_000


def test_split_reordered_and_fused_again_and_again():
    x = te.placeholder((64,), name="x")
    y = te.compute((64,), lambda i: x[i] + 1.0, name="y")
    s = te.create_schedule(y.op)
    loop = y.op.axis[0]
    for _ in range(61):  # digits of base 4 in turns: three of them are none
        outer, inner = s[y].split(loop, factor=4)
        s[y].reorder(inner, outer)
        loop = s[y].fuse(inner, outer)
    f = tl.build(s, [x, y])
    a = np.arange(64, dtype="float32")
    assert (f(a) == a + 1).all() and len(f.get_source("ir")) < 600


@pytest.mark.parametrize("reduced", [False, True])
def test_a_very_deep_expression_is_computed_in_parts(reduced):
    x = te.placeholder((16, 4), name="x")

    def deep(e):
        for _ in range(500):
            e = e * 0.5 + 0.25
        return e

    if reduced:
        k = te.reduce_axis((0, 4), name="k")
        y = te.compute((16,), lambda i: te.sum(deep(x[i, k]) * 2.0, axis=k), name="y")
    else:
        y = te.compute((16,), lambda i: deep(x[i, 1]) * 2.0, name="y")
    a = np.full((16, 4), 3.0, dtype="float32")
    want = np.float32(3.0)
    for _ in range(500):
        want = want * np.float32(0.5) + np.float32(0.25)
    s = te.create_schedule(y.op)
    s[y].vectorize(y.op.axis[0])
    with few_calls(400):
        for f in (tl.compile([x, y]), tl.build(s, [x, y])):
            np.testing.assert_allclose(f(a), np.full(16, want * 2 * (4 if reduced else 1)), rtol=1e-3)


@pytest.mark.parametrize("before", range(4))
def test_copies_of_a_loop_go_apart_each_with_its_buffers(before):
    """Every copy of the body of an unrolled loop opens the same buffers, the last one at the end of the
    block. A function of nests may end within it."""
    iterations = MOST_NESTS // 3
    x = te.placeholder((iterations, 6), name="x")
    y = x
    for _ in range(before):
        y = te.compute(x.shape, lambda i, j, y=y: y[i, j] + y[i, 0], name="y")
    a = te.compute(x.shape, lambda i, j: y[i, j] + 1, name="a")
    b = te.compute(x.shape, lambda i, j: a[i, j] * a[i, 5 - j], name="b")
    c = te.compute(x.shape, lambda i, j: b[i, j] + b[i, 0], name="c")
    s = te.create_schedule(c.op)
    for t in (a, b):
        s[t].compute_at(s[c], c.op.axis[0])
    s[c].unroll(c.op.axis[0])
    v = w = np.arange(iterations * 6, dtype="float32").reshape(iterations, 6) % 7
    for _ in range(before):
        w = w + w[:, :1]
    w = (w + 1) * (w + 1)[:, ::-1]
    np.testing.assert_array_equal(tl.build(s, [x, c])(v), w + w[:, :1])


@pytest.mark.parametrize("columns", [te.var("m"), 17], ids=["open", "known"])
def test_a_network_that_sorts_is_a_thousand_statements_deep(columns):
    """It is compiled, explained and profiled: none of these calls itself for each of them."""
    x = te.placeholder((33, columns), "float64", name="x")
    f = tl.compile([x, ops.argsort(x, axis=0)])
    a = np.random.default_rng(0).standard_normal((33, 17))
    assert np.array_equal(f(a), np.argsort(a, 0, kind="stable"))
    assert "loop k:" in str(f.explain())
    assert "%" in str(f.profile(a))


def test_a_buffer_that_is_doubled_within_many():
    """The chain of stages of each iteration lies within as many allocations."""
    x = te.placeholder((4, 12), name="x")
    made = [te.compute((4, 12), lambda r, p: x[r, p] + 1.0, name="t0")]
    for i in range(1, STAGES):
        made.append(te.compute((4, 12), lambda r, p, t=made[-1]: t[r, p] + 1.0, name=f"t{i}"))
    late = te.compute((4, 12), lambda r, p: x[r, p] * 2.0, name="late")
    made.append(late)
    total = te.compute((4, 12), lambda r, p: made[-2][r, p] + late[r, p], name="total")
    s = te.create_schedule(total.op)
    for t in made:
        s[t].compute_at(s[total], s[total].op.axis[0])
    s[late].double_buffer()
    with few_calls():
        func = tl.lower(s, [x, total])
        f = tl.build(s, [x, total])
    assert "late[(" in str(func) and "% 2" in str(func)
    a = np.arange(48, dtype="float32").reshape(4, 12)
    assert (f(a) == a + STAGES + a * 2).all()


def test_the_note_behind_many_allocations_is_found():
    """What a version of a front ends in lies within all that the front allocates."""

    def front(last):
        for i in range(3000):
            b = Buffer(f"b{i}", FLOAT32, (make.const(4),), "local")
            last = Alloc(b, seq(Store(b, make.const(0.0, "float32"), (make.const(0),)), last))
        return last

    without = hoist_guards._without_note(front(hoist_guards._HERE))
    assert sum(isinstance(one, Alloc) for one in preorder(without)) == 3000
    assert not any(one is hoist_guards._HERE for one in preorder(without))
