"""Loops over rows of data end where data says, whatever it says; and only where it is there to be read."""

from __future__ import annotations

import numpy as np
import pytest

from tensorlang.arith.conditions import conjunction
from tensorlang.expr import make
from tensorlang.expr.nodes import Expr
from tensorlang.loopir.interpret import interpret
from tensorlang.loopir.stmt import For, Func, If, preorder
from tensorlang.passes.rows import rows
from tests.loopir.kernels import buffer, dim, func, loop, n, read, store, var
from tests.passes.same import body_text

ODD = [-(2**31), -(2**31) + 1, -9, -1, 0, 1, 2, 3, 5, 7, 8, 9, 11, 12, 25, 2**31 - 2, 2**31 - 1]
COMPARE = {"<": make.lt, "<=": make.le, ">": make.gt, ">=": make.ge}


def kernel(sign: str, factor: int, offset: int, kind: str) -> Func:
    """Marks the points (k, j) of a row of 8 by 3 where ``factor * k + j + offset`` compares with P[i]."""
    p, d = buffer("P", len(ODD), type_="int32"), buffer("D", len(ODD), 8, 3)
    i, k, j = var("i"), var("k"), var("j")
    cond = COMPARE[sign](k * factor + j + offset, read(p, i))
    nest = loop(k, 8, loop(j, 3, If(cond, store(d, (i, k, j), 1.0)), kind))
    return func("f", (p, d), loop(i, len(ODD), nest))


@pytest.mark.parametrize("sign", COMPARE)
@pytest.mark.parametrize(
    ("factor", "offset", "kind"), [(1, 0, "serial"), (3, 0, "unrolled"), (2, -4, "serial")]
)
def test_the_bounds_leave_no_point_out_and_let_few_others_in(sign, factor, offset, kind) -> None:
    before = kernel(sign, factor, offset, kind)
    after = rows(before)
    assert after.body is not before.body
    marks = []
    for f in (before, after):
        d = np.zeros((len(ODD), 8, 3), "float32")
        interpret(f, np.array(ODD, "int32"), d, coverage=False)
        marks.append(d)
    assert np.array_equal(*marks)
    compare = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}[sign]
    index = np.arange(8)[:, None] * factor + np.arange(3) + offset
    assert np.array_equal(marks[0], compare(index, np.array(ODD)[:, None, None]).astype("float32"))


def test_a_condition_that_became_the_bound_is_not_asked_again() -> None:
    p, d = buffer("P", 7, type_="int32"), buffer("D", 6, 8)
    i, k, j = var("i"), var("k"), var("j")
    cond = make.and_(make.le(read(p, i), k), make.lt(k, read(p, i + 1)))
    before = func(
        "f", (p, d), loop(i, 6, loop(k, 9, loop(j, 8, If(cond, store(d, (i, j), 1.0)), "vectorized")))
    )
    after = rows(before)
    assert not [s for s in preorder(after.body) if isinstance(s, If)]
    assert "for k in range(max(P[i], 0), max(min(P[i + 1], 9), 0)):" in body_text(after)
    assert rows(after).body is after.body


def test_what_may_not_be_there_is_not_read_in_front() -> None:
    """P[i - 1] is read where i is positive only; P[k] and what the loop writes change inside."""
    p, d = buffer("P", 8, type_="int32"), buffer("D", 8, 8)
    i, k = var("i"), var("k")
    guarded = If(make.lt(n(0), i), If(make.lt(k, read(p, i - 1)), store(d, (i, k), 1.0)))
    for body in (guarded, If(make.lt(k, read(p, k)), store(d, (i, k), 1.0))):
        before = func("f", (p, d), loop(i, 8, loop(k, 8, body)))
        assert rows(before).body is before.body
    q = buffer("Q", 8, type_="int32")
    own = func("f", (q,), loop(i, 8, loop(k, 8, If(make.lt(k, read(q, i)), store(q, k, make.const(3))))))
    assert rows(own).body is own.body


def test_a_loop_that_may_not_run_reads_nothing() -> None:
    """Where only its iterations are sure that P[Q[i]] is there, they are asked for before it is read."""
    m = dim("m", 0)
    p, q, d = buffer("P", 8, type_="int32"), buffer("Q", 8, type_="int32"), buffer("D", 8, m)
    i, k = var("i"), var("k")
    cond = make.lt(k, read(p, read(q, i)))
    after = rows(func("f", (p, q, d), loop(i, 8, loop(k, m, If(cond, store(d, (i, k), 1.0)))), [m]))
    around = next(s for s in preorder(after.body) if isinstance(s, If))
    assert str(around.cond) == "1 <= m" and isinstance(around.then, For)


def test_loops_of_open_sizes_between_ask_as_known_ones_do() -> None:
    """A nest of two loops of open sizes ends where data says in both, behind a mask that the first lane
    passes; what only a later iteration asks is not read in front."""
    m, c = dim("m", 0), dim("c", 0)
    p, d = buffer("P", 8, type_="int32"), buffer("D", c)
    i, y, x, co, ci = var("i"), var("y"), var("x"), var("co"), var("ci")
    inside = make.lt(co * 16 + ci, c)

    def nest(*conds: Expr) -> Func:
        body = loop(ci, 16, If(conjunction(conds), store(d, (co * 16 + ci,), 1.0)), "vectorized")
        window = loop(y, m * 2 + 8, loop(x, m * 2 + 8, body))
        return func("f", (p, d), loop(i, 9, loop(co, make.floordiv(c + 15, 16), window)), [m, c])

    # P has 8 elements and i is 8 as well: nothing but the condition itself says that P[i] is read
    asked = body_text(rows(nest(inside, make.lt(y, read(p, i)), make.lt(x, read(p, i)))))
    assert "for y in range(0, min(m*2 + 8, P[i])):" in asked
    assert "for x in range(0, min(m*2 + 8, P[i])):" in asked
    later = If(make.lt(n(3), x), If(make.lt(y, read(p, i)), store(d, (co,), 1.0)))
    kept = func("f", (p, d), loop(i, 9, loop(co, c, loop(y, m * 2 + 8, loop(x, m, later)))), [m, c])
    assert rows(kept).body is kept.body
