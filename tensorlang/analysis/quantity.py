"""Arithmetic on amounts (extents, elements, bytes, operations) as int64 expressions. Knows expressions only.

Unlike ``expr.make`` it never multiplies products out: a tuner evaluates these expressions and proves nothing
about them, and a product of five sums is four multiplications as it stands and eighty when expanded. Literals
fold, so that the same formulas on a concrete schedule give plain numbers. What is divided by may be how often
a loop runs, and so be nothing, as the amount that it divides is then: it counts as 1.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from ..core.dtype import BOOL, FLOAT64, INT64
from ..core.node import intern
from ..expr import make
from ..expr.linear import literal
from ..expr.nodes import LE, Add, Binary, Const, Div, Expr, FloorDiv, Max, Min, Mul, Sub, const_int

Amount = Expr | int


def amount(value: Amount) -> Expr:
    """An int or integer expression as an int64 expression; an int becomes a literal."""
    if isinstance(value, int):
        return literal(value, INT64)
    return value if value.dtype is INT64 else make.cast(INT64, value)


def times(*factors: Amount) -> Expr:
    """The product of ints and integer expressions, in int64; literals are folded into one factor, and 0 takes
    the place of all."""
    known, rest = 1, []
    for f in factors:
        n = const_int(f)
        if n is None:
            rest.append(amount(f))  # type: ignore[arg-type]
        else:
            known *= n
    if not rest or known == 0:
        return literal(known, INT64)
    out = rest[0]
    for f in rest[1:]:
        out = intern(Mul, out, f)
    return out if known == 1 else intern(Mul, out, literal(known, INT64))


def plus(*terms: Amount) -> Expr:
    """The sum of ints and integer expressions, in int64; literals are folded into one term."""
    known, rest = 0, []
    for t in terms:
        n = const_int(t)
        if n is None:
            rest.append(amount(t))  # type: ignore[arg-type]
        else:
            known += n
    if not rest:
        return literal(known, INT64)
    out = rest[0]
    for t in rest[1:]:
        out = intern(Add, out, t)
    return out if not known else intern(Add, out, literal(known, INT64))


def _two(cls: type[Binary], fold: Callable[[int, int], int], a: Amount, b: Amount) -> Expr:
    m, n = const_int(a), const_int(b)
    if m is not None and n is not None:
        return literal(fold(m, n), INT64)
    return intern(cls, amount(a), amount(b))


def minus(a: Amount, b: Amount) -> Expr:
    """The difference ``a - b`` in int64, which may be negative; of two literals a literal."""
    return _two(Sub, operator.sub, a, b)


def least(a: Amount, b: Amount) -> Expr:
    """The smaller of two amounts, in int64; of two literals a literal."""
    return _two(Min, min, a, b)


def most(a: Amount, b: Amount) -> Expr:
    """The larger of two amounts, in int64; of two literals a literal."""
    return _two(Max, max, a, b)


def quotient(a: Amount, b: Amount) -> Expr:
    """``a / b`` rounded down, in int64; a divisor below 1 counts as 1."""
    return _divided(a, most(b, 1))


def ceil_quotient(a: Amount, b: Amount) -> Expr:
    """``a / b`` rounded up, in int64, of an ``a`` that is not negative; a divisor below 1 counts as 1."""
    b = most(b, 1)
    if isinstance(a, Expr) and const_int(b) == 1 and a.dtype is INT64:
        return a
    return _divided(plus(a, minus(b, 1)), b)


def _divided(a: Amount, b: Expr) -> Expr:
    return _two(FloorDiv, operator.floordiv, a, b)


def absolute(a: Amount) -> Expr:
    """The absolute value of an amount that may be negative, such as a stride, in int64."""
    n = const_int(a)
    return literal(abs(n), INT64) if n is not None else most(a, times(a, -1))


def choose(a: Amount, limit: int, then: Amount, other: Amount) -> Expr:
    """``then`` where ``a <= limit``, else ``other``, in int64; decided at once where ``a`` is a literal."""
    cond = at_most(a, limit)
    if isinstance(cond, Const):
        return amount(then if cond.value else other)
    return make.select(cond, amount(then), amount(other))


def at_most(a: Amount, limit: int) -> Expr:
    """The condition ``a <= limit``."""
    n = const_int(a)
    return make.const(n <= limit) if n is not None else intern(LE, amount(a), literal(limit, INT64), BOOL)


def ratio(a: Amount, b: Amount) -> Expr:
    """``a / b`` as a float64, not rounded; a divisor below 1 counts as 1."""
    x, y = _real(a), _real(most(b, 1))
    if isinstance(x, Const) and isinstance(y, Const):
        return make.const(float(x.value) / float(y.value), FLOAT64)
    return intern(Div, x, y)


def _real(a: Amount) -> Expr:
    n = const_int(a)
    return make.const(float(n), FLOAT64) if n is not None else make.cast(FLOAT64, a)
