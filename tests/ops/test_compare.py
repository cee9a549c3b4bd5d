"""Comparisons, logic and choice against numpy, with NaN and mixed dtypes."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tests.ops.arrays import compiled, exact, real, sample
from tests.te.oracles import numbers

ops = tl.ops
COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")


@pytest.mark.parametrize("t", ["float32", "float64", "float16", "bfloat16", "int8", "int64", "uint8", "bool"])
def test_comparisons(t):
    a, b = numbers(t, 33), numbers(t, 33, seed=3)
    b[::3] = a[::3]
    x, y = te.placeholder((33,), t, name="x"), te.placeholder((33,), t, name="y")
    for name, got in zip(
        COMPARISONS, compiled([getattr(ops, name)(x, y) for name in COMPARISONS], {x: a, y: b}), strict=True
    ):
        exact(got, getattr(np, name)(real(a, t), real(b, t)), "bool")


def test_comparison_of_different_types():
    a, b = sample((3, 17), "int8"), sample((3, 1), "uint8", 2)
    x, y = te.placeholder((3, 17), "int8", name="x"), te.placeholder((3, 1), "uint8", name="y")
    exact(compiled(ops.less(x, y), {x: a, y: b}), a < b, "bool")


@pytest.mark.parametrize("t", ["bool", "float32", "int8"])
def test_logic_of_what_is_not_zero(t):
    a, b = sample((3, 17), t, 1), sample((17,), "bool", 2)
    a[0, ::2] = 0
    x, y = te.placeholder((3, 17), t, name="x"), te.placeholder((17,), "bool", name="y")
    got = compiled(
        [ops.logical_and(x, y), ops.logical_or(x, y), ops.logical_xor(x, y), ops.logical_not(x)], {x: a, y: b}
    )
    want = [np.logical_and(a, b), np.logical_or(a, b), np.logical_xor(a, b), np.logical_not(a)]
    for g, w in zip(got, want, strict=True):
        exact(g, w, "bool")


def test_where_broadcasts_all_three():
    c, a, b = sample((33, 1), "bool", 1), sample((17,), "float32", 2), sample((33, 17), "int32", 3)
    cond, x, y = (
        te.placeholder((33, 1), "bool", name="c"),
        te.placeholder((17,), name="x"),
        te.placeholder((33, 17), "int32", name="y"),
    )
    got = compiled(
        [ops.where(cond, x, y), ops.where(cond, x, 0), ops.where(cond, 1.0, 0.0), ops.where(y, x, -1.5)],
        {cond: c, x: a, y: b},
    )
    exact(got[0], np.where(c, a, b), "float64")
    exact(got[1], np.where(c, a, np.float32(0)), "float32")
    exact(got[2], np.where(c, 1.0, 0.0), "float32")
    exact(got[3], np.where(b, a, np.float32(-1.5)), "float32")


def test_where_of_symbolic_sizes():
    n = te.var("n")
    x = te.placeholder((n, 3), name="x")
    kernel = tl.compile([x, ops.where(ops.greater(x, 0), x, 0.0)])
    for rows in (1, 17, 33):
        a = sample((rows, 3), "float32", rows)
        exact(kernel(a), np.maximum(a, 0), "float32")
