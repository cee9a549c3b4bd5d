"""Memory: what each level of the cache must deliver."""

from __future__ import annotations

from tensorlang import Target
from tensorlang.analysis import Expr, Statement, amount, plus, ratio, times

from .estimate import lines_touched, pages_missed, traffic


def caches(st: Statement, target: Target) -> dict[str, Expr]:
    """Bytes moved into each level, operations per byte moved, the fill of the caches by the inner
    loops, and pages that are not known."""
    result: dict[str, Expr] = {}
    for name, brought in traffic(st, target).items():
        result[f"traffic.{name}"] = brought
        result[f"intensity.{name}"] = ratio(times(st.flops, 16), plus(brought, 1))
    lines = lines_touched(st, target)
    for i in range(1, 5):
        p = len(lines) - 1 - i
        result[f"touched.{i}"] = lines[p] if p >= 0 else amount(0)
    result["touched.all"] = lines[0]
    result["pages"] = pages_missed(st, target)
    return result
