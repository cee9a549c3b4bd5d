"""Conditions of reductions that are written as choices."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te


def test_what_is_left_out_of_a_reduction_is_its_condition():
    """``if_then_else(k < i, e, 0)`` in a sum is ``e`` where ``k < i``: loops end there, and tiles ask once.
    Triangular products took 2.5 to 4 times as long."""
    x, k, m = (
        te.placeholder((8, 8), name="x"),
        te.reduce_axis((0, 8), name="k"),
        te.placeholder((8,), "bool", name="m"),
    )

    def condition(f):
        return te.compute((8,), f).op.body[0].condition

    assert str(condition(lambda i: te.sum(te.if_then_else(k < i, x[i, k], 0.0), axis=k))) == "k < i"
    assert (
        str(condition(lambda i: te.max(te.select(k < i, x[i, k], -te.infinity("float32")), axis=k)))
        == "k < i"
    )
    assert (
        str(condition(lambda i: te.sum(te.select(k < i, x[i, k], 0.0), axis=k, where=i > 2)))
        == "2 < i and k < i"
    )
    # another number, the other side, data that decide, a beginning of its own
    assert condition(lambda i: te.sum(te.select(k < i, x[i, k], 1.0), axis=k)) is None
    assert condition(lambda i: te.sum(te.select(k < i, 0.0, x[i, k]), axis=k)) is None
    assert condition(lambda i: te.sum(te.select(m[k], x[i, k], 0.0), axis=k)) is None
    assert condition(lambda i: te.sum(te.select(k < i, x[i, k], 0.0), axis=k, init=1.0)) is None


@pytest.mark.parametrize("word", ["sum", "max", "min", "prod"])
def test_a_triangle_of_a_matrix_is_reduced(word):
    none = {"sum": 0.0, "prod": 1.0, "max": -np.inf, "min": np.inf}[word]
    x, k = te.placeholder((9, 9), name="x"), te.reduce_axis((0, 9), name="k")
    o = te.compute(
        (9,),
        lambda i: getattr(te, word)(te.if_then_else(k < i, x[i, k], te.const(none, "float32")), axis=k),
        name="o",
    )
    a = np.random.default_rng(2).integers(-2, 3, (9, 9)).astype("float32")
    want = getattr(np, word)(np.where(np.tri(9, k=-1) > 0, a, none), axis=1)
    np.testing.assert_array_equal(tl.compile([x, o])(a), want.astype("float32"))
