"""tighten: a guard that is all a plain loop's body holds becomes the loop's bound, so that the body runs
without tests.

``for i in 0..8: if io * 8 + i < n: S`` → ``for i in 0..min(8, n - io * 8): S``

Vectorised and unrolled loops keep their constant extents; ``partition`` and masks serve them. What does not
change in such a loop is tested in front of it, and may be the bound of a loop around:

``for k in 0..n: for i in unrolled 0..4: if k <= b: S`` → ``for k in 0..min(n, b + 1): for i in unrolled 0..4:
S``

And ``for i in 0..3: if y == 0 or i >= 2: S`` → ``for i in (0 if y == 0 else 2)..3: S``
"""

from __future__ import annotations

from functools import reduce

from ..arith.conditions import conjunction, conjuncts, disjuncts, limits
from ..expr import make
from ..expr.linear import reads_data, wraps
from ..expr.nodes import Expr, Select, Var
from ..expr.walk import variables
from ..loopir.stmt import For, Func, If, Stmt, rewrite


def tighten(func: Func) -> Func:
    """The pass."""
    return func.with_body(rewrite(func.body, _loop))


def _loop(s: Stmt) -> Stmt | None:
    if not isinstance(s, For):
        return None
    if s.kind not in ("serial", "parallel"):
        shared, body = _take(s.body, s.var)
        return (
            If(conjunction(shared), For(s.var, s.begin, s.extent, s.kind, body, s.attrs)) if shared else None
        )
    if not isinstance(s.body, If) or s.body.orelse is not None or wraps(s.begin) or wraps(s.extent):
        return None
    begin, extent = s.begin, s.extent
    rest: list[Expr] = []
    for cond in conjuncts(s.body.cond):
        ends = None if _sums_with_data(cond, s.var) else limits(cond, s.var) or _unless(cond, s.var, begin)
        if ends is None:
            rest.append(cond)
            continue
        first, past = ends
        if first is not None:  # runs from max(begin, first)
            new = first if type(first) is Select else make.max_(begin, first)
            extent = make.sub(make.add(begin, extent), new)
            begin = new
        if past is not None:
            extent = make.min_(extent, make.sub(past, begin))
    if len(rest) == len(conjuncts(s.body.cond)):
        return None
    body = If(conjunction(rest), s.body.then) if rest else s.body.then
    return For(s.var, begin, extent, s.kind, body, s.attrs)


def _sums_with_data(cond: Expr, var: Var) -> bool:
    """Whether the end of a loop would be a sum of data, which wraps: ``a[i] + k < 9`` is not
    ``k < 9 - a[i]``, nor is ``k + 9 < a[i]`` ``k < a[i] - 9``."""
    return wraps(cond) and not any(side is var for side in cond.children())


def _unless(cond: Expr, var: Var, begin: Expr) -> tuple[Expr, None] | None:
    """(first value, None) for which ``c or first <= var`` holds, where neither ``var`` nor memory decides
    ``c``: what sliding windows ask, whose first iteration computes all rows."""
    parts = disjuncts(cond)
    free = [c for c in parts if var not in variables(c) and not reads_data(c)]
    other = [c for c in parts if not any(c is f for f in free)]
    ends = limits(other[0], var) if free and len(other) == 1 and not reads_data(other[0]) else None
    if ends is None or ends[0] is None:
        return None
    return make.select(reduce(make.or_, free), begin, make.max_(begin, ends[0])), None


def _take(s: Stmt, var: Var) -> tuple[list[Expr], Stmt]:
    """The conditions around all of ``s`` that neither ``var`` nor memory decides, and ``s`` without them."""
    if not isinstance(s, If) or s.orelse is not None:
        return [], s
    inner, body = _take(s.then, var)
    conds = conjuncts(s.cond)
    fixed = [c for c in conds if var not in variables(c) and not reads_data(c)]
    if not fixed and not inner:
        return [], s
    own = [c for c in conds if not any(c is f for f in fixed)]
    return [*fixed, *inner], If(conjunction(own), body) if own else body
