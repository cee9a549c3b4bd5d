"""auto unroll: inside a loop with the pragma ``auto_unroll_max_step = n``, plain loops of constant extent whose turns come to at most n
steps become unrolled loops.

``for i pragma 16: for j in 0..4: for k in 0..4: S`` → both inner loops unrolled (16 steps)
"""

from __future__ import annotations

from ..expr.nodes import const_int
from ..loopir.stmt import For, Func, If, Seq, Stmt


def auto_unroll(func: Func) -> Func:
    """The pass."""
    return func.with_body(_walk(func.body, 0)[0])


def _walk(s: Stmt, limit: int) -> tuple[Stmt, int]:
    """The statement, and how many steps it comes to when written out; more than any limit when that is not constant."""
    if isinstance(s, For):
        own = dict(s.attrs).get("auto_unroll_max_step", limit)
        body, steps = _walk(s.body, own)
        n = const_int(s.extent)
        total = steps * n if n is not None else 1 << 40
        kind = "unrolled" if s.kind == "serial" and 0 < total <= limit else s.kind
        if kind == s.kind and body is s.body:
            return s, total
        return For(s.var, s.begin, s.extent, kind, body, s.attrs), total
    parts = s.parts()
    if not parts:
        return s, 0 if isinstance(s, Seq) else 1
    walked = [_walk(p, limit) for p in parts]
    total = sum(n for _, n in walked) + isinstance(s, If)
    if all(a is b for (a, _), b in zip(walked, parts, strict=True)):
        return s, total
    return s.with_parts(*[a for a, _ in walked]), total
