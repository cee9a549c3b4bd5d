"""Expressions built twice at random, by the smart constructors and as a plain tree, and both evaluated with
Python's integers."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tensorlang.expr import make
from tensorlang.expr.nodes import (
    EQ,
    LE,
    LT,
    NE,
    Add,
    And,
    Cast,
    Const,
    Expr,
    FloorDiv,
    FloorMod,
    IfThenElse,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Select,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
)

Env = Mapping[Var, int]


def trunc(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


INT = {
    Add: lambda a, b: a + b,
    Sub: lambda a, b: a - b,
    Mul: lambda a, b: a * b,
    FloorDiv: lambda a, b: a // b,
    FloorMod: lambda a, b: a % b,
    TruncDiv: trunc,
    TruncMod: lambda a, b: a - b * trunc(a, b),
    Min: min,
    Max: max,
}
TEST = {EQ: lambda a, b: a == b, NE: lambda a, b: a != b, LT: lambda a, b: a < b, LE: lambda a, b: a <= b}
LOGIC = {And: lambda a, b: a and b, Or: lambda a, b: a or b}
BUILD = {
    Add: make.add,
    Sub: make.sub,
    Mul: make.mul,
    FloorDiv: make.floordiv,
    FloorMod: make.floormod,
    TruncDiv: make.truncdiv,
    TruncMod: make.truncmod,
    Min: make.min_,
    Max: make.max_,
    EQ: make.eq,
    NE: make.ne,
    LT: make.lt,
    LE: make.le,
    And: make.and_,
    Or: make.or_,
}
DIVISIONS = (FloorDiv, FloorMod, TruncDiv, TruncMod)


@dataclass
class Both:
    """One expression in two forms; ``plain`` raises ZeroDivisionError where the meaning is undefined."""

    expr: Expr
    plain: Callable[[Env], int]
    text: str


def evaluate(e: Expr, env: Env) -> int:
    """The value of a scalar integer or bool expression, node by node."""
    kind = type(e)
    if kind is Const:
        return e.value
    if kind is Var:
        return env[e]
    if kind in (Select, IfThenElse):
        return evaluate(e.a if evaluate(e.cond, env) else e.b, env)
    if kind is Not:
        return not evaluate(e.a, env)
    if kind is Cast and e.dtype.is_index:
        return evaluate(e.a, env)
    f = INT.get(kind) or TEST.get(kind) or LOGIC[kind]
    return f(evaluate(e.a, env), evaluate(e.b, env))


class Source:
    """Random expressions over some variables: one of unknown sign, two of one name, and a positive
    divisor."""

    def __init__(self, seed: int, dtype: str = "int32") -> None:
        self.random = random.Random(seed)
        self.dtype = dtype
        from_name = make.dtype(dtype)
        self.loops = [Var("i", from_name, "loop"), Var("j", from_name, "loop"), Var("i", from_name, "loop")]
        self.divisor = Var("n", from_name, "dim", 1)

    def env(self) -> dict[Var, int]:
        env = {v: self.random.randint(-20, 20) for v in self.loops}
        env[self.divisor] = self.random.randint(1, 9)
        return env

    def leaf(self) -> Both:
        r = self.random.random()
        if r < 0.4:
            c = self.random.choice([0, 1, -1, 2, 3, 4, 8, -8, 12, 7])
            return Both(make.const(c, self.dtype), lambda env: c, str(c))
        v, text = self.random.choice([*zip(self.loops, ("i", "j", "i'"), strict=True), (self.divisor, "n")])
        return Both(v, lambda env: env[v], text)

    def integer(self, depth: int) -> Both:
        if depth == 0:
            return self.leaf()
        kind = self.random.choice(
            [Add, Add, Sub, Mul, FloorDiv, FloorMod, TruncDiv, TruncMod, Min, Max, Select, IfThenElse]
        )
        a, b = self.integer(self.random.randrange(depth)), self.integer(self.random.randrange(depth))
        if kind in (Select, IfThenElse):
            c = self.condition(self.random.randrange(depth))
            op = make.select if kind is Select else make.if_then_else
            return Both(
                op(c.expr, a.expr, b.expr),
                lambda env: _choose(c.plain(env), a.plain, b.plain, env, kind is Select),
                f"{kind.__name__}({c.text}, {a.text}, {b.text})",
            )
        if kind in DIVISIONS and self.random.random() < 0.8:  # mostly divisors that are known not to be zero
            c = self.random.choice([1, 2, 3, 4, 8, -4, -3])
            b = (
                Both(make.const(c, self.dtype), lambda env: c, str(c))
                if self.random.random() < 0.7
                else Both(self.divisor, lambda env: env[self.divisor], "n")
            )
        if kind in DIVISIONS and type(b.expr) is Const and b.expr.value == 0:
            kind = Add
        f = INT[kind]
        return Both(
            BUILD[kind](a.expr, b.expr),
            lambda env: f(a.plain(env), b.plain(env)),
            f"{kind.__name__}({a.text}, {b.text})",
        )

    def condition(self, depth: int) -> Both:
        r = self.random.random()
        if depth and r < 0.3:
            kind = self.random.choice([And, Or])
            a, b = self.condition(depth - 1), self.condition(depth - 1)
            g = LOGIC[kind]
            return Both(
                BUILD[kind](a.expr, b.expr),
                lambda env: g(a.plain(env), b.plain(env)),
                f"{kind.__name__}({a.text}, {b.text})",
            )
        if depth and r < 0.45:
            a = self.condition(depth - 1)
            return Both(make.not_(a.expr), lambda env: not a.plain(env), f"Not({a.text})")
        kind = self.random.choice([EQ, NE, LT, LE])
        x, y = self.integer(depth), self.integer(depth)
        f = TEST[kind]
        return Both(
            BUILD[kind](x.expr, y.expr),
            lambda env: f(x.plain(env), y.plain(env)),
            f"{kind.__name__}({x.text}, {y.text})",
        )


def _choose(cond: int, a: Callable[[Env], int], b: Callable[[Env], int], env: Env, both: bool) -> int:
    if both:
        x, y = a(env), b(env)
        return x if cond else y
    return a(env) if cond else b(env)
