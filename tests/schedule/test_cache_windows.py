"""s.cache_windows: what windows read as a stage of its own, the same numbers bit for bit, and what it refuses;
default schedules, best guesses and searches begin with it."""

from __future__ import annotations

import numpy as np
import pytest

import autosched
import tensorlang as tl
from autosched.space.template import variants_of
from tensorlang import te
from tensorlang.loopir.interpret import interpret
from tests.te.test_margins import declared
from tests.te.test_places import CASES, two_dimensions

RNG = np.random.default_rng(5)
MARGINS = {
    "3x3": lambda: declared((1, 4, 9, 9), 8, (3, 3), (1, 1), "image"),
    "rows, stride 2": lambda: declared((2, 5, 20), 6, (3,), (2,), "image"),
}
PROGRAMS = {**CASES, **MARGINS, "a torus": two_dimensions}


def arrays(tensors):
    return [RNG.integers(-4, 5, [int(str(n)) for n in t.shape]).astype(t.dtype.name) for t in tensors]


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_the_same(name):
    x, w, o = PROGRAMS[name]()
    s = te.create_schedule(o.op)
    window = s.cache_windows(o)
    assert window.name == "o.window" and window.op.input_tensors == (x,)
    assert s[o].op.input_tensors == (window, w)
    given = arrays([x, w])
    (right,) = te.reference.evaluate([o], {x: given[0], w: given[1]})
    assert np.array_equal(tl.build(s, [x, w, o])(*given), right)
    out = np.full(right.shape, np.nan, "float32")
    interpret(tl.lower(s, [x, w, o]), *given, out)
    assert np.array_equal(out, right)
    replayed = te.create_schedule(o.op)
    tl.Trace.from_json(s.trace.to_json()).apply(replayed)
    assert str(replayed.tree()) == str(s.tree())
    assert "window = s.cache_windows(o)" in s.trace.to_python()


def test_each_call_takes_one_tensor():
    x, y = te.placeholder((20,), name="x"), te.placeholder((20,), name="y")
    k = te.reduce_axis((0, 5), name="k")
    o = te.compute((20,), lambda i: te.sum(x[(i + k) % 20] * y[te.min(i + k, 19)], axis=k), name="o")
    s = te.create_schedule(o.op)
    names = [s.cache_windows(o).name for _ in range(2)]
    assert names == ["o.window", "o.window_1"] and not s.can("cache_windows", "o")
    given = arrays([x, y])
    (right,) = te.reference.evaluate([o], dict(zip([x, y], given, strict=True)))
    assert np.array_equal(tl.build(s, [x, y, o])(*given), right)
    assert np.array_equal(tl.compile([x, y, o])(*given), right)


@pytest.mark.parametrize("name", ["mirrored", "circulant", "a torus", "3x3"])
def test_a_search_begins_with_what_is_compiled(name):
    """Of a convolution with its margin in the formula a search began with a schedule 2.5 times as slow."""
    tensors = PROGRAMS[name]()
    task = autosched.SearchTask.of(tensors)
    start = task.default_schedule()
    assert start.trace.steps[0].name == "cache_windows"
    assert tl.build(start, tensors).get_source("ir") == tl.compile(tensors).get_source("ir")
    found = list(variants_of(task))
    assert found and all(v.trace.steps[0].name == "cache_windows" for v in found)
    given = arrays(tensors[:2])
    (right,) = te.reference.evaluate(tensors[2:], dict(zip(tensors, given, strict=False)))
    for v in found[:4]:
        assert np.array_equal(tl.build(v.schedule(v.present()[0]), tensors)(*given), right)


def refusals():
    x, w = te.placeholder((40,), name="x"), te.placeholder((5,), name="w")
    k = te.reduce_axis((0, 5), name="k")
    yield "sums", te.compute((36,), lambda i: te.sum(x[i + k] * w[k], axis=k), name="o")
    yield "elements", te.compute((40,), lambda i: x[(i + 3) % 40], name="o")
    among = lambda i: te.sum(x[(i + k) % 40], axis=k, where=i + k < 31)
    yield "under a condition", te.compute((40,), among, name="o")


@pytest.mark.parametrize(("why", "o"), list(refusals()), ids=[n for n, _ in refusals()])
def test_others_are_refused_and_nothing_changes(why, o):
    s = te.create_schedule(o.op)
    with pytest.raises(tl.ScheduleError, match="reads no tensor in windows"):
        s.cache_windows(o)
    assert not s.trace.steps and not s.can("cache_windows", "o")


def test_a_schedule_that_is_begun_is_refused():
    *_, o = CASES["around"]()
    s = te.create_schedule(o.op)
    s[o].parallel("i0")
    with pytest.raises(tl.ScheduleError, match="cache_windows before all other calls"):
        s.cache_windows(o)
