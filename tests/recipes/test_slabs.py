"""Operators along an axis before the last one: all their stages for some columns, then for the next."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import default_schedule
from tests.codegen.test_assembly import AVX512

AVX2 = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=znver3 -num-cores=2"
SHAPES = [
    ((95, 41, 5), 1),  # less than a vector: rows side by side, and a rest of them
    ((20, 12, 9), 1),  # one of which is masked
    ((16, 10, 49), 1),  # a last vector that is masked
    ((9, 3, 4, 64), 1),  # rows of an image
    ((2, 5, 100, 3, 4), 1),  # which are short
    ((3, 2, 3, 333), 0),
    ((1, 40, 960), 1),  # slabs of a row, and a rest
    ((40, 5, 4, 3, 2), 1),
]


def softmax(a, axis):
    e = np.exp(a - a.max(axis, keepdims=True), dtype="float64")
    return e / e.sum(axis, keepdims=True)


def loops(text):
    """The loops that no other one is around."""
    return [line for line in text.splitlines() if line.startswith("    for ")]


@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
@pytest.mark.parametrize("target", [AVX512, AVX2])
def test_all_stages_of_a_slab_are_in_one_loop(shape, axis, target):
    x = te.placeholder(shape, name="x")
    for f in (ops.softmax, ops.log_softmax):
        y = f(x, axis)
        assert len(loops(str(tl.lower(default_schedule(y, target), [x, y])))) == 1, f.__name__


@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
def test_numbers(shape, axis):
    x = te.placeholder(shape, name="x")
    a = np.random.default_rng(0).standard_normal(shape).astype("float32")
    for f, want in ((ops.softmax, softmax(a, axis)), (ops.log_softmax, np.log(softmax(a, axis)))):
        y = f(x, axis)
        np.testing.assert_allclose(tl.compile([x, y])(a), want, 1e-5, 1e-6)


@pytest.mark.parametrize(
    ("shape", "axis"), [((9, 4, 5), 1), ((8, 43, 3), 1), ((8, 3, 21), 1), ((8, 3, 2, 17), 1)], ids=str
)
@pytest.mark.parametrize("target", [AVX512, AVX2])
def test_in_the_interpreter(shape, axis, target):
    """Of whole numbers, so that every order of sums gives the same."""
    x = te.placeholder(shape, name="x")
    k = te.reduce_axis((0, shape[axis]), "k")

    def line(i, at):
        return [*i[:axis], at, *i[axis:]]

    rest = [n for d, n in enumerate(shape) if d != axis]
    top = te.compute(rest, lambda *i: te.max(x(*line(i, k)), axis=k), name="top")
    less = te.compute(shape, lambda *i: x(*i) - top(*i[:axis], *i[axis + 1 :]), name="less")
    total = te.compute(rest, lambda *i: te.sum(less(*line(i, k)), axis=k), name="total")
    out = te.compute(shape, lambda *i: less(*i) + total(*i[:axis], *i[axis + 1 :]), name="out")
    a = np.random.default_rng(0).integers(-4, 5, shape).astype("float32")
    want = a - a.max(axis, keepdims=True)
    want = want + want.sum(axis, keepdims=True)
    func = tl.lower(default_schedule(out, target), [x, out])
    assert len(loops(str(func))) == 1
    got = np.empty(shape, "float32")
    interpret(func, a, got)
    assert np.array_equal(got, want)
    assert np.array_equal(tl.compile([x, out])(a), want)


def test_rows_of_less_than_a_vector_fill_vectors():
    x = te.placeholder((64, 100, 3), name="x")
    asm = tl.compile([x, ops.softmax(x, 1)], target=AVX512).get_source("asm")
    assert asm.count("vmulps") and "vmulss" not in asm and "vfmadd213ss" not in asm


def test_an_open_number_of_lines():
    n = te.dim("n", 1, 99)
    x = te.placeholder((n, 6, 40), name="x")
    f = tl.compile([x, ops.softmax(x, 1)])
    for rows in (1, 3, 20):
        a = np.random.default_rng(rows).standard_normal((rows, 6, 40)).astype("float32")
        np.testing.assert_allclose(f(a), softmax(a, 1), 1e-5, 1e-6)


@pytest.mark.parametrize("shape", [(1, 3000, 400), (1000, 20), (2, 5, 1)])
def test_what_stays_stage_by_stage(shape):
    """Slabs that no first cache holds, and too few for all threads."""
    x = te.placeholder(shape, name="x")
    y = ops.softmax(x, len(shape) - 2)
    assert len(loops(str(tl.lower(default_schedule(y, AVX2), [x, y])))) > 1


def test_what_is_read_elsewhere_is_no_part_of_a_slab():
    x = te.placeholder((40, 5, 64), name="x")
    k = te.reduce_axis((0, 5), "k")
    top = te.compute((40, 64), lambda i, j: te.max(x[i, k, j], axis=k), name="top")
    y = te.compute((40, 5, 64), lambda i, c, j: x[i, c, j] - top[i, 63 - j], name="y")
    a = np.random.default_rng(0).integers(-4, 5, (40, 5, 64)).astype("float32")
    assert np.array_equal(tl.compile([x, y])(a), a - a.max(1, keepdims=True)[:, :, ::-1])
