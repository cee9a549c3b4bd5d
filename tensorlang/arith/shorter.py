"""Shorter forms of what the canonical form and ranges leave as it is: truncated division, quotients and
inequalities with a common factor, conditions that others imply. Of indices only: sums of data wrap. Knows
expressions and facts."""

from __future__ import annotations

from math import gcd

from ..expr import make
from ..expr.linear import Poly, add_poly, from_poly, is_atom, poly, reads_data, wraps
from ..expr.nodes import (
    EQ,
    LE,
    LT,
    NE,
    Add,
    And,
    Binary,
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
    Or,
    Sub,
    TruncDiv,
    TruncMod,
    const_int,
)
from .conditions import conjunction, conjuncts, denied, disjuncts, holds_when_nonneg, never_negative, on_sides
from .facts import Facts
from .inequalities import undivided
from .sums import rejoined, remainders, shorter_extreme, shorter_sum
from .sums import size as _size

LONGEST = 4  # conditions side by side that are compared with one another
# which of <, ==, > a comparison of integers takes: both hold where both take it
_QUOTIENTS = frozenset((FloorDiv, FloorMod, TruncDiv, TruncMod))
_TAKEN = {LT: 1, EQ: 2, LE: 3, NE: 5}


def shorter(e: Expr, facts: Facts) -> Expr:
    """``e`` in a shorter form that is equal under ``facts``; itself when there is none."""
    kind = type(e)
    if kind is And or kind is Or:
        return _implied(_joined(e), facts)  # type: ignore[arg-type]
    if isinstance(e, Not):
        return _driven_in(e)
    if isinstance(e, Choice):
        return _chosen(e)
    if kind is Min or kind is Max:
        e = _limited(e)  # type: ignore[arg-type]
        return shorter_extreme(e) if isinstance(e, Min | Max) and _is_index(e) else e
    if isinstance(e, Compare):
        return _compared(e, facts) if _is_index(e.a) and not wraps(e) else e
    if not _is_index(e):
        return e
    if kind is TruncDiv or kind is TruncMod:
        return _by_factor(_truncated(e, facts), facts)  # type: ignore[arg-type]
    if kind is FloorDiv or kind is FloorMod:
        return _by_factor(_reduced(e), facts)  # type: ignore[arg-type]
    return shorter_sum(e) if kind is Add or kind is Sub or kind is Mul else e


def _is_index(e: Expr) -> bool:
    return e.dtype.is_index and not wraps(e)


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


def _by_factor(e: Expr, facts: Facts) -> Expr:
    """``(x * n + y) // n`` is ``x + y // n``, and ``(x * n + y) % n`` is ``y % n``, of an n that is not 0."""
    if type(e) not in _QUOTIENTS or type(e.b) is Const:  # type: ignore[attr-defined]
        return e
    assert isinstance(e, Binary)
    if not is_atom(e.b):
        return _by_common_factor(e, facts)
    n, p = e.b, poly(e.a)
    big = {_less(m, n): k for m, k in p.items() if any(a is n for a in m)}
    rest = {m: k for m, k in p.items() if not any(a is n for a in m)}
    if not big or (rest and isinstance(e, TruncDiv | TruncMod)):
        return e
    if facts.prove(make.ge(n, 1)) is not True and facts.prove(make.le(n, -1)) is not True:
        return e
    left = e.with_children(from_poly(rest, e.dtype), n) if rest else make.const(0, e.dtype)
    return make.add(from_poly(big, e.dtype), left) if isinstance(e, FloorDiv | TruncDiv) else left


def _by_common_factor(e: Expr, facts: Facts) -> Expr:
    """``(x * n) // (2 * n)`` is ``x // 2``, and ``(x * n) % (2 * n)`` is ``x % 2 * n``, of an n above 0."""
    assert isinstance(e, FloorDiv | FloorMod | TruncDiv | TruncMod)
    p, q = poly(e.a), poly(e.b)
    if not p or not q:
        return e
    for n in dict.fromkeys(a for mono in q for a in mono):
        if all(any(a is n for a in mono) for mono in (*p, *q)) and facts.prove(make.ge(n, 1)) is True:
            left, right = (from_poly({_less(m, n): k for m, k in s.items()}, e.dtype) for s in (p, q))
            small = _by_factor(e.with_children(left, right), facts)
            return small if isinstance(e, FloorDiv | TruncDiv) else make.mul(small, n)
    return e


def _less(mono: tuple[Expr, ...], atom: Expr) -> tuple[Expr, ...]:
    """A monomial divided by one of its atoms."""
    at = next(i for i, a in enumerate(mono) if a is atom)
    return (*mono[:at], *mono[at + 1 :])


def _reduced(e: FloorDiv | FloorMod) -> Expr:
    """``(6 * x + 9) // 4`` is ``(3 * x + 4) // 2``; ``(x // 28 * 12 + x % 28) % 16`` is ``x % 16``."""
    if type(e.b) is not Const or int(e.b.value) <= 0:
        return e
    c, p = int(e.b.value), poly(e.a)
    if isinstance(e, FloorMod):
        one = rejoined(p, c) if len(p) > 1 else p
        return e if one is p else make.floormod(from_poly(one, e.dtype), c)
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
        return _shortest_inequality(e, _without_shift(p, facts), facts)
    if isinstance(e, EQ | NE):
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


def _without_shift(p: Poly, facts: Facts) -> Poly:
    """A polynomial that is never negative exactly when ``p`` is not, without the begin of a tile that begins
    earlier where it would end behind the whole: ``min(x, max(n - 16, 0)) + i < n`` of an i below 16 is ``i <
    n``, wherever x, which is not negative, lies."""
    for mono, k in p.items():
        if k != -1 or len(mono) != 1 or type(least := mono[0]) is not Min:
            continue
        rest = add_poly(p, {mono: 1})
        for x, last in ((least.a, least.b), (least.b, least.a)):
            if type(last) is not Max or not any(const_int(side) == 0 for side in (last.a, last.b)):
                continue
            end = last.a if const_int(last.b) == 0 else last.b
            # where the last tile begins at 0, all begin there; else none ends behind the whole
            if _never_below(rest, end, facts) and _never_below(poly(x), make.const(0, x.dtype), facts):
                return rest
    return p


def _never_below(p: Poly, e: Expr, facts: Facts) -> bool:
    return facts.prove(holds_when_nonneg(add_poly(p, poly(e), -1), e.dtype)) is True


def _shortest_inequality(e: LT | LE, p: Poly, facts: Facts) -> Expr:
    """One with fewer nodes that says ``p >= 0``: with the sign it has or the other, with a factor less, or
    with the remainder of a quotient: ``x // 4 * 4 < x`` is ``0 < x % 4``."""
    forms = [_without_factor(p, facts), *map(poly, remainders(p, e.a.dtype))]
    strict = isinstance(e, LT)
    best: Expr = e
    for form in forms:
        # the other sign only where it has no constant
        signs = (strict, not strict) if form.get((), 0) == (0 if strict else -1) else (strict,)
        for less in signs:
            sides = on_sides(add_poly(form, {(): 1}) if less else form, e.a.dtype)
            out = make.lt(*sides) if less else make.le(*sides)
            best = out if _size(out) < _size(best) else best
    return best


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


def _driven_in(e: Not) -> Expr:
    """``not (x < y and y < z)`` is ``y <= x or z <= y``."""
    out = denied(e.a) if all(_plain(c) for c in _leaves(e.a)) else e
    return out if _size(out) < _size(e) else e


def _leaves(e: Expr) -> list[Expr]:
    """The conditions that a condition is made of."""
    found, stack = [], [e]
    while stack:
        e = stack.pop()
        if isinstance(e, And | Or):
            stack += (e.b, e.a)
        else:
            found.append(e)
    return found


def _chosen(e: Choice) -> Expr:
    """``select(x < y, x, y)`` is ``min(x, y)`` of integers; a choice inside a choice by the same condition is
    made already."""
    a = e.a.a if isinstance(e.a, Choice) and e.a.cond is e.cond else e.a
    b = e.b.b if isinstance(e.b, Choice) and e.b.cond is e.cond else e.b
    if a is not e.a or b is not e.b:
        return e.with_children(e.cond, a, b)
    if isinstance(e.cond, LT | LE) and e.dtype.is_index and e.dtype.lanes == 1:
        if e.cond.a is e.a and e.cond.b is e.b:
            return make.min_(e.a, e.b)
        if e.cond.a is e.b and e.cond.b is e.a:
            return make.max_(e.a, e.b)
    return e


def _joined(e: And | Or) -> Expr:
    """``x < y or x == y`` is ``x <= y``; ``x < y and z < w or x < y`` is ``x < y``. Of integers: a number
    that is none is neither less, nor equal, nor more."""
    both = isinstance(e, And)
    conds = conjuncts(e) if both else disjuncts(e)
    if len(conds) > LONGEST or any(reads_data(c) or not all(map(_plain, _leaves(c))) for c in conds):
        return e
    for n, c in enumerate(conds):
        for m, other in enumerate(conds):
            if n == m:
                continue
            rest = [o for i, o in enumerate(conds) if i not in (n, m)]
            inside = disjuncts(c) if both else conjuncts(c)
            if len(inside) > 1 and any(i is other for i in inside):
                return _all_or_any([*rest, other], both)
            one = _of_both(c, other, both) if n < m else None
            if one is not None:
                return _all_or_any([*conds[:n], one, *[o for o in conds[n + 1 :] if o is not other]], both)
    return e


def _all_or_any(conds: list[Expr], both: bool) -> Expr:
    out = conds[0]
    for c in conds[1:]:
        out = make.and_(out, c) if both else make.or_(out, c)
    return out


def _of_both(c: Expr, d: Expr, both: bool) -> Expr | None:
    """The one comparison that two of the same operands are together; None when there is none."""
    if type(c) not in _TAKEN or type(d) not in _TAKEN:
        return None
    assert isinstance(c, Compare) and isinstance(d, Compare)
    taken = _TAKEN[type(d)]
    if d.a is c.b and d.b is c.a:
        taken = (taken & 2) | (taken & 1) << 2 | taken >> 2  # < is > from the other side
    elif d.a is not c.a or d.b is not c.b:
        return None
    taken = taken & _TAKEN[type(c)] if both else taken | _TAKEN[type(c)]
    if taken in (0, 7):
        return make.const(taken == 7)
    build = {1: make.lt, 2: make.eq, 3: make.le, 4: make.lt, 5: make.ne, 6: make.le}[taken]
    return build(c.b, c.a) if taken in (4, 6) else build(c.a, c.b)


def _implied(e: Expr, facts: Facts) -> Expr:
    """``x < 1 and x < 5`` is ``x < 1``, ``x < 1 or x >= 1`` is true. What reads memory may be guarded by what
    stands before it, so there nothing is left out."""
    if not isinstance(e, And | Or):
        return e
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
    return _all_or_any(left, both)


def _plain(c: Expr) -> bool:
    return isinstance(c, Compare) and c.a.dtype.is_index and c.dtype.lanes == 1
