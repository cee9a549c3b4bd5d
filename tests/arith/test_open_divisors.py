"""Quotients by sizes that only a call knows, as of the place along axes that were fused: inequalities of them
without division, and what the loop over all elements says of them. Against every value of small ranges."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tensorlang.arith.facts import Facts
from tensorlang.arith.quotients import multiplied, parted
from tensorlang.arith.simplify import simplify_expr
from tensorlang.core.dtype import INT32, INT64
from tensorlang.expr import make
from tensorlang.expr.nodes import LE, LT, Expr, FloorDiv, FloorMod, Var
from tensorlang.expr.walk import preorder
from tests.expr.naive import evaluate

N, D, K = (Var(name, INT32, "dim") for name in ("n", "d", "k"))
F = Var("f", INT64, "loop")
WIDE = make.cast(INT64, D)
ROW = make.cast(INT32, make.floordiv(F, WIDE))
SIZES = frozenset((N, D, K))


def elements(rows: Expr, by: int = 1) -> Facts:
    """What is known in a loop over all elements of so many rows of d, in vectors."""
    number = make.mul(make.cast(INT64, rows), WIDE)
    extent = make.ceildiv(number, by)
    facts = Facts(sizes=SIZES).assume(make.le(1, extent))
    return facts.bind(F, make.const(0, INT64), make.sub(extent, 1))


def points(rows: Expr) -> Iterator[dict[Var, int]]:
    for n, d, k in itertools.product(range(4), range(5), range(4)):
        for f in range(evaluate(rows, {N: n, K: k}) * d):
            yield {N: n, D: d, K: k, F: f}


def _divides(e: Expr) -> bool:
    return any(type(x) in (FloorDiv, FloorMod) for x in preorder(e))


@pytest.mark.parametrize("by", [WIDE, make.const(3, INT64)], ids=["open", "known"])
@pytest.mark.parametrize("narrow", [True, False])
def test_an_inequality_of_a_quotient_is_one_of_what_is_divided(by: Expr, narrow: bool) -> None:
    """Of all small values, negative ones too."""
    x = Var("x", INT64 if narrow else INT32)
    by = by if narrow else make.cast(INT32, by)
    q = make.cast(INT32, make.floordiv(x, by))
    made = 0
    for a, b in itertools.product((-2, 0, 1, 3), (-1, 1)):
        n = make.add(make.mul(N, b), a)
        for cond in (make.lt(q, n), make.le(q, n), make.lt(n, q), make.le(n, q), make.ge(q, n)):
            found = multiplied(cond, lambda e: True)
            made += found is not cond and not _divides(found)
            for v, d, size in itertools.product(range(-7, 8), range(1, 5), range(4)):
                env = {x: v, D: d, N: size}
                assert evaluate(found, env) == evaluate(cond, env), f"{cond} is not {found} of {env}"
    assert made == (40 if narrow or by is not make.const(3, INT32) else 0)


def test_what_may_be_nothing_or_too_large_is_left_as_it_is() -> None:
    never, always = (lambda e: False), (lambda e: True)
    assert parted(make.lt(ROW, N), never) is None
    assert parted(make.lt(ROW, N), always) is not None
    # a product of 64 bits may not be one
    long = make.cast(INT64, N)
    assert parted(make.lt(make.floordiv(F, WIDE), long), always) is None
    assert parted(make.lt(make.cast(INT32, make.floordiv(F, make.mul(WIDE, long))), K), always) is None
    assert parted(make.lt(make.cast(INT32, make.floordiv(F, make.const(1 << 31, INT64))), N), always) is None
    assert parted(make.lt(make.mul(ROW, 2), N), always) is None
    assert parted(make.eq(ROW, N), always) is None


@pytest.mark.parametrize("rows", [N, make.add(N, K)], ids=str)
def test_a_row_of_several_axes_is_told_by_elements(rows: Expr) -> None:
    """Of rows of d × c elements: of a sum that all elements are more than, so that no product is too large;
    what may be more stays a quotient."""
    c = Var("c", INT32, "dim")
    deep = make.cast(INT64, c)
    number = make.mul(make.mul(make.cast(INT64, rows), WIDE), deep)
    facts = Facts(sizes=SIZES | {c}).assume(make.lt(F, number)).bind(F, make.const(0, INT64), number)
    row = make.cast(INT32, make.floordiv(make.floordiv(F, deep), WIDE))
    for cond in (make.lt(row, N), make.le(N, row)):
        found = simplify_expr(cond, facts)
        assert not _divides(found), found
        for n, d, k, m in itertools.product(range(3), range(1, 4), range(3), range(1, 3)):
            for f in range(evaluate(rows, {N: n, K: k}) * d * m):
                env = {N: n, D: d, K: k, c: m, F: f}
                assert evaluate(found, env) == evaluate(cond, env), env
    assert _divides(simplify_expr(make.lt(row, make.mul(N, 2)), facts))


@pytest.mark.parametrize("by", [1, 16])
@pytest.mark.parametrize("rows", [N, make.add(N, K), make.add(N, 2)], ids=str)
def test_rows_in_a_loop_over_their_elements(rows: Expr, by: int) -> None:
    """Columns are not none there, and a row is one of those that there are; of the loop over vectors only
    where an element is one."""
    facts = elements(rows, by)
    assert facts.positive(WIDE) and not Facts(sizes=SIZES).positive(WIDE)
    inside = facts.assume(make.lt(F, make.mul(make.cast(INT64, rows), WIDE)))
    for cond, known in (
        (make.lt(ROW, rows), True),
        (make.le(0, ROW), True),
        (make.lt(rows, ROW), False),
        (make.lt(make.add(ROW, 1), rows), None),
        (make.lt(ROW, K), None),
        (make.le(1, ROW), None),
    ):
        assert inside.prove(cond) is known, cond
        if known is not None:
            assert all(evaluate(cond, env) == known for env in points(rows))


def test_no_sum_is_a_multiple_that_is_none() -> None:
    """``n * d + k >= 1`` says nothing of d."""
    known = make.le(1, make.add(make.mul(make.cast(INT64, N), WIDE), make.cast(INT64, K)))
    assert not Facts(sizes=SIZES).assume(known).positive(WIDE)
    assert not Facts(sizes=SIZES).assume(make.le(0, make.mul(make.cast(INT64, N), WIDE))).positive(WIDE)


def test_guards_of_fused_axes_are_lines() -> None:
    """As where a tensor ends in what is joined, or a margin; whether a loop is over vectors or elements."""
    rows = make.add(N, K)
    facts = elements(rows, 16)
    for cond in (make.lt(ROW, N), make.le(2, ROW), make.le(ROW, N), make.lt(N, ROW)):
        made = simplify_expr(cond, facts)
        assert type(made) in (LT, LE) and not _divides(made), made
        for env in points(rows):
            assert evaluate(made, env) == evaluate(cond, env)
    moving = make.lt(make.add(ROW, Var("i", INT32, "loop")), N)
    assert simplify_expr(moving, facts) is moving


def test_what_is_repeated_is_read_where_it_lies() -> None:
    """``(i * n + x) % n`` is x and the quotient i, where x is a row of n."""
    i = Var("i", INT32, "loop")
    facts = elements(N).bind(i, make.as_expr(0), make.as_expr(2))
    at = make.add(make.mul(i, N), ROW)
    assert simplify_expr(make.floormod(at, N), facts) is ROW
    assert simplify_expr(make.floordiv(at, N), facts) is i
    beyond = make.add(at, 1)
    assert simplify_expr(make.floormod(beyond, N), facts) is not make.add(ROW, 1)
    for env in points(N):
        for turn in range(3):
            here = {**env, i: turn}
            assert evaluate(make.floormod(at, N), here) == evaluate(ROW, here)
            assert evaluate(simplify_expr(make.floormod(beyond, N), facts), here) == evaluate(
                make.floormod(beyond, N), here
            )


def test_a_quotient_of_64_bits_that_is_less_than_none() -> None:
    """As where a margin is cut off: the product of no rows and anything is no sum of sizes, and fits."""
    facts, zero = elements(N), make.const(0, INT64)
    wide = make.floordiv(make.sub(F, 5), WIDE)
    for cond in (make.lt(wide, zero), make.le(zero, wide)):
        made = simplify_expr(cond, facts)
        for env in points(N):
            assert evaluate(made, env) == evaluate(cond, env)
