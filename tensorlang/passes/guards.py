"""Guards below a statement: which there are, and the statement without some of them. For ``partition`` and
``peel``; knows nothing of what they prove."""

from __future__ import annotations

from collections.abc import Container

from ..arith.conditions import conjunction, conjuncts
from ..expr import make
from ..expr.nodes import Expr, IfThenElse
from ..expr.walk import preorder as walk
from ..expr.walk import rewrite as rewrite_expr
from ..loopir.stmt import If, Stmt, Store, rewrite


def tested(s: Stmt) -> list[Expr]:
    """The conditions that a statement itself tests: a test, or the choices that the value of a store
    makes."""
    if isinstance(s, If):
        return conjuncts(s.cond)
    return [c for e in _choices(s) for c in conjuncts(e.cond)]


def without(body: Stmt, decided: Container[Expr]) -> Stmt:
    """``body`` where the conditions in ``decided`` hold."""

    def drop(s: Stmt) -> Stmt | None:
        if isinstance(s, If) and s.orelse is None:
            left = [c for c in conjuncts(s.cond) if c not in decided]
            if len(left) < len(conjuncts(s.cond)):
                return If(conjunction(left), s.then) if left else s.then
        if any(c in decided for e in _choices(s) for c in conjuncts(e.cond)):
            return s.with_exprs(*[rewrite_expr(e, taken) for e in s.exprs()])
        return None

    def taken(e: Expr) -> Expr | None:
        if isinstance(e, IfThenElse):
            left = [c for c in conjuncts(e.cond) if c not in decided]
            if len(left) < len(conjuncts(e.cond)):
                return make.if_then_else(conjunction(left), e.a, e.b) if left else e.a
        return None

    return rewrite(body, drop)


def _choices(s: Stmt) -> list[IfThenElse]:
    return [e for e in walk(s.value) if isinstance(e, IfThenElse)] if isinstance(s, Store) else []
