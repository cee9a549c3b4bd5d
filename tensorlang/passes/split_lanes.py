"""split lanes: vectors of an odd number of lanes are written as vectors of powers of two.

``C[0 : 24] = A[0 : 24] * x24(s)`` → ``C[0 : 16] = A[0 : 16] * x16(s); C[16 : 24] = A[16 : 24] * x8(s)``

LLVM turns a ``<24 x float>`` that lives across a loop into scalars (measured: 4 instead of 95 GFLOP/s in a 4
x 24 matmul tile), and is at its best with a power of two, which it cuts into registers by itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..core.recursion import Steps, run
from ..expr import make
from ..expr.nodes import LT, REDUCED, Broadcast, Expr, Ramp, Var, const_int
from ..expr.walk import rewrite as rewrite_expr
from ..loopir.stmt import Func, Let, Load, Reduction, Stmt, Store, load, rebuilt, reduction, seq

MAX_LANES = 64
Cut = Mapping[Var, Mapping[int, Var]]  # the parts of odd vector variables, by offset


def split_lanes(func: Func) -> Func:
    """The pass."""
    return func.with_body(run(_statement(func.body, {})))


def pieces(lanes: int) -> list[tuple[int, int]]:
    """(offset, lanes) of powers of two, at most MAX_LANES each, that make up ``lanes``."""
    out = []
    at = 0
    while at < lanes:
        n = min(1 << ((lanes - at).bit_length() - 1), MAX_LANES)
        out.append((at, n))
        at += n
    return out


def _odd(lanes: int) -> bool:
    return lanes > 1 and (lanes & (lanes - 1) != 0 or lanes > MAX_LANES)


def _statement(s: Stmt, cut: Cut) -> Steps[Stmt]:
    if isinstance(s, Let) and _odd(s.value.dtype.lanes):
        value = _reductions(s.value, cut)
        parts = {
            at: Var(s.var.name, value.dtype.element.with_lanes(n), s.var.kind)
            for at, n in pieces(value.dtype.lanes)
        }
        out = yield _statement(s.body, {**cut, s.var: parts})
        for at, n in reversed(pieces(value.dtype.lanes)):
            out = Let(parts[at], lanes_of(value, at, n, cut), out)
        return out
    below = s.parts()
    if below:
        new = []
        for p in below:
            new.append((yield _statement(p, cut)))
        s = rebuilt(s, new)
    exprs = s.exprs()
    if exprs:
        changed = tuple(_reductions(e, cut) for e in exprs)
        if any(a is not b for a, b in zip(exprs, changed, strict=True)):
            s = s.with_exprs(*changed)
    if isinstance(s, Store):
        lanes = max((i.dtype.lanes for i in s.indices), default=1)
        if _odd(lanes):
            return first_lanes(s, lanes, cut)
    return s


def first_lanes(s: Store, lanes: int, cut: Cut) -> Stmt:
    """So many lanes of a store, or all it has, in pieces; ``cut`` is that of ``lanes_of``."""
    return seq(
        *[
            s.of_same(
                lanes_of(s.value, at, n, cut),
                tuple(lanes_of(i, at, n, cut) for i in s.indices),
                None if s.mask is None else _unless_whole(lanes_of(s.mask, at, n, cut)),
            )
            for at, n in pieces(lanes)
        ]
    )


def _unless_whole(mask: Expr) -> Expr | None:
    return None if make.uniform(mask, True) else mask


def _reductions(e: Expr, cut: Cut) -> Expr:
    if not e.contains & REDUCED:
        return e

    def change(node: Expr) -> Expr | None:
        if isinstance(node, Reduction) and _odd(node.value.dtype.lanes):
            parts = [
                reduction(node.op, lanes_of(node.value, at, n, cut))
                for at, n in pieces(node.value.dtype.lanes)
            ]
            out = parts[0]
            for p in parts[1:]:
                out = COMBINE[node.op](out, p)
            return out
        return None

    return rewrite_expr(e, change)


COMBINE = {
    "add": make.add,
    "mul": make.mul,
    "min": make.min_,
    "max": make.max_,
    "and": make.and_,
    "or": make.or_,
}


def lanes_of(e: Expr, at: int, n: int, cut: Cut) -> Expr:
    """The lanes ``at .. at + n - 1`` of a vector; a scalar stands for itself. ``cut`` has the parts of vector
    variables by offset."""
    if e.dtype.lanes == 1:
        return e
    if isinstance(e, Var):
        return cut[e][at]
    if isinstance(e, Ramp):
        return make.ramp(make.add(e.base, make.mul(e.stride, at)), e.stride, n)
    if isinstance(e, Broadcast):
        return make.broadcast(e.value, n)
    if isinstance(e, Load):
        return load(
            e.buffer,
            tuple(lanes_of(i, at, n, cut) for i in e.indices),
            None if e.mask is None else lanes_of(e.mask, at, n, cut),
        )
    part = e.with_children(*[lanes_of(c, at, n, cut) for c in e.children()])
    return make.broadcast(make.const(True, "bool"), n) if type(part) is LT and _always(part) else part


def _always(e: LT) -> bool:
    """Whether numbers decide a comparison in all lanes, as those of a mask ahead of its rest."""
    if type(e.a) is not Ramp or const_int(e.a.stride) != 1 or type(e.b) is not Broadcast:
        return False
    first, most = const_int(e.a.base), const_int(e.b.value)
    return first is not None and most is not None and first + e.dtype.lanes <= most
