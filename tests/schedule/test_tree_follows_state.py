"""The tree of a state is that of the state alone, whatever was asked of the states it came of."""

from __future__ import annotations

import tensorlang as tl
from tensorlang import te


def test_the_ring_of_a_scan_is_gone_once_a_reader_is_double_buffered():
    """A double-buffered stage reads a row ahead of its iteration, so that all rows are kept; the tree said so
    only if it had not been drawn before."""
    h = te.placeholder((3, 4), name="h")
    gate = te.compute((3, 4), lambda t, i: h[t - 1, i] + 1.0, name="gate")
    update = te.compute((3, 4), lambda t, i: gate[t, i] * 2.0, name="update")
    start = te.compute((1, 4), lambda t, i: 1.0, name="start")
    rows = te.scan(start, update, h, name="rows")
    out = te.compute((4,), lambda i: rows[2, i], name="out")
    trees = []
    for drawn_before in (False, True):
        s = te.create_schedule(out.op)
        if drawn_before:
            assert "ring of 2" in str(s.tree())
        s[gate].double_buffer()
        trees.append(str(s.tree()))
    assert trees[0] == trees[1]
    assert "rows: float32[3, 4]" in str(tl.lower(s, [out])) and "ring" not in trees[1]


def test_the_bytes_of_aligned_storage_hold_its_padding():
    A = te.placeholder((8, 32), name="A")
    B = te.compute((8, 32), lambda i, j: A[i, j] * 2, name="B")
    C = te.compute((8, 32), lambda i, j: B[i, j] + 1, name="C")
    s = te.create_schedule(C)
    s[B].storage_align("i", factor=32, offset=16)
    assert "float32[8, 32]  global  1.5 KiB" in s.tree()
    assert "strides [48, 1]" in str(tl.lower(s, [A, C], simple=True))
