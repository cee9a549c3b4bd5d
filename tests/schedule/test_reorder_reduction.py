"""s.reorder_reduction: a reduction over its axes in another order, what it refuses, and where default schedules
do so."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import default_schedule
from tests.codegen.test_assembly import AVX512

from .test_turn_sign import steps

SIZES = {"x": 5, "y": 7, "z": 33}
REDUCERS = {"sum": te.sum, "max": te.max, "min": te.min}


def whole(order, f=te.sum, dtype="int32"):
    """A reduction of all of a tensor, its axes named in this order."""
    A = te.placeholder(tuple(SIZES.values()), dtype, "A")
    by_name = {n: te.reduce_axis((0, size), n) for n, size in SIZES.items()}
    at = tuple(by_name.values())
    return A, te.compute((), lambda: f(A[at], axis=[by_name[n] for n in order]), name="B")


@pytest.mark.parametrize("name", REDUCERS)
@pytest.mark.parametrize("order", list(itertools.permutations("xyz")))
def test_results_are_the_same(name, order):
    A, B = whole(order, REDUCERS[name])
    s = te.create_schedule(B.op)
    s[B].reorder_reduction("x", "y", "z")
    assert [a.name for a in s[B].op.reduce_axis] == ["x", "y", "z"]
    a = np.random.default_rng(3).integers(-99, 99, tuple(SIZES.values())).astype("int32")
    want = getattr(np, name)(a)
    assert tl.build(s, [A, B])(a) == want == tl.compile([A, B])(a)
    out = np.zeros((), "int32")
    interpret(tl.lower(s, [A, B]), a, out)
    assert out == want
    replayed = te.create_schedule(B.op)
    tl.Trace.from_json(s.trace.to_json()).apply(replayed)
    assert str(replayed.tree()) == str(s.tree())
    assert "s[B].reorder_reduction(x, y, z)" in s.trace.to_python()


def test_a_condition_and_what_it_begins_with_stay():
    A = te.placeholder((6, 8), "int32", "A")
    x, y = te.reduce_axis((0, 6), "x"), te.reduce_axis((0, 8), "y")
    B = te.compute((), lambda: te.sum(A[x, y], axis=[y, x], where=x.var + y.var < 7), name="B")
    s = te.create_schedule(B.op)
    s[B].reorder_reduction(x, y)
    a = np.arange(48, dtype="int32").reshape(6, 8)
    i, j = np.indices(a.shape)
    assert tl.build(s, [A, B])(a) == a[i + j < 7].sum()


@pytest.mark.parametrize("order", list(itertools.permutations("xyz")))
def test_default_schedules_reduce_along_memory_however_axes_are_named(order):
    """Where the last one named was not that along memory, elements were added one by one: 24 times the time."""
    _, B = whole(order, dtype="float32")
    tree = str(default_schedule(B, AVX512).tree())
    assert "vectorize" in tree, tree
    assert ("reorder_reduction" in steps(default_schedule(B, AVX512))) == (order != ("x", "y", "z"))


def test_an_order_that_one_operand_has_stays():
    """Weights may lie otherwise than the image: recipes of convolutions know their axes by what they read."""
    X, W = te.placeholder((1, 9, 9, 8), name="X"), te.placeholder((4, 8, 3, 3), name="W")
    c, p, q = (te.reduce_axis((0, n), name) for n, name in ((8, "c"), (3, "p"), (3, "q")))
    at = lambda n, h, w, o: te.sum(X[n, h + p, w + q, c] * W[o, c, p, q], axis=[c, p, q])
    out = te.compute((1, 7, 7, 4), at, name="out")
    assert "reorder_reduction" not in steps(default_schedule(out, AVX512))


def argmax():
    pick = lambda a, b: tuple(te.select(a[1] >= b[1], p, q) for p, q in zip(a, b, strict=True))
    reducer = te.comm_reducer(pick, lambda t, u: (te.const(-1, t), te.min_value(u)), name="argmax")
    A = te.placeholder((4, 6), name="A")
    x, y = te.reduce_axis((0, 4), "x"), te.reduce_axis((0, 6), "y")
    return te.compute((), lambda: reducer((x.var * 6 + y.var, A[x, y]), axis=[y, x]), name="B")[0]


def test_refusals():
    _, B = whole("zyx")
    s = te.create_schedule(B.op)
    for axes, why in (
        (("x", "y"), "is reduced over `z`, `y`, `x`, and not over `x`, `y`"),
        (("x", "y", "y"), "name each axis of the reduction once"),
        ((), "and not over nothing"),
    ):
        with pytest.raises(tl.ScheduleError, match=why):
            s[B].reorder_reduction(*axes)
    s[B].split("z", 4)
    with pytest.raises(tl.ScheduleError, match="reorder_reduction before all other calls"):
        s[B].reorder_reduction("x", "y", "z")
    chosen = argmax()
    s = te.create_schedule(chosen.op)
    with pytest.raises(tl.ScheduleError, match="reducer of its own"):
        s[chosen].reorder_reduction("x", "y")
    C = te.compute((3,), lambda i: i * 2, name="C")
    s = te.create_schedule(C.op)
    with pytest.raises(tl.ScheduleError, match="`C` is no reduction"):
        s[C].reorder_reduction()
