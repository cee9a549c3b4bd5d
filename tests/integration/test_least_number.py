"""The least number of a signed type divided by -1: the one quotient that wraps, as data and inside of indices."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te


@pytest.mark.parametrize("t", ["int8", "int16", "int32", "int64"])
def test_the_least_number_by_minus_one_is_itself(t: str) -> None:
    """As data it wraps. LLVM calls it undefined, and then concludes that x // -1 < 0 where x > 0."""
    least = np.iinfo(t).min
    a = np.array([least, least + 1, -1, 0, 1, -(least + 1), 5, least], t)
    A = te.placeholder(a.shape, t, name="A")
    quotients = te.compute(a.shape, lambda i: (A[i] // -1, te.truncdiv(A[i], -1)), name="Q")
    below = te.compute(
        a.shape, lambda i: (A[i] // -1 < 0, te.truncdiv(A[i], -1) > 0, A[i] // -1 == A[i]), name="L"
    )
    rests = te.compute(a.shape, lambda i: (A[i] % -1, te.truncmod(A[i], -1)), name="R")
    wrapped = np.array([least, *-a[1:-1], least], t)
    zero = np.zeros_like(a)
    want = [wrapped, wrapped, wrapped < 0, wrapped > 0, wrapped == a, zero, zero]
    outputs = [*quotients, *below, *rests]
    for lanes in (0, 8):
        s = te.create_schedule([t.op for t in outputs])
        for op in (quotients[0].op, below[0].op, rests[0].op):
            s[op].vectorize(op.axis[0]) if lanes else None
        for got, right in zip(tl.build(s, [A, *outputs])(a), want, strict=True):
            assert np.array_equal(got, right)


@pytest.mark.parametrize("body", ["A[i] // -1", "A[i] // B[i]", "te.truncdiv(A[i], -1)", "A[i] // -1 + 1"])
@pytest.mark.parametrize("t", ["int32", "int64"])
def test_a_quotient_that_wraps_wraps_in_an_index_too(t: str, body: str) -> None:
    """Indices are computed in 64 bits, where the quotient of int32 would fit."""
    a = np.array([3, np.iinfo(t).min, -2, -5, np.iinfo(t).max], t)
    A, B = te.placeholder(a.shape, t, name="A"), te.placeholder(a.shape, t, name="B")
    X = te.placeholder((7,), name="X")
    T = te.compute(a.shape, lambda i: eval(body, {"te": te, "A": A, "B": B, "i": i}), name="T")
    C = te.compute(a.shape, lambda i: X[te.max(te.min(T[i], 6), 0)] + X[te.floormod(T[i], 7)], name="C")
    x = np.arange(7, dtype="float32")
    got = []
    for inlined in (False, True):
        s = te.create_schedule(C.op)
        if inlined:
            s[T].compute_inline()
        got.append(tl.build(s, [A, B, X, C])(a, np.full_like(a, -1), x))
    assert np.array_equal(*got)
    with np.errstate(over="ignore"):
        at = np.where(a == a.min(), a, -a) + (1 if "+" in body else 0)
    assert np.array_equal(got[0], x[at.clip(0, 6)] + x[at % 7])
