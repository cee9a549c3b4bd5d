"""s.split_sum: products less zero points as sums of their terms, the same to the last bit at the ends of the
types, and what it refuses; where default schedules and searches do so."""

from __future__ import annotations

import numpy as np
import pytest

import autosched
import tensorlang as tl
from autosched.space.template import variants_of
from tensorlang import te
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import default_schedule

from .test_turn_sign import AVX2, VNNI, WIDE, extremes, steps

K = te.reduce_axis


def product(of, m=6, k=21, n=35, ta="uint8", tb="int8", more=()):
    a, b = te.placeholder((m, k), ta, "A"), te.placeholder((k, n), tb, "B")
    r = K((0, k), name="r")
    at = lambda i, j: te.sum(of(WIDE(a[i, r]), WIDE(b[r, j]), i, j), axis=r)
    return [a, b, *more, te.compute((m, n), at, name="C")]


def by_numbers():
    return product(lambda a, b, i, j: (a - 117) * (b + 3))


def by_channel():
    p, q = te.placeholder((6,), "uint8", "p"), te.placeholder((35,), "int8", "q")
    return product(lambda a, b, i, j: (a - WIDE(p[i])) * (b - WIDE(q[j])), more=(p, q))


def distances():
    a, b = te.placeholder((9, 30), "int8", "A"), te.placeholder((17, 30), "int8", "B")
    r = K((3, 27), name="r")
    square = lambda d: d * d
    at = lambda i, j: te.sum(square(WIDE(a[i, r]) - WIDE(b[j, r])), axis=r)
    return [a, b, te.compute((9, 17), at, name="C")]


def image():
    x, w = te.placeholder((1, 5, 9, 9), "uint8", "A"), te.placeholder((18, 5, 3, 3), "uint8", "B")
    c, p, q = (K((0, n), name=s) for n, s in ((5, "c"), (3, "p"), (3, "q")))
    at = lambda b, o, y, z: te.sum(
        (WIDE(x[b, c, y + p, z + q]) - 128) * (WIDE(w[o, c, p, q]) - 7), axis=[c, p, q]
    )
    return [x, w, te.compute((1, 18, 7, 7), at, name="C")]


def nothing():
    return product(lambda a, b, i, j: (a - 5) * (b - i), k=0)


PROGRAMS = {f.__name__: f for f in (by_numbers, by_channel, distances, image, nothing)}


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_the_same(name):
    tensors = PROGRAMS[name]()
    *inputs, c = tensors
    s = te.create_schedule(c.op)
    assert s.split_sum(c).name == "C.products"
    given = [extremes(t) for t in inputs]
    (right,) = te.reference.evaluate([c], dict(zip(inputs, given, strict=True)))
    assert np.array_equal(tl.build(s, tensors)(*given), right)
    out = np.full(right.shape, 7, "int32")
    interpret(tl.lower(s, tensors), *given, out)
    assert np.array_equal(out, right)
    assert np.array_equal(tl.compile(tensors)(*given), right)
    rest = [v for i, v in enumerate(given) if i != 1]
    assert np.array_equal(tl.compile(tensors, constants={inputs[1]: given[1]})(*rest), right)
    replayed = te.create_schedule(c.op)
    tl.Trace.from_json(s.trace.to_json()).apply(replayed)
    assert str(replayed.tree()) == str(s.tree())
    assert "products = s.split_sum(C)" in s.trace.to_python()


@pytest.mark.parametrize("name", [n for n in PROGRAMS if n != "nothing"])
def test_default_schedules_and_searches_take_zero_points_apart(name):
    """They were widened to int32 and multiplied there, at a fifth of the rate."""
    tensors = PROGRAMS[name]()
    for target in VNNI, AVX2:
        assert "split_sum" in steps(default_schedule(tensors[-1:], target))
        found = list(variants_of(autosched.SearchTask.of(tensors, target)))
        assert found and all("split_sum" in steps(v.base) for v in found)
    assert ("turn_sign" in steps(default_schedule(tensors[-1:], VNNI))) == (name in ("distances", "image"))


@pytest.mark.parametrize(
    "tensors",
    [
        product(lambda a, b, i, j: a * b),
        product(lambda a, b, i, j: (a - 3) * b, m=1),
        product(lambda a, b, i, j: (a - 3) * (b >> 1)),
    ],
)
def test_others_stay(tensors):
    assert "split_sum" not in steps(default_schedule(tensors[-1:], VNNI))


def test_a_number_that_a_call_gives_and_open_sizes():
    n, z = te.var("n"), te.var("z", "int32")
    a, b = te.placeholder((n, 48), "uint8", "A"), te.placeholder((48, 40), "int8", "B")
    r = K((0, 48), name="r")
    at = lambda i, j: te.sum((WIDE(a[i, r]) - z) * WIDE(b[r, j]), axis=r)
    c = te.compute((n, 40), at, name="C")
    f = tl.compile([a, b, z, c])
    rng = np.random.default_rng(3)
    for rows in (0, 1, 5, 33):
        x, y = (
            rng.integers(0, 256, (rows, 48)).astype("uint8"),
            rng.integers(-128, 128, (48, 40)).astype("int8"),
        )
        assert np.array_equal(f(x, y, -77), (x.astype("int32") + 77) @ y.astype("int32"))


def test_sums_of_terms_may_wrap_where_their_difference_does_not():
    tensors = product(lambda a, b, i, j: (a - 128) * (b - 128), m=8, k=40_000, n=16, tb="uint8")
    x, y = np.full((8, 40_000), 255, "uint8"), np.full((40_000, 16), 255, "uint8")
    x[1], y[:, 3] = 0, 1
    assert 255 * 255 * 40_000 > 2**31 > 127 * 127 * 40_000
    want = (x.astype("int64") - 128) @ (y.astype("int64") - 128)
    assert np.array_equal(tl.compile(tensors)(x, y), want)


def refusals():
    yield product(lambda a, b, i, j: a * b)[-1]
    floats = te.placeholder((9, 9), name="F")
    r = K((0, 9), name="r")
    yield te.compute((9, 9), lambda i, j: te.sum((floats[i, r] - 3.0) * floats[r, j], axis=r), name="C")
    x = te.placeholder((9,), "int32", "X")
    yield te.compute((9,), lambda i: te.max(x[i] * x[r] + x[r], axis=r), name="C")


@pytest.mark.parametrize("c", [*refusals()])
def test_others_are_refused_and_nothing_changes(c):
    s = te.create_schedule(c.op)
    with pytest.raises(tl.ScheduleError, match="is no sum of integers with terms of fewer axes"):
        s.split_sum(c)
    assert not s.trace.steps


def test_a_schedule_that_is_begun_is_refused():
    *_, c = by_numbers()
    s = te.create_schedule(c.op)
    s[c].parallel("i")
    with pytest.raises(tl.ScheduleError, match="split_sum before all other calls"):
        s.split_sum(c)
