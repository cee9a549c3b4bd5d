"""Integers that are data wrap, indices do not: each rule on both, and random expressions of data at the ends
of their type."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.arith.facts import Facts
from tensorlang.arith.simplify import simplify_expr
from tensorlang.core.dtype import DType, dtype
from tensorlang.expr import make
from tensorlang.expr.nodes import (
    Add,
    Binary,
    Cast,
    Choice,
    Compare,
    Const,
    Expr,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mul,
    Not,
    Sub,
    Var,
)
from tensorlang.loopir.interpret import interpret
from tensorlang.te import reference

OPS: dict[type, Callable[[Any, Any], Any]] = {
    Add: lambda a, b: a + b,
    Sub: lambda a, b: a - b,
    Mul: lambda a, b: a * b,
    Min: min,
    Max: max,
    FloorDiv: lambda a, b: a // b,
    FloorMod: lambda a, b: a % b,
}


def value(e: Expr, env: dict[Var, int]) -> int:
    """What ``e`` is when every operation wraps."""
    if isinstance(e, Const):
        return int(e.value)
    if isinstance(e, Var):
        return env[e]
    if isinstance(e, Choice):
        return value(e.a if value(e.cond, env) else e.b, env)
    if isinstance(e, Cast):
        return e.dtype.wrap(value(e.a, env))
    if isinstance(e, Not):
        return int(not value(e.a, env))
    assert isinstance(e, Binary)
    a, b = value(e.a, env), value(e.b, env)
    if isinstance(e, Compare) or e.dtype.is_bool:
        return int(
            {"<": a < b, "<=": a <= b, "==": a == b, "!=": a != b, "and": a and b, "or": a or b}[e.symbol]
        )
    return e.dtype.wrap(OPS[type(e)](a, b))


class Data:
    """Random expressions beside their values, which the smart constructors have no part in."""

    def __init__(self, seed: int, t: DType) -> None:
        r = self.random = random.Random(seed)
        self.t = t
        lo, hi = t.limits()
        self.env = {
            Var(name, t, "data"): r.choice((lo, hi, lo + 1, hi - 1, hi // 2 + 1, 0, -1, r.randint(-9, 9)))
            for name in "xyz"
        }
        small = Var("b", dtype("int8"), "data")
        self.leaves = [*self.env.items(), (make.cast(t, small), r.randint(-128, 127))]
        self.env[small] = self.leaves[-1][1]

    def integer(self, depth: int) -> tuple[Expr, int]:
        r, wrap = self.random, self.t.wrap
        if not depth:
            return r.choice(self.leaves)
        (a, x), (b, y) = self.integer(r.randrange(depth)), self.integer(r.randrange(depth))
        c = r.choice((1, 2, 3, 4, 8, 65536, self.t.limits()[1]))
        kind = r.randrange(9)
        if kind == 8:
            cond, holds = self.condition(depth - 1)
            return make.if_then_else(cond, a, b), x if holds else y
        return (
            (make.add(a, b), wrap(x + y)),
            (make.sub(a, b), wrap(x - y)),
            (make.mul(a, c), wrap(x * c)),
            (make.add(a, c), wrap(x + c)),
            (make.min_(a, b), min(x, y)),
            (make.max_(a, b), max(x, y)),
            (make.floordiv(a, c), x // c),
            (make.floormod(a, c), x % c),
        )[kind]

    def condition(self, depth: int) -> tuple[Expr, bool]:
        (a, x), (b, y) = self.integer(depth), self.integer(depth)
        return self.random.choice(
            (
                (make.lt(a, b), x < y),
                (make.le(a, b), x <= y),
                (make.eq(a, b), x == y),
                (make.ne(a, b), x != y),
            )
        )


@pytest.mark.parametrize("t", ["int32", "int64"])
def test_random_expressions_of_data(t: str) -> None:
    for seed in range(1500):
        data = Data(seed, dtype(t))
        for e, want in (data.integer(3), data.condition(2)):
            assert value(e, data.env) == want, (seed, str(e))
            assert value(simplify_expr(e, Facts()), data.env) == want, (seed, str(e))
            if e.dtype.is_bool:
                assert Facts().prove(e) in (None, bool(want)), (seed, str(e))
                if want:  # what follows from a condition that holds
                    then, so = data.condition(2)
                    assert Facts().assume(e).prove(then) in (None, bool(so)), (seed, str(e), str(then))


RULES: dict[
    str, tuple[Callable[[Expr], Expr], Callable[[Expr], Expr]]
] = {  # of x; what it is when x is an index
    "<": (lambda x: make.lt(x, make.add(x, 1)), lambda x: make.const(True)),
    "<=": (lambda x: make.le(make.add(x, 1), x), lambda x: make.const(False)),
    "max": (lambda x: make.max_(make.add(x, 1), x), lambda x: make.add(x, 1)),
    "min": (lambda x: make.min_(make.sub(x, 1), x), lambda x: make.sub(x, 1)),
    "//": (lambda x: make.floordiv(make.mul(x, 4), 4), lambda x: x),
    "%": (lambda x: make.floormod(make.mul(x, 6), 3), lambda x: make.const(0, x.dtype)),
    "cast": (
        lambda x: make.sub(make.cast("int64", make.add(x, 1)), make.cast("int64", x)),
        lambda x: make.const(1, "int64"),
    ),
    "proof": (
        lambda x: simplify_expr(make.lt(make.min_(x, 5), make.add(x, 1)), Facts()),
        lambda x: make.const(True),
    ),
    "assumed": (
        lambda x: make.const(bool(Facts().assume(make.lt(make.add(x, 1), 5)).prove(make.lt(x, 10)))),
        lambda x: make.const(True),
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_each_rule_on_indices_and_on_data(name: str) -> None:
    rule, index = RULES[name]
    i, x = Var("i", dtype("int32"), "loop"), Var("x", dtype("int32"), "data")
    assert rule(i) is index(i)
    assert rule(x) is not index(x)


@pytest.mark.parametrize("t", ["int32", "int64"])
def test_every_oracle_agrees_at_the_ends_of_the_type(t: str) -> None:
    lo, hi = dtype(t).limits()
    v = np.array([hi, lo, 0, -1, hi - 1, 5], t)
    x, y = te.placeholder((6,), t, name="x"), te.placeholder((6,), t, name="y")
    bodies = (
        lambda i: (x[i] + 1 > x[i]).astype(t),
        lambda i: te.max(x[i] + 1, x[i]),
        lambda i: te.if_then_else(x[i] + 1 < 5, (x[i] < 10).astype(t), 7),
        lambda i: (x[i] * 4 + 1) // 4,
        lambda i: x[te.max(te.min(y[i] + 1, 5), 0)],
        lambda i: x[te.floormod(y[i] * 3 - 2, 6)],
        lambda i: te.max(te.min(x[i] + 3, x[i] + 5), x[i]),
        lambda i: x[i] * 65536 * 65536 + 2147483647 + 1,
    )
    outs = te.compute((6,), lambda i: tuple(b(i) for b in bodies), name="z")
    want = reference.evaluate(outs, {x: v, y: v[::-1].copy()})
    s = te.create_schedule(outs[0].op)
    s[outs[0]].vectorize(s[outs[0]].op.axis[0])
    func = tl.lower(te.create_schedule(outs[0].op), [x, y, *outs])
    got = [np.zeros(6, t) for _ in bodies]
    interpret(func, v, v[::-1].copy(), *got)
    for made in (
        got,
        tl.compile([x, y, *outs])(v, v[::-1].copy()),
        tl.build(s, [x, y, *outs])(v, v[::-1].copy()),
    ):
        assert all(np.array_equal(a, b) for a, b in zip(want, made, strict=True))
    f = tl.compile([x, tl.ops.greater(x + 1, x)])
    assert f(v).tolist() == [False, True, True, True, True, True]
