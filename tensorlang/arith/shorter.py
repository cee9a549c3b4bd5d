"""Shorter forms of what the canonical form and ranges leave as it is: truncated division, quotients and
inequalities with a common factor, conditions that others imply. Of indices only: sums of data wrap. Knows
expressions and facts."""

from __future__ import annotations

from itertools import islice
from math import gcd

from ..expr import make
from ..expr.linear import Poly, add_poly, from_poly, poly, reads_data, wraps
from ..expr.nodes import EQ, LE, LT, NE, And, Compare, Const, Expr, FloorDiv, Max, Min, Or, TruncDiv, TruncMod
from ..expr.walk import preorder
from .conditions import conjunction, conjuncts, denied, disjuncts, never_negative, on_sides
from .facts import Facts
from .inequalities import undivided

LONGEST = 4  # conditions side by side that are compared with one another
LARGE = 64  # nodes


def shorter(e: Expr, facts: Facts) -> Expr:
    """``e`` in a shorter form that is equal under ``facts``; itself when there is none."""
    if isinstance(e, TruncDiv | TruncMod):
        return _truncated(e, facts) if e.dtype.is_index and not wraps(e) else e
    if isinstance(e, FloorDiv):
        return _reduced(e) if e.dtype.is_index and not wraps(e) else e
    if isinstance(e, Min | Max):
        return _limited(e)
    if isinstance(e, Compare):
        return _compared(e, facts) if e.a.dtype.is_index and not wraps(e) else e
    if isinstance(e, And | Or):
        return _implied(e, facts)
    return e


def _truncated(e: TruncDiv | TruncMod, facts: Facts) -> Expr:
    """``truncdiv(6 * x, 3)`` is ``2 * x``; of what is never negative, ``truncdiv`` is ``//``."""
    if type(e.b) is not Const or int(e.b.value) <= 0:
        return e
    c, p, is_div = int(e.b.value), poly(e.a), isinstance(e, TruncDiv)
    if all(k % c == 0 for k in p.values()):
        return from_poly({m: k // c for m, k in p.items()}, e.dtype) if is_div else make.const(0, e.dtype)
    low = facts.interval(e.a)[0]
    if low is not None and low >= 0:
        return make.floordiv(e.a, e.b) if is_div else make.floormod(e.a, e.b)
    if is_div and isinstance(e.a, TruncDiv) and type(e.a.b) is Const and int(e.a.b.value) > 0:
        return make.truncdiv(e.a.a, int(e.a.b.value) * c)
    return e


def _reduced(e: FloorDiv) -> Expr:
    """``(6 * x + 9) // 4`` is ``(3 * x + 4) // 2``."""
    if type(e.b) is not Const or int(e.b.value) <= 0:
        return e
    c, p = int(e.b.value), poly(e.a)
    g = gcd(c, *[k for m, k in p.items() if m])
    if g <= 1 or not any(p):
        return e
    return make.floordiv(from_poly({m: k // g for m, k in p.items() if k // g}, e.dtype), c // g)


def _limited(e: Min | Max) -> Expr:
    """``min(min(x, 11), 10)`` is ``min(x, 10)``."""
    kind = type(e)
    for a, b in ((e.a, e.b), (e.b, e.a)):
        if type(a) is kind and type(b) is Const and e.dtype.is_int:
            for x, c in ((a.a, a.b), (a.b, a.a)):  # type: ignore[attr-defined]
                if type(c) is Const:
                    return e.with_children(x, e.with_children(c, b))
    return e


def _compared(e: Compare, facts: Facts) -> Expr:
    """``4 * x + y < 12`` of a y below 4 is ``x < 3``; ``x + y < x + z`` is ``y < z``."""
    strict = isinstance(e, LT | NE)
    if isinstance(e, LT | LE):
        side = _of_two(e, facts)
        if side is not None:
            return side
        p = never_negative(e)
        assert p is not None  # of indices
        new = _without_factor(p, facts)
        if strict:
            new = add_poly(new, {(): 1})
        build = make.lt if strict else make.le
    elif isinstance(e, EQ | NE):
        new = add_poly(poly(e.b), poly(e.a), -1)
        g = gcd(*[k for m, k in new.items() if m])
        if g > 1 and new.get((), 0) % g:
            return make.const(strict)
        new = {m: k // g for m, k in new.items()} if g > 1 else new
        build = make.ne if strict else make.eq
    else:
        return e
    out = build(*on_sides(new, e.a.dtype))
    return out if _size(out) < _size(e) else e


def _of_two(e: LT | LE, facts: Facts) -> Expr | None:
    """``min(x, 11) < 10`` is ``x < 10``, ``x < max(x, y)`` is ``x < y``: one side of a min or max decides."""
    for at, node in enumerate((e.a, e.b)):
        if isinstance(node, Min | Max):
            parts = [e.with_children(*((s, e.b) if at == 0 else (e.a, s))) for s in (node.a, node.b)]
            every = isinstance(node, Min) == (at == 1)  # both must hold, or either
            for part, other in (parts, parts[::-1]):
                if facts.prove(other) is every:
                    return part
    return None


def _without_factor(p: Poly, facts: Facts) -> Poly:
    """A polynomial that is >= 0 exactly when ``p`` is: a quotient gives way to what is divided, a factor of
    some terms goes, and with it the terms that stay between two of its multiples."""
    p = undivided(p)
    rest = p.get((), 0)
    for g in sorted({abs(k) for m, k in p.items() if m} - {1}, reverse=True):
        big = {m: k // g for m, k in p.items() if m and k % g == 0}
        small = {m: k for m, k in p.items() if m and k % g}
        lo, hi = facts.interval_poly(add_poly(small, {(): rest}))
        if lo is not None and hi is not None and lo // g == hi // g:
            return add_poly(big, {(): lo // g})
    return p


def _size(e: Expr) -> int:
    return sum(1 for _ in islice(preorder(e), LARGE))


def _implied(e: And | Or, facts: Facts) -> Expr:
    """``x < 1 and x < 5`` is ``x < 1``, ``x < 1 or x >= 1`` is true. What reads memory may be guarded by what
    stands before it, so there nothing is left out."""
    both = isinstance(e, And)
    conds = conjuncts(e) if both else disjuncts(e)
    if len(conds) > LONGEST or any(reads_data(c) or not _plain(c) for c in conds):
        return e
    left = list(conds)
    for c in conds:
        others = [o for o in left if o is not c]
        if not others:
            break
        known = facts.assume(conjunction([o if both else denied(o) for o in others])).prove(c)
        if known is not None and known is not both:
            return make.const(not both)
        if known is both:
            left = others
    if len(left) == len(conds):
        return e
    out = left[0]
    for c in left[1:]:
        out = make.and_(out, c) if both else make.or_(out, c)
    return out


def _plain(c: Expr) -> bool:
    return isinstance(c, Compare) and c.a.dtype.is_index and c.dtype.lanes == 1
