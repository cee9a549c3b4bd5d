"""Rows that a scatter writes: the last axes of its updates where they are the last indices of their places,
and the loop over the last of them in vectors. Knows statements and the operation; nothing of schedules.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..expr import make
from ..expr.nodes import Expr, Var, const_int
from ..expr.walk import substitute, variables
from ..loopir.stmt import SERIAL, For, Stmt, map_exprs, seq
from ..te.axis import IterVar
from ..te.scatter import ScatterOp


def loop_over(a: IterVar, body: Stmt, kind: str = SERIAL) -> Stmt:
    """The loop over an axis, a serial one."""
    return For(a.var, make.const(0, a.dtype), a.extent, kind, body)


def shared_axis(op: ScatterOp) -> IterVar | None:
    """The outermost axis of a scatter's domain, but for those of one element, where it is an index of its
    places as it is: no two of its iterations write the same, and threads share it. Measured (Zen 4, two
    threads): 64 updates of each of 2000 rows of 64 take 0.5 of the time, 500 of 64 rows of 10,000 0.6."""
    first = next((a for a in op.domain if const_int(a.extent) != 1), None)
    return first if first is not None and any(e is first.var for e in op.where) else None


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
