"""Reductions over the rows of matrices of a few columns: whole rows side by side are partial results."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import default_schedule
from tests.codegen.test_assembly import AVX2, AVX512
from tests.recipes.long import LONG

RNG = np.random.default_rng(3)
TARGETS = pytest.mark.parametrize("target", [AVX512, AVX2], ids=["avx512", "avx2"])


def same(out: te.Tensor, x: te.Tensor, a: np.ndarray, want: np.ndarray, target: str) -> str:
    """Compare the interpreter, for ``target``, and compiled code; the tree."""
    s = default_schedule(out, target)
    got = np.zeros(want.shape, want.dtype)
    interpret(tl.lower(s, [x, out]), a, got)
    assert np.array_equal(got, want)
    assert np.array_equal(tl.compile([x, out])(a), want)
    return str(s.tree())


def reduced(shape: tuple[int, ...], axes: int | tuple[int, ...], dtype: str, target: str) -> None:
    """Compare sums and the least and largest elements over these axes with numpy."""
    x = te.placeholder(shape, dtype, "x")
    a = RNG.integers(0, 4, shape).astype(dtype)
    for op, want in ((ops.sum, np.sum), (ops.max, np.max), (ops.min, np.min)):
        out = op(x, axis=axes)
        same(out, x, a, want(a, axis=axes).astype(out.dtype.name), target)


@pytest.mark.each_value
@TARGETS
@pytest.mark.parametrize(
    "dtype", ["float32", "uint8", pytest.param("float64", marks=LONG), pytest.param("int32", marks=LONG)]
)
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((133, 3), 0),
        ((64, 2), 0),
        ((501, 5), 0),
        ((257, 7), 0),
        ((17, 31, 3), (0, 1)),
        ((3, 70, 3), 1),
        ((2, 9, 40, 2), (1, 2)),
        ((1, 300, 6), 1),
        ((40, 4, 3), 1),
        ((20, 2, 2, 3), (1, 2)),
        ((61, 15), 0),
        ((5, 99, 3), 1),
        ((3, 41, 13), 1),
        ((70, 5, 3), 0),
        ((3, 50, 2, 3), 1),
    ],
    ids=str,
)
def test_few_columns(shape, axes, dtype, target):
    reduced(shape, axes, dtype, target)


@TARGETS
def test_rows_side_by_side_are_partial_results(target):
    """A vector of three elements took 4 to 40 times as long."""
    x = te.placeholder((480, 640, 3), "uint8", "x")
    i, j = te.reduce_axis((0, 480), name="i"), te.reduce_axis((0, 640), name="j")
    out = te.compute((3,), lambda c: te.sum(te.cast("int32", x[i, j, c]), axis=[i, j]), name="out")
    f = tl.compile([x, out], target=target)
    asm = f.get_source("asm")
    assert "vpmovzxbd" in asm and "gather" not in asm
    a = RNG.integers(0, 256, (480, 640, 3)).astype("uint8")
    assert np.array_equal(tl.compile([x, out])(a), a.sum((0, 1)))


@pytest.mark.parametrize(
    ("shape", "axis", "dtype", "together"),
    [
        ((600, 15), 0, "float32", 8),  # one row of 15 lanes was four parts of a vector
        ((6000, 5, 3), 0, "int8", 32),
        ((20, 99, 3), 1, "int8", 8),  # of 64 rows, which fill vectors, there are too few
    ],
    ids=str,
)
def test_rows_that_nearly_fill_vectors(shape, axis, dtype, together):
    x = te.placeholder(shape, dtype, "x")
    a = RNG.integers(0, 100, shape).astype(dtype)
    tree = same(ops.max(x, axis=axis), x, a, a.max(axis), AVX512)
    lanes = together * (15 if axis == 0 else 3)
    assert re.search(rf"max(\.rf)+\.local\S*fused +0\.\.{lanes} +vectorized", tree)


def test_rows_between_which_others_lie_are_not_side_by_side():
    """What is read beside them has not all of the columns, so that those are of the last axis alone."""
    x, m = te.placeholder((51, 7, 4, 3), name="x"), te.placeholder((7, 3), name="m")
    k = te.reduce_axis((0, 51), name="k")
    out = te.compute((7, 4, 3), lambda i, j, c: te.sum((x[k, i, j, c] - m[i, c]), axis=k), name="out")
    a, b = RNG.integers(-4, 5, (51, 7, 4, 3)).astype("float32"), RNG.integers(-4, 5, (7, 3)).astype("float32")
    got, want = np.zeros((7, 4, 3), "float32"), (a - b[:, None]).sum(0)
    s = default_schedule(out)
    interpret(tl.lower(s, [x, m, out]), a, b, got)
    assert np.array_equal(got, want) and np.array_equal(tl.compile([x, m, out])(a, b), want)
    assert "out.rf" not in str(s.tree())


@TARGETS
def test_of_what_is_made_of_rows(target):
    """Less a mean, squared: what a column has one of stays a vector of its own."""
    x, m = te.placeholder((301, 3), name="x"), te.placeholder((3,), name="m")
    k = te.reduce_axis((0, 301), name="k")
    out = te.compute((3,), lambda c: te.sum((x[k, c] - m[c]) * (x[k, c] - m[c]), axis=k), name="out")
    twice = te.compute((3,), lambda c: 2.0 * out[c], name="twice")
    a, b = RNG.integers(-4, 5, (301, 3)).astype("float32"), np.array([1, 2, 3], "float32")
    want = 2 * ((a - b) ** 2).sum(0)
    got = np.zeros(3, "float32")
    interpret(tl.lower(default_schedule(twice, target), [x, m, twice]), a, b, got)
    assert np.array_equal(got, want) and np.array_equal(tl.compile([x, m, twice])(a, b), want)


@pytest.mark.parametrize("shape", [(40_003, 3), (200, 301, 3)], ids=str)
def test_threads_share_rows(shape):
    x = te.placeholder(shape, name="x")
    a = RNG.integers(0, 4, shape).astype("float32")
    axes = tuple(range(len(shape) - 1))
    assert "parallel" in same(ops.sum(x, axis=axes), x, a, a.sum(axes), f"{AVX512} -num-cores=2")


@pytest.mark.parametrize("threads", [1, 2])
def test_an_open_number_of_rows(threads):
    n = te.dim("n", 0, 1 << 24)
    x = te.placeholder((n, 3), name="x")
    f = tl.compile([x, ops.sum(x, axis=0)], target=f"llvm -mcpu=native -num-cores={threads}")
    for rows in (0, 1, 5, 16, 64, 1023, 1024, 1025, 20_003):
        a = RNG.integers(0, 4, (rows, 3)).astype("float32")
        assert np.array_equal(f(a), a.sum(0))


def test_nan_and_ends_of_the_range():
    a = RNG.standard_normal((200, 3)).astype("float32")
    a[150, 1], a[3, 2] = np.nan, -np.inf
    x = te.placeholder(a.shape, name="x")
    for op, want in ((ops.max, np.max), (ops.min, np.min)):
        assert np.array_equal(tl.compile([x, op(x, axis=0)])(a), want(a, axis=0), equal_nan=True)
