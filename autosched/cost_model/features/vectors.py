"""Vectors: lanes, whole vectors an iteration, lanes lost in the last one, whether the accesses are
contiguous, broadcast or scattered."""

from __future__ import annotations

from tensorlang import Target
from tensorlang.analysis import Expr, Statement, absolute, amount, ceil_quotient, choose, minus, ratio, times


def vectors(st: Statement, target: Target) -> dict[str, Expr]:
    """All zero but ``vector.lanes`` for a statement without a vector loop."""
    lanes = max(1, target.vector_bits // (8 * st.accesses[0].bytes))
    at = st.first("vectorized")
    width = amount(1) if at is None else st.loops[at].extent
    whole = ceil_quotient(width, lanes)
    found = {
        "vector.lanes": width,
        "vector.count": whole,
        # lanes of the last vector that compute nothing
        "vector.lost": minus(times(whole, lanes), width),
        "vector.use": ratio(times(width, 64), times(whole, lanes)),
    }
    unit, scattered = amount(0), amount(0)
    if at is not None:
        for a in st.accesses:
            step = absolute(a.strides[at])
            unit = choose(step, 0, unit, choose(step, 1, times(1, plus_one(unit)), unit))
            scattered = choose(step, 1, scattered, plus_one(scattered))
    return found | {"vector.contiguous": unit, "vector.scattered": scattered}


def plus_one(e: Expr) -> Expr:
    """One more."""
    return minus(e, -1)
