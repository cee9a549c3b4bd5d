"""unroll: an unrolled loop is written out, one copy of the body per turn.

``for i in unrolled 0..2: S(i)`` → ``S(0); S(1)``

What would grow beyond ``BUDGET`` statements stays a plain loop: the code is the same, only not written out.
"""

from __future__ import annotations

from ..expr import make
from ..expr.nodes import const_int
from ..loopir.stmt import For, Func, Stmt, rewrite, seq
from .simplify import replace_var

BUDGET = 20_000


def unroll(func: Func) -> Func:
    """The pass."""
    return func.with_body(rewrite(func.body, _loop))


def _loop(s: Stmt) -> Stmt | None:
    if not isinstance(s, For) or s.kind != "unrolled":
        return None
    n = const_int(s.extent)
    if n is None or n * _count(s.body) > BUDGET:
        return For(s.var, s.begin, s.extent, "serial", s.body, s.attrs)
    return seq(*[replace_var(s.body, s.var, make.add(s.begin, i)) for i in range(n)])


def _count(s: Stmt) -> int:
    return 1 + sum(_count(p) for p in s.parts())
