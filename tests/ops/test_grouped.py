"""Products of rows in groups against numpy, for groups of all sizes, none among them."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tests.ops.arrays import compiled, exact, whole


def grouped(x, w, ends):
    """Rows behind the last group are 0."""
    out = np.zeros((x.shape[0], w.shape[2]), x.dtype)
    begin = 0
    for matrix, end in zip(w, ends, strict=True):
        out[begin:end] = x[begin:end] @ matrix
        begin = max(begin, end)
    return out


ENDS = [(20, 20, 20), (0, 0, 20), (7, 8, 20), (0, 16, 20), (1, 9, 12), (0, 0, 0)]


@pytest.mark.each_value
@pytest.mark.parametrize("ends", ENDS, ids=str)
@pytest.mark.parametrize("t", ["int32", "int64"])
def test_rows_are_multiplied_by_the_matrix_of_their_group(ends, t):
    a, b, e = whole((20, 9), "float32"), whole((3, 9, 21), "float32"), np.array(ends, t)
    x, w, p = (
        te.placeholder(a.shape, name="x"),
        te.placeholder(b.shape, name="w"),
        te.placeholder((3,), t, "p"),
    )
    exact(compiled(ops.grouped_matmul(x, w, p), {x: a, w: b, p: e}), grouped(a, b, ends), "float32")


def test_open_numbers_of_rows_and_groups():
    """More groups than rows, and no row at all."""
    n, g = te.var("n"), te.var("g")
    x, w = te.placeholder((n, 9), name="x"), te.placeholder((g, 9, 5), name="w")
    p = te.placeholder((g,), "int64", name="p")
    f = tl.compile([x, w, p, ops.grouped_matmul(x, w, p)])
    chance = np.random.default_rng(0)
    for rows, groups in ((1, 1), (3, 8), (70, 2), (33, 5), (0, 4)):
        a, b = whole((rows, 9), "float32"), whole((groups, 9, 5), "float32")
        e = np.sort(chance.integers(0, rows + 1, groups))
        exact(f(a, b, e), grouped(a, b, e), "float32")


def test_ends_that_make_no_sense_read_nothing_outside():
    a, b = whole((20, 9), "float32"), whole((3, 9, 21), "float32")
    x, w = te.placeholder(a.shape, name="x"), te.placeholder(b.shape, name="w")
    p = te.placeholder((3,), "int64", name="p")
    f = tl.compile([x, w, p, ops.grouped_matmul(x, w, p)])
    for ends in ((-5, 900, 3), (30, 2, -1), (2**40, 7, 7)):
        assert np.isfinite(f(a, b, np.array(ends))).all()


def test_sixteen_bits_are_summed_in_float32_and_rounded_once():
    a, b, e = whole((20, 90), "float16"), whole((3, 90, 21), "float16"), np.array((4, 11, 20))
    x, w = te.placeholder(a.shape, "float16", name="x"), te.placeholder(b.shape, "float16", name="w")
    p = te.placeholder((3,), "int64", name="p")
    want = grouped(a.astype("float32"), b.astype("float32"), e).astype("float16")
    exact(compiled(ops.grouped_matmul(x, w, p), {x: a, w: b, p: e}), want, "float16")


def test_what_does_not_fit_is_refused():
    x, w = te.placeholder((20, 9), name="x"), te.placeholder((3, 8, 21), name="w")
    p = te.placeholder((3,), "int64", name="p")
    with pytest.raises(tl.DeclareError, match="K of w is 8"):
        ops.grouped_matmul(x, w, p)
    with pytest.raises(tl.DeclareError, match=r"x \(9,\) has 1 dimension"):
        ops.grouped_matmul(te.placeholder((9,), name="x"), w, p)
    with pytest.raises(tl.DeclareError, match="ends q are float32"):
        ops.grouped_matmul(x, te.placeholder((3, 9, 2), name="w"), te.placeholder((3,), name="q"))
