"""How far apart neighbouring iterations of the two innermost serial loops touch memory: rows near each other,
pages apart, the same place."""

from __future__ import annotations

from tensorlang import Target
from tensorlang.analysis import Expr, Statement, absolute, amount, most, times

TENSORS = 4


def strides(st: Statement, target: Target) -> dict[str, Expr]:
    """The stride in bytes of the first tensors along the innermost loop that is neither unrolled nor
    vectorised, and the one around it."""
    serial = [p for p in range(st.own, len(st.loops)) if st.loops[p].kind in ("serial", "parallel")][::-1]
    result = {}
    for i in range(2):
        for n in range(TENSORS):
            known = i < len(serial) and n < len(st.accesses)
            a = st.accesses[n] if known else None
            result[f"stride.{i}.{n}"] = (
                times(absolute(a.strides[serial[i]]), a.bytes) if a is not None else amount(0)
            )
    result["stride.widest"] = most(
        amount(0), amount(max((len(a.extents[0]) for a in st.accesses), default=0))
    )
    return result
