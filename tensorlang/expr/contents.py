"""What kinds of operations stand in an expression, found once for each node by what is known of its children.
Knows nodes; not what the answers are used for."""

from __future__ import annotations

from .nodes import (
    Access,
    And,
    Call,
    Choice,
    Compare,
    Const,
    Expr,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Not,
    Or,
    TruncDiv,
    TruncMod,
    Var,
)

READS = 1  # of a tensor or a buffer
CALLS = 2  # of a function
DATA = 4  # names given to what was read
RANGED = 8  # operations that the ranges of their operands may decide
_KINDS = {
    Access: READS,
    Call: CALLS,
    **dict.fromkeys(
        (FloorDiv, FloorMod, TruncDiv, TruncMod, Min, Max, Compare, Choice, And, Or, Not), RANGED
    ),
}
_own: dict[type, int] = {}  # of each type of node by itself


def contents(e: Expr) -> int:
    """The kinds that stand in ``e``, as a sum of the constants above. Kept on the node."""
    kind = type(e)
    if kind is Const:
        return 0
    if kind is Var:
        return DATA if e.kind == "data" else 0  # type: ignore[attr-defined]
    memo = e._memo
    if memo is None:
        memo = e._memo = {}
    else:
        known = memo.get("contents")
        if known is not None:
            return known  # type: ignore[no-any-return]
    found = _own.get(kind)
    if found is None:
        found = _own[kind] = sum(bit for base, bit in _KINDS.items() if issubclass(kind, base))
    for k in e.children():
        if type(k) is Const:
            continue
        if type(k) is not Var and _unknown(k):
            return _from_below(e)
        found |= contents(k)
    memo["contents"] = found
    return found


def _unknown(e: Expr) -> bool:
    return e._memo is None or "contents" not in e._memo


def _from_below(e: Expr) -> int:
    """The same, deepest first: an expression may be thousands of operations deep."""
    stack = [e]
    while stack:
        waiting = [
            k for k in stack[-1].children() if type(k) is not Var and type(k) is not Const and _unknown(k)
        ]
        if waiting:
            stack += waiting
        else:
            contents(stack.pop())
    return contents(e)
