"""Unrolling is bounded by the code it makes, and megabytes of it are refused with the number."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.loopir.code_size import instructions
from tensorlang.passes import unroll


def gathered(rows: int) -> tuple[te.Schedule, list[te.Tensor]]:
    """38 lanes of f64, gathered from a padded tensor, unrolled."""
    A = te.placeholder((60, 60), "float64", name="A")
    P = te.compute(
        (64, 64),
        lambda i, j: te.if_then_else(te.all(i >= 2, i < 62, j >= 2, j < 62), A[i - 2, j - 2], 0.0),
        name="P",
    )
    C = te.compute((rows, 38), lambda i, j: te.exp(P[(j * 7 + i) % 61, (i * 3 + j) % 53]), name="C")
    s = te.create_schedule(C.op)
    s[P].compute_inline()
    s[C].unroll(C.op.axis[0])
    s[C].vectorize(C.op.axis[1])
    return s, [A, C]


def test_a_loop_too_large_to_be_written_out_stays_a_loop():
    s, args = gathered(310)
    func = tl.lower(s, args)
    assert "instructions exceeds the budget of 30000" in str(func) and instructions(func.body) < 5_000
    a = np.random.default_rng(0).random((60, 60))
    i, j = np.arange(310)[:, None], np.arange(38)
    want = np.exp(np.pad(a, 2)[(j * 7 + i) % 61, (i * 3 + j) % 53])
    np.testing.assert_allclose(tl.build(s, args)(a), want, rtol=1e-14)


def test_a_loop_of_little_code_is_written_out():
    s, args = gathered(4)
    func = tl.lower(s, args)
    assert "for " not in str(func) and "kept" not in str(func)


def test_megabytes_of_code_are_refused_with_the_number(monkeypatch):
    monkeypatch.setattr(unroll, "MOST_CODE", 1 << 10)
    A = te.placeholder((64, 64), name="A")
    B = te.compute((64, 64), lambda i, j: te.exp(A[i, j]), name="B")
    s = te.create_schedule(B.op)
    s[B].vectorize(B.op.axis[1])
    s[B].unroll(s[B].split(B.op.axis[0], factor=8)[1])
    with pytest.raises(
        tl.TensorLangError,
        match=r"the nest of loop i.outer would be about .* of code(.|\n)*the limit is 1 KiB",
    ):
        tl.build(s, [A, B])
