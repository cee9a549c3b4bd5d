"""Expressions over knobs as numpy columns: one compiled function from an integer matrix (rows = candidates,
columns = knobs) to a value per row and expression. Knows expressions and numpy; nothing of schedules or what
the numbers mean.

The function works off a list of steps, one per distinct node: nodes are interned, so a common subexpression
is computed once. Python source of them would run hardly faster, and took longer to compile than a guess has
rows to score. Integers are computed in int64 and floats in float64, whatever the width of
their type: index arithmetic never overflows by contract, and the contract holds for 64 bits here. Rows are
worked off in blocks that keep the intermediate columns in cache.
"""

from __future__ import annotations

import operator
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
Function = Callable[..., Any]
# a function, the place of its value, those of its first and last argument, and all of them where not two
Step = tuple[Function, int, int, int, tuple[int, ...] | None]

rules = TypeTable("columns")
_FUNCTIONS: dict[type[Expr], Function] = {
    Add: operator.add,
    Sub: operator.sub,
    Mul: operator.mul,
    Div: operator.truediv,
    FloorDiv: operator.floordiv,
    FloorMod: operator.mod,
    EQ: operator.eq,
    NE: operator.ne,
    LT: operator.lt,
    LE: operator.le,
    Gcd: np.gcd,
    Min: np.minimum,
    Max: np.maximum,
    And: np.logical_and,
    Or: np.logical_or,
    Not: np.logical_not,
}


@rules.on(*_FUNCTIONS)
def _function(e: Expr) -> Function:
    return _FUNCTIONS[type(e)]


@rules.on(Choice)
def _choice(e: Choice) -> Function:
    return np.where  # type: ignore[no-any-return]


@rules.on(Cast)
def _cast(e: Cast) -> Function:
    if e.dtype.is_index and e.a.dtype.is_bool:
        return _number
    if e.dtype.is_index and e.a.dtype.is_int:
        return _same  # columns are int64 already, whatever width the expression has
    if e.dtype.is_float and e.dtype.bits == 64:
        return _real
    raise DeclareError(f"columns: a cast to {e.dtype} in {e}", because="columns are int64, float64 and bool")


@rules.on(Call)
def _call(e: Call) -> Function:
    return TABLE[e.name].evaluate


def _same(a: Any) -> Any:
    return a


def _number(a: Any) -> Any:
    return np.asarray(a, np.int64)


def _real(a: Any) -> Any:
    return np.asarray(a, np.float64)


class _Program:
    """The steps to the values of expressions, each node once. The places of the knobs are the first."""

    def __init__(self, knobs: Sequence[Var]) -> None:
        self.knobs = knobs
        self.places: dict[Expr, int] = {v: i for i, v in enumerate(knobs)}
        self.values: list[Any] = [None] * len(knobs)  # by place; of a constant its value
        self.steps: list[Step] = []

    def place(self, root: Expr) -> int:
        """Where the value of an expression is. Raises DeclareError for one without a column."""
        places, values, stack = self.places, self.values, [root]
        while stack:
            e = stack[-1]
            if e in places:
                stack.pop()
                continue
            children = e.children()
            missing = [c for c in children if c not in places]
            if missing:
                stack.extend(reversed(missing))
                continue
            stack.pop()
            to = places[e] = len(values)
            if type(e) is Const:
                values.append(e.value)
                continue
            values.append(None)
            at = tuple([places[c] for c in children])
            self.steps.append((self._function(e), to, at[0], at[-1], None if len(at) == 2 else at))
        return places[root]

    def _function(self, e: Expr) -> Function:
        if isinstance(e, Var):
            raise DeclareError(
                f"columns: `{e.name}` is none of the knobs {', '.join(v.name for v in self.knobs)}",
                try_="give sizes a value first",
            )
        found = rules.find(type(e))
        if found is None or e.dtype.lanes > 1:
            raise DeclareError(
                f"columns: no column for {e}", because=f"{type(e).__name__} is not arithmetic on knobs"
            )
        return found(e)  # type: ignore[no-any-return]


def compile_columns(exprs: Sequence[Expr], knobs: Sequence[Var]) -> Columns:
    """A function from an int matrix ``[n, len(knobs)]`` to a matrix ``[n, len(exprs)]``: int64 when every
    expression is an integer or a condition, float64 otherwise.

    Raises DeclareError for an expression that speaks of anything but the knobs.
    """
    program = _Program(knobs)
    places = [program.place(e) for e in exprs]
    steps, blank = program.steps, program.values
    count, width = len(exprs), len(knobs)
    kind = np.float64 if any(e.dtype.is_float for e in exprs) else np.int64

    def block(columns: list[Any], out: Matrix) -> None:
        values = blank.copy()
        values[:width] = columns
        for function, to, a, b, every in steps:
            values[to] = (
                function(values[a], values[b]) if every is None else function(*[values[i] for i in every])
            )
        for row, place in zip(out, places, strict=True):
            row[...] = values[place]

    def run(rows: Matrix) -> Matrix:
        matrix = np.ascontiguousarray(np.asarray(rows, np.int64).T)
        if matrix.ndim != 2 or matrix.shape[0] != width:
            raise ValueError(f"{width} knobs, but rows of shape {np.shape(rows)}")
        n = matrix.shape[1]
        out = np.empty((count, n), kind)
        # rows that cannot be run divide by zero in columns that a constraint rules out
        with np.errstate(all="ignore"):
            for at in range(0, n, BLOCK):
                block([column[at : at + BLOCK] for column in matrix], out[:, at : at + BLOCK])
        return out.T

    return run
