"""Threads: how many iterations are shared out, how evenly, how much work is in one, how often a parallel
region begins."""

from __future__ import annotations

from tensorlang import Target
from tensorlang.analysis import Expr, Statement, amount, ceil_quotient, quotient, ratio, times


def parallel(st: Statement, target: Target) -> dict[str, Expr]:
    """A statement outside any parallel loop has one iteration of all the work."""
    at = st.first("parallel")
    iterations = amount(1) if at is None else st.loops[at].extent
    rounds = ceil_quotient(iterations, target.num_cores)
    return {
        "parallel.iterations": iterations,
        "parallel.rounds": rounds,
        "parallel.starts": amount(0) if at is None else st.extent(0, at),
        # 64 when every round keeps all cores busy
        "parallel.balance": ratio(times(iterations, 64), times(rounds, target.num_cores)),
        "parallel.work": quotient(times(st.iterations, max(1, st.work.flops)), iterations),
    }
