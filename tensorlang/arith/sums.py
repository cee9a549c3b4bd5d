"""Shorter sums of indices, and shorter minima and maxima of sums: quotients that meet their remainders, both
extremes of the same two, choices of one condition, what both sides of a minimum share. Each rule is tried and
its result taken only where it has fewer nodes. Of indices only: sums of data wrap. Knows expressions only."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from ..core.dtype import DType
from ..expr import make
from ..expr.linear import Poly, add_poly, from_poly, poly
from ..expr.nodes import Choice, Const, Expr, FloorDiv, FloorMod, Max, Min, TruncDiv, TruncMod

LARGE = 64  # nodes
MANY = 6  # terms that are compared with one another


def size(e: Expr) -> int:
    """How many nodes an expression has as it is printed, what is shared as often as it stands there; no more
    than ``LARGE`` are counted."""
    n, stack = 0, [e]
    while stack and n < LARGE:
        n += 1
        stack += stack.pop().children()
    return n


def shorter_sum(e: Expr) -> Expr:
    """A sum of indices with fewer nodes; itself when no rule has one."""
    p, before = poly(e), 0
    if 1 < len(p) <= MANY:
        for rule in (remainders, _halves, _both_ends, _same_step, _one_condition, _inside):
            for found in rule(p, e.dtype):
                before = before or size(e)
                if size(found) < before < LARGE:
                    return found
    return e


def _atoms(p: Poly, *kinds: type[Expr]) -> list[tuple[Expr, int]]:
    """The terms that are a whole number of times one atom of these kinds."""
    return [(m[0], k) for m, k in p.items() if len(m) == 1 and isinstance(m[0], kinds)]


def _without(p: Poly, *atoms: Expr) -> Poly:
    return {m: k for m, k in p.items() if not (len(m) == 1 and any(m[0] is a for a in atoms))}


def _cancels(p: Poly, q: Poly, scale: int) -> bool:
    """Whether a term of ``p + scale * q`` is no more."""
    return any(p.get(m, 0) == -k * scale for m, k in q.items())


def _pairs(found: list[tuple[Expr, int]]) -> Iterator[tuple[tuple[Expr, int], tuple[Expr, int]]]:
    return ((a, b) for n, a in enumerate(found) for b in found[n + 1 :])


def remainders(p: Poly, t: DType) -> Iterator[Expr]:
    """``x - x // 8 * 8`` is ``x % 8``: a quotient times its divisor is what is divided without what is
    left."""
    left_over = bool(_atoms(p, FloorMod, TruncMod))
    for q, k in _atoms(p, FloorDiv, TruncDiv):
        assert isinstance(q, FloorDiv | TruncDiv)
        c = q.b.value if type(q.b) is Const else 0
        if not isinstance(c, int) or c <= 1 or k % c or not (left_over or _cancels(p, poly(q.a), k // c)):
            continue
        left = (make.floormod if isinstance(q, FloorDiv) else make.truncmod)(q.a, q.b)
        rest = add_poly(_without(p, q), poly(q.a), k // c)
        yield from_poly(add_poly(rest, poly(left), -(k // c)), t)


def rejoined(p: Poly, c: int) -> Poly:
    """What has the remainder of ``p`` by ``c``, with quotients that meet their remainders: of ``x // 28 * 12
    + x % 28`` by 16 that is ``x``, since 12 and 28 are the same there."""
    for q, k in _atoms(p, FloorDiv):
        for r, m in _atoms(p, FloorMod):
            assert isinstance(q, FloorDiv) and isinstance(r, FloorMod)
            d = q.b.value if type(q.b) is Const and q.b is r.b else 0
            if not isinstance(d, int) or d <= 0 or (k - m * d) % c:
                continue
            if all(step % d == 0 for step in add_poly(poly(q.a), poly(r.a), -1).values()):
                return rejoined(add_poly(_without(p, q, r), poly(q.a), m), c)
    return p


def _halves(p: Poly, t: DType) -> Iterator[Expr]:
    """``x // 2 + (x + 1) // 2`` is ``x``."""
    for (a, k), (b, other) in _pairs(_atoms(p, FloorDiv)):
        halved = all(type(q.b) is Const and q.b.value == 2 for q in (a, b))  # type: ignore[attr-defined]
        apart = add_poly(poly(b.a), poly(a.a), -1) if halved and k == other else {}  # type: ignore[attr-defined]
        if apart in ({(): 1}, {(): -1}):
            low = a if apart[()] == 1 else b
            yield from_poly(add_poly(_without(p, a, b), poly(low.a), k), t)  # type: ignore[attr-defined]


def _both_ends(p: Poly, t: DType) -> Iterator[Expr]:
    """``min(x, y) + max(x, y)`` is ``x + y``."""
    for (a, k), (b, other) in _pairs(_atoms(p, Min, Max)):
        if k == other and type(a) is not type(b) and {a.a, a.b} == {b.a, b.b}:  # type: ignore[attr-defined]
            both = add_poly(poly(a.a), poly(a.b))  # type: ignore[attr-defined]
            yield from_poly(add_poly(_without(p, a, b), both, k), t)


def _same_step(p: Poly, t: DType) -> Iterator[Expr]:
    """``max(y, x + 1) - max(x, y - 1)`` is 1: both sides of the one stand as far from those of the other."""
    for (a, k), (b, other) in _pairs(_atoms(p, Min, Max)):
        if k != -other or type(a) is not type(b):
            continue
        for first, second in (((a.a, b.a), (a.b, b.b)), ((a.a, b.b), (a.b, b.a))):  # type: ignore[attr-defined]
            step = add_poly(poly(first[0]), poly(first[1]), -1)
            if step == add_poly(poly(second[0]), poly(second[1]), -1):
                yield from_poly(add_poly(_without(p, a, b), step, k), t)


def _one_condition(p: Poly, t: DType) -> Iterator[Expr]:
    """``select(c, x, 0) + select(c, 1, y)`` is ``select(c, x + 1, y)``."""
    for (a, k), (b, other) in _pairs(_atoms(p, Choice)):
        if type(a) is type(b) and a.cond is b.cond:  # type: ignore[attr-defined]
            sides = [
                from_poly(add_poly(add_poly({}, poly(s), k), poly(o), other), t)
                for s, o in ((a.a, b.a), (a.b, b.b))  # type: ignore[attr-defined]
            ]
            chosen = a.with_children(a.cond, *sides)  # type: ignore[attr-defined]
            yield from_poly(add_poly(_without(p, a, b), {(chosen,): 1}), t)


def _inside(p: Poly, t: DType) -> Iterator[Expr]:
    """``min(x, y - z) + z`` is ``min(x + z, y)``: what stands beside a minimum, and is taken off on one of
    its sides, stands on both."""
    for a, k in _atoms(p, Min, Max):
        if k not in (1, -1):
            continue
        assert isinstance(a, Min | Max)
        sides = [poly(s) for s in (a.a, a.b)]
        moved = {m: c for m, c in p.items() if any(s.get(m) == -k * c for s in sides)}
        if moved:
            both = [from_poly(add_poly(moved, s, k), t) for s in sides]
            out = (make.min_ if isinstance(a, Min) == (k == 1) else make.max_)(*both)
            yield from_poly(add_poly(add_poly(_without(p, a), moved, -1), poly(out)), t)


def shorter_extreme(e: Min | Max) -> Expr:
    """A minimum or maximum of indices with fewer nodes; itself when no rule has one."""
    before = size(e)
    if before >= LARGE:
        return e
    for found in (_distributed(e), _shared(e), _scaled(e), _divided(e)):
        if found is not None and size(found) < before:
            return found
    return e


def _distributed(e: Min | Max) -> Expr | None:
    """``min(max(x, y), max(x, z))`` is ``max(x, min(y, z))``."""
    a, b = e.a, e.b
    if type(a) is not type(b) or type(a) is not (Max if isinstance(e, Min) else Min):
        return None
    for same, one in ((a.a, a.b), (a.b, a.a)):  # type: ignore[attr-defined]
        for again, other in ((b.a, b.b), (b.b, b.a)):  # type: ignore[attr-defined]
            if same is again:
                return a.with_children(same, e.with_children(one, other))
    return None


def _shared(e: Min | Max) -> Expr | None:
    """``min(x + y, x + z)`` is ``x + min(y, z)``."""
    p, q = poly(e.a), poly(e.b)
    same = {m: k for m, k in p.items() if q.get(m) == k}
    if not same:
        return None
    left = [add_poly(side, same, -1) for side in (p, q)]
    if all(k < 0 for side in left for k in side.values()):  # min(x - y, x - z) is x - max(y, z)
        other = make.max_ if isinstance(e, Min) else make.min_
        return make.sub(
            from_poly(same, e.dtype), other(*[from_poly(add_poly({}, s, -1), e.dtype) for s in left])
        )
    return make.add(from_poly(same, e.dtype), e.with_children(*[from_poly(s, e.dtype) for s in left]))


def _scaled(e: Min | Max) -> Expr | None:
    """``min(-2 * x, -2 * y)`` is ``-2 * max(x, y)``."""
    p, q = poly(e.a), poly(e.b)
    g = gcd(*p.values(), *q.values())
    if not p or not q:
        return None
    if all(k < 0 for k in (*p.values(), *q.values())):
        g = -g
    if g in (0, 1):
        return None
    sides = [from_poly({m: k // g for m, k in side.items()}, e.dtype) for side in (p, q)]
    return make.mul((make.min_ if isinstance(e, Min) == (g > 0) else make.max_)(*sides), g)


def _divided(e: Min | Max) -> Expr | None:
    """``min(x // 2, y // 2)`` is ``min(x, y) // 2``."""
    a, b = e.a, e.b
    if type(a) is not FloorDiv or type(b) is not FloorDiv or a.b is not b.b:
        return None
    if type(a.b) is not Const or a.b.value <= 0:  # type: ignore[operator]
        return None
    return make.floordiv(e.with_children(a.a, b.a), a.b)
