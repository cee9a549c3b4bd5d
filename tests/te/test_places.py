"""Windows whose places are no sums: the same numbers by a stage that has found the places, and what is left
as it is."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.te.places import place_apart

RNG = np.random.default_rng(11)


def window(place, n, taps, out, begin=0, rows=None):
    """Sums of ``x[place(i + k)] * w[k]``."""
    lead = () if rows is None else (rows,)
    x, w = te.placeholder((*lead, n), name="x"), te.placeholder((begin + taps,), name="w")
    k = te.reduce_axis((begin, begin + taps), name="k")
    at = lambda *i: te.sum(x[(*i[:-1], place(i[-1], k))] * w[k], axis=k)
    return [x, w, te.compute((*lead, out), at, name="o")]


def mirror(n):
    return lambda v: te.abs(te.select(v >= n, 2 * n - 2 - v, v))


CASES = {
    "mirrored": lambda: window(lambda i, k: mirror(40)(i + k - 3), 40, 7, 40, rows=5),
    "around": lambda: window(lambda i, k: (i + k) % 37, 37, 9, 37, rows=4),
    "clamped": lambda: window(lambda i, k: te.max(te.min(i + 2 * k - 4, 29), 0), 30, 5, 30, rows=6),
    "circulant": lambda: window(lambda i, k: (i - k + 64) % 64, 64, 64, 64),
    "backwards": lambda: window(lambda i, k: (50 - i + k) % 51, 51, 6, 40, rows=3),
    "taps that begin at 2": lambda: window(lambda i, k: (i + k + 1) % 33, 33, 5, 33, begin=2, rows=3),
    "nothing of it": lambda: window(lambda i, k: (i + k) // 2, 40, 5, 40, rows=3),
}


@pytest.mark.parametrize("name", CASES)
def test_places_are_found_once(name):
    tensors = CASES[name]()
    x, w, o = tensors
    apart = place_apart(o.op)
    assert apart is not None
    read = next(t for t in apart.op.input_tensors if t is not w)
    assert read.name == "o.window" and x in read.op.input_tensors
    a, b = (RNG.integers(-4, 5, [int(str(n)) for n in t.shape]).astype("float32") for t in (x, w))
    (right,) = te.reference.evaluate([o], {x: a, w: b})
    (same,) = te.reference.evaluate([apart], {x: a, w: b})
    assert np.array_equal(right, same)
    assert np.array_equal(tl.compile(tensors)(a, b), right)


def two_dimensions():
    x, w = te.placeholder((20, 30), name="x"), te.placeholder((3, 3), name="w")
    a, b = te.reduce_axis((0, 3), name="a"), te.reduce_axis((0, 3), name="b")
    at = lambda i, j: te.sum(x[(i + a + 19) % 20, mirror(30)(j + b - 1)] * w[a, b], axis=[a, b])
    return [x, w, te.compute((20, 30), at, name="o")]


def test_both_dimensions_of_a_torus():
    x, w, o = two_dimensions()
    apart = place_apart(o.op)
    assert apart is not None
    (at,) = (t for t in apart.op.input_tensors if t is not w)
    assert [int(str(n)) for n in at.shape] == [22, 32]
    a, b = (RNG.integers(-4, 5, [int(str(n)) for n in t.shape]).astype("float32") for t in (x, w))
    (right,) = te.reference.evaluate([o], {x: a, w: b})
    assert np.array_equal(tl.compile([x, w, o])(a, b), right)


OPEN = {
    "mirrored": lambda n: window(lambda i, k: mirror(n)(i + k - 3), n, 7, n, rows=5),
    "around": lambda n: window(lambda i, k: (i + k) % n, n, 9, n, rows=4),
    "clamped": lambda n: window(lambda i, k: te.max(te.min(i + k - 2, n - 1), 0), n, 5, n, rows=6),
    "circulant": lambda n: window(lambda i, k: (i - k + n) % n, n, n, n),
    "of some places": lambda n: window(lambda i, k: (i + k) % 20, 20, 5, n),
}


@pytest.mark.parametrize("name", OPEN)
def test_open_sizes(name):
    """Also where there is nothing to be found."""
    size = te.var("n")
    x, w, o = OPEN[name](size)
    assert place_apart(o.op) is not None
    f = tl.compile([x, w, o])
    for n in (1, 4, 7, 16, 45):
        if name == "mirrored" and n < 7:
            continue  # a mirror of few is read beyond the other end
        y, v, exact = OPEN[name](n)
        a, b = (RNG.integers(-4, 5, [int(str(d)) for d in t.shape]).astype("float32") for t in (y, v))
        (right,) = te.reference.evaluate([exact], {y: a, v: b})
        out = np.full(right.shape, np.nan, "float32")
        f(a, b, out)
        assert np.array_equal(out, right), n
    none = [np.zeros([int(str(d)) if d is not size else 0 for d in t.shape], "float32") for t in (x, w, o)]
    f(*none)


def left():
    yield "in steps of open sizes", window(lambda i, k: (i + 2 * k) % 20, 20, 5, te.var("n"))
    yield "sums", window(lambda i, k: i + 2 * k, 50, 5, 40)
    yield "two ways in one", window(lambda i, k: (i + k) % 20 + k % 2, 40, 6, 20, rows=9)
    yield "few taps of much", window(lambda i, k: (i + k) % 40, 40, 1, 40)
    x = te.placeholder((30,), name="x")
    k = te.reduce_axis((0, 5), name="k")
    inside = lambda i: te.if_then_else(i + k < 30, x[te.min(i + k, 29)], 0.0)
    yield "guarded", [x, te.compute((30,), lambda i: te.sum(inside(i), axis=k), name="o")]
    among = te.compute((30,), lambda i: te.sum(x[(i + k) % 30], axis=k, where=i + k < 31), name="o")
    yield "under a condition", [x, among]
    yield "elements", [x, te.compute((30,), lambda i: x[(i + 3) % 30], name="o")]


@pytest.mark.parametrize(("name", "tensors"), list(left()), ids=lambda x: x if isinstance(x, str) else "")
def test_others_are_left(name, tensors):
    assert place_apart(tensors[-1].op) is None
