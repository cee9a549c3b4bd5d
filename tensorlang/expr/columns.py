"""Expressions over knobs as numpy columns: one compiled function from an integer matrix (rows = candidates,
columns = knobs) to a value per row and expression. Knows expressions and numpy; nothing of schedules or what
the numbers mean.

The function is generated Python source, one line per distinct node: nodes are interned, so a common
subexpression is computed once. Integers are computed in int64 and floats in float64, whatever the width of
their type: index arithmetic never overflows by contract, and the contract holds for 64 bits here. Rows are
worked off in blocks that keep the intermediate columns in cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.visit import TypeTable
from ..errors import DeclareError
from .divisor import Gcd
from .intrinsics import TABLE
from .nodes import (
    EQ,
    LE,
    LT,
    NE,
    Add,
    And,
    Binary,
    Call,
    Cast,
    Choice,
    Const,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Sub,
    Var,
)

# rows at a time: 16 KiB a column, so that the columns still needed stay in the second-level cache
BLOCK = 2048
Matrix = Any  # np.ndarray
Columns = Callable[[Matrix], Matrix]

rules = TypeTable("columns")
_NAMES: dict[str, Any] = {
    "np": np,
    "inf": float("inf"),
    "nan": float("nan"),
    "where": np.where,
    "minimum": np.minimum,
    "gcd": np.gcd,
    "maximum": np.maximum,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_not": np.logical_not,
}
_SYMBOLS = {
    Add: "+",
    Sub: "-",
    Mul: "*",
    Div: "/",
    FloorDiv: "//",
    FloorMod: "%",
    EQ: "==",
    NE: "!=",
    LT: "<",
    LE: "<=",
}
_FUNCTIONS = {Gcd: "gcd", Min: "minimum", Max: "maximum", And: "logical_and", Or: "logical_or"}


@rules.on(*_SYMBOLS)
def _symbol(e: Binary, a: str, b: str) -> str:
    return f"{a} {_SYMBOLS[type(e)]} {b}"


@rules.on(*_FUNCTIONS)
def _function(e: Binary, a: str, b: str) -> str:
    return f"{_FUNCTIONS[type(e)]}({a}, {b})"


@rules.on(Not)
def _not(e: Not, a: str) -> str:
    return f"logical_not({a})"


@rules.on(Choice)
def _choice(e: Choice, cond: str, a: str, b: str) -> str:
    return f"where({cond}, {a}, {b})"


@rules.on(Cast)
def _cast(e: Cast, a: str) -> str:
    if e.dtype.is_index and (e.a.dtype.is_int or e.a.dtype.is_bool):
        # columns are int64 already, whatever width the expression has
        return a if e.a.dtype.is_int else f"{a}.astype(np.int64)"
    if e.dtype.is_float and e.dtype.bits == 64:
        return f"np.asarray({a}, np.float64)"
    raise DeclareError(f"columns: a cast to {e.dtype} in {e}", because="columns are int64, float64 and bool")


@rules.on(Call)
def _call(e: Call, *args: str) -> str:
    return f"intrinsic[{e.name!r}].evaluate({', '.join(args)})"


_NAMES["intrinsic"] = TABLE


def source_of(exprs: Sequence[Expr], knobs: Sequence[Var]) -> str:
    """The generated function as text: ``columns(k, out)`` with ``k`` a list of knob columns, writing to the
    columns of ``out``."""
    name: dict[Expr, str] = {v: f"k[{i}]" for i, v in enumerate(knobs)}
    lines = ["def columns(k, out):"]

    def visit(root: Expr) -> None:
        stack: list[tuple[Expr, bool]] = [(root, False)]
        while stack:
            e, ready = stack.pop()
            if e in name:
                continue
            if isinstance(e, Const):
                name[e] = f"({e.value!r})"
            elif isinstance(e, Var):
                raise DeclareError(
                    f"columns: `{e.name}` is none of the knobs {', '.join(v.name for v in knobs)}",
                    try_="give sizes a value first",
                )
            elif not ready:
                stack.append((e, True))
                stack.extend((c, False) for c in reversed(e.children()))
            else:
                found = rules.find(type(e))
                if found is None or e.dtype.lanes > 1:
                    raise DeclareError(
                        f"columns: no column for {e}",
                        because=f"{type(e).__name__} is not arithmetic on knobs",
                    )
                text = found(e, *[name[c] for c in e.children()])
                # a line for each distinct node: what expressions share is computed once for all of them
                name[e] = f"t{len(lines)}"
                lines.append(f"    {name[e]} = {text}")

    outs = []
    for i, e in enumerate(exprs):
        visit(e)
        outs.append(f"    out[{i}] = {name[e]}")
    return "\n".join(lines + outs + ["    return out"]) + "\n"


def compile_columns(exprs: Sequence[Expr], knobs: Sequence[Var]) -> Columns:
    """A function from an int matrix ``[n, len(knobs)]`` to a matrix ``[n, len(exprs)]``: int64 when every
    expression is an integer or a condition, float64 otherwise.

    Raises DeclareError for an expression that speaks of anything but the knobs.
    """
    scope: dict[str, Any] = dict(_NAMES)
    exec(compile(source_of(exprs, knobs), "<columns>", "exec"), scope)
    body = scope["columns"]
    count, width = len(exprs), len(knobs)
    kind = np.float64 if any(e.dtype.is_float for e in exprs) else np.int64

    def run(rows: Matrix) -> Matrix:
        matrix = np.ascontiguousarray(np.asarray(rows, np.int64).T)
        if matrix.ndim != 2 or matrix.shape[0] != width:
            raise ValueError(f"{width} knobs, but rows of shape {np.shape(rows)}")
        n = matrix.shape[1]
        out = np.empty((count, n), kind)
        # rows that cannot be run divide by zero in columns that a constraint rules out
        with np.errstate(all="ignore"):
            for at in range(0, n, BLOCK):
                body([column[at : at + BLOCK] for column in matrix], out[:, at : at + BLOCK])
        return out.T

    return run
