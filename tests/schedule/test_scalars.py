"""Stages without axes among others."""

from __future__ import annotations

import numpy as np

import tensorlang as tl
from tensorlang import te


def test_a_scalar_is_computed_inside_loops() -> None:
    one = te.compute((), lambda: te.const(1, "float32"), name="one")
    A = te.placeholder((4, 5), name="A")
    B = te.compute((4, 5), lambda i, j: A[i, j] + one(), name="B")
    s = te.create_schedule(B.op)
    s[one].compute_at(s[B], B.op.axis[1])
    s[one].store_at(s[B], B.op.axis[0])
    a = np.arange(20, dtype="float32").reshape(4, 5)
    assert np.array_equal(tl.build(s, [A, B])(a), a + 1)


def test_a_pragma_of_a_loop_that_cache_write_took_along() -> None:
    A, k = te.placeholder((8,), name="A"), te.reduce_axis((0, 8), name="k")
    S = te.compute((), lambda: te.sum(A[k], axis=k), name="S")
    C = te.compute((), lambda: S() * 2, name="C")
    s = te.create_schedule(C.op)
    s[S].pragma(s[S].loop("k"), "auto_unroll_max_step", 64)
    s.cache_write(S, "local")
    s[C].reverse_compute_inline()
    a = np.arange(8, dtype="float32")
    assert tl.build(s, [A, C])(a) == 56
