"""Rows that are kept lie in the result they end up in, and nothing else does."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.expr import make
from tensorlang.loopir.stmt import Alloc, Func, If, Stmt, preorder, seq
from tensorlang.passes.rows_in_outputs import LEAST, rows_in_outputs
from tests.loopir.kernels import buffer, func, loop, n, read, store, var
from tests.passes.same import body_text, same

LONG = LEAST // 4


def rows(change: str = "") -> Func:
    """E of a row of A, then C of E, and what a row may not be moved for."""
    size = LONG - 1 if change == "a short row" else LONG
    a, c = buffer("A", 6, size), buffer("C", 6, size)
    e = buffer("E", 1, size, scope="local")
    r, i, j, k = (var(name) for name in "rijk")
    row = make.floordiv(r, n(2)) if change == "rows that are written twice" else r
    at = (0, make.sub(n(size - 1), j)) if change == "another element is read" else (0, j)
    written = store(c, (row, j), read(e, *at) * read(e, *at))
    if change == "a row that is not always written":
        written = If(make.lt(r, n(4)), written)
    made = loop(i, size, store(e, (0, i), read(a, row, i) + 1.0))
    end = [loop(j, size, written)]
    if change == "read again behind":
        end.append(loop(k, size, store(buffer("D", 1, scope="local"), (0,), read(e, 0, k))))
    if change == "another nest writes the result":
        end.append(loop(k, size, store(c, (row, k), 1.0)))
    if change == "read before it is written":
        end.insert(0, loop(k, size, store(e, (0, k), read(c, row, k))))
    attrs = (("stream_stores", True),) if change == "written past the caches" else ()
    outer = loop(r, 6, Alloc(e, seq(made, *end)), "parallel")
    if attrs:
        outer = type(outer)(outer.var, outer.begin, outer.extent, outer.kind, outer.body, attrs)
    return func("f", (a, c), outer)


def test_a_row_lies_where_its_result_will() -> None:
    before = rows()
    after = rows_in_outputs(before)
    assert (
        body_text(after)
        == f"""\
for r in parallel(0, 6):
    for i in range(0, {LONG}):
        C[r, i] = A[r, i] + 1.0
    for j in range(0, {LONG}):
        C[r, j] = C[r, j] * C[r, j]"""
    )
    same(before, after)


@pytest.mark.parametrize(
    "change",
    [
        "a short row",
        "rows that are written twice",
        "another element is read",
        "a row that is not always written",
        "read again behind",
        "another nest writes the result",
        "read before it is written",
        "written past the caches",
    ],
)
def test_what_may_not_lie_there_does_not(change: str) -> None:
    before = rows(change)
    assert rows_in_outputs(before) is before


def test_rows_of_two_loops_in_one() -> None:
    a, c = buffer("A", 2, 3, LONG), buffer("C", 2, 3, LONG)
    e = buffer("E", 1, 1, LONG, scope="local")
    f, i, j = var("f"), var("i"), var("j")
    y, x = make.floordiv(f, n(3)), make.floormod(f, n(3))
    body = seq(
        loop(i, LONG, store(e, (0, 0, i), read(a, y, x, i) + 1.0)),
        loop(j, LONG, store(c, (y, x, j), read(e, 0, 0, j) * 2.0)),
    )
    before = func("f", (a, c), loop(f, 6, Alloc(e, body), "parallel"))
    after = rows_in_outputs(before)
    assert "E" not in body_text(after)
    same(before, after)


def one_row(change: str = "") -> Func:
    """E of A, then C of E in vectors of 16, at the top of a kernel."""
    size = LONG + 9
    a, c, e = buffer("A", 1, size), buffer("C", 1, size), buffer("E", 1, size, scope="local")
    i, j, v = (var(name) for name in "ijv")
    at = j * 16 + v
    if change == "a last vector moved back":
        at = make.min_(j * 16, n(size - 16)) + v
    written: Stmt = store(c, (0, at), read(e, 0, at) * 2.0)
    if not change:
        written = If(make.lt(at, n(size)), written)
    made = loop(i, size, store(e, (0, i), read(a, 0, i) + 1.0))
    return func("f", (a, c), Alloc(e, seq(made, loop(j, -(-size // 16), loop(v, 16, written)))))


def test_a_row_at_the_top_of_a_kernel() -> None:
    before = one_row()
    after = rows_in_outputs(before)
    assert not any(isinstance(s, Alloc) for s in preorder(after.body))
    same(before, after)


def test_a_row_that_is_read_where_it_was_written_before_stays() -> None:
    """The last vector of ``tail="shift"`` begins in the one before: what that had written of the result was
    taken for the row, and came out divided twice."""
    before = one_row("a last vector moved back")
    assert rows_in_outputs(before) is before
    A, k = te.placeholder((4, 5001), name="A"), te.reduce_axis((0, 5001), name="k")
    E = te.compute(A.shape, lambda i, j: A[i, j] * 2.0, name="E")
    S = te.compute((4,), lambda i: te.sum(E[i, k], axis=k), name="S")
    Y = te.compute(A.shape, lambda i, j: E[i, j] / S[i], name="Y")
    s = te.create_schedule(Y)
    row, column = s[Y].op.axis
    _, lane = s[Y].split(column, 16, tail="shift")
    s[Y].vectorize(lane)
    s[E].compute_at(s[Y], row)
    s[S].compute_at(s[Y], row)
    a = np.random.default_rng(0).random((4, 5001), "float32")
    np.testing.assert_allclose(tl.build(s, [A, Y])(a), a / a.sum(1, keepdims=True, dtype="float64"), 1e-5)
