"""Memory: what each level of the cache must deliver.

For a cache of so many bytes the reuse level is the outermost loop whose touched bytes fit; every turn of the loops outside it
brings them in anew. Which loop that is depends on the knobs, so the traffic is a chain of choices from the inside outwards.
"""

from __future__ import annotations

from tensorlang import Target
from tensorlang.analysis import Expr, Statement, amount, choose, plus, ratio, times


def caches(st: Statement, target: Target) -> dict[str, Expr]:
    """Bytes moved into each level, operations per byte moved, and the fill of the caches by the inner loops."""
    found: dict[str, Expr] = {}
    levels = range(len(st.loops) + 1)
    lines = [plus(*[times(a.lines(p, target.cache_line), target.cache_line) for a in st.accesses]) for p in levels]
    for name, size in (("l1", target.l1_bytes), ("l2", target.l2_bytes), ("l3", target.l3_bytes)):
        traffic = times(st.turns, lines[-1])
        for p in reversed(range(len(st.loops))):
            traffic = choose(lines[p], size * 3 // 4, times(st.extent(0, p), lines[p]), traffic)
        found[f"traffic.{name}"] = traffic
        found[f"intensity.{name}"] = ratio(times(st.flops, 16), plus(traffic, 1))
    for i in range(1, 5):
        p = len(st.loops) - i
        found[f"touched.{i}"] = lines[p] if p >= 0 else amount(0)
    found["touched.all"] = lines[0]
    return found
