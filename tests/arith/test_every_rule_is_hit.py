"""5,000 random expressions keep their values under simplification, and every line of every rule runs on the
way."""

from __future__ import annotations

import dis
import random
import sys
from types import CodeType, FrameType
from typing import Any

from tensorlang.arith import simplify
from tensorlang.arith.facts import Facts
from tensorlang.core.dtype import INT32
from tensorlang.expr import make
from tensorlang.expr.nodes import Expr, Var
from tests.arith.test_against_brute_force import World
from tests.expr.naive import evaluate

EXPRESSIONS = 5_000


def rules() -> list[CodeType]:
    """The code of the simplifier and its rules."""
    methods = [getattr(simplify.Simplifier, n) for n in ("__call__", "_simplify", "_choice", "_rule")]
    return [f.__code__ for f in (*methods, simplify.divide, simplify.is_hard)]


def test_five_thousand_expressions_and_every_rule() -> None:
    codes = {
        c: {line for _, line in dis.findlinestarts(c) if line is not None and line > c.co_firstlineno}
        for c in rules()
    }
    seen: dict[CodeType, set[int]] = {c: set() for c in codes}

    def tracer(frame: FrameType, event: str, _: Any) -> Any:
        lines = seen.get(frame.f_code)
        if lines is None:
            return None

        def inside(frame: FrameType, event: str, _: Any) -> Any:
            lines.add(frame.f_lineno)
            return inside

        return inside

    cases: list[tuple[Expr, Facts, list[dict[Var, int]]]] = []
    seed = 0
    while len(cases) < EXPRESSIONS:
        w = World(10_000 + seed)
        seed += 1
        if w.points:
            few = w.points if len(w.points) < 25 else w.random.sample(w.points, 25)
            cases += [
                (w.integer(3) if w.random.random() < 0.7 else w.condition(), w.facts, few) for _ in range(10)
            ]
    cases += [*symbolic_divisors(), deep()]
    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        new = [simplify.Simplifier(facts)(e) for e, facts, _ in cases]
    finally:
        sys.settrace(before)
    for (e, _, points), s in zip(cases, new, strict=True):
        for env in points:
            assert evaluate(s, env) == evaluate(e, env), f"{e} became {s}, which differs at {env}"
    missed = {f"{c.co_name}:{line}" for c, lines in codes.items() for line in lines - seen[c]}
    assert not missed, f"rules that no expression needs: {sorted(missed)}"


def deep() -> tuple[Expr, Facts, list[dict[Var, int]]]:
    """More levels than are asked one inside the other."""
    i = Var("i", INT32, "loop")
    e: Expr = i
    for n in range(60):
        e = make.max_(make.add(make.floordiv(e, 3), n), 2 * n)
    return e, Facts().bind(i, make.as_expr(0), make.as_expr(9)), [{i: n} for n in range(10)]


def symbolic_divisors() -> list[tuple[Expr, Facts, list[dict[Var, int]]]]:
    """Divisions by a size: what stays below it is itself, and its quotient is none."""
    r = random.Random(1)
    n = Var("n", INT32, "dim", 1, 9)
    i = Var("i", INT32, "loop")
    facts = Facts(sizes=frozenset((n,))).bind(i, make.as_expr(0), make.sub(n, 1))
    points = [{n: size, i: r.randrange(size)} for size in range(1, 10) for _ in range(3)]
    return [
        (op(x, n), facts, points)
        for op in (make.floordiv, make.floormod)
        for x in (i, make.add(i, 1), make.mul(i, 2))
    ]
