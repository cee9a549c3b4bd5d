"""About how much machine code a statement becomes: in instructions, a vector of several registers as that
many. Knows statements only.

Counted for registers of 64 bytes. A load from places that lie apart takes an instruction for each, an
intrinsic some twenty; scalar arithmetic on indices is shared and mostly folded into addresses.
"""

from __future__ import annotations

from ..expr.nodes import Access, Broadcast, Call, Const, Expr, Ramp, Var, const_int
from ..expr.walk import preorder as walk
from .stmt import UNROLLED, For, Load, Seq, Stmt, Store, preorder

REGISTER = 64  # bytes
INTRINSIC = 20  # instructions
BYTES = 7  # of an instruction with its operands


def instructions(s: Stmt) -> int:
    """The estimate for a statement with all below, each loop's body once."""
    return sum(_own(st) for st in preorder(s))


def written_out(s: Stmt) -> int:
    """At most what ``instructions`` says once the unrolled loops are written out."""
    total, stack = 0, [(s, 1)]
    while stack:
        st, times = stack.pop()
        total += times * _own(st)
        if isinstance(st, For) and st.kind == UNROLLED:
            times *= max(1, const_int(st.extent) or 1)
        stack += [(p, times) for p in st.parts()]
    return total


def _own(s: Stmt) -> int:
    """Of a statement without what is below it."""
    if isinstance(s, Seq):
        return 0
    return 1 + sum(map(_of, s.exprs())) + (_width(s.value) if isinstance(s, Store) else 0)


def _of(e: Expr) -> int:
    return e.memo("instructions", lambda: sum(map(_node, walk(e))))  # type: ignore[no-any-return]


def _node(e: Expr) -> int:
    if isinstance(e, Const | Var | Ramp | Broadcast) or (
        e.dtype.is_index and e.dtype.lanes == 1 and not isinstance(e, Access)
    ):
        return 0
    if isinstance(e, Load) and any(i.dtype.lanes > 1 and not isinstance(i, Ramp) for i in e.indices):
        return e.dtype.lanes
    return _width(e) * (INTRINSIC if isinstance(e, Call) else 1)


def _width(e: Expr) -> int:
    return -(-e.dtype.lanes * e.dtype.bytes // REGISTER)
