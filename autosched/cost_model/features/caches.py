"""Memory: what each level of the cache must deliver."""

from __future__ import annotations

from tensorlang import Target
from tensorlang.analysis import Expr, Statement, amount, plus, ratio, times

from .estimate import traffic


def caches(st: Statement, target: Target) -> dict[str, Expr]:
    """Bytes moved into each level, operations per byte moved, and the fill of the caches by the inner
    loops."""
    result: dict[str, Expr] = {}
    for name, brought in traffic(st, target).items():
        result[f"traffic.{name}"] = brought
        result[f"intensity.{name}"] = ratio(times(st.flops, 16), plus(brought, 1))
    lines = [
        plus(*[times(a.lines(p, target.cache_line), target.cache_line) for a in st.accesses])
        for p in range(len(st.loops) + 1)
    ]
    for i in range(1, 5):
        p = len(st.loops) - i
        result[f"touched.{i}"] = lines[p] if p >= 0 else amount(0)
    result["touched.all"] = lines[0]
    return result
