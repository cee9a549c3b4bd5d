"""Engines: one row of kernels called natively, step by step what has functions of arrays in between; threads,
forks, plans that are bounded, memory that does not grow."""

from __future__ import annotations

import gc
import os
import threading
import weakref

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops
from tensorlang.runtime import run as runs
from tensorlang.runtime.arena import bound


def small(n: int = 0):
    """A diamond of elementwise operators; what it computes."""
    g = tl.Graph("small")
    a, b = g.input(("n", 8), "float32", "a"), g.input(("n", 8), "float32", "b")
    x, y = g.call(ops.add, a, b), g.call(ops.multiply, a, b)
    g.output(g.call(ops.subtract, x, y), "y")
    return g, lambda a, b: a + b - a * b


@pytest.fixture(scope="module")
def diamond():
    g, f = small()
    return g.compile(level=0), f


@pytest.fixture(scope="module")
def staged():
    """Kernels, a function of arrays that finds a size, and kernels again."""
    g = tl.Graph("staged")
    x = g.input(("n",), "float32", "x")
    double = g.call(ops.add, x, x)
    (positive,) = g.host(lambda a: a[a > 0], [double], [((None,), "float32")], op="positive")
    g.output(g.call(ops.multiply, positive, positive), "squares")
    g.output(double, "double")
    return g.compile(level=0), lambda a: ((2 * a)[a > 0] ** 2, 2 * a)


def arrays(n: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    return [rng.integers(-4, 5, (n, 8)).astype("float32") for _ in range(2)]


@pytest.mark.parametrize("n", [0, 1, 5])
def test_every_way_to_call(diamond, n):
    engine, f = diamond
    a, b = arrays(n)
    wanted = f(a, b)
    out = np.empty_like(wanted)
    assert np.array_equal(engine(a, b), wanted)
    assert np.array_equal(engine(b=b, a=a), wanted)
    assert engine(a, b, out=out) is out and np.array_equal(out, wanted)
    out[:] = 0
    assert engine(a, b, out) is None and np.array_equal(out, wanted)
    out[:] = 0
    assert engine(b=b, a=a, out=out) is out and np.array_equal(out, wanted)
    assert np.array_equal(engine.run({"a": a, "b": b})["y"], wanted)


def test_arrays_of_others_come_by_dlpack(diamond):
    engine, f = diamond

    class Foreign:
        def __init__(self, a):
            self.a = a

        def __dlpack__(self, **named):
            return self.a.__dlpack__(**named)

        def __dlpack_device__(self):
            return self.a.__dlpack_device__()

    a, b = arrays(3)
    assert np.array_equal(engine(Foreign(a), b), f(a, b))


def test_a_call_that_is_refused_changes_nothing(diamond):
    engine, _ = diamond
    a, b = arrays(4)
    out = np.zeros((4, 8), "float32")
    for call in (
        lambda: engine(a, b[:3], out),
        lambda: engine(a, b, out=a),
        lambda: engine(a, b, out=out[:3]),
        lambda: engine(a, b.astype("float64"), out=out),
    ):
        with pytest.raises(tl.CallError):
            call()
        assert not out.any()


def test_functions_of_arrays_stand_between_kernels(staged):
    engine, f = staged
    for n in (0, 1, 7):
        x = np.random.default_rng(n).integers(-4, 5, n).astype("float32")
        for have, wanted in zip(engine(x), f(x), strict=True):
            assert np.array_equal(have, wanted)
    x = np.array([1, -1, 2], "float32")
    outs = np.empty(2, "float32"), np.empty(3, "float32")
    made = engine(x, out=outs)
    assert made[0] is outs[0] and made[1] is outs[1]
    assert np.array_equal(outs[0], [4, 16]) and np.array_equal(outs[1], [2, -2, 4])
    with pytest.raises(tl.CallError, match="argument 2, squares, has shape"):
        engine(x, out=(np.empty(3, "float32"), outs[1]))


def test_plans_are_bounded_and_the_oldest_go(diamond):
    engine, f = diamond
    (run,) = engine.steps
    for n in [*range(1, 2 * runs.MAX_PLANS), 1, 2, 3]:
        a, b = arrays(n)
        assert np.array_equal(engine(a, b), f(a, b))
    assert len(run.plans) == runs.MAX_PLANS and not run.plans._retired


def test_a_plan_in_use_outlives_its_place(diamond):
    engine, f = diamond
    (run,) = engine.steps
    plan = run.plans.plan((3,), run.planned)
    plan.view.users += 1
    for n in range(5, 5 + 3 * runs.MAX_PLANS):
        run.plans.plan((n,), run.planned)
    assert plan in run.plans._retired
    plan.view.users -= 1
    for n in range(300, 301 + runs.MAX_PLANS):
        run.plans.plan((n,), run.planned)
    assert plan not in run.plans._retired


@pytest.mark.parametrize("which", ["diamond", "staged"])
def test_many_threads(which, request):
    engine, f = request.getfixturevalue(which)
    failures: list[object] = []

    def work(seed: int) -> None:
        for i in range(125):
            n = (seed * 7 + i) % 19
            given = arrays(n, i) if which == "diamond" else [arrays(n, i)[0].reshape(-1)]
            have, wanted = engine(*given), f(*given)
            if which == "diamond":
                have, wanted = (have,), (wanted,)
            if not all(np.array_equal(h, w) for h, w in zip(have, wanted, strict=True)):
                failures.append((seed, i))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_long_calls_give_the_lock_up():
    g, f = small()
    engine = g.compile(level=0)
    a, b = arrays(40_000)
    plan = engine.steps[0].plans.plan((40_000,), engine.steps[0].planned)
    assert plan.view.releases and not engine.steps[0].plans.plan((4,), engine.steps[0].planned).view.releases
    assert np.array_equal(engine(a, b), f(a, b))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_calls_it_too(diamond):
    engine, f = diamond
    a, b = arrays(9)
    engine(a, b)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = (
                0 if np.array_equal(engine(a, b), f(a, b)) and engine(*arrays(11)).shape == (11, 8) else 2
            )
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert np.array_equal(engine(a, b), f(a, b))


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="no such file here")
@pytest.mark.parametrize("which", ["diamond", "staged"])
def test_memory_does_not_grow_with_calls(which, request):
    engine, _ = request.getfixturevalue(which)
    given = arrays(50) if which == "diamond" else [arrays(50)[0].reshape(-1)]

    def calls(count: int) -> None:
        for _ in range(count):
            engine(*given)

    calls(1000)
    gc.collect()
    before = resident()
    calls(10_000)
    gc.collect()
    assert resident() - before < 1 << 20


def test_the_arena_is_as_large_as_what_lives(diamond):
    engine, _ = diamond
    (run,) = engine.steps
    key = (1000,)
    _, shapes = run.numbers(key)
    inner = [v for v in run.made if v not in run.kept]
    most = bound(run.lives(inner, shapes))
    assert 0 < run.plans.plan(key, run.planned).arena <= 1.1 * most
    engine(*arrays(1000))
    assert engine.arenas.bytes == run.plans.plan(key, run.planned).arena


def test_outputs_that_are_inputs_or_constants_or_twice_the_same():
    g = tl.Graph("odd")
    x = g.input((3,), "float32", "x")
    y = g.call(ops.add, x, x)
    for name, v in (("same", x), ("y", y), ("again", y), ("fixed", g.constant(np.arange(3.0), "c"))):
        g.output(v, name)
    engine = g.compile()
    a = np.array([1, 2, 3], "float32")
    same, y1, y2, fixed = engine(a)
    assert np.array_equal(same, a) and same is not a
    assert np.array_equal(y1, 2 * a) and np.array_equal(y2, 2 * a) and not np.shares_memory(y1, y2)
    fixed[:] = 9
    assert np.array_equal(engine(a)[3], [0, 1, 2])


@pytest.mark.parametrize("which", ["diamond", "staged"])
def test_an_engine_goes_with_its_last_name(which):
    if which == "diamond":
        engine = small()[0].compile(level=0)
        engine(*arrays(2))
    else:
        g = tl.Graph()
        g.host(np.flatnonzero, [g.input((4,), "float32", "x")], [((None,), "int64")])
        g.output(g.nodes[0].outputs[0])
        engine = g.compile()
        engine(np.ones(4, "float32"))
    gone = weakref.ref(engine), weakref.ref(engine._loaded)
    gc.disable()
    try:
        del engine
        assert [r() for r in gone] == [None, None]
    finally:
        gc.enable()
