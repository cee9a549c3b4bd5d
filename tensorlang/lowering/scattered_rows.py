"""Rows that a scatter writes: the last axes of its updates where they are the last indices of their places,
and the loop over the last of them in vectors. Knows statements and the operation; nothing of schedules.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..expr import make
from ..expr.nodes import Expr, Var, const_int
from ..expr.walk import substitute, variables
from ..loopir.stmt import For, Stmt, map_exprs, seq
from ..te.axis import IterVar
from ..te.scatter import ScatterOp


def loop_over(a: IterVar, body: Stmt) -> Stmt:
    """The serial loop over an axis."""
    return For(a.var, make.const(0, a.dtype), a.extent, "serial", body)


def in_vectors(a: IterVar, body: Stmt, lanes: int) -> Stmt:
    """The loop over ``a``, whose iterations write neighbours, in vectors of so many, and the rest."""

    def part(begin: Expr, extent: Expr, kind: str) -> Stmt:
        at = {a.var: make.add(begin, lane)}
        moved = map_exprs(body, lambda e: substitute(e, at))
        return For(lane, make.const(0, a.dtype), extent, kind, moved)

    lane, outer = Var(f"{a.name}.inner", a.dtype), Var(f"{a.name}.outer", a.dtype)
    n, zero, wide = const_int(a.extent), make.const(0, a.dtype), make.const(lanes, a.dtype)
    if n is not None and n <= 4 * lanes:
        return part(zero, a.extent, "vectorized") if n > 1 else loop_over(a, body)
    whole = make.floordiv(a.extent, lanes)
    main = For(outer, zero, whole, "serial", part(make.mul(outer, lanes), wide, "vectorized"))
    if n is not None and n % lanes == 0:
        return main
    rest = make.sub(a.extent, make.mul(whole, lanes))
    return seq(main, part(make.mul(whole, lanes), rest, "serial" if n is None else "vectorized"))


def own_axes(op: ScatterOp, asked: Sequence[Expr]) -> int:
    """How many of the last axes of a scatter's domain are the last indices of its places, and do not occur in
    what is ``asked`` of them."""
    used = {v for e in asked for v in variables(e)}
    found = 0
    for a, e in zip(reversed(op.domain), reversed(op.where), strict=False):
        others = op.where[: len(op.where) - found - 1]
        if e is not a.var or a.var in used or any(a.var in variables(o) for o in others):
            break
        found += 1
    return found
