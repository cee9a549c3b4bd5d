"""About how much machine code a statement becomes: in instructions, a vector of several registers as that
many. Knows statements only.

Counted for registers of 64 bytes. A load from places that lie apart takes an instruction for each, an
intrinsic some twenty; scalar arithmetic on indices is shared and mostly folded into addresses.
"""

from __future__ import annotations

from ..expr.nodes import Access, Broadcast, Call, Const, Expr, Ramp, Var
from ..expr.walk import preorder as walk
from .stmt import Load, Seq, Stmt, Store, preorder

REGISTER = 64  # bytes
INTRINSIC = 20  # instructions
BYTES = 7  # of an instruction with its operands


def instructions(s: Stmt) -> int:
    """The estimate for a statement with all below, each loop's body once."""
    return sum(
        1 + sum(map(_of, st.exprs())) + (_width(st.value) if isinstance(st, Store) else 0)
        for st in preorder(s)
        if not isinstance(st, Seq)
    )


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
