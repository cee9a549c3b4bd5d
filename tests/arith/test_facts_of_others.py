"""Facts answer from those they were made of what they add nothing to: the same as facts that know all of it
by themselves."""

from __future__ import annotations

import random

import pytest

from tensorlang import te
from tensorlang.arith.facts import Facts
from tensorlang.expr import make
from tensorlang.expr.nodes import Expr, Var


def condition(rng: random.Random, names: list[Var]) -> Expr:
    """An inequality of sums, quotients, remainders and ends of some variables."""

    def term() -> Expr:
        v: Expr = rng.choice(names)
        kind = rng.randrange(6)
        if kind == 0:
            v = make.floordiv(make.add(v, rng.randrange(4)), rng.choice([2, 4]))
        elif kind == 1:
            v = make.floormod(v, rng.choice([2, 4]))
        elif kind == 2:
            v = make.min_(v, make.add(rng.choice(names), rng.randrange(-2, 3)))
        elif kind == 3:
            v = make.max_(make.sub(v, rng.randrange(5)), 0)
        return make.mul(v, rng.choice([1, 1, 2, 4]))

    left = make.add(term(), rng.randrange(-3, 4))
    right = make.add(term(), term()) if rng.random() < 0.3 else term()
    return rng.choice([make.le, make.lt, make.eq, make.ne])(left, right)


@pytest.mark.parametrize("seed", range(40))
def test_answers_do_not_depend_on_where_they_were_found(seed: int) -> None:
    rng = random.Random(seed)
    dims = [te.dim("n"), te.dim("m", 0, 64)]
    loops = [te.var(f"i{k}") for k in range(3)]
    facts = Facts(sizes=frozenset(dims))
    known: list[Var] = list(dims)
    for v in loops:
        for _ in range(rng.randrange(3)):
            facts = facts.assume(condition(rng, known))
        end = rng.choice([make.sub(rng.choice(known), 1), make.floordiv(rng.choice(known), 4)])
        facts = facts.bind(v, make.as_expr(0), end)
        known.append(v)
        for _ in range(12):
            asked = condition(rng, known)
            alone = Facts(facts.ranges, facts.level, facts.known, facts.sizes)
            assert facts.prove(asked) is alone.prove(asked), (asked, facts.known)
            for side in (asked.a, asked.b) if hasattr(asked, "b") else ():
                assert facts.interval(side) == alone.interval(side), side


def test_what_is_said_of_one_variable_leaves_what_is_known_of_others() -> None:
    n, m = te.dim("n"), te.dim("m")
    i, j = te.var("i"), te.var("j")
    outer = Facts(sizes=frozenset((n, m))).bind(i, make.as_expr(0), make.sub(n, 1))
    inner = outer.bind(j, make.as_expr(0), make.sub(m, 1)).assume(make.le(make.mul(j, 4), m))
    assert inner.prove(make.lt(i, n)) is True
    assert make.lt(i, n) in outer._proofs
    assert inner.prove(make.lt(j, m)) is True
    assert make.lt(j, m) not in outer._proofs
