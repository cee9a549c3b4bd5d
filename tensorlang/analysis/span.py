"""Spans of index expressions over axes of known width, and their slopes: interval arithmetic on amounts.
Knows expressions only.

Every axis runs from 0 to its width - 1; where the box stands does not matter for how large it is. ``None``
means that the index cannot be followed (it reads data, say), and the caller takes the whole dimension.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..expr.linear import poly
from ..expr.nodes import Add, Cast, Choice, Const, Expr, FloorDiv, FloorMod, Max, Min, Mul, Sub, Var
from ..expr.nodes import const_int as literal_value
from ..expr.walk import variables
from .quantity import Amount, amount, least, minus, most, plus, quotient, times

Ends = tuple[Amount, Amount]


def span(e: Expr, width: Mapping[Var, Expr]) -> Ends | None:
    """The smallest and the largest value of an index."""
    t = type(e)
    if t is Const:
        n = literal_value(e)
        return None if n is None else (n, n)
    if t is Var:
        w = width.get(e)  # type: ignore[call-overload]
        return None if w is None else (0, minus(w, 1))
    if t in (Add, Sub, Mul):
        return _sum(e, width)
    if isinstance(e, FloorDiv | FloorMod):
        c = literal_value(e.b)
        a = span(e.a, width)
        if c is None or c <= 0 or a is None:
            return None
        if isinstance(e, FloorDiv):
            return quotient(a[0], c), quotient(a[1], c)
        return 0, least(minus(a[1], a[0]), c - 1)
    if isinstance(e, Min | Max | Choice):
        a, b = span(e.a, width), span(e.b, width)
        if a is None or b is None:
            return None
        if isinstance(e, Choice):
            return least(a[0], b[0]), most(a[1], b[1])
        pick = least if isinstance(e, Min) else most
        return pick(a[0], b[0]), pick(a[1], b[1])
    if isinstance(e, Cast) and e.dtype.is_index and e.a.dtype.is_int:
        return span(e.a, width)
    return None


def _sum(e: Expr, width: Mapping[Var, Expr]) -> Ends | None:
    lo: list[Amount] = []
    hi: list[Amount] = []
    for mono, c in poly(e).items():
        moving, sizes = _factors(mono)
        if len(moving) > 1 or (moving and moving[0] is e):  # a product of axes: no box
            return None
        ends: Ends | None = (1, 1) if not moving else span(moving[0], width)
        if ends is None:
            return None
        a, b = (times(x, *sizes, c) for x in ends)
        lo.append(a if c > 0 else b)
        hi.append(b if c > 0 else a)
    return plus(*lo), plus(*hi)


def slope(e: Expr, step: Mapping[Var, Expr]) -> Expr | None:
    """By how much an index moves when each axis moves by its step; None when the moves differ from place to
    place."""
    out: list[Amount] = []
    for mono, c in poly(e).items():
        if not mono:
            continue
        if not any(_moves(a, step) for a in mono):
            continue
        moving, sizes = _factors(mono)
        move = _move(moving[0], step) if len(moving) == 1 else None
        if move is None:
            return None
        out.append(times(move, *sizes, c))
    return plus(*out) if out else amount(0)


def _move(e: Expr, step: Mapping[Var, Expr]) -> Amount | None:
    """The same for one factor. Of a quotient and a remainder, between two places where they wrap around:
    panels are as wide as the tiles that read them."""
    if type(e) is Var:
        return step[e]
    if not isinstance(e, FloorDiv | FloorMod):
        return None
    n, inner = literal_value(e.b), slope(e.a, step)
    if n is None or n < 1 or inner is None:
        return None
    whole = quotient(inner, n)
    return whole if isinstance(e, FloorDiv) else minus(inner, times(whole, n))


def _factors(mono: Sequence[Expr]) -> tuple[list[Expr], list[Amount]]:
    """The factors of a product apart: those that move with axes, and tile sizes, of which nothing but knobs
    decides (they are at least 1: a partial reduction reads ``outer * tile + inner``)."""
    sizes = [bool(known := variables(f)) and all(v.kind == "knob" for v in known) for f in mono]
    return [f for f, fixed in zip(mono, sizes, strict=True) if not fixed], [
        amount(f) for f, fixed in zip(mono, sizes, strict=True) if fixed
    ]


def _moves(e: Expr, step: Mapping[Var, Expr]) -> bool:
    if type(e) is Var:
        return literal_value(step.get(e, amount(0))) != 0
    return any(_moves(c, step) for c in e.children())
