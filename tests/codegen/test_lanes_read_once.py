"""Conditions on vectors: what any lane may read is read once and without a mask, whatever stands around it."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te


def levels(n, size, taken):
    """``n`` conditions inside one another, each with a read of its own."""
    A = te.placeholder((size,), name="A")

    def value(i):
        e = A[i]
        for k in range(n):
            e = te.if_then_else(taken(A, i, k), A[i] * 2.0 + k, e + 1.0)
        return e

    B = te.compute((size,), value, name="B")
    s = te.create_schedule(B.op)
    s[B].vectorize(s[B].split(B.op.axis[0], factor=16)[1])
    return tl.build(s, [A, B], target="llvm -mcpu=skylake-avx512"), tl.build(s, [A, B])


def by_data(A, i, k):
    return A[i] > float(k)


def by_place(A, i, k):
    return i > 3 * k


def loads(f):
    """The vectors read, with a mask and without."""
    text = f.get_source("ll")
    masked = re.findall(r"call <16 x float> @llvm\.masked\.load", text)
    return len(masked), len(re.findall(r"= load <16 x float>", text))


def wanted(a, n, taken):
    want = a.copy()
    for k in range(n):
        want = np.where(a > k if taken is by_data else np.arange(len(a)) > 3 * k, a * 2 + k, want + 1)
    return want


@pytest.mark.parametrize("taken", [by_data, by_place])
@pytest.mark.parametrize("n", [3, 60])
def test_one_read_for_all_levels(n, taken):
    for_avx512, f = levels(n, 64, taken)
    masked, plain = loads(for_avx512)
    assert masked == 0 and plain <= 2  # rows before and behind a place may be loops of their own
    a = np.random.default_rng(n).integers(-4, n + 4, 64).astype("float32")
    assert np.array_equal(f(a), wanted(a, n, taken))


def test_one_masked_read_in_the_tail_of_an_open_size():
    m = te.var("m")
    for_avx512, f = levels(20, m, by_data)
    assert loads(for_avx512) == (1, 1)
    for size in (1, 16, 37):
        a = np.random.default_rng(size).integers(-4, 24, size).astype("float32")
        assert np.array_equal(f(a), wanted(a, 20, by_data))


def test_a_read_that_leaves_its_buffer_keeps_its_mask():
    A = te.placeholder((64,), name="A")
    B = te.compute((64,), lambda i: te.if_then_else(i < 63, A[i + 1], A[i]), name="B")
    s = te.create_schedule(B.op)
    s[B].vectorize(s[B].split(B.op.axis[0], factor=16)[1])
    a = np.arange(64, dtype="float32")
    assert loads(tl.build(s, [A, B], target="llvm -mcpu=skylake-avx512"))[0] == 1
    assert np.array_equal(tl.build(s, [A, B])(a), np.append(a[1:], a[-1]))
