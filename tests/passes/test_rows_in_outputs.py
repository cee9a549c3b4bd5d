"""Rows that are kept lie in the result they end up in, and nothing else does."""

from __future__ import annotations

import pytest

from tensorlang.expr import make
from tensorlang.loopir.stmt import Alloc, Func, If, seq
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
