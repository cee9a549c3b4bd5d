"""State that is fed back: outputs of one call are inputs of the next, in two arrays that take turns."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops


def counter(host: bool = False):
    """``y = x + 2 s``, ``s' = s + x``; with a function of arrays in between the engine goes step by step."""
    g = tl.Graph("counter")
    x, s = g.input(("n", 4), "float32", "x"), g.input(("n", 4), "float32", "s")
    total = g.call(ops.add, s, x)
    y = g.call(ops.add, g.call(ops.add, s, s), x)
    if host:
        (y,) = g.host(lambda a: a + 0, [y], [(y.shape, "float32")])
    g.output(y, "y")
    g.output(total, "sN")
    return g.compile(level=0)


@pytest.mark.parametrize("host", [False, True])
def test_state_goes_round(host):
    engine = counter(host)
    step = engine.bind(sN="s")
    rng = np.random.default_rng(0)
    s, places = np.zeros((3, 4), "float32"), set()
    for _ in range(6):
        x = rng.integers(-3, 4, (3, 4)).astype("float32")
        assert np.array_equal(step(x), x + 2 * s)
        s = s + x
        assert np.array_equal(step.state["s"], s)
        places.add(step.state["s"].ctypes.data)
    assert len(places) == 2
    begin = np.ones((2, 4), "float32")
    step.reset(s=begin)
    assert np.array_equal(step(x=np.zeros((2, 4), "float32")), 2 * begin) and (begin == 1).all()


def test_a_refused_call_keeps_the_state():
    step = counter().bind({"sN": "s"})
    x = np.ones((2, 4), "float32")
    step(x)
    before = step.state["s"].copy()
    with pytest.raises(tl.CallError, match="axis 1 is 3, not 4"):
        step(x[:, :3].copy())
    with pytest.raises(tl.CallError, match="1 are not state"):
        step(x, x)
    assert np.array_equal(step.state["s"], before)


def test_names_that_are_not_there():
    engine = counter()
    for call, says in (
        (lambda: engine.bind(t="s"), "no output t"),
        (lambda: engine.bind(sN="t"), "no input t"),
        (lambda: engine.bind(sN="s", y="s"), "given by two outputs"),
        (lambda: engine.bind(sN="s").reset(x=1), "x is not state"),
    ):
        with pytest.raises(tl.CallError, match=says):
            call()


def fed(state_size, size):
    """``s' = x + sum of s``, of the sizes that are named."""
    g = tl.Graph("fed")
    s, x = g.input((state_size, 2), "float32", "s"), g.input((size, 2), "float32", "x")
    g.output(g.call(ops.add, x, g.call(ops.sum, s)), "sN")
    g.output(g.call(ops.relu, x), "y")
    return g.compile(level=0).bind(sN="s")


def test_state_may_change_its_size_from_call_to_call():
    """The array that was written two calls ago was given to a call that makes a larger one."""
    step, total = fed("n", "m"), 0.0
    step.reset(s=np.zeros((3, 2), "float32"))
    for rows in (3, 3, 5, 5, 5, 2, 2):
        step(np.ones((rows, 2), "float32"))
        assert np.array_equal(step.state["s"], np.full((rows, 2), 1 + total))
        total = float(step.state["s"].sum())


def test_the_first_state_of_a_refused_call_is_forgotten():
    """Zeros of its size stayed, and refused the next call."""
    step = fed("n", "n")
    with pytest.raises(tl.CallError, match="axis 1 is 3, not 2"):
        step(np.ones((3, 3), "float32"))
    assert not step.state
    step(np.ones((5, 2), "float32"))
    assert np.array_equal(step.state["s"], np.ones((5, 2)))


def test_state_may_begin_in_another_order():
    step = counter().bind(sN="s")
    begin = np.asfortranarray(np.arange(12, dtype="float32").reshape(3, 4))
    step.reset(s=begin)
    x = np.ones((3, 4), "float32")
    for calls in range(1, 4):
        step(x)
        assert np.array_equal(step.state["s"], begin + calls)
