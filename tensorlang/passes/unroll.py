"""unroll: an unrolled loop is written out, one copy of the body per turn.

``for i in unrolled 0..2: S(i)`` → ``S(0); S(1)``

What would grow beyond ``BUDGET`` statements stays a plain loop, which computes the same; a note at the loop says so:
``for i in range(0, 4096):  # kept: unrolling 4096 x 20 statements exceeds the budget of 20000``
"""

from __future__ import annotations

from ..expr import make
from ..expr.nodes import const_int
from ..loopir.stmt import For, Func, Seq, Stmt, preorder, rewrite, seq
from .simplify import replace_var

BUDGET = 20_000


def unroll(func: Func) -> Func:
    """The pass."""
    return func.with_body(rewrite(func.body, _loop))


def _loop(s: Stmt) -> Stmt | None:
    if not isinstance(s, For) or s.kind != "unrolled":
        return None
    n = const_int(s.extent)
    each = _count(s.body)
    if n is None or n * each > BUDGET:
        note = f"unrolling {n} x {each} statements exceeds the budget of {BUDGET}"
        return For(s.var, s.begin, s.extent, "serial", s.body, tuple(sorted({**dict(s.attrs), "kept": note}.items())))
    return seq(*[replace_var(s.body, s.var, make.add(s.begin, i)) for i in range(n)])


def _count(s: Stmt) -> int:
    return sum(not isinstance(st, Seq) for st in preorder(s))
