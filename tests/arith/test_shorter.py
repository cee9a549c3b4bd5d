"""Shorter forms: TVM's cases by name, and each rule against all values of small ranges; data is left alone."""

from __future__ import annotations

import itertools
import random

import pytest

from tensorlang import te
from tensorlang.arith.facts import Facts
from tensorlang.arith.simplify import simplify_expr
from tensorlang.core.dtype import INT32
from tensorlang.expr import make
from tensorlang.expr.nodes import Const, Var, is_const
from tests.expr.naive import evaluate

x, y, z, d = (Var(n, INT32, "loop") for n in "xyzd")
n = Var("n", INT32, "data")
RANGES = {x: (-4, 5), y: (0, 2), z: (-3, 4), d: (1, 2)}
FACTS = Facts().bind_all(
    [(v, make.const(lo, INT32), make.const(hi, INT32)) for v, (lo, hi) in RANGES.items()]
)

CASES = [
    (te.truncdiv(x * 10, 2), x * 5),
    (te.truncmod(x * 10, 5), 0),
    (te.truncdiv(te.truncdiv(x, 3), 4), te.truncdiv(x, 12)),
    (te.truncdiv(y * 4 + 2, 2), y * 2 + 1),
    (te.truncmod(y + 8, 2), y % 2),
    (x * d // (d * 2), x // 2),
    (x * d % (d * 2), x % 2 * d),
    (x * d * 6 // (d * 2), x * 3),
    ((x * d * z) // (d * d), x * z // d),
    ((x * 6 + 8) // 4, (x * 3) // 2 + 2),
    ((x * 6 + 9) // 4, (x * 3 + 4) // 2),
    ((x // 28 * 12 + x % 28) % 16, x % 16),
    ((x // 5 * 13 + (x + 10) % 5 * 2 + z) % 3, (x * 2 + z) % 3),
    ((x // 28 * 12 + x % 28) % 15, (x // 28 * 12 + x % 28) % 15),
    ((x // 5 * 8 + (x + 1) % 5) % 3, (x // 5 * 2 + (x + 1) % 5) % 3),
    (te.min(te.min(x, 11), 2), te.min(x, 2)),
    (te.max(te.max(x, 1), 3), te.max(x, 3)),
    (x * 4 + y < 12, x < 3),
    (te.min(y * 4, te.max(x - 3, 0)) + y < x, y < x),
    (te.min(y * 4, te.max(0, x - 3)) + y + 1 < x + 1, y < x),
    (x * 4 < 13, x < 4),
    (x + z < x + y, z < y),
    (x * -2 < z * -2, z < x),
    (x * 8 <= z * 8 + 7, x <= z),
    (x // 2 < 3, x < 6),
    (make.lt(3, x // 2), make.lt(7, x)),
    (make.eq(x * 3, 6), make.eq(x, 2)),
    (make.eq(x * 3, 7), False),
    (make.ne(x + 5, 5), make.ne(x, 0)),
    (te.min(x, 11) < 1, x < 1),
    (te.max(x, -4) < 1, x < 1),
    (x < te.max(x, z), x < z),
    (te.min(x, z) < x, z < x),
    (te.all(x < 1, make.lt(2, x)), False),
    (te.any(x <= 3, make.lt(2, x)), True),
    (te.all(x < 1, x < 5), x < 1),
    (te.any(x < 1, x < 5), x < 5),
    (te.all(make.eq(x, 1), make.ne(x, 2)), make.eq(x, 1)),
    (te.all(x < 3, te.all(x < z, x < 5)), te.all(x < 3, x < z)),
    (te.truncdiv(x, 2) * 2 + te.truncmod(x, 2), x),
    (te.truncdiv(x * d, d), x),
    ((x * d) // d, x),
    ((x * d) % d, 0),
    ((x * d + z) // d, x + z // d),
    ((x * d + z) % d, z % d),
    ((x % 8 // 4) * 4 + x % 4, x % 8),
    ((x + 1) // 2 + x // 2, x),
    (x - (x // 4) * 4, x % 4),
    (((x + 2) // 4) * 4 < x, make.lt(2, (x + 2) % 4)),
    (x * 2 < z * 2 + 1, x <= z),
    (te.min(te.max(x, y), te.max(x, z)), te.max(x, te.min(y, z))),
    (te.max(te.min(x, y), te.min(x, z)), te.min(x, te.max(y, z))),
    (te.min(x * 2, z * 2), te.min(x, z) * 2),
    (te.min(x * -2, z * -2), te.max(x, z) * -2),
    (te.max(x // 4, z // 4), te.max(x, z) // 4),
    (te.min(x + y, x + z), x + te.min(y, z)),
    (te.min(x - y, x - z), x - te.max(y, z)),
    (te.max(x, z) + te.min(x, z), x + z),
    (z + te.min(x, y - z), te.min(y, x + z)),
    (te.max(x, z + 2) - 2, te.max(z, x - 2)),
    (te.max(x + y, y + z) - y, te.max(x, z)),
    (te.max(z, x + 1) - te.max(x, z - 1), 1),
    (make.select(x < 0, y, 0) + make.select(x < 0, 1, z), make.select(x < 0, y + 1, z)),
    (make.select(x < z, make.select(x < z, y, z), 7), make.select(x < z, y, 7)),
    (make.select(x < z, x, z), te.min(x, z)),
    (make.select(x < z, z, x), te.max(x, z)),
    (make.and_(make.eq(x, z), make.ne(x, z)), False),
    (make.or_(make.eq(x, z), make.ne(x, z)), True),
    (make.or_(make.and_(x < z, y < 2), x < z), x < z),
    (make.and_(make.or_(x < z, y < 2), x < z), x < z),
    (make.or_(x < z, make.eq(x, z)), x <= z),
    (make.and_(x <= z, make.ne(x, z)), x < z),
    (make.or_(x < z, make.lt(z, x)), make.ne(x, z)),
    (make.and_(x <= z, make.le(z, x)), make.eq(x, z)),
    (make.not_(make.and_(x < z, z < y)), make.or_(make.le(z, x), make.le(y, z))),
]


@pytest.mark.parametrize(("before", "after"), CASES, ids=[str(before) for before, _ in CASES])
def test_cases_of_tvms_simplifier(before, after):
    got = simplify_expr(before, FACTS)
    assert got is after or is_const(got, after if not hasattr(after, "dtype") else None), got
    assert simplify_expr(got, FACTS) is got
    same_everywhere(before, got)


def same_everywhere(before, after):
    for values in itertools.product(*[range(lo, hi + 1) for lo, hi in RANGES.values()]):
        env = dict(zip(RANGES, values, strict=True))
        assert evaluate(before, env) == evaluate(after, env), f"{before} as {after} at {values}"


def sums(rng):
    """A small sum, product, quotient, minimum or choice of the variables, or the sum of two of these."""
    if rng.random() < 0.3:
        return part(rng) * rng.choice((1, 1, -1, 2, 4)) + part(rng) * rng.choice((1, -1, -1, 2))
    return part(rng)


def part(rng):
    out = make.const(rng.randint(-6, 6), INT32)
    for v in rng.sample((x, y, z), rng.randint(1, 3)):
        out = out + v * rng.choice((-4, -2, 1, 1, 2, 3, 4, 6))
    wrap = rng.random()
    if wrap < 0.1:
        return (out * d + rng.choice((0, 0, y, z))) // d
    if wrap < 0.15:
        return (out * d + rng.choice((0, y, z))) % d
    if wrap < 0.2:
        return te.truncdiv(out, rng.choice((1, 2, 3, 4, 6)))
    if wrap < 0.3:
        return te.truncmod(out, rng.choice((1, 2, 3, 4, 6)))
    if wrap < 0.5:
        return out // rng.choice((2, 3, 4, 6))
    if wrap < 0.6:
        return out % rng.choice((2, 3, 4, 6))
    if wrap < 0.8:
        other = rng.choice(
            (x, z, out + y, out - z, out * 2, te.max(x, z), te.min(x, z), make.const(2, INT32))
        )
        return rng.choice((te.min, te.max))(out, other)
    if wrap < 0.9:
        return make.select(rng.choice((x < z, x < 2, make.le(z, x))), out, rng.choice((x, z)))
    return out


def conditions(rng):
    """A few comparisons, by `and`, `or` and `not`; some of them of the same two operands."""
    out, sides = None, (x, z)
    for _ in range(rng.randint(1, 4)):
        kind = rng.choice((make.lt, make.le, make.lt, make.le, make.eq, make.ne))
        if rng.random() < 0.5:
            sides = (sums(rng), rng.choice((sums(rng), make.const(rng.randint(-9, 9), INT32))))
        c = kind(*(sides if rng.random() < 0.7 else sides[::-1]))
        out = c if out is None else rng.choice((make.and_, make.or_))(out, c)
        out = make.not_(out) if rng.random() < 0.15 else out
    return out


def test_every_value_of_random_expressions():
    rng, shorter = random.Random(5), 0
    for _ in range(250):
        before = conditions(rng) if rng.random() < 0.7 else sums(rng)
        after = simplify_expr(before, FACTS)
        assert simplify_expr(after, FACTS) is after, (before, after)
        shorter += after is not before
        same_everywhere(before, after)
    assert shorter > 100


@pytest.mark.parametrize(
    "e",
    [
        make.lt(n * 4, 13),
        make.lt(n + 1, n + 2),
        make.eq(n * 3, 7),
        te.truncdiv(n * 10, 2),
        te.truncmod(n * 10, 2),
        make.floordiv(n * 6 + 8, 4),
        make.min_(n + 1, n + d),
        make.min_(n * 2, 6),
        make.sub(make.max_(n, x + 1), x + 1),
        make.floordiv(n * d, d),
        make.floordiv(n, 2) + make.floordiv(n + 1, 2),
        n - make.floordiv(n, 8) * 8,
        make.max_(n, 3) + make.min_(n, 3),
        make.select(x < 0, n, 0) + make.select(x < 0, 1, n),
    ],
    ids=str,
)
def test_data_wraps_and_is_left_alone(e):
    after = simplify_expr(e, FACTS)
    assert not isinstance(after, Const)
    for value in (2**31 - 1, -(2**31), 2**29 + 1, 2**30, 1431655767, 3):
        for other in (-1, 1, 2, 3):
            env = {n: value, x: other, d: abs(other)}
            assert evaluate(e, env) == evaluate(after, env)
