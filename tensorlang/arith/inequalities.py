"""Polynomials that are never negative: what a condition says in that form, and forms of one that are easier
to prove. Knows expressions only; what is known of variables is ``arith.facts``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import gcd

from ..expr.linear import Poly, add_poly, poly
from ..expr.nodes import EQ, LE, LT, Const, Expr, FloorDiv, Var
from .conditions import conjuncts


def undivided(p: Poly) -> Poly:
    """A polynomial that is never negative exactly when ``p`` is not, where the quotient that is all of ``p``
    but its constant has given way to what is divided: ``x // c <= n`` is ``x <= n * c + c - 1``, ``x // c >=
    n`` is ``x >= n * c``."""
    while True:
        terms = [(m, k) for m, k in p.items() if m]
        if len(terms) != 1 or len(terms[0][0]) != 1:
            return p
        ((q,), k), constant = terms[0], p.get((), 0)
        if type(q) is not FloorDiv or type(q.b) is not Const or q.b.value <= 0 or not q.a.dtype.is_index:  # type: ignore[operator]
            return p
        c = int(q.b.value)
        if k < 0:
            p = add_poly({(): (constant // -k + 1) * c - 1}, poly(q.a), -1)
        else:
            p = add_poly(poly(q.a), {(): 1}, (constant // k) * c)


def whole(p: Poly) -> Poly:
    """``c * x + k >= 0`` over whole numbers: the constant goes down to the next multiple of ``c``."""
    c = gcd(*[k for m, k in p.items() if m])
    rest = p.get((), 0) % c if c > 1 else 0
    return add_poly(p, {(): -rest}) if rest else p


def assumed(p: Poly) -> list[Poly]:
    """What ``te.assume`` said of the sizes in ``p``, as polynomials that are never negative."""
    conds = {c: None for mono in p for atom in mono if type(atom) is Var for c in atom.assumed}
    return [whole(k) for c in conds for k in nonneg_forms(c)]


def nonneg_forms(cond: Expr, settle: Callable[[Expr], Expr] = lambda e: e) -> Iterable[Poly]:
    """What is never negative where ``cond`` holds; of each inequality of indices after ``settle``."""
    for c in conjuncts(cond):
        if isinstance(c, LT | LE | EQ) and c.a.dtype.is_index:
            c = settle(c)
        if not isinstance(c, LT | LE | EQ) or not c.a.dtype.is_index:
            continue
        d = add_poly(poly(c.b), poly(c.a), -1)
        yield add_poly(d, {(): -1}) if isinstance(c, LT) else d
        if isinstance(c, EQ):
            yield add_poly({}, d, -1)
