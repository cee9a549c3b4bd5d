"""Windows inside windows, and windows that stop at the ends of what they read: each row is computed once, memory
holds the rows that live, and the tree says so."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tests import golden
from tests.fuzz.harness import run

from .test_sliding import TREES, kept, stores


def inside(t, rows, width, name):
    """Three rows of a stage that has two more."""
    return te.compute((rows, width), lambda i, j: t[i, j] + t[i + 1, j] * 2 - t[i + 2, j], name)


def clamped(t, rows, width, name):
    """The rows above and below, the last ones again beyond the ends."""
    return te.compute(
        (rows, width), lambda i, j: t[te.max(i - 1, 0), j] + t[i, j] * 2 - t[te.min(i + 1, rows - 1), j], name
    )


def clipped(t, rows, width, name):
    """Any row, clipped from both sides as by ``np.pad(mode="edge")``."""
    return te.compute(
        (rows, width),
        lambda i, j: t[te.min(te.max(i - 1, 0), rows - 1), j] - t[te.max(te.min(i + 1, rows - 1), 0), j] * 2,
        name,
    )


def summed(t, rows, width, name):
    """Clipped rows as a reduction."""
    k = te.reduce_axis((0, 3), "k")
    return te.compute(
        (rows, width), lambda i, j: te.sum(t[te.min(te.max(i + k - 1, 0), rows - 1), j] * (k + 1), axis=k)
    )


def before(t, rows, width, name):
    """A row and the one before it."""
    return te.compute((rows, width), lambda i, j: t[i, j] - t[te.max(i - 1, 0), j] * 3, name)


def far(t, rows, width, name):
    """Five rows."""
    return te.compute(
        (rows, width), lambda i, j: t[te.max(i - 2, 0), j] - t[te.min(i + 2, rows - 1), j], name
    )


ENDS = (clamped, clipped, summed, before, far)


def chain(kinds, rows, width=4):
    """A chain of blurs, and its argument."""
    A = te.placeholder((rows + 2 * sum(k is inside for k in kinds), width), name="A")
    t, stages, left = A, [], A.shape[0]
    for kind in kinds:
        left = left - 2 if kind is inside else left
        t = kind(t, left, width, f"S{len(stages)}")
        stages.append(t)
    return A, stages


def windows(stages, nested, factor=None):
    """Each stage in the row loop of the next, or of the last one; all memory outside all loops."""
    last = stages[-1]
    s = te.create_schedule(last.op)
    outer, row = s[last].fuse(), last.op.axis[0]
    if factor is not None:
        _, row = s[last].split(row, factor=factor)
    for t, reader in reversed(list(pairwise(stages))):
        host = reader if nested else last
        s[t].compute_at(s[host], row if host is last else host.op.axis[0])
        s[t].store_at(s[last], outer)
    return s


def once(s, A, stages, rows):
    """That each stage keeps so many rows and computes each element once, and that the result is right."""
    args = [A, stages[-1]]
    for t, n in zip(stages[:-1], rows, strict=True):
        name, times = s.stage_name(t), 4 if t.op.reduce_axis else 1  # the initial value and each term
        assert kept(s, args, name) == (str(n), str(t.shape[1])), s.tree()
        done = stores(tl.lower(s, args, simple=True).body, name, {})
        assert done == times * np.prod([int(e) for e in t.shape]), s.tree()
        assert n == int(t.shape[0]) or f"ring of {n}" in s.tree()
    assert " times" not in s.tree()
    run(args, [stages[-1]], {"A": (-4, 5)}, s, [{}])


def test_a_blur_of_a_blur_of_a_blur(request):
    A, stages = chain((clamped, inside, clamped), 12)
    s = windows(stages, nested=True)
    golden.same(request.config, TREES, "three windows inside one another", str(s.tree()))
    once(s, A, stages, (3, 3))


@pytest.mark.parametrize("depth", [2, 3, 4])
@pytest.mark.parametrize("kind", [inside, clamped])
def test_a_window_inside_a_window(kind, depth):
    A, stages = chain((kind,) * depth, 9)
    once(windows(stages, nested=True), A, stages, (3,) * (depth - 1))


@pytest.mark.parametrize("rows", [2, 3, 8])
@pytest.mark.parametrize("kind", ENDS)
def test_windows_that_stop_at_the_ends(kind, rows):
    A, stages = chain((clamped, kind), rows)
    once(windows(stages, nested=False), A, stages, (min(rows, {before: 2, far: 5}.get(kind, 3)),))


def test_without_memory_further_out_a_clamped_window_is_three_rows():
    A, (P, C) = chain((clamped, clamped), 12)
    s = te.create_schedule(C.op)
    s[P].compute_at(s[C], C.op.axis[0])
    assert kept(s, [A, C], s.stage_name(P)) == ("3", "4") and "each element 3.0 times" in s.tree()
    run([A, C], [C], {"A": (-4, 5)}, s, [{}])


@pytest.mark.parametrize("factor", [2, 4])
@pytest.mark.parametrize("nested", [False, True])
def test_rows_are_kept_across_both_loops_of_a_split(nested, factor):
    A, stages = chain((before, clamped, clamped), 11)
    once(windows(stages, nested, factor), A, stages, (3 if nested else 5, 3))


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("kind", [*ENDS, inside])
def test_open_sizes_slide_too(kind, nested):
    n = te.var("n")
    A, stages = chain((clipped, kind, kind), n)
    s = windows(stages, nested)
    assert s.tree().count("ring of") == 2 and "repeated work" not in s.tree()
    run([A, stages[-1]], [stages[-1]], {"A": (-4, 5)}, s, [{"n": rows} for rows in (0, 1, 2, 5, 9)])


def test_the_edge_of_an_image_is_read_from_the_ring():
    """np.pad(mode="edge") between two stages, inlined: its rows are those of the stage it reads."""
    A = te.placeholder((10, 6), name="A")
    P = te.compute((10, 6), lambda i, j: A[i, j] * 3, "P")
    padded = tl.ops.pad(P, [(1, 1), (0, 0)], mode="edge")
    C = te.compute((10, 6), lambda i, j: padded[i, j] + padded[i + 1, j] - padded[i + 2, j] * 2, "C")
    s = te.create_schedule(C.op)
    s[padded].compute_inline()
    outer = s[C].fuse()
    s[P].compute_at(s[C], C.op.axis[0])
    s[P].store_at(s[C], outer)
    once(s, A, [P, C], (3,))


def test_memory_inside_the_loops_that_slide_is_filled_anew():
    """Rows that the outer window left out are in no memory of this iteration: what they need is computed."""
    A, (P, Q, C) = chain((inside, inside, inside), 8)
    s = te.create_schedule(C.op)
    outer, row = s[C].fuse(), C.op.axis[0]
    s[Q].compute_at(s[C], row)
    s[Q].store_at(s[C], outer)
    s[P].compute_at(s[Q], Q.op.axis[0])
    s[P].store_at(s[C], row)
    assert s.tree().count("ring of") == 1
    run([A, C], [C], {"A": (-4, 5)}, s, [{}])


def test_columns_slide_inside_rows():
    """Rows slide along one loop, columns of what they need along another."""
    A = te.placeholder((9, 9), name="A")
    P = te.compute((9, 9), lambda i, j: A[i, j] * 2, "P")
    Q = te.compute((9, 9), lambda i, j: P[i, te.max(j - 1, 0)] - P[i, te.min(j + 1, 8)], "Q")
    C = te.compute((9, 9), lambda i, j: Q[te.max(i - 1, 0), j] + Q[te.min(i + 1, 8), j] * 3, "C")
    s = te.create_schedule(C.op)
    outer = s[C].fuse()
    s[Q].compute_at(s[C], C.op.axis[0])
    s[Q].store_at(s[C], outer)
    s[P].compute_at(s[Q], Q.op.axis[1])
    s[P].store_at(s[Q], Q.op.axis[0])
    assert kept(s, [A, C], "Q") == ("3", "9") and kept(s, [A, C], "P") == ("1", "4")
    run([A, C], [C], {"A": (-4, 5)}, s, [{}])
