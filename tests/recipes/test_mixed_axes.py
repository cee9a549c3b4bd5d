"""Reductions over axes between which others are kept: what lies behind the outermost is one row."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import default_schedule
from tensorlang.recipes.choices import asking
from tests.codegen.test_assembly import AVX2, AVX512
from tests.recipes.long import LONG
from tests.recipes.test_few_columns import TARGETS, reduced, same

RNG = np.random.default_rng(5)


@pytest.mark.each_value
@TARGETS
@pytest.mark.parametrize(
    "dtype", ["float32", "uint8", pytest.param("float64", marks=LONG), pytest.param("int32", marks=LONG)]
)
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((61, 5, 3), (0, 2)),
        ((9, 11, 7, 3), (0, 2)),
        ((9, 11, 7, 3), (0, 3)),
        ((9, 11, 7, 3), (0, 2, 3)),
        ((9, 11, 7, 3), (0, 1, 3)),
        ((3, 11, 7, 3), (1, 3)),
        ((2, 9, 3, 2, 3), (1, 2, 4)),
        ((8, 3, 2, 3, 2), (0, 2, 4)),
        ((4, 2, 2), (0, 2)),
        ((3, 5, 3), (0, 2)),
        ((1, 5, 3), (0, 2)),
    ],
    ids=str,
)
def test_mixed_axes(shape, axes, dtype, target):
    reduced(shape, axes, dtype, target)


@TARGETS
@pytest.mark.parametrize(
    ("shape", "axes"),
    [((60, 5, 3), (0, 2)), ((23, 11, 3), (0, 2)), ((23, 11, 2, 3), (0, 2)), ((9, 23, 5, 3), (0, 1, 3))],
    ids=str,
)
def test_rows_are_reduced_first(shape, axes, target):
    """In the vectors of everything behind the outermost axes, and not in ones of two or three elements."""
    x = te.placeholder(shape, name="x")
    a = RNG.integers(0, 9, shape).astype("float32")
    tree = same(ops.sum(x, axis=axes), x, a, a.sum(axes), target)
    assert re.search(r"sum\.rf\S*\.fused\S* +0\.\.(8|15|16) +vectorized", tree)


def test_of_what_is_read_beside():
    """A weight of the columns, and an operator around; two axes of one name."""
    x, w = te.placeholder((40, 5, 3), name="x"), te.placeholder((5,), name="w")
    i, j = te.reduce_axis((0, 40), name="k"), te.reduce_axis((0, 3), name="k")
    out = te.compute((5,), lambda c: te.max(x[i, c, j] * w[c], axis=[i, j]), name="out")
    twice = te.compute((5,), lambda c: 2.0 * out[c], name="twice")
    a, b = RNG.integers(-9, 9, (40, 5, 3)).astype("float32"), np.array([1, 2, 3, -1, 0], "float32")
    want = 2 * (a * b[:, None]).max((0, 2))
    got = np.zeros(5, "float32")
    s = default_schedule(twice)
    interpret(tl.lower(s, [x, w, twice]), a, b, got)
    assert np.array_equal(got, want) and np.array_equal(tl.compile([x, w, twice])(a, b), want)
    assert "out.rf" in str(s.tree())


@pytest.mark.parametrize("threads", [1, 2])
def test_an_open_number_of_rows(threads):
    n = te.dim("n", 0, 1 << 24)
    x = te.placeholder((n, 5, 3), name="x")
    f = tl.compile([x, ops.sum(x, axis=(0, 2))], target=f"llvm -mcpu=native -num-cores={threads}")
    for rows in (0, 1, 5, 64, 1025, 20_003):
        a = RNG.integers(0, 4, (rows, 5, 3)).astype("float32")
        assert np.array_equal(f(a), a.sum((0, 2)))


@pytest.mark.parametrize("known", ["", "c", "m", "n"])
@pytest.mark.parametrize("axes", [(0, 2), (1,)], ids=str)
def test_a_short_run_of_an_open_length(axes, known):
    """Each was a vector that is mostly masked, four of them for each row: sums of 1000 × 5 × 3 over the first
    and the last axis took 8.4 µs, and take 1.7."""
    fixed = {"n": 33, "m": 5, "c": 3}
    n, m, c = (fixed[name] if name == known else te.dim(name) for name in "nmc")
    x = te.placeholder((n, m, c), name="x")
    out, most = ops.max(x, axis=axes), ops.sum(x, axis=axes)
    with asking({c: 16} if known != "c" else {}):
        s = default_schedule(most, AVX512)
    assert axes == (1,) or re.search(r"sum.rf +float32\[(m|5), (c|3)\]", str(s.tree())), s.tree()
    text, f, g = tl.lower(s, [x, most]), tl.compile([x, most]), tl.compile([x, out])
    for rows, middle, run in (
        (1, 1, 1),
        (3, 5, 3),
        (33, 5, 3),
        (9, 7, 16),
        (33, 3, 17),
        (130, 5, 3),
        (0, 2, 2),
    ):
        sizes = {"n": rows, "m": middle, "c": run} | ({known: fixed[known]} if known else {})
        a = RNG.integers(0, 5, tuple(sizes.values())).astype("float32")
        assert np.array_equal(f(a), a.sum(axes)), sizes
        assert 0 in a.shape or np.array_equal(g(a), a.max(axes)), sizes
        if sizes["c"] <= 16 and a.size < 1000:
            got = np.zeros(a.sum(axes).shape, "float32")
            interpret(text, a, got)
            assert np.array_equal(got, a.sum(axes)), sizes


def test_threads_share_rows():
    x = te.placeholder((40_003, 5, 3), name="x")
    a = RNG.integers(0, 4, (40_003, 5, 3)).astype("float32")
    assert "parallel" in same(ops.sum(x, axis=(0, 2)), x, a, a.sum((0, 2)), f"{AVX512} -num-cores=2")


def test_nan_and_ends_of_the_range():
    a = RNG.standard_normal((200, 5, 3)).astype("float32")
    a[150, 1, 2], a[3, 2, 0] = np.nan, -np.inf
    x = te.placeholder(a.shape, name="x")
    for op, want in ((ops.max, np.max), (ops.min, np.min)):
        assert np.array_equal(tl.compile([x, op(x, axis=(0, 2))])(a), want(a, axis=(0, 2)), equal_nan=True)


def test_long_runs_stay():
    """Rows that fill vectors are read as they are."""
    x = te.placeholder((20, 5, 64), name="x")
    assert "sum.rf.rf" not in str(default_schedule(ops.sum(x, axis=(0, 2)), AVX512).tree())
