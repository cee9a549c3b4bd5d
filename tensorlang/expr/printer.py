"""Expressions as text that reads like Python. Names are made unique only here. Knows no loops and no
schedules."""

from __future__ import annotations

from collections.abc import Callable

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

rules = TypeTable("printer")


def show(e: Expr, name: Namer = lambda v: v.name, outer: int = 0) -> str:
    """``e`` as text; ``name`` gives each variable its name; parentheses only where the ``outer`` precedence
    needs them."""
    return rules(e)(e, name, outer)  # type: ignore[no-any-return]


@rules.on(Var)
def _var(e: Var, name: Namer, outer: int) -> str:
    return name(e)


@rules.on(Const)
def _const(e: Const, name: Namer, outer: int) -> str:
    if e.dtype.is_bool:
        return "True" if e.value else "False"
    if e.dtype.is_float:
        # the shortest that reads back the same
        text = str(np.float32(e.value)) if e.dtype.name == "float32" else repr(float(e.value))
        return text if e.dtype.name == "float32" else f"{e.dtype}({text})"
    return str(e.value) if e.dtype.is_index else f"{e.dtype}({e.value})"


@rules.on(Binary)
def _binary(e: Binary, name: Namer, outer: int) -> str:
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
        times = show(e.a.a, name, 6) + (f"*{step}" if step != 1 else "")
        text = f"{show(e.b, name, mine)} - {times}"
        return f"({text})" if mine < outer else text
    text = f"{show(e.a, name, left)}{symbol}{show(e.b, name, right)}"
    return f"({text})" if mine < outer else text


@rules.on(Min, Max, TruncDiv, TruncMod)
def _function(e: Binary, name: Namer, outer: int) -> str:
    return f"{e.symbol}({show(e.a, name)}, {show(e.b, name)})"


@rules.on(Not)
def _not(e: Not, name: Namer, outer: int) -> str:
    text = f"not {show(e.a, name, 3)}"
    return f"({text})" if outer > 3 else text


@rules.on(Choice)
def _choice(e: Choice, name: Namer, outer: int) -> str:
    word = {Select: "select", IfThenElse: "if_then_else"}[type(e)]
    return f"{word}({show(e.cond, name)}, {show(e.a, name)}, {show(e.b, name)})"


@rules.on(Cast)
def _cast(e: Cast, name: Namer, outer: int) -> str:
    return f"{e.dtype}({show(e.a, name)})"


@rules.on(Call)
def _call(e: Call, name: Namer, outer: int) -> str:
    return f"{e.name}({', '.join(show(a, name) for a in e.args)})"


@rules.on(Ramp)
def _ramp(e: Ramp, name: Namer, outer: int) -> str:
    stride = show(e.stride, name)
    return f"ramp({show(e.base, name)}, {stride}, {e.lanes})"


@rules.on(Broadcast)
def _broadcast(e: Broadcast, name: Namer, outer: int) -> str:
    return f"x{e.lanes}({show(e.value, name)})"


@rules.on(Access)
def _access(e: Access, name: Namer, outer: int) -> str:
    return f"{e.label()}[{', '.join(show(i, name) for i in e.indices)}]"  # type: ignore[attr-defined]
