"""Data wraps, indices do not: what may be said of sums and products of int32 and int64 values that were read.
Knows expressions only.

``x + 1 > x`` holds of every index and not of every element: of the largest it does not. So a sum of data is
taken apart only where the ranges of its terms say that it stays within its type (as sums of bytes widened to
int32 do); else it stands for itself, a value of which nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..expr.linear import wraps
from ..expr.nodes import Access, Add, Expr, Mul, Sub, Var

Interval = tuple[int | None, int | None]
UNBOUNDED: Interval = (None, None)


def is_sum(e: Expr) -> bool:
    """Whether ``e`` is a sum or product of data."""
    return type(e) in (Add, Sub, Mul) and e.dtype.is_index and wraps(e)


def held(e: Expr, r: Interval) -> Interval:
    """The interval of ``e``, whose terms say ``r``: data beyond the limits of its type comes back at the
    other end."""
    if not wraps(e):
        return r
    lo, hi = e.dtype.limits()
    return r if r[0] is not None and r[1] is not None and lo <= r[0] and r[1] <= hi else UNBOUNDED


def settled(e: Expr, interval: Callable[[Expr], Interval]) -> Expr:
    """``e`` with a name in place of every sum or product of data that may wrap: it has a value, but not that
    of its terms."""
    if not wraps(e):
        return e
    done: dict[Expr, Expr] = {}
    stack = [e]
    while stack:
        node = stack[-1]
        if node in done:
            stack.pop()
        elif not wraps(node) or isinstance(node, Access):  # where a value is read is not part of it
            done[node] = node
        elif is_sum(node) and interval(node) == UNBOUNDED:  # what is inside it is not looked at
            done[node] = node.memo("settled", partial(Var, "wrapped", node.dtype, "data"))
        else:
            kids = node.children()
            waiting = [k for k in kids if k not in done]
            if waiting:
                stack += waiting
                continue
            new = [done[k] for k in kids]
            done[node] = (
                node if all(a is b for a, b in zip(kids, new, strict=True)) else node.with_children(*new)
            )
    return done[e]
