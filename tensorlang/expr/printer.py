"""Expressions as text that reads like Python. Names are made unique only here. Knows no loops and no
schedules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from ..core.visit import TypeTable
from .nodes import (
    Access,
    Add,
    And,
    Binary,
    Broadcast,
    Call,
    Cast,
    Choice,
    Compare,
    Const,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IfThenElse,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
)

Namer = Callable[[Var], str]
Piece = str | tuple[Expr, int]  # text, or an expression with the precedence around it
Pieces = Iterable[Piece]
_PRECEDENCE: dict[type, int] = {
    Or: 1,
    And: 2,
    Compare: 4,
    Add: 5,
    Sub: 5,
    Mul: 6,
    Div: 6,
    FloorDiv: 6,
    FloorMod: 6,
}
_MOST = 1 << 17  # operations in a text; where parts are shared there may be 2 to the power of the depth

rules = TypeTable("printer")  # f(e, outer) -> pieces; a variable is a piece by itself


def show(e: Expr, name: Namer = lambda v: v.name, outer: int = 0) -> str:
    """``e`` as text; ``name`` gives each variable its name; parentheses only where the ``outer`` precedence
    needs them. What is too much for any reader ends in ``…``."""
    return text_of(((e, outer),), name)


def text_of(pieces: Pieces, name: Namer) -> str:
    """The pieces and all they are made of as text."""
    out: list[str] = []
    stack: list[Piece] = [*pieces][::-1]
    left = _MOST
    while stack:
        piece = stack.pop()
        if isinstance(piece, str):
            out.append(piece)
        elif type(piece[0]) is Var:
            out.append(name(piece[0]))
        elif left:
            left -= 1
            stack += [*rules(piece[0])(piece[0], piece[1], name)][::-1]
        else:
            out.append("…")
    return "".join(out)


def listed(es: Iterable[Expr]) -> Iterator[Piece]:
    """The pieces of a list with commas."""
    for n, e in enumerate(es):
        if n:
            yield ", "
        yield e, 0


def enclosed(pieces: Sequence[Piece], needed: bool) -> Pieces:
    """The pieces in parentheses where they are needed."""
    return ("(", *pieces, ")") if needed else pieces


@rules.on(Const)
def _const(e: Const, outer: int, name: Namer) -> Pieces:
    if e.dtype.is_bool:
        return ("True" if e.value else "False",)
    if e.dtype.is_float:
        # the shortest that reads back the same
        text = str(np.float32(e.value)) if e.dtype.name == "float32" else repr(float(e.value))
        return (text if e.dtype.name == "float32" else f"{e.dtype}({text})",)
    return (str(e.value) if e.dtype.is_index else f"{e.dtype}({e.value})",)


@rules.on(Binary)
def _binary(e: Binary, outer: int, name: Namer) -> Pieces:
    mine = _PRECEDENCE.get(type(e)) or (_PRECEDENCE[Compare] if isinstance(e, Compare) else 0)
    # the right side of - // % and the like needs parentheses at equal precedence; so do chained comparisons.
    # Float sums and products too, where a + (b + c) is another number than a + b + c; and (a // b)*c, which
    # would mislead the eye.
    left = (
        mine + 1
        if isinstance(e, Compare) or (type(e) is Mul and isinstance(e.a, FloorDiv | FloorMod))
        else mine
    )
    free = isinstance(e, And | Or) or (
        not e.dtype.is_float and (type(e) is Add or (type(e) is Mul and type(e.b) is Mul))
    )
    right = mine if free else mine + 1
    # i*8 + j, but a * b where data is meant
    symbol = "*" if type(e) is Mul and not e.dtype.is_float else f" {e.symbol} "
    if (
        type(e) is Add
        and type(e.a) is Mul
        and type(e.a.b) is Const
        and not e.dtype.is_float
        and e.a.b.value < 0
    ):
        step = -e.a.b.value  # 54 - i*8, not i*-8 + 54
        return enclosed(((e.b, mine), " - ", (e.a.a, 6), f"*{step}" if step != 1 else ""), mine < outer)
    return enclosed(((e.a, left), symbol, (e.b, right)), mine < outer)


@rules.on(Min, Max, TruncDiv, TruncMod)
def _function(e: Binary, outer: int, name: Namer) -> Pieces:
    return f"{e.symbol}(", *listed((e.a, e.b)), ")"


@rules.on(Not)
def _not(e: Not, outer: int, name: Namer) -> Pieces:
    return enclosed(("not ", (e.a, 3)), outer > 3)


@rules.on(Choice)
def _choice(e: Choice, outer: int, name: Namer) -> Pieces:
    word = {Select: "select", IfThenElse: "if_then_else"}[type(e)]
    return f"{word}(", *listed((e.cond, e.a, e.b)), ")"


@rules.on(Cast)
def _cast(e: Cast, outer: int, name: Namer) -> Pieces:
    return f"{e.dtype}(", (e.a, 0), ")"


@rules.on(Call)
def _call(e: Call, outer: int, name: Namer) -> Pieces:
    return f"{e.name}(", *listed(e.args), ")"


@rules.on(Ramp)
def _ramp(e: Ramp, outer: int, name: Namer) -> Pieces:
    return "ramp(", *listed((e.base, e.stride)), f", {e.lanes})"


@rules.on(Broadcast)
def _broadcast(e: Broadcast, outer: int, name: Namer) -> Pieces:
    return f"x{e.lanes}(", (e.value, 0), ")"


@rules.on(Access)
def _access(e: Access, outer: int, name: Namer) -> Pieces:
    return f"{e.label()}[", *listed(e.indices), "]"  # type: ignore[attr-defined]
