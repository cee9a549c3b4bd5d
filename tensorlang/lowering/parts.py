"""Values too deep for one expression, computed in named parts: what comes later walks expressions by
functions that call themselves.

``y[i] = f(f(… 2,000 times … f(x[i])))`` → ``part = f(… 64 times …); part_1 = f(… part …); …; y[i] =
part_30``. Knows expressions and statements.
"""

from __future__ import annotations

from itertools import islice

from ..expr.nodes import And, Const, Expr, IfThenElse, Or, Var
from ..expr.walk import preorder, rewrite
from ..loopir.stmt import Let, Stmt

DEEPEST = 64  # operations in a part
PLAIN = 128  # nodes of an expression that is left as it is


def in_parts(values: tuple[Expr, ...]) -> tuple[tuple[Expr, ...], list[tuple[Var, Expr]]]:
    """The values in terms of their parts, and these, in order. What only one side of a choice evaluates stays
    there."""
    parts: list[tuple[Var, Expr]] = []
    if all(next(islice(preorder(e), PLAIN, None), None) is None for e in values):
        return values, parts
    chosen = _chosen(values)
    height: dict[Expr, int] = {}

    def part(e: Expr) -> Expr | None:
        own = 1 + max([height.get(k, 0) for k in e.children()], default=0)
        if own > DEEPEST and not e.dtype.is_index and e not in chosen and type(e) not in (Var, Const):
            v = Var("part", e.dtype, "value")
            parts.append((v, e))
            return v
        height[e] = own
        return None

    done: dict[Expr, Expr] = {}
    return tuple([rewrite(e, part, done) for e in values]), parts


def around(body: Stmt, parts: list[tuple[Var, Expr]]) -> Stmt:
    """``body`` where the parts have their names."""
    for v, e in reversed(parts):
        body = Let(v, e, body)
    return body


def _chosen(values: tuple[Expr, ...]) -> dict[Expr, None]:
    """What a condition decides whether to evaluate."""
    sides = [
        side
        for e in values
        for node in preorder(e)
        if isinstance(node, IfThenElse | And | Or)
        for side in ((node.a, node.b) if isinstance(node, IfThenElse) else (node.b,))
    ]
    found: dict[Expr, None] = {}
    while sides:
        e = sides.pop()
        if e not in found:
            found[e] = None
            sides += e.children()
    return found
