"""One computation for each value of a variable, beside the same one made value by value."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.te import each


def test_sums_of_slices_that_data_cuts():
    """The length of each slice is read: the sum runs over it alone."""
    x = te.placeholder((te.dim("n"), 3), name="x")
    ends = te.placeholder((te.dim("m"),), "int64", name="ends")
    row, begin, size = te.dim("row"), te.dim("begin"), te.dim("size")
    first = te.compute((), lambda: ends(row), name="first")
    length = te.compute((), lambda: ends(row + 1) - ends(row), name="length")
    part = te.compute((size, 3), lambda k, j: x(begin + k, j) * 2, name="part")
    count = ends.shape[0] - 1
    (sums,) = each.for_each([ops.sum(part, 0)], row, count, {begin: first, size: length})
    f = tl.compile([x, ends, sums])
    a = np.arange(24, dtype="float32").reshape(8, 3)
    for cuts in ([0, 3, 3, 8], [2, 4], [5]):
        want = [2 * a[b:e].sum(0) for b, e in itertools.pairwise(cuts)]
        assert np.array_equal(f(a, np.array(cuts)), np.reshape(want, (-1, 3)))


def test_what_does_not_depend_is_computed_once():
    x = te.placeholder((4,), name="x")
    row = te.dim("row")
    once = ops.exp(x)
    moved = te.compute((4,), lambda i: once(i) + te.cast("float32", row), name="moved")
    rows, same = each.for_each([moved, once], row, 3, {})
    assert once.op in rows.op.input_tensors[0].op.input_tensors or once.op is rows.op.input_tensors[0].op
    a = np.array([0, 1, 2, 3], "float32")
    made, repeated = tl.compile([x, rows, same])(a)
    assert np.allclose(made, np.exp(a) + np.arange(3, dtype="float32")[:, None])
    assert np.allclose(repeated, np.tile(np.exp(a), (3, 1)))


def test_a_result_of_another_size_each_time_is_refused():
    x = te.placeholder((8,), name="x")
    n = te.placeholder((), "int64", name="n")
    row, size = te.dim("row"), te.dim("size")
    part = te.compute((size,), lambda k: x(k) + te.cast("float32", row), name="part")
    with pytest.raises(tl.DeclareError, match="another size for each row"):
        each.for_each([part], row, 3, {size: n})
