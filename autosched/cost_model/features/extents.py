"""Loops: extents of the innermost six and the product of those outside, how many iterations each kind of loop
has."""

from __future__ import annotations

from tensorlang import Target
from tensorlang.analysis import Expr, Statement, amount, times

DEPTH = 6


def extents(st: Statement, target: Target) -> dict[str, Expr]:
    """From the innermost loop outwards; 1 where there is none."""
    result = {}
    for i in range(DEPTH):
        p = len(st.loops) - 1 - i
        result[f"extent.{i}"] = st.loops[p].extent if p >= 0 else amount(1)
    result["extent.outer"] = st.extent(0, max(0, len(st.loops) - DEPTH))
    for kind in ("unrolled", "vectorized", "parallel"):
        result[f"iterations.{kind}"] = st.of_kind(kind)
    result["iterations.reduce"] = times(*[p.extent for p in st.loops if p.reduce])
    return result
