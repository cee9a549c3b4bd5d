"""The prover, the intervals, the symbolic bounds and the simplifier against every point of small random
ranges. Never a wrong answer."""

from __future__ import annotations

import itertools
import random

import pytest

from tensorlang.arith.extents import extent_bound
from tensorlang.arith.facts import Facts
from tensorlang.arith.inequalities import one_end, undivided
from tensorlang.arith.simplify import simplify_expr
from tensorlang.core.dtype import INT32, INT64
from tensorlang.expr import make
from tensorlang.expr.linear import from_poly, poly
from tensorlang.expr.nodes import Const, Expr, Var
from tests.expr.naive import evaluate

CASES = 250
POINTS = 120  # of one world that are tried


class World:
    """A few loop variables with ranges that may hang on outer ones, a size, and conditions that hold;
    ``points`` are all values."""

    def __init__(self, seed: int) -> None:
        r = self.random = random.Random(seed)
        self.n = Var("n", INT32, "dim", 0, r.choice((None, 9)), r.choice((1, 1, 3)))
        self.facts = Facts(sizes=frozenset((self.n,)))
        self.ranges: list[tuple[Var, Expr, Expr]] = []
        known: list[Expr] = [self.n]
        for name in ("i", "j", "k")[: r.randint(1, 3)]:
            v = Var(name, INT32, "loop")
            lo = r.choice(
                [make.as_expr(0), make.as_expr(r.randint(-4, 4)), make.sub(r.choice(known), r.randint(0, 5))]
            )
            hi = r.choice(
                [
                    make.add(lo, r.randint(0, 6)),
                    make.sub(self.n, 1),
                    make.min_(make.add(lo, r.randint(0, 6)), make.sub(self.n, 1)),
                    make.sub(make.floordiv(make.add(self.n, 3), 4), 1),
                ]
            )
            self.ranges.append((v, lo, hi))
            known.append(v)
        self.variables = [self.n, *[v for v, _, _ in self.ranges]]
        self.facts = self.facts.bind_all(self.ranges)
        self.assumed: list[Expr] = []
        if r.random() < 0.4:
            self.assumed.append(self.condition())
            self.facts = self.facts.assume(self.assumed[0])
        points = list(self._points())
        self.points = points if len(points) <= POINTS else r.sample(points, POINTS)

    def _points(self):
        for n in range(10):
            if n % self.n.multiple_of:
                continue
            yield from self._inside({self.n: n}, 0)

    def _inside(self, env, depth):
        if depth == len(self.ranges):
            if all(evaluate(c, env) for c in self.assumed):
                yield dict(env)
            return
        v, lo, hi = self.ranges[depth]
        for x in range(evaluate(lo, env), evaluate(hi, env) + 1):
            yield from self._inside({**env, v: x}, depth + 1)

    def leaf(self) -> Expr:
        return (
            make.as_expr(self.random.randint(-6, 12))
            if self.random.random() < 0.25
            else self.random.choice(self.variables)
        )

    def integer(self, depth: int = 2) -> Expr:
        if depth == 0:
            return self.leaf()
        a, b = self.integer(self.random.randrange(depth)), self.integer(self.random.randrange(depth))
        c = self.random.choice((1, 2, 3, 4, 6, 8, 12))
        return self.random.choice(
            (
                lambda: make.add(a, b),
                lambda: make.sub(a, b),
                lambda: make.mul(a, self.random.randint(-4, 8)),
                lambda: make.mul(a, b),
                lambda: make.floordiv(a, c),
                lambda: make.floormod(a, c),
                lambda: make.min_(a, b),
                lambda: make.max_(a, b),
                lambda: make.select(make.lt(a, b), a, make.add(b, 1)),
                lambda: make.add(make.mul(make.floordiv(a, c), c), make.floormod(b, c)),
                lambda: make.if_then_else(make.le(0, a), a, b),
            )
        )()

    def condition(self, depth: int = 2) -> Expr:
        a, b = self.integer(depth), self.integer(depth)
        simple = self.random.choice((make.lt, make.le, make.eq, make.ne))(a, b)
        return (
            simple
            if depth < 2 or self.random.random() < 0.7
            else self.random.choice((make.and_, make.or_))(simple, self.condition(1))
        )


def worlds():
    for seed in range(CASES):
        w = World(seed)
        if w.points:
            yield w


def test_no_proof_is_wrong_and_many_succeed():
    answers = {True: 0, False: 0, None: 0}
    for w in worlds():
        for _ in range(12):
            cond = w.condition()
            answer = w.facts.prove(cond)
            answers[answer] += 1
            truths = {bool(evaluate(cond, env)) for env in w.points}
            if answer is not None:
                assert truths == {answer}, f"{cond} was proved {answer} under {w.ranges} and {w.assumed}"
    assert answers[True] > 200 and answers[False] > 200


def test_no_close_look_proves_what_is_wrong_and_it_proves_more():
    more = 0
    for w in worlds():
        closely = w.facts.looking_closely()
        for _ in range(12):
            a, b = w.integer(2), w.integer(2)
            c = w.random.choice((2, 3, 4, 8))
            a = make.mul(make.cast("int64", make.floordiv(make.add(a, c - 1), c)), w.random.choice((1, 2, 4)))
            cond = make.le(make.floordiv(b, 2), w.random.choice((a, make.max_(a, b), make.add(a, b))))
            answer = closely.prove(cond)
            truths = {bool(evaluate(cond, env)) for env in w.points}
            if answer is not None:
                assert truths == {answer}, f"{cond} was proved {answer} under {w.ranges} and {w.assumed}"
            more += answer is not None and w.facts.prove(cond) is None
    assert more > 20


def test_one_of_the_ends_that_choose_by_the_same_difference_says_the_others():
    fewer = 0
    for w in worlds():
        ends = [w.integer(1) for _ in range(2)]
        for _ in range(8):
            shift = w.random.choice((0, 0, 1))
            a, b = ends if w.random.random() < 0.5 else ends[::-1]
            ends_of = [
                w.random.choice((make.max_, make.min_))(x, y) for x, y in (ends, (make.add(a, shift), b))
            ]
            before = make.add(
                make.mul(ends_of[0], w.integer(1)), make.mul(ends_of[1], w.random.choice((1, -2, 3)))
            )
            after = from_poly(one_end(poly(before)), before.dtype)
            for env in w.points:
                assert evaluate(after, env) == evaluate(before, env), f"{before} became {after}"
            fewer += after is not before
    assert fewer > 20


def test_quotients_of_different_divisors_are_compared_when_looking_closely():
    n = Var("n", INT32, "dim", 0)
    facts = Facts(sizes=frozenset((n,)))
    tiles = make.mul(make.cast("int64", make.floordiv(make.add(n, 15), 16)), 4)
    twice = make.mul(make.floordiv(make.add(tiles, 7), 8), 8)
    for end in (tiles, make.min_(make.max_(tiles, 8), twice)):
        cond = make.le(make.floordiv(make.add(n, 3), 4), end)
        assert facts.prove(cond) is None
        assert facts.looking_closely().prove(cond) is True
        assert facts.looking_closely().prove(make.le(make.floordiv(make.add(n, 7), 4), end)) is None


def test_intervals_hold_every_value():
    tight = 0
    for w in worlds():
        for _ in range(10):
            e = w.integer(3)
            lo, hi = w.facts.interval(e)
            values = [evaluate(e, env) for env in w.points]
            assert lo is None or lo <= min(values), f"{e} in {lo}..{hi} under {w.ranges}"
            assert hi is None or hi >= max(values), f"{e} in {lo}..{hi} under {w.ranges}"
            tight += lo == min(values) and hi == max(values)
    assert tight > 100


@pytest.mark.parametrize("upper", [False, True])
def test_symbolic_bounds_bound(upper):
    found = 0
    for w in worlds():
        gone = set(w.random.sample(w.variables[1:], w.random.randint(1, len(w.variables) - 1)))
        for _ in range(10):
            e = w.integer(2)
            end = w.facts.bound(e, lambda v, gone=gone: any(v is g for g in gone), upper)
            if end is None:
                continue
            found += 1
            for env in w.points:
                x, y = evaluate(e, env), evaluate(end, env)
                assert x <= y if upper else x >= y, (
                    f"{end} as {'upper' if upper else 'lower'} bound of {e} at {env} under {w.ranges}"
                )
    assert found > 600


def test_extents_of_differences_are_upper_bounds():
    found = 0
    for w in worlds():
        for _ in range(10):
            a = w.integer(1)
            c = w.random.choice((2, 3, 4, 8))
            shift = w.random.randint(0, 9)
            e = make.sub(
                make.floordiv(make.add(make.mul(a, w.random.choice((1, 2, 4))), shift), c),
                make.floordiv(a, c),
            )
            end = extent_bound(w.facts, make.add(e, 1), lambda v: v.kind == "loop")
            if end is None:
                continue
            found += 1
            for env in w.points:
                assert evaluate(e, env) + 1 <= evaluate(end, env), (
                    f"{end} as a bound of {e} + 1 under {w.ranges}"
                )
    assert found > 200


def test_extents_between_clamped_ends_are_upper_bounds():
    """``min(a + x, n) - max(a - y, m)``, and differences of any other mixture of min and max."""
    found, tight = 0, 0
    for w in worlds():
        for _ in range(10):
            a = w.integer(1)
            ends = []
            for _ in range(2):
                side = make.add(a, w.random.randint(-3, 3))
                for _ in range(w.random.randint(1, 2)):
                    side = w.random.choice((make.min_, make.max_))(side, w.integer(0))
                ends.append(side)
            e = make.sub(*ends)
            end = extent_bound(w.facts, e, lambda v: v.kind == "loop")
            if end is None:
                continue
            found += 1
            most = max(evaluate(e, env) - evaluate(end, env) for env in w.points)
            assert most <= 0, f"{end} as a bound of {e} under {w.ranges}"
            tight += most == 0
    assert found > 600 and tight > 300, (found, tight)


def test_simplify_keeps_values_and_is_idempotent():
    changed = 0
    for w in worlds():
        for _ in range(10):
            e = w.integer(3) if w.random.random() < 0.6 else w.condition()
            new = simplify_expr(e, w.facts)
            assert new.dtype is e.dtype
            changed += new is not e
            for env in w.points:
                assert evaluate(new, env) == evaluate(e, env), (
                    f"{e} became {new} under {w.ranges} and {w.assumed}, which differs at {env}"
                )
            again = simplify_expr(new, w.facts)
            for env in w.points[:5]:
                assert evaluate(again, env) == evaluate(new, env)
    assert changed > 300


def test_simplify_gives_back_what_it_cannot_change():
    facts = Facts().bind(i := Var("i", INT32, "loop"), make.as_expr(0), make.as_expr(7))
    n = Var("n", INT32, "dim", 0)
    for e in (make.add(make.mul(i, 8), n), make.floordiv(n, 8), make.min_(i, n), make.lt(i, n)):
        assert simplify_expr(e, facts) is e


def test_divisible_is_never_wrong():
    r = random.Random(3)
    yes = 0
    for _ in range(2000):
        n = Var("n", INT32, "dim", 0, None, r.choice((1, 2, 4, 8, 16)))
        m = Var("m", INT32, "dim", 0, None, r.choice((1, 3, 4)))
        by = r.choice((1, 2, 3, 4, 8, 16))
        e = make.add(
            make.add(make.mul(n, r.randint(0, 4)), make.mul(m, r.choice((0, 2, 4)))),
            r.choice((0, 0, 4, 8, 5)),
        )
        if Facts().divisible(e, make.as_expr(by)):
            yes += 1
            for a, b in itertools.product(range(3), repeat=2):
                assert evaluate(e, {n: a * n.multiple_of, m: b * m.multiple_of}) % by == 0, f"{e} by {by}"
    assert yes > 400


def test_what_lowering_relies_on():
    """The facts that take guards away from exact splits, tails and fused loops."""
    n = Var("n", INT32, "dim", 1, None, 8)
    i, j = Var("i", INT32, "loop"), Var("j", INT32, "loop")
    facts = Facts(sizes=frozenset((n,))).bind_all(
        [(i, make.as_expr(0), make.sub(make.ceildiv(n, 8), 1)), (j, make.as_expr(0), make.as_expr(7))]
    )
    at = make.add(make.mul(i, 8), j)
    assert facts.prove(make.le(0, at)) is True
    assert facts.prove(make.lt(at, make.mul(make.ceildiv(n, 8), 8))) is True
    assert facts.prove(make.lt(at, n)) in (True, None)
    assert facts.assume(make.lt(at, n)).prove(make.lt(make.add(at, 1), make.add(n, 1))) is True
    assert isinstance(simplify_expr(make.floordiv(j, 8), facts), Const)
    assert simplify_expr(make.floormod(at, 8), facts) is j
    assert simplify_expr(make.floordiv(at, 8), facts) is i


def test_a_bound_of_a_quotient_is_a_bound_of_what_is_divided():
    """``k * (x // c) + n >= 0`` asked of ``x`` itself, and used where the other is known."""
    x = Var("x", INT32)
    for k, n, c in itertools.product((-3, -2, -1, 1, 2, 3), range(-8, 9), (1, 2, 5)):
        asked = undivided({(make.floordiv(x, c),): k, (): n} if n else {(make.floordiv(x, c),): k})
        assert c == 1 or list(asked) in ([(x,)], [(), (x,)], [(x,), ()]), asked
        for value in range(-45, 46):
            assert (k * (value // c) + n >= 0) == (
                sum(f * (value if m else 1) for m, f in asked.items()) >= 0
            )
    known = Facts().assume(make.le(x, 778))
    assert known.prove(make.le(make.floordiv(make.add(x, 5), 28), 27)) is True
    assert known.prove(make.le(make.floordiv(make.add(x, 6), 28), 27)) is None
    assert Facts().assume(make.lt(make.floordiv(x, 28), 3)).prove(make.lt(x, 84)) is True


def test_the_place_of_a_pixel_follows_from_its_number_by_whole_rows():
    """Tiles of a convolution run over pixels counted as one axis: where a pixel is in the image, so is its
    row, whether rows are whole tiles or not."""
    tile, pixel, tap = (Var(x, INT32, "loop") for x in ("tile", "pixel", "tap"))
    for rows, wide, high, stride in ((11, 12, 12, 1), (32, 16, 8, 1), (32, 17, 12, 1), (12, 13, 12, 2)):
        number = make.add(make.mul(tile, high), pixel)
        ranges = [(tile, 0, 99), (pixel, 0, high - 1), (tap, 0, 2)]
        facts = Facts().bind_all([(v, make.as_expr(a), make.as_expr(b)) for v, a, b in ranges])
        inside = facts.assume(make.lt(number, rows * wide))
        for row in (make.floordiv(number, wide), simplify_expr(make.floordiv(number, wide), facts)):
            place = make.add(make.mul(row, stride), tap)
            assert inside.prove(make.lt(place, (rows - 1) * stride + 3)) is True
            assert inside.prove(make.lt(place, (rows - 1) * stride + 2)) is None
            assert facts.prove(make.lt(place, (rows - 1) * stride + 3)) is None


def test_a_divisor_that_may_be_zero_is_taken_for_one():
    """What is divided by nothing is an error, so that the parts of a fused index are never negative, and no
    guard asks whether they are."""
    n, m = (Var(x, INT32) for x in "nm")
    f = Var("f", INT64)
    wide = make.cast("int64", make.ceildiv(n, 48))
    facts = Facts(sizes=frozenset((n, m)))
    facts = facts.bind(f, make.const(0, "int64"), make.sub(make.mul(wide, make.cast("int64", m)), 1))
    for part in (make.floordiv(f, wide), make.floormod(f, wide)):
        assert facts.prove(make.le(0, make.cast("int32", part))) is True
    low = Var("low", INT32)
    below = Facts(sizes=frozenset((n,))).bind(low, make.as_expr(-5), make.as_expr(9))
    assert below.interval(make.floordiv(low, n)) == (-5, 9)
    assert below.interval(make.floormod(low, n)) == (0, None)
    assert below.interval(make.floordiv(low, make.sub(n, 1))) == (None, None)
