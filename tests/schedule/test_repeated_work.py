"""Regions of fused, symbolic, `//` and `%` indices are tight, and the tree says how often an element is
computed."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te


def fused_rows(factor: int, columns: int = 6) -> tuple[te.Schedule, list[te.Tensor]]:
    m = te.var("m")
    A = te.placeholder((m, columns), name="A")
    B = te.compute((m, columns), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((m, columns), lambda i, j: B[i, j] * 2.0, name="C")
    s = te.create_schedule(C.op)
    outer, _ = s[C].split(s[C].fuse(*C.op.axis), factor=factor)
    s[B].compute_at(s[C], outer)
    return s, [A, C]


@pytest.mark.parametrize(
    ("factor", "box"), [(3, "1, 3"), (2, "1, 2"), (6, "1, 6"), (4, "2, 6"), (12, "2, 6")]
)
def test_a_tile_of_fused_symbolic_axes_needs_its_own_rows_only(factor, box):
    s, args = fused_rows(factor)
    assert f"storage B                float32[{box}]" in s.tree()
    f = tl.build(s, args)
    for rows in (1, 2, 7):
        a = np.arange(rows * 6, dtype="float32").reshape(rows, 6)
        assert (f(a) == (a + 1) * 2).all()


def test_the_tree_shows_repeated_work():
    A = te.placeholder((66,), name="A")
    B = te.compute((66,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((64,), lambda i: B[i] + B[i + 1] + B[i + 2], name="C")
    s = te.create_schedule(C.op)
    outer, _ = s[C].split(C.op.axis[0], factor=2)
    s[B].compute_at(s[C], outer)
    assert "each element 1.9 times" in s.tree() and "repeated work" not in s.tree()
    s[C].split(outer, factor=1)
    again = te.create_schedule(C.op)
    again[B].compute_at(again[C], C.op.axis[0])
    assert "each element 2.9 times  ← repeated work" in again.tree()


def test_the_tree_is_silent_where_each_element_is_computed_once():
    s, _ = fused_rows(3)
    assert "each element" not in s.tree()
