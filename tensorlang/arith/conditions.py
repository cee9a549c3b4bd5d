"""Conditions taken apart and put together. Knows expressions only."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.dtype import DType
from ..expr import make
from ..expr.linear import Poly, add_poly, from_poly, poly, split_by_atom
from ..expr.nodes import LE, LT, And, Binary, Expr, Not, Or, Var
from ..expr.walk import variables


def conjuncts(e: Expr) -> list[Expr]:
    """The conditions a conjunction is made of."""
    return _sides(e, And)


def conjunction(conds: Sequence[Expr]) -> Expr:
    """All of them at once; at least one."""
    out: Expr = conds[0]
    for c in conds[1:]:
        out = make.and_(out, c)
    return out


def disjuncts(e: Expr) -> list[Expr]:
    """The conditions a disjunction is made of."""
    return _sides(e, Or)


def _sides(e: Expr, kind: type[Binary]) -> list[Expr]:
    result, stack = [], [e]
    while stack:
        e = stack.pop()
        if isinstance(e, kind):
            stack += (e.b, e.a)
        else:
            result.append(e)
    return result


def denied(cond: Expr) -> Expr:
    """``not cond``, with the negation driven inwards as far as the prover can use it."""
    done: dict[Expr, Expr] = {}

    def deny(e: Expr) -> None:
        if isinstance(e, Or):
            done[e] = make.and_(done[e.a], done[e.b])
        elif isinstance(e, And):
            done[e] = make.or_(done[e.a], done[e.b])
        else:
            done[e] = e.a if isinstance(e, Not) else make.not_(e)

    stack = [cond]
    while stack:
        waiting = (
            [k for k in stack[-1].children() if k not in done] if isinstance(stack[-1], And | Or) else []
        )
        if waiting:
            stack += reversed(waiting)
        else:
            deny(stack.pop())
    return done[cond]


def never_negative(cond: Expr) -> Poly | None:
    """The polynomial that is >= 0 exactly when an integer inequality holds; None for other conditions."""
    kind = type(cond)
    if (kind is LT or kind is LE) and cond.a.dtype.is_index:  # type: ignore[attr-defined]
        p = add_poly(poly(cond.b), poly(cond.a), -1)  # type: ignore[attr-defined]
        return add_poly(p, {(): -1}) if kind is LT else p
    return None


def holds_when_nonneg(p: Poly, t: DType) -> Expr:
    """The inequality that says ``p >= 0``."""
    return make.le(*on_sides(p, t))


def on_sides(p: Poly, t: DType) -> tuple[Expr, Expr]:
    """``(a, b)`` of which ``p`` is ``b - a``, with every term where its sign is positive."""
    left = {m: -c for m, c in p.items() if c < 0}
    right = {m: c for m, c in p.items() if c > 0}
    return from_poly(left, t), from_poly(right, t)


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
