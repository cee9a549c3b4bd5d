"""The greatest common divisor as an expression. It stands only in amounts that hang on knobs (widths of
regions under ``//`` and ``%``), which are evaluated as columns and folded when the knobs are numbers: no
kernel ever computes it. Knows expressions only."""

from __future__ import annotations

import math
from typing import Any

from ..core.node import intern
from .make import ExprLike, unify
from .nodes import Binary, Const, Expr, const_int
from .printer import Pieces, listed, rules


class Gcd(Binary):
    """``gcd(a, b)`` of two index expressions."""

    __slots__ = ()
    symbol = "gcd"


def gcd(a: ExprLike, b: ExprLike) -> Expr:
    """The greatest common divisor, never negative; 0 is a multiple of everything."""
    a, b = unify(a, b)
    if type(a) is Const and type(b) is Const:
        return Const.make(math.gcd(int(a.value), int(b.value)), a.dtype)
    for one, other in ((a, b), (b, a)):
        if const_int(one) == 0:
            return other
        if const_int(one) == 1:
            return one
    return a if a is b else intern(Gcd, a, b)


@rules.on(Gcd)
def _show_gcd(e: Gcd, outer: int, name: Any) -> Pieces:
    return "gcd(", *listed((e.a, e.b)), ")"
