"""Engines of several programs (branches, assumed sizes, values that are known late) as one native call."""

from __future__ import annotations

import gc
import os
import threading
import weakref

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.runtime.engine import Engine

onnx = pytest.importorskip("onnx")

from .test_onnx_control import B, F, I, graph, helper, node  # noqa: E402
from .test_onnx_models import model  # noqa: E402


def branches():
    """``x + x`` twice over, then a branch; what it computes. In the branch that is taken not, the result is
    an input."""
    yes = graph([node("Mul", ["y", "x"], ["p"]), node("Neg", ["p"], ["q"])], [], [("q", F, None)])
    no = graph([node("Identity", ["x"], ["r"])], [], [("r", F, None)])
    m = model(
        [
            node("Add", ["x", "x"], ["y"]),
            node("Greater", ["n", "three"], ["c"]),
            node("If", ["c"], ["z"], then_branch=yes, else_branch=no),
            node("Relu", ["z"], ["w"]),
        ],
        [("x", F, ["k"]), ("n", I, [])],
        [("y", F, ["k"]), ("z", F, None), ("w", F, None)],
        {"three": np.array(3)},
    )

    def f(x, n):
        z = -2 * x * x if n > 3 else x
        return 2 * x, z, np.maximum(z, 0)

    return tl.load_onnx(m), f


@pytest.fixture(scope="module")
def branching():
    g, f = branches()
    return g.compile(level=0), f


def same(have, wanted):
    return all(np.array_equal(a, b) and a.shape == b.shape for a, b in zip(have, wanted, strict=True))


def given(k, seed=0):
    return np.random.default_rng(seed).integers(-4, 5, k).astype("float32")


def natively(monkeypatch):
    """From now on no engine may go step by step."""

    def refused(*_, **__):
        raise AssertionError("step by step")

    monkeypatch.setattr(Engine, "work", refused)


def test_a_branch_is_a_jump_of_the_native_table(branching, monkeypatch):
    engine, f = branching
    calls = [(given(k, n), np.array(n)) for k in (0, 1, 5) for n in (2, 7)]
    for _ in range(2):
        for x, n in calls:
            assert same(engine(x, n), f(x, n))
    natively(monkeypatch)
    for x, n in calls:
        assert same(engine(x, n), f(x, n))
        assert same(engine(n=n, x=x), f(x, n))
        assert same(engine.run({"n": n, "x": x}).values(), f(x, n))
        outs = tuple(np.full_like(x, 9) for _ in range(3))
        assert engine(x, n, *outs) is None and same(outs, f(x, n))
        x2 = np.repeat(x, 2)[::2]
        assert same(engine(x2, n), f(x, n))


def test_an_output_that_is_an_input_is_a_copy(branching):
    engine, f = branching
    x = given(4)
    for _ in range(3):
        z = engine(x, np.array(0))[1]
        assert z is not x and not np.shares_memory(z, x) and np.array_equal(z, x)


def test_outputs_to_write_to(branching):
    engine, f = branching
    x, n = given(5), np.array(9)
    for _ in range(2):
        outs = tuple(np.full(5, 9, "float32") for _ in range(3))
        made = engine(x, n, out=outs)
        assert all(a is b for a, b in zip(made, outs, strict=True)) and same(outs, f(x, n))
        before = x.copy()
        with pytest.raises(tl.CallError, match="the array for w overlaps x"):
            engine(x, n, out=(*outs[:2], x))
        with pytest.raises(tl.CallError, match="the array for w overlaps z"):
            engine(x, n, out=(*outs[:2], outs[1]))
        with pytest.raises(tl.CallError, match="has shape"):
            engine(x, n, out=(*outs[:2], np.empty(6, "float32")))
        assert np.array_equal(x, before)


def test_a_branch_of_another_rank_goes_its_own_way():
    yes = graph([node("ReduceSum", ["x"], ["q"], keepdims=0)], [], [("q", F, None)])
    no = graph([node("Neg", ["x"], ["r"])], [], [("r", F, None)])
    m = model(
        [node("If", ["c"], ["z"], then_branch=yes, else_branch=no)],
        [("x", F, ["k"]), ("c", B, [])],
        [("z", F, None)],
    )
    engine = tl.load_onnx(m).compile(level=0)
    for _ in range(3):
        for k in (1, 4):
            x = given(k)
            assert np.array_equal(engine(x, np.array(True)), x.sum())
            assert np.array_equal(engine(x, np.array(False)), -x)


def assumed():
    """The sizes of two inputs are taken for equal, which a call may deny."""
    m = model(
        [
            node("Add", ["a", "b"], ["s"]),
            node("Shape", ["s"], ["n"]),
            node("Expand", ["one", "n"], ["ones"]),
            node("Sub", ["s", "ones"], ["y"]),
        ],
        [("a", F, ["k"]), ("b", F, ["l"])],
        [("y", F, None)],
        {"one": np.ones(1, "float32")},
    )
    return tl.load_onnx(m)


def test_assumed_sizes_are_looked_up_when_a_plan_is_made(monkeypatch):
    engine = assumed().compile(level=0)
    calls = [(given(k), given(m, 1)) for k, m in ((3, 3), (1, 4), (4, 1), (3, 1), (0, 0))]
    for a, b in calls:
        assert np.array_equal(engine(a, b), a + b - 1)
    natively(monkeypatch)
    for a, b in calls:
        assert np.array_equal(engine(a, b), a + b - 1)


def test_sizes_that_can_not_be_are_refused_again_and_again():
    engine = assumed().compile(level=0)
    for _ in range(2):
        for a, b in ((given(3), given(2)), (given(3), given(3))):
            if len(a) == len(b):
                assert np.array_equal(engine(a, b), a + b - 1)
            else:
                with pytest.raises(tl.TensorLangError):
                    engine(a, b)


def reshaped():
    """The target of a Reshape is an input."""
    m = model(
        [node("Reshape", ["x", "to"], ["y"]), node("Neg", ["y"], ["z"])],
        [("x", F, ["k"]), ("to", I, [2])],
        [("z", F, [None, None])],
    )
    return tl.load_onnx(m).compile(level=0)


def test_values_that_sizes_depend_on(monkeypatch):
    engine, x = reshaped(), given(12)
    for shape in ((3, 4), (4, 3), (3, 4), (2, 6), (3, 4), (1, 12)):
        assert np.array_equal(engine(x, np.array(shape)), -x.reshape(shape))
    out = np.empty((2, 6), "float32")
    natively(monkeypatch)
    assert np.array_equal(engine(x, np.array([1, 12])), -x.reshape(1, 12))
    assert engine(x, np.array([2, 6]), out) is None and np.array_equal(out, -x.reshape(2, 6))


def test_saved_with_what_was_met(tmp_path, branching, monkeypatch):
    engine, f = branching
    calls = [(given(3), np.array(n)) for n in (2, 7)]
    for c in calls:
        engine(*c)
    engine.save(tmp_path / "branching.engine")
    loaded = Engine.load(tmp_path / "branching.engine")
    for c in calls:
        assert same(loaded(*c), f(*c))
    natively(monkeypatch)
    for c in calls:
        assert same(loaded(*c), f(*c))


def test_a_state_that_is_fed_back(branching):
    engine, _ = branching
    bound = engine.bind(w="x")
    bound.reset(x=given(4))
    x = given(4)
    for n in (1, 9, 1, 1, 9):
        y, z = bound(np.array(n))
        assert np.array_equal(y, 2 * x)
        assert np.array_equal(z, -2 * x * x if n > 3 else x)
        x = np.maximum(z, 0)
        assert np.array_equal(bound.state["x"], x)


def test_many_threads_and_a_fork(branching):
    engine, f = branching
    failures = []

    def work(seed):
        for i in range(60):
            x, n = given((seed + i) % 7, i), np.array(i % 5 + 1)
            if not same(engine(x, n), f(x, n)):
                failures.append((seed, i))

    threads = [threading.Thread(target=work, args=(s,)) for s in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures
    child = os.fork()
    if not child:
        x = given(3)
        os._exit(0 if same(engine(x, np.array(9)), f(x, 9)) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_an_engine_ends_with_its_last_reference():
    gc.disable()
    try:
        engine = branches()[0].compile(level=0)
        for n in (2, 7):
            engine(given(3), np.array(n))
        ended = weakref.ref(engine)
        del engine
        assert ended() is None
    finally:
        gc.enable()


def test_plans_are_bounded(branching):
    engine, f = branching
    for k in range(150):
        assert same(engine(given(k), np.array(k % 6)), f(given(k), k % 6))
    assert len(engine._whole.plans) <= 64 and len(engine._whole._made) <= 64
