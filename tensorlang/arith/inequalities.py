"""Polynomials that are never negative: what a condition says in that form, and forms of one that are easier
to prove. Knows expressions only; what is known of variables is ``arith.facts``.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd

from ..expr.linear import Poly, add_poly, poly
from ..expr.nodes import EQ, LE, LT, And, Const, Expr, FloorDiv, Var


def undivided(p: Poly) -> Poly:
    """A polynomial that is never negative exactly when ``p`` is not, where the quotient that is all of ``p``
    but its constant has given way to what is divided: ``x // c <= n`` is ``x <= n * c + c - 1``, ``x // c >=
    n`` is ``x >= n * c``."""
    terms = [(m, k) for m, k in p.items() if m]
    if len(terms) != 1 or len(terms[0][0]) != 1:
        return p
    ((q,), k), constant = terms[0], p.get((), 0)
    if type(q) is not FloorDiv or type(q.b) is not Const or q.b.value <= 0 or not q.a.dtype.is_index:  # type: ignore[operator]
        return p
    c = int(q.b.value)
    if k < 0:
        return undivided(add_poly({(): (constant // -k + 1) * c - 1}, poly(q.a), -1))
    return undivided(add_poly(poly(q.a), {(): 1}, (constant // k) * c))


def whole(p: Poly) -> Poly:
    """``c * x + k >= 0`` over whole numbers: the constant goes down to the next multiple of ``c``."""
    c = gcd(*[k for m, k in p.items() if m])
    rest = p.get((), 0) % c if c > 1 else 0
    return add_poly(p, {(): -rest}) if rest else p


def assumed(p: Poly) -> list[Poly]:
    """What ``te.assume`` said of the sizes in ``p``, as polynomials that are never negative."""
    conds = {c: None for mono in p for atom in mono if type(atom) is Var for c in atom.assumed}
    return [whole(k) for c in conds for k in nonneg_forms(c)]


def nonneg_forms(cond: Expr) -> Iterable[Poly]:
    if isinstance(cond, And):
        yield from nonneg_forms(cond.a)
        yield from nonneg_forms(cond.b)
    elif isinstance(cond, LT) and cond.a.dtype.is_index:
        yield add_poly(add_poly(poly(cond.b), poly(cond.a), -1), {(): -1})
    elif isinstance(cond, LE) and cond.a.dtype.is_index:
        yield add_poly(poly(cond.b), poly(cond.a), -1)
    elif isinstance(cond, EQ) and cond.a.dtype.is_index:
        d = add_poly(poly(cond.b), poly(cond.a), -1)
        yield d
        yield add_poly({}, d, -1)
