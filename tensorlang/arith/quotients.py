"""How wide a quotient of index expressions is, whatever the values of loop variables in it:
``(x + d) // c - x // c``; and inequalities of quotients by sizes, without division. Knows expressions only.
"""

from __future__ import annotations

from collections.abc import Callable

from ..core.dtype import INT64
from ..expr import make
from ..expr.deep import ask_below, is_deep
from ..expr.divisor import gcd as common_divisor
from ..expr.linear import Poly, from_poly, poly, wraps
from ..expr.nodes import Const, Expr, FloorDiv, FloorMod, Select
from ..expr.walk import variables
from .conditions import never_negative
from .inequalities import is_converted

_MOST = (1 << 31) - 1


def by_knobs(*exprs: Expr) -> bool:
    """Whether the values hang on tuning knobs only (or on nothing)."""
    return all(v.kind == "knob" for e in exprs for v in variables(e))


def _grain(x: Expr, done: dict[Expr, tuple[Expr, Expr]] | None = None) -> tuple[Expr, Expr]:
    """``(g, rest)``: the terms of ``x`` that hold loop variables are multiples of g (0 when there are none);
    ``rest`` is the others."""
    found = {} if done is None else done
    if x not in found:
        if is_deep(x):
            ask_below(x, lambda k: k in found or not k.dtype.is_index, lambda k: _grain(k, found))
        found[x] = _grain_of(x, found)
    return found[x]


def _grain_of(x: Expr, done: dict[Expr, tuple[Expr, Expr]]) -> tuple[Expr, Expr]:
    still: Poly = {}
    grain: Expr = make.const(0, x.dtype)
    for mono, k in poly(x).items():
        moving = [a for a in mono if any(v.kind == "loop" for v in variables(a))]
        if not moving:
            still[mono] = k
            continue
        part = from_poly({tuple(a for a in mono if all(a is not m for m in moving)): abs(k)}, x.dtype)
        for a in moving:
            if isinstance(a, FloorMod):
                inner, left = _grain(a.a, done)
                part = make.mul(part, common_divisor(common_divisor(inner, left), a.b))
        grain = common_divisor(grain, part)
    return grain, from_poly(still, x.dtype)


def quotient_width(x: Expr, d: Expr, c: Expr) -> Expr:
    """The most that ``(x + d) // c - x // c`` can be, whatever the loop variables in ``x`` are.

    When the terms that move are multiples of a divisor g of ``c``, the remainder ``x % c`` is at most ``c -
    g`` plus what the other terms leave of g. With literals g is a number; with knobs it is an expression, so
    that both give the same width.
    """
    grain, rest = _grain(x)
    if not by_knobs(c, d, rest, grain):
        return make.floordiv(make.add(d, make.sub(c, 1)), c)
    g = common_divisor(grain, c)
    return make.floordiv(make.add(make.add(d, make.sub(c, g)), make.floormod(rest, g)), c)


def unbroken(x: Expr, d: Expr, c: Expr) -> Expr:
    """The condition that no multiple of ``c`` lies in ``x + 1 .. x + d``, whatever the loop variables in
    ``x`` are."""
    grain, rest = _grain(x)
    if not by_knobs(c, d, rest, grain):
        return make.const(False)
    g = common_divisor(grain, c)
    return make.lt(make.add(make.floormod(rest, g), d), g)


def quotient(a: Expr, c: Expr) -> Expr:
    """``a // c``, inside a choice that knobs decide."""
    if isinstance(a, Select) and by_knobs(a.cond):
        return make.select(a.cond, quotient(a.a, c), quotient(a.b, c))
    return make.floordiv(a, c)


def parted(
    cond: Expr, positive: Callable[[Expr], bool], fits: Callable[[Expr], bool] = lambda e: False
) -> tuple[Expr, Expr, bool] | None:
    """``(x, n * d, True)`` of ``x // d < n``, which is ``x < n * d`` where d is ``positive``; with False of
    ``n <= x // d``, which is ``n * d <= x``; None for any other condition. Of numbers of 32 bits, whose
    products have 64, or where the product ``fits``; and of none that are data, whose sums wrap."""
    p = None if wraps(cond) else never_negative(cond)
    for mono, k in () if p is None else p.items():
        q = _unconverted(mono[0]) if len(mono) == 1 and abs(k) == 1 else None
        narrow = mono[0].dtype.bits <= 32 if mono else False
        if type(q) is not FloorDiv or (type(q.b) is Const and q is mono[0]):  # that is found undivided
            continue
        small = q.b.value <= _MOST if type(q.b) is Const else _unconverted(q.b).dtype.bits <= 32  # type: ignore[operator]
        if (narrow and not small) or not positive(q.b):
            continue
        rest = from_poly({m: c for m, c in p.items() if m is not mono}, mono[0].dtype)  # type: ignore[union-attr]
        x, d, n = (make.cast(INT64, e) for e in (q.a, q.b, make.add(rest, 1) if k < 0 else make.neg(rest)))
        if narrow or fits(make.mul(n, d)):
            return x, make.mul(n, d), k < 0
    return None


def multiplied(cond: Expr, positive: Callable[[Expr], bool]) -> Expr:
    """An inequality of a quotient without division: ``x // d < n`` as ``x < n * d``."""
    found = parted(cond, positive)
    if found is None:
        return cond
    x, end, below = found
    return make.lt(x, end) if below else make.le(end, x)


def _unconverted(e: Expr) -> Expr:
    while is_converted(e):
        e = e.a
    return e
