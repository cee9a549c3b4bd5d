"""Index arithmetic in 64 bits throughout: what is proved of two ends is not hidden by a conversion around
each. Knows expressions only.

A loop fused of symbolic ones is counted in 64 bits and its parts in 32: ``int32((f + 2) // 6) - int32(f //
6)`` is a difference of two unknowns, ``(f + 2) // 6 - f // 6`` is at most 1. Indices do not overflow, so both
are the same.
"""

from __future__ import annotations

from ..expr.linear import reads_data
from ..expr.nodes import Cast, Expr
from ..expr.walk import preorder, rewrite


def widened(e: Expr) -> Expr:
    """``e`` without conversions of indices to fewer bits; itself where there are none."""
    return e.memo("widened", lambda: rewrite(e, _operand)) if _narrows_within(e) else e


def _narrows_within(e: Expr) -> bool:
    return e.memo("narrows", lambda: any(_narrows(node) for node in preorder(e)))  # type: ignore[no-any-return]


def _narrows(e: Expr) -> bool:
    return (
        isinstance(e, Cast)
        and e.dtype.is_index
        and e.a.dtype.is_index
        and e.dtype.bits < e.a.dtype.bits
        and not reads_data(e)
    )


def _operand(e: Expr) -> Expr | None:
    return e.a if isinstance(e, Cast) and _narrows(e) else None
