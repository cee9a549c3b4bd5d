"""Canonical forms: thousands of random expressions keep their value, and equal sums are one node however they
were built."""

from __future__ import annotations

import random

import pytest

from tensorlang.arith.facts import Facts
from tensorlang.core.dtype import INT32
from tensorlang.expr import linear, make
from tensorlang.expr.nodes import Add, Const, Expr, FloorDiv, FloorMod, Mul, Sub, Var
from tensorlang.expr.walk import preorder, rewrite, substitute
from tests.expr.naive import Source, evaluate


def agree(source: Source, built, points: int = 6) -> int:
    checked = 0
    for _ in range(points):
        env = source.env()
        try:
            want = built.plain(env)
        except ZeroDivisionError:
            continue
        got = evaluate(built.expr, env)
        assert got == want, f"{built.text} became {built.expr}: {got}, should be {want} at {env}"
        checked += 1
    return checked


@pytest.mark.parametrize("chunk", range(10))
def test_random_integers_keep_their_value(chunk):
    checked = 0
    for seed in range(chunk * 300, chunk * 300 + 300):
        source = Source(seed, "int32" if seed % 3 else "int64")
        checked += agree(source, source.integer(5))
    assert checked > 900


def test_random_conditions_keep_their_value():
    assert sum(agree(s, s.condition(3)) for s in map(Source, range(600))) > 1800


def test_rebuilding_from_the_leaves_gives_the_same_node():
    # canonical means that nothing is left to do: the smart constructors applied again change nothing
    for seed in range(600):
        e = Source(seed).integer(4).expr
        again = rewrite(e, lambda node: node.with_children(*node.children()) if node.children() else None)
        assert again is e, f"seed {seed}: {e} became {again}"


def test_substitution_keeps_the_value():
    for seed in range(500):
        source = Source(seed)
        built = source.integer(4)
        i, j, other = source.loops
        new = {i: j * 3 + other - 1, j: make.const(source.random.randint(-5, 5), "int32"), other: i // 2}
        env = source.env()
        moved = {v: evaluate(new[v], env) if v in new else x for v, x in env.items()}
        try:
            want = built.plain(moved)
        except ZeroDivisionError:
            continue
        assert evaluate(substitute(built.expr, new), env) == want, f"seed {seed}: {built.expr}"


def atoms() -> list[Expr]:
    i, j, k = (Var(n, INT32, "loop") for n in "ijk")
    twin = Var("i", INT32, "loop")
    n = Var("n", INT32, "dim", 1)
    return [
        i,
        j,
        k,
        twin,
        n,
        i // 3,
        twin // 3,
        j % 5,
        make.min_(i, k),
        make.min_(twin, k),
        make.truncdiv(i, j),
        make.truncdiv(j, i),
        make.call("abs", i),
        make.call("abs", twin),
    ]


@pytest.mark.parametrize("chunk", range(5))
def test_a_sum_is_one_node_in_any_order_and_grouping(chunk):
    every = atoms()
    for seed in range(chunk * 100, chunk * 100 + 100):
        r = random.Random(seed)
        terms = []
        for _ in range(r.randint(1, 6)):
            term = make.const(r.choice([1, -1, 2, 3, 8, -8]), "int32")
            for _ in range(r.choice([0, 1, 1, 1, 2])):
                term = make.mul(term, r.choice(every))
            terms.append(term)

        def total(terms, r):
            terms = list(terms)
            r.shuffle(terms)
            while len(terms) > 1:
                a, b = terms.pop(r.randrange(len(terms))), terms.pop(r.randrange(len(terms)))
                terms.append(make.add(a, b) if r.random() < 0.6 else make.sub(a, make.neg(b)))
            return terms[0]

        first, second = total(terms, r), total(terms, r)
        assert first is second, f"seed {seed}: {first} and {second}"
        assert make.sub(first, second) is make.const(0, "int32")


def test_the_inside_of_a_sum_is_as_canonical_as_the_sum():
    # the inner sum is built here for the first time, as part of the outer one, and must know what it is
    i, j, k = (Var(n, INT32, "loop") for n in "ijk")
    e = (k + j) + i * 8
    inner = e.a
    assert type(inner) is Add
    assert inner - j is i * 8
    assert inner + k is e
    p = (i * 3) * (j * 5)
    assert type(p.a) is Mul and p.a is i * j
    assert linear.poly(p.a) == linear.poly(i * j)


def test_quotient_and_remainder_make_the_whole():
    x, y, n = Var("x", INT32, "loop"), Var("y", INT32, "loop"), Var("n", INT32, "dim")
    assert (x // 7) * 7 + x % 7 is x
    assert x % 7 + y + (x // 7) * 7 - y is x
    assert ((x * 6 + 2) // 56) * 56 + (x * 6 + 2) % 56 is x * 6 + 2
    assert (x * 6 // 56) * 56 + (x * 6) % 56 is x * 6  # both are kept in lowest terms
    assert ((x * 6 + 3) // 56) * 56 + (x * 6 + 3) % 56 is x * 6 + 3  # only the quotient is
    assert (x * 6 + y) // 5 * 5 + (x * 6 + y) % 5 is x * 6 + y  # the remainder says (x + y) % 5
    assert (x * 4) % 16 is x % 4 * 4 and (x * 4) % 16 - x % 4 * 4 is make.const(0, "int32")
    assert ((x * 6 + 2 + y * 56) // 56) * 56 + (x * 6 + 2) % 56 is x * 6 + 2 + y * 56
    assert ((x * 6 + y) // 56) * 56 + (x * 6) % 56 is not x * 6 + y
    assert (x // n) * n + x % n is x
    assert (x // 7) * 14 + (x % 7) * 2 + 3 is x * 2 + 3
    assert ((x // 7) * 7 + x % 7) // 4 is x // 4
    assert ((x + 3) // 4 - 1) // 2 + 1 is (x + 7) // 8  # the sizes of strided convolutions, in a row
    for other in ((x // 7) * 8 + x % 7, (x // 7) * 7 + y % 7, (x // 7) * 7 - x % 7):
        assert other is not x and any(type(e) is FloorMod for e in preorder(other))


def test_quotient_and_remainder_times_open_sizes_make_the_whole():
    """As of three axes of open sizes that are fused: both are times the size of what is behind them."""
    x, m, n = Var("x", INT32, "loop"), Var("m", INT32, "dim"), Var("n", INT32, "dim")
    rows = x // n
    assert (rows // m) * m * n + (rows % m) * n + x % n is x
    assert (rows % m) * n + x % n + (rows // m) * m * n is x
    assert (x // n) * n * m + x % n * m is x * m and x % n * m + (x // n) * n * m is x * m
    assert (x // 7) * n * 7 + x % 7 * n is x * n
    assert (x // m) * m * n * m + x % m * n * m + 3 is x * n * m + 3
    for other in ((x // n) * n * m + x % n * n, (x // n) * m * m + x % n * m, (x // n) * n * m - x % n * m):
        assert any(type(e) is FloorMod for e in preorder(other))


def test_what_a_remainder_is_taken_from_is_a_multiple():
    """Lengths rounded up, as files write them."""
    x, y = Var("x", INT32, "dim", 0, 10**6), Var("y", INT32, "dim", 0, 10**6)
    up = x + 1279 - (x + 255) % 256
    assert up // 256 is (x + 255) // 256 + 4 and (up + 3) // 128 is (x + 255) // 256 * 2 + 8
    frame = make.const(256, "int32")
    assert Facts().divisible(up, frame)
    assert not any(Facts().divisible(e, frame) for e in (up + 1, x - (x + 255) % 255, x - y % 256))
    for other, text in (
        ((x - y % 256) // 256, "(x - y % 256) // 256"),
        ((x - x % 6) // 4, "(x - x % 6) // 4"),
    ):
        assert str(other) == text


def test_indices_of_three_fused_axes_make_the_whole():
    """Of nested quotients the outer one is written as one division; it belongs to the remainder all the
    same."""
    x, y = Var("x", INT32, "loop"), Var("y", INT32, "loop")
    for p in (x, x * 48 + y, x * 48 + y * 8 + 3):
        rows = p // 28
        assert rows // 28 * 28 + rows % 28 is rows
        assert (rows // 28 * 28 + rows % 28) * 28 + p % 28 is p
        assert ((rows + 3) // 28 * 28 + (rows + 3) % 28) * 28 + p % 28 is p + 84
    assert ((x // 60) * 5 + x // 12 % 5) * 4 + x // 3 % 4 is x // 3
    assert (x + 60) // 15 * 5 + x // 3 % 5 is x // 3 + 20  # their difference is a multiple of both
    for other in (
        (x + 1) // 15 * 5 + x // 3 % 5,
        x // 15 * 5 + y // 3 % 5,
        x // 30 * 5 + x // 3 % 5,
        x // 15 * 10 + x // 3 % 5,
    ):
        assert "%" in str(other)
    for value in range(-70, 70):
        assert value // 15 * 5 + value // 3 % 5 == value // 3


def test_two_variables_of_one_name_are_two_atoms_in_a_fixed_order():
    a, b = Var("i", INT32), Var("i", INT32)
    for f in (lambda v: v, lambda v: v // 3, lambda v: make.min_(v, 7), lambda v: make.call("abs", v)):
        assert f(a) + f(b) is f(b) + f(a)
        assert make.min_(f(a), f(b)) is make.min_(f(b), f(a))
        assert f(a) - f(b) is not make.const(0, "int32")


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda i, j, n: i + j - i, "j"),
        (lambda i, j, n: (i * 8 + j) * 4 + 1, "i*32 + j*4 + 1"),
        (lambda i, j, n: 1 + j + 8 * i, "i*8 + j + 1"),
        (lambda i, j, n: 5 - i, "5 - i"),
        (lambda i, j, n: (i + 1) * (i - 1), "i*i - 1"),
        (lambda i, j, n: -(i - j), "j - i"),
        (lambda i, j, n: (i * 8 + j) // 8, "i + j // 8"),
        (lambda i, j, n: (i * 8 + j) % 8, "j % 8"),
        (lambda i, j, n: i // 4 // 2, "i // 8"),
        (lambda i, j, n: (i * n + j) // n, "i + j // n"),
        (lambda i, j, n: (i * n + j) % n, "j % n"),
        (lambda i, j, n: (n * n - 1) // n, "n - 1"),
        (lambda i, j, n: i // -4, "i*-1 // 4"),
        (lambda i, j, n: make.min_(i + 3, i + 5), "i + 3"),
        (lambda i, j, n: make.max_(i + 3, i + 5), "i + 5"),
        (lambda i, j, n: i + 1 <= i, "False"),
        (lambda i, j, n: make.not_(i < j), "j <= i"),
        (lambda i, j, n: make.if_then_else(i < i + 1, j, n), "j"),
        (lambda i, j, n: make.select(j < n, i, i), "i"),
        (lambda i, j, n: make.and_(j < n, True), "j < n"),
        (lambda i, j, n: make.or_(j < n, True), "True"),
        (lambda i, j, n: make.ceildiv(i * 8, 8), "i"),
    ],
)
def test_what_is_simplified_at_birth(build, text):
    i, j, n = Var("i", INT32, "loop"), Var("j", INT32, "loop"), Var("n", INT32, "dim", 1)
    assert str(build(i, j, n)) == text


def test_division_of_loaded_values_is_left_alone():
    from tensorlang import te

    A = te.placeholder((8,), "int32", "A")
    i = Var("i", INT32, "loop")
    e = (A[i] * 8 + i) // 8
    assert type(e) is FloorDiv and str(e) == "(A[i]*8 + i) // 8"
    assert type((A[i] * 8) % 8) is FloorMod


def test_a_product_that_would_grow_stays_a_product():
    a = [Var(f"a{x}", INT32) for x in range(12)]
    total = a[0]
    for v in a[1:]:
        total = total + v
    square = total * total
    assert type(square) is Mul and square.a is total
    assert square - total * total is make.const(0, "int32")
    assert square * 2 - square is square
    many = [Var(f"b{x}", INT32) for x in range(70)]
    wide = many[0]
    for v in many[1:]:
        wide = wide + v
    assert wide * 2 - wide is wide  # scaling is no growth


def test_floats_are_never_reordered():
    x, y, z = (Var(n, make.FLOAT32) for n in "xyz")
    assert (x + y) + z is not x + (y + z)
    assert (x + y) is not (y + x)
    assert x + 0.0 is not x  # -0.0 + 0.0 is 0.0
    assert x * 1.0 is x
    assert type(x - x) is Sub


def test_narrow_integers_fold_as_the_machine_does():
    assert make.add(make.const(100, "int8"), make.const(100, "int8")).value == -56
    assert make.mul(make.const(200, "uint8"), make.const(2, "uint8")).value == 144
    assert make.truncdiv(make.const(-7, "int32"), 2).value == -3
    assert make.floordiv(make.const(-7, "int32"), 2).value == -4
    assert make.neg(make.const(-128, "int8")).value == -128


def test_nodes_below_are_all_interned():
    for seed in range(100):
        for node in preorder(Source(seed).integer(4).expr):
            if type(node) not in (Var, Const):
                assert type(node).make(*node.children()) is node or type(node).__name__ in (
                    "Mul",
                    "Add",
                    "Sub",
                )
