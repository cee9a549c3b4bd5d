"""peel: the last iterations of a loop split with ``tail="peel"`` become a loop of their own, the only one
that asks the guards.

``for io in 0..4: for i in 0..8: if io * 8 + i < 30: S`` → ``for io in 0..3: for i in 0..8: S`` and ``for io
in 3..4: for i: if …: S``

Unlike ``partition`` there is no test inside the main loop, at the price of a second loop over the same body.
"""

from __future__ import annotations

from ..arith.conditions import holds_when_nonneg, never_negative
from ..arith.facts import Facts
from ..core.recursion import Steps, run
from ..expr import make
from ..expr.linear import from_poly, poly
from ..expr.nodes import Expr, Var
from ..expr.walk import variables
from ..loopir.stmt import For, Func, Stmt, preorder, rewrite, seq
from .guards import tested, without
from .tighten import limits


def peel(func: Func) -> Func:
    """The pass."""
    sizes = frozenset(v for v in func.dims if v.kind == "dim")
    return func.with_body(rewrite(func.body, lambda s: _loop(s, Facts(sizes=sizes))))


def _loop(s: Stmt, facts: Facts) -> Stmt | None:
    if not isinstance(s, For) or s.kind not in ("serial", "parallel") or dict(s.attrs).get("tail") != "peel":
        return None
    rest = tuple((k, v) for k, v in s.attrs if k != "tail")
    inner = {x.var for x in preorder(s.body) if isinstance(x, For)}
    decided: dict[Expr, None] = {}
    end = begin_of_tail = make.add(s.begin, s.extent)
    for cond, known in run(_guards(s.body, facts, {})).items():
        past = _first_turn_that_asks(cond, s.var, known, inner)
        if past is not None:
            decided[cond] = None
            begin_of_tail = make.min_(begin_of_tail, past)
    if not decided:
        return For(s.var, s.begin, s.extent, s.kind, s.body, rest)
    # the tail may begin before the loop does: then all of it is tail
    cut = make.max_(begin_of_tail, s.begin)
    fast = For(s.var, s.begin, make.sub(cut, s.begin), s.kind, without(s.body, decided), rest)
    careful = For(s.var, cut, make.sub(end, cut), s.kind, s.body, (*rest, ("tail", "guard")))
    return seq(fast, careful)


def _guards(s: Stmt, facts: Facts, found: dict[Expr, Facts]) -> Steps[dict[Expr, Facts]]:
    """All guards below, each with the ranges of the loops around it."""
    if isinstance(s, For):
        facts = facts.bind(s.var, s.begin, make.sub(make.add(s.begin, s.extent), 1))
    for c in tested(s):
        found.setdefault(c, facts)
    for part in s.parts():
        yield _guards(part, facts, found)
    return found


def _first_turn_that_asks(cond: Expr, var: Var, facts: Facts, inner: set[Var]) -> Expr | None:
    """The iteration of ``var`` before which ``cond`` holds whatever the loops inside do; None when that
    cannot be said."""
    p = never_negative(cond)
    if p is None or var not in variables(cond):
        return None
    # the least over all iterations of the loops inside: the condition holds for them all if it holds there
    worst = facts.bound(from_poly(p, var.dtype), lambda v: v in inner, False)
    if worst is None:
        return None
    ends = limits(holds_when_nonneg(poly(worst), worst.dtype), var)
    return None if ends is None else ends[1]
