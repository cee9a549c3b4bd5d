"""Axes of operations are tuples that say what there is when they are asked for another one."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te

A = te.placeholder((4, 6), name="A")
k = te.reduce_axis((0, 6), name="k")
C = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="C")


def test_axes_are_a_tuple():
    assert isinstance(C.op.axis, tuple) and C.op.axis == tuple(C.op.axis) and C.op.reduce_axis == (k,)
    assert C.op.axis[0] is C.op.axis[-1] and C.op.axis[1:] == () and len(A.op.axis) == 0
    (i,) = C.op.axis
    assert (*C.op.axis, *C.op.reduce_axis) == C.op.axis + C.op.reduce_axis == (i, k)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: A.op.axis[0], r"A: axis\[0\] of 0[\s\S]*it is an argument"),
        (lambda: A.op.reduce_axis[0], r"A: reduce_axis\[0\] of 0[\s\S]*reduces over no axis"),
        (lambda: C.op.axis[1], r"C: axis\[1\] of 1[\s\S]*it has i"),
        (lambda: C.op.reduce_axis[-2], r"C: reduce_axis\[-2\] of 1[\s\S]*it has k"),
        (lambda: C.op.axis["i"], r"C: axis\['i'\][\s\S]*numbers from 0 to 0"),
    ],
)
def test_an_axis_that_is_not_there(ask, said):
    with pytest.raises(tl.DeclareError, match=said):
        ask()


def test_the_error_is_that_of_a_tuple_too():
    with pytest.raises(IndexError):
        A.op.axis[0]


@pytest.mark.parametrize("facts", [{"lo": 2**63}, {"hi": 2**63}, {"multiple_of": 2**70}, {"hint": 10**30}])
def test_facts_that_no_size_can_have_are_refused(facts):
    """They would not fit in what the kernel holds a size against."""
    with pytest.raises(tl.TensorLangError, match="more than any size can be"):
        te.dim("m", **facts)
    A = te.placeholder((te.dim("m", 0, 2**63 - 1),), name="A")
    np.testing.assert_array_equal(
        tl.compile([A, te.compute(A.shape, lambda i: A[i] + 1)])(np.ones(3, "f4")), 2
    )
