"""Conditions taken apart and put together. Knows expressions only."""

from __future__ import annotations

from ..core.dtype import DType
from ..expr import make
from ..expr.linear import Poly, add_poly, from_poly, poly, split_by_atom
from ..expr.nodes import LE, LT, And, Expr, Not, Or, Var
from ..expr.walk import variables


def conjuncts(e: Expr) -> list[Expr]:
    """The conditions a conjunction is made of."""
    return conjuncts(e.a) + conjuncts(e.b) if isinstance(e, And) else [e]


def conjunction(conds: list[Expr]) -> Expr:
    """All of them at once; at least one."""
    out = conds[0]
    for c in conds[1:]:
        out = make.and_(out, c)
    return out


def disjuncts(e: Expr) -> list[Expr]:
    """The conditions a disjunction is made of."""
    return disjuncts(e.a) + disjuncts(e.b) if isinstance(e, Or) else [e]


def denied(cond: Expr) -> Expr:
    """``not cond``, with the negation driven inwards as far as the prover can use it."""
    if isinstance(cond, Or):
        return make.and_(denied(cond.a), denied(cond.b))
    if isinstance(cond, And):
        return make.or_(denied(cond.a), denied(cond.b))
    return cond.a if isinstance(cond, Not) else make.not_(cond)


def never_negative(cond: Expr) -> Poly | None:
    """The polynomial that is >= 0 exactly when an integer inequality holds; None for other conditions."""
    if isinstance(cond, LT | LE) and cond.a.dtype.is_index:
        p = add_poly(poly(cond.b), poly(cond.a), -1)
        return add_poly(p, {(): -1}) if isinstance(cond, LT) else p
    return None


def holds_when_nonneg(p: Poly, t: DType) -> Expr:
    """The inequality that says ``p >= 0``, with every term on the side where its sign is positive."""
    left = {m: -c for m, c in p.items() if c < 0}
    right = {m: c for m, c in p.items() if c > 0}
    return make.le(from_poly(left, t), from_poly(right, t))


def limits(cond: Expr, var: Var) -> tuple[Expr | None, Expr | None] | None:
    """(first value, first value past the last) of ``var`` for which a condition linear in it holds."""
    p = never_negative(cond)
    if p is None:
        return None
    q, r = split_by_atom(p, var)
    if list(q) != [()]:
        return None
    c = q[()]
    other = from_poly(r, var.dtype)
    if var in variables(other):
        return None
    if c < 0:  # other >= -c * var
        return None, make.add(make.floordiv(other, -c), 1)
    return make.ceildiv(make.neg(other), c), None
