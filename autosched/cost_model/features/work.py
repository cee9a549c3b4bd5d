"""Arithmetic: operations by kind over the whole run, and how much of it is for nothing (tails, overlapping
tiles)."""

from __future__ import annotations

from tensorlang import Target
from tensorlang.analysis import Expr, Statement, ratio, times


def work(st: Statement, target: Target) -> dict[str, Expr]:
    """Counts of every kind of operation, total iterations, iterations per point of the declared
    computation."""
    found = {f"ops.{kind}": times(st.iterations, n) for kind, n in st.work.counts().items()}
    return found | {"iterations": st.iterations, "waste": ratio(times(st.iterations, 64), st.points)}
