"""Workspaces that a caller gives: right numbers, in the plan of an engine, in its file."""

from __future__ import annotations

import importlib
import re
import sys

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.build import unbound
from tensorlang.codegen import emit
from tensorlang.graph import Graph
from tensorlang.loopir.verify import verify
from tensorlang.loopir.workspaces import with_workspaces
from tensorlang.target import as_target
from tests.graph import checks

RNG = np.random.default_rng(0)


def kept_apart(x):
    """Sums of rows of what is too large for the stack, read at two places."""
    squares = te.compute(x.shape, lambda i, j: x[i, j] * x[i, j], name="squares")
    total = ops.cumsum(squares, axis=1)
    k = te.reduce_axis((0, x.shape[1]), name="k")
    most = te.compute((x.shape[0],), lambda i: te.max(total[i, k], axis=k), name="most")
    return te.compute(x.shape, lambda i, j: total[i, j] - most[i], name="y")


def made(x):
    total = np.cumsum(x * x, 1)
    return total - total.max(1, keepdims=True)


@pytest.mark.parametrize("rows", ["n", 40])
def test_an_engine_plans_them(rows, tmp_path):
    g = Graph("spaces")
    x = g.input((rows, 1000), name="x")
    g.output(g.call(kept_apart, x, op="kept"))
    engine = g.compile(cache=False, workers=1)
    spaces = [v for v in engine.program.values if v.name.endswith("workspace")]
    assert spaces and not any(b"tensorlang_alloc" in c.object_code for c in engine.codes)
    a = RNG.integers(-2, 3, (40, 1000)).astype("float32")
    assert np.array_equal(engine(a), made(a))
    engine.save(tmp_path / "spaces.engine")
    assert np.array_equal(tl.Engine.load(tmp_path / "spaces.engine")(a), made(a))
    if rows == "n":
        assert engine(a[:0]).shape == (0, 1000)


def test_what_the_stack_holds_is_no_parameter():
    x = te.placeholder((4, 10), name="x")
    code = unbound([x, y := kept_apart(x)], [], [], outputs=[y])
    assert [p.name for p in code.signature.params if p.output] == ["y"]


# -- of loops


def rows_twice(n, width, nested=False):
    """Each row of a result reads its row of another from both ends."""
    x = te.placeholder((n, width), name="x")
    a = te.compute(x.shape, lambda i, j: x[i, j] * 2, name="a")
    y = te.compute(x.shape, lambda i, j: a[i, width - 1 - j] + a[i, j], name="y")
    s = te.create_schedule(y.op)
    i, j = y.op.axis
    if nested:
        outer, i = s[y].split(i, 4)
        s[y].parallel(outer)
    s[y].parallel(i)
    s[a].compute_at(s[y], i)
    return tl.lower(s, [x, y])


def told(x):
    return 2 * x + 2 * x[:, ::-1]


@pytest.mark.parametrize("threads", [1, 2, 64])
@pytest.mark.parametrize("rows", [64, te.var("n")], ids=str)
def test_threads_share_rows(rows, threads):
    """Also where there are more threads than rows."""
    func = with_workspaces(rows_twice(rows, 20_000), 1 << 16, threads)
    assert f"a.rows: float32[{threads}, 20000] out" in str(func) and "global in a.rows" in str(func)
    verify(func)
    f = tl.build(func)
    x = RNG.integers(-2, 3, (64, 20_000)).astype("float32")
    y, space = np.zeros_like(x), np.empty((threads, 20_000), "float32")
    for _ in range(8):
        y[:] = 0
        f(x, y, space)
        assert np.array_equal(y, told(x))


def test_a_parallel_loop_in_another_has_memory_of_its_own():
    func = with_workspaces(rows_twice(16, 20_000, nested=True), 1 << 16, 2)
    assert "rows" not in str(func)
    x = RNG.integers(-2, 3, (16, 20_000)).astype("float32")
    assert np.array_equal(tl.build(func)(x), told(x))
    within = with_workspaces(rows_twice(16, 20_000, nested=True), 1 << 16, 1)
    assert np.array_equal(tl.build(within)(x)[0], told(x))


def test_rows_end_with_a_line_of_the_cache():
    func = with_workspaces(rows_twice(8, 1001), 0, 2)
    assert "a.rows: float32[2, 1008] out" in str(func)
    x = RNG.integers(-2, 3, (8, 1001)).astype("float32")
    assert np.array_equal(tl.build(func)(x)[0], told(x))


def test_a_call_asks_for_no_memory():
    if not sys.platform.startswith("linux"):
        pytest.skip("memory is kept on Linux only")
    x, y = RNG.integers(-2, 3, (64, 20_000)).astype("float32"), np.zeros((64, 20_000), "float32")
    asks = tl.build(rows_twice(64, 20_000))
    given = tl.build(with_workspaces(rows_twice(64, 20_000), 1 << 16, 64))
    space = np.empty((64, 20_000), "float32")
    kept = []
    for call in (lambda: asks(x, y), lambda: given(x, y, space)):
        tl.release_workspace()
        call()
        kept.append(tl.release_workspace())
    assert kept[0] >= 80_000 and kept[1] == 0


def test_random_programs_with_every_workspace_given(monkeypatch):
    monkeypatch.setattr(importlib.import_module("tensorlang.build"), "STACK_LIMIT", 0)
    for seed in range(400_000, 400_006):
        checks.compiled(seed, levels=(2,))


def test_many_nests_in_a_parallel_loop_share_its_row():
    """So many that they are functions of their own."""
    n, count = 600, 160
    x = te.placeholder((32, n), name="x")
    stages = [x]
    for _ in range(count):
        before = stages[-1]
        stages.append(te.compute(x.shape, lambda i, j, t=before: t[i, n - 1 - j] + 1))
    last = stages[-1]
    s = te.create_schedule(last.op)
    i = last.op.axis[0]
    s[last].parallel(i)
    for t in stages[1:-1]:
        s[t].compute_at(s[last], i)
    func = with_workspaces(tl.lower(s, [x, last]), 0, 4)
    assert re.search(r"call i32 @main[\w.]*nest", emit(func, as_target(None), "default"))
    a = RNG.integers(-2, 3, (32, n)).astype("float32")
    assert np.array_equal(tl.build(func)(a)[0], a + count)
