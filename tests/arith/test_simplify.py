"""What simplification costs: counted in visits, since no test asserts a time."""

import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.arith import facts, simplify
from tensorlang.arith.facts import Facts
from tensorlang.arith.simplify import Simplifier, simplify_expr
from tensorlang.expr import make
from tensorlang.expr.walk import substitute


@pytest.fixture
def visits(monkeypatch):
    """How often an expression was simplified, and a condition proved."""
    counted = {"simplified": 0, "proved": 0}

    def count(cls, name, key):
        whole = getattr(cls, name)

        def counting(self, e):
            counted[key] += 1
            return whole(self, e)

        monkeypatch.setattr(cls, name, counting)

    count(simplify.Simplifier, "_simplify", "simplified")
    count(facts.Facts, "_prove", "proved")
    return counted


def in_turn(parts, i):
    """Parts of two rows each, told apart one after the other."""
    chosen = parts[-1](i - 2 * (len(parts) - 1), 0)
    for k in reversed(range(len(parts) - 1)):
        chosen = te.if_then_else(i < 2 * (k + 1), parts[k](i - 2 * k, 0), chosen)
    return chosen


def in_halves(parts, i, begin=0):
    """The same, halves told apart."""
    if len(parts) == 1:
        return parts[0](i - 2 * begin, 0)
    half = len(parts) // 2
    return te.if_then_else(
        i < 2 * (begin + half), in_halves(parts[:half], i, begin), in_halves(parts[half:], i, begin + half)
    )


@pytest.mark.parametrize("form", [in_turn, in_halves])
def test_a_choice_is_simplified_once_however_many_stand_around_it(form, visits):
    first = {}
    for n in (32, 43, 128):  # more than 40 in one another are asked for innermost first
        xs = [te.placeholder((2, 1), name=f"x{k}") for k in range(n)]
        y = te.compute((2 * n,), lambda i, xs=xs: form(xs, i), name="y")
        visits.update(simplified=0, proved=0)
        tl.lower(te.create_schedule(y.op), [*xs, y])
        first = first or dict(visits)
        for key, count in visits.items():
            assert count <= first[key] * n / 32 * 2 + 256, (n, key)


def test_deep_choices_know_what_holds_where_they_stand():
    i, n = te.var("i"), 60
    chosen = make.as_expr(0)
    for k in range(n):  # the outermost asks for the least, so that the innermost need not ask again
        chosen = te.if_then_else(i < k, te.max(te.min(i, k), -k) + chosen, chosen - k)
    within = Facts().bind(i, make.as_expr(0), make.as_expr(n))
    simplified = simplify_expr(chosen, within)
    assert Simplifier(within)(simplified) is simplified
    for value in range(n + 1):
        assert tl.analysis.constant(_at(simplified, i, value)) == tl.analysis.constant(_at(chosen, i, value))
    assert "max" not in str(simplified)


def _at(e, i, value):

    return simplify_expr(substitute(e, {i: make.as_expr(value)}), Facts())


def test_what_is_assumed_of_a_choice_of_places_keeps_the_ranges_that_are_known():
    i, n, m = te.var("i"), te.dim("n"), te.dim("m")
    before = Facts(sizes=frozenset([n, m])).bind(i, make.as_expr(0), n - 1)
    assert before.interval(n - i) == (1, None) or before.interval(n) == (0, None)
    assert before.assume(i < m)._cache is before._cache  # of two values: it narrows no range
    narrowed = before.assume(n >= 5)
    assert narrowed.interval(n) == (5, None)
    assert before.interval(n) == (0, None)
    assert narrowed.assume(i < m).interval(n) == (5, None)


def test_a_guard_decides_quotients_and_remainders():
    """Where ranges alone do not: in the rest of an axis that was split twice."""
    o, i = (te.var(name) for name in "oi")
    known = Facts().bind(o, make.const(0, "int32"), make.const(18, "int32"))
    known = known.bind(i, make.const(0, "int32"), make.const(15, "int32")).assume(o * 16 + i < 300)
    assert simplify_expr((o * 16 + i) // 300, known) is make.const(0, "int32")
    assert simplify_expr((o * 16 + i) % 300, known) is o * 16 + i
    assert simplify_expr((o * 16 + i) % 299, known) is not o * 16 + i
