"""store_at further out than compute_at: each row is computed once, and memory holds the rows that live."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.expr import make
from tensorlang.expr.nodes import const_int
from tensorlang.expr.walk import substitute
from tensorlang.loopir.interpret import interpret
from tensorlang.loopir.stmt import Alloc, For, If, Store, preorder
from tests import golden
from tests.fuzz.harness import run

TREES = Path(__file__).parent / "trees.txt"


def blur(rows=16, columns=10, step=1, taps=3):
    """P = A summed along rows of three; C = P summed along columns of ``taps``, every ``step`` rows."""
    A = te.placeholder(((rows - 1) * step + taps, columns + 2), name="A")
    P = te.compute(((rows - 1) * step + taps, columns), lambda i, j: A[i, j] + A[i, j + 1] + A[i, j + 2], "P")
    k = te.reduce_axis((0, taps), "k")
    C = te.compute((rows, columns), lambda i, j: te.sum(P[i * step + k, j], axis=k), "C")
    return A, P, C


def right(s, A, C, sizes=({},)):
    run([A, C], [C], {A.name: (-4, 5)}, s, list(sizes))


def kept(s, args, name):
    """The shape of a stage's memory."""
    func = tl.lower(s, args, simple=True)
    (shape,) = {
        tuple(map(str, st.buffer.shape))
        for st in preorder(func.body)
        if isinstance(st, Alloc) and st.buffer.name == name
    }
    return shape


def stores(s, name, env):
    """How often a kernel stores to the buffer of that name."""
    if isinstance(s, Store):
        return int(s.buffer.name == name)
    if isinstance(s, For):
        iterations = const_int(substitute(s.extent, env))
        return sum(
            stores(s.body, name, {**env, s.var: make.const(i, s.var.dtype)}) for i in range(iterations)
        )
    if isinstance(s, If) and not substitute(s.cond, env).value:
        return 0 if s.orelse is None else stores(s.orelse, name, env)
    return sum(stores(p, name, env) for p in ([s.then] if isinstance(s, If) else s.parts()))


def test_a_blur_keeps_three_rows(request):
    A, P, C = blur()
    s = te.create_schedule(C.op)
    whole, row = s[C].split(C.op.axis[0], nparts=2)
    s[P].compute_at(s[C], row)
    s[P].store_at(s[C], whole)
    golden.same(
        request.config, TREES, "rows in a ring", f"{s.tree()}\n\n{tl.lower(s, [A, C], 'blur', simple=True)}"
    )
    assert kept(s, [A, C], "P") == ("3", "10")
    right(s, A, C)


@pytest.mark.parametrize(("rows", "step", "taps"), [(16, 1, 3), (12, 2, 3), (8, 2, 5)])
def test_each_element_is_computed_once(rows, step, taps):
    A, P, C = blur(rows, 4, step, taps)
    s = te.create_schedule(C.op)
    outer = s[C].fuse()
    s[P].compute_at(s[C], C.op.axis[0])
    again = stores(tl.lower(s, [A, C], simple=True).body, "P", {})
    s[P].store_at(s[C], outer)
    assert again == rows * taps * 4
    assert stores(tl.lower(s, [A, C], simple=True).body, "P", {}) == ((rows - 1) * step + taps) * 4
    right(s, A, C)


@pytest.mark.parametrize("tail", ["auto", "peel", "guard", "shift"])
@pytest.mark.parametrize(
    ("rows", "step", "taps"), [(16, 1, 3), (11, 1, 2), (10, 2, 3), (9, 3, 3), (7, 3, 2), (8, 2, 5)]
)
def test_steps_and_windows_of_all_kinds(rows, step, taps, tail):
    A, P, C = blur(rows, 6, step, taps)
    s = te.create_schedule(C.op)
    io, ii = s[C].split(C.op.axis[0], factor=4, tail=tail)
    s[P].compute_at(s[C], ii)
    s[P].store_at(s[C], io)
    if tail != "shift" or rows % 4 == 0:
        assert kept(s, [A, C], "P")[0] == str(taps)
    right(s, A, C)


def test_two_loops_between():
    """Rows are kept over iterations of i; at the first column of a row, all of its window is new."""
    A = te.placeholder((12, 12), name="A")
    P = te.compute((12, 12), lambda i, j: A[i, j] * 2, "P")
    C = te.compute((10, 10), lambda i, j: P[i, j] + P[i + 1, j + 1] + P[i + 2, j + 2], "C")
    s = te.create_schedule(C.op)
    outer = s[C].fuse()
    i, j = C.op.axis
    s[P].compute_at(s[C], j)
    s[P].store_at(s[C], outer)
    text = str(tl.lower(s, [A, C], simple=True))
    assert text.count(" == 0 or ") == 2 and kept(s, [A, C], "P") == ("3", "12")
    right(s, A, C)


def test_what_does_not_move_is_computed_at_the_first_iteration():
    A, B = te.placeholder((8, 6), name="A"), te.placeholder((8,), name="B")
    P = te.compute((8,), lambda i: B[i] * 3, "P")
    C = te.compute((8, 6), lambda i, j: A[i, j] + P[i], "C")
    s = te.create_schedule(C.op)
    i, j = C.op.axis
    s[P].compute_at(s[C], j)
    s[P].store_at(s[C], i)
    assert "if j == 0" in str(tl.lower(s, [A, B, C], simple=True))
    run([A, B, C], [C], {"A": (-4, 5), "B": (-4, 5)}, s, [{}])


def test_diagonals_and_data_are_computed_again():
    A, N = te.placeholder((12, 12), name="A"), te.placeholder((8,), "int32", name="N")
    P = te.compute((12, 12), lambda i, j: A[i, j] * 2, "P")
    for C in (
        te.compute((8,), lambda i: P[i, i] + P[i + 2, i + 3], "C"),
        te.compute((8,), lambda i: P[i, 1] + P[N[i], 2], "C"),
    ):
        s = te.create_schedule(C.op)
        outer = s[C].fuse()
        s[P].compute_at(s[C], C.op.axis[0])
        s[P].store_at(s[C], outer)
        assert "== 0 or" not in str(tl.lower(s, [A, N, C], simple=True))
        run([A, N, C], [C], {"A": (-4, 5), "N": (0, 12)}, s, [{}])


def test_a_reduction_slides_with_its_start_values():
    A = te.placeholder((10, 7), name="A")
    k = te.reduce_axis((0, 7), "k")
    P = te.compute((10, 2), lambda i, j: te.sum(A[i, k] * (j + 1), axis=k), "P")
    C = te.compute((8, 2), lambda i, j: P[i, j] + P[i + 2, j], "C")
    s = te.create_schedule(C.op)
    outer = s[C].fuse()
    s[P].compute_at(s[C], C.op.axis[0])
    s[P].store_at(s[C], outer)
    s[P].vectorize(P.op.axis[1])
    assert kept(s, [A, C], "P") == ("3", "2")
    right(s, A, C)


def test_a_chain_of_windows():
    """Each of two stages slides in the iterations of the last one."""
    A = te.placeholder((14, 4), name="A")
    P = te.compute((14, 4), lambda i, j: A[i, j] * 2, "P")
    Q = te.compute((12, 4), lambda i, j: P[i, j] + P[i + 2, j], "Q")
    C = te.compute((10, 4), lambda i, j: Q[i, j] - Q[i + 2, j], "C")
    for inside in (False, True):
        s = te.create_schedule(C.op)
        outer = s[C].fuse()
        s[Q].compute_at(s[C], C.op.axis[0])
        if inside:
            s[P].compute_at(s[Q], Q.op.axis[0])
        else:
            s[P].compute_at(s[C], C.op.axis[0])
        for T in (P, Q):
            s[T].store_at(s[C], outer)
        assert kept(s, [A, C], "Q") == ("3", "4")
        right(s, A, C)


def test_open_sizes_slide_too():
    n = te.var("n")
    A = te.placeholder((n + 2, 5), name="A")
    P = te.compute((n + 2, 5), lambda i, j: A[i, j] + 1, "P")
    C = te.compute((n, 5), lambda i, j: P[i, j] + P[i + 2, j], "C")
    s = te.create_schedule(C.op)
    outer = s[C].fuse()
    s[P].compute_at(s[C], C.op.axis[0])
    s[P].store_at(s[C], outer)
    func = tl.lower(s, [n, A, C])
    for rows in (0, 1, 2, 7):
        a = np.random.default_rng(rows).integers(-4, 5, (rows + 2, 5)).astype("float32")
        got = np.full((rows, 5), 7, "float32")
        interpret(func, rows, a, got)
        want = a[:rows] + a[2:] + 2
        assert np.array_equal(got, want) and np.array_equal(tl.build(s, [n, A, C])(rows, a), want)
    assert kept(s, [n, A, C], "P") == ("3", "5")


def once(s, C, args, rows, name="P"):
    """That each element is computed once, in memory of that shape, and that the result is right."""
    assert kept(s, args, name) == tuple(map(str, rows))
    whole = [int(n) for n in s.tensor(name).shape]
    assert stores(tl.lower(s, args, simple=True).body, name, {}) == np.prod(whole), s.tree()
    assert "repeated work" not in s.tree() and " times" not in s.tree()
    run(args, [C], {t.name: (-4, 5) for t in args if t is not C}, s, [{}])


@pytest.mark.parametrize(("rows", "factor"), [(16, 4), (11, 4), (9, 2)])
def test_rows_are_kept_across_both_loops_of_a_split(rows, factor):
    A, P, C = blur(rows, 6)
    s = te.create_schedule(C.op)
    outer = s[C].fuse()
    _, ii = s[C].split(C.op.axis[0], factor=factor)
    s[P].compute_at(s[C], ii)
    s[P].store_at(s[C], outer)
    once(s, C, [A, C], (3, 6))


def test_a_window_in_the_reduction_of_a_stencil():
    """An iteration of k computes one row, of which an iteration of i has two from before."""
    A, P, C = blur(8, 6)
    s = te.create_schedule(C.op)
    outer = s[C].fuse()
    (i, j), (k,) = C.op.axis, C.op.reduce_axis
    s[C].reorder(i, k, j)
    s[P].compute_at(s[C], k)
    s[P].store_at(s[C], outer)
    once(s, C, [A, C], (3, 6))


@pytest.mark.parametrize(("at", "rows"), [("i", (3, 9)), ("j", (3, 9)), ("ry", (8, 9)), ("rx", (8, 9))])
def test_two_windows_at_once(at, rows):
    A = te.placeholder((8, 9), name="A")
    P = te.compute((8, 9), lambda i, j: A[i, j] * 3, "P")
    ry, rx = te.reduce_axis((0, 3), "ry"), te.reduce_axis((0, 3), "rx")
    C = te.compute((6, 7), lambda i, j: te.sum(P[i + ry, j + rx] * (ry + 2 * rx + 1), axis=[ry, rx]), "C")
    s = te.create_schedule(C.op)
    outer = s[C].fuse()
    s[P].compute_at(s[C], s[C].loop(at))
    s[P].store_at(s[C], outer)
    once(s, C, [A, C], rows)


def test_a_window_of_one_dimension_is_a_ring_of_a_power_of_two():
    A = te.placeholder((20,), name="A")
    P = te.compute((20,), lambda i: A[i] * 2, "P")
    C = te.compute((18,), lambda i: P[i] + P[i + 1] + P[i + 2], "C")
    s = te.create_schedule(C.op)
    outer = s[C].fuse()
    s[P].compute_at(s[C], C.op.axis[0])
    s[P].store_at(s[C], outer)
    once(s, C, [A, C], (4,))
    assert "ring of 4" in s.tree()


@pytest.mark.parametrize("columns_outside", [False, True])
def test_a_window_along_columns(columns_outside):
    A = te.placeholder((6, 12), name="A")
    P = te.compute((6, 12), lambda i, j: A[i, j] * 2, "P")
    C = te.compute((6, 10), lambda i, j: P[i, j] - P[i, j + 2], "C")
    s = te.create_schedule(C.op)
    outer = s[C].fuse()
    i, j = C.op.axis
    if columns_outside:
        s[C].reorder(j, i)
    s[P].compute_at(s[C], j)
    s[P].store_at(s[C], outer if columns_outside else i)
    once(s, C, [A, C], (6, 4) if columns_outside else (1, 4))


def test_vectors_are_read_from_rows_that_lie_as_they_are():
    A = te.placeholder((6, 18), name="A")
    P = te.compute((6, 18), lambda i, j: A[i, j] * 2, "P")
    C = te.compute((6, 16), lambda i, j: P[i, j] - P[i, j + 2], "C")
    s = te.create_schedule(C.op)
    jo, ji = s[C].split(C.op.axis[1], factor=4)
    s[C].vectorize(ji)
    s[P].compute_at(s[C], jo)
    s[P].store_at(s[C], C.op.axis[0])
    once(s, C, [A, C], (1, 18))


def test_taps_that_leave_gaps_are_computed_again():
    """Rows i and i + 2: what the iterations of k compute is not a window without gaps."""
    A = te.placeholder((12, 4), name="A")
    P = te.compute((12, 4), lambda i, j: A[i, j] * 2, "P")
    k = te.reduce_axis((0, 3), "k")
    C = te.compute((8, 4), lambda i, j: te.sum(P[i + 2 * k, j], axis=k), "C")
    s = te.create_schedule(C.op)
    outer = s[C].fuse()
    i, j = C.op.axis
    s[C].reorder(i, k, j)
    s[P].compute_at(s[C], k)
    s[P].store_at(s[C], outer)
    assert "each element 2.0 times" in s.tree()
    right(s, A, C)
