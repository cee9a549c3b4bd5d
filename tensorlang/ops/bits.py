"""Operations on the bits of integers, with numpy's names, broadcasting and promotion; of bools the logical
ones.

Shifted by the width of the type or more, nothing but the sign is left, as in numpy. Knows maps; no other
operator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import te
from ..errors import DeclareError
from ..expr import make
from ..expr.nodes import Expr
from ..te import Tensor
from . import inputs
from .maps import Operand, nary, unary

__all__ = ["bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"]


def _no_floats(op: str, *values: Any) -> None:
    """Raises DeclareError for an operand that is a float."""
    for v in values:
        if isinstance(v, float) or (isinstance(v, Tensor | Expr) and v.dtype.is_float):
            what = inputs.named(v) + f" of {v.dtype}" if isinstance(v, Tensor) else str(v)
            raise DeclareError(
                f"ops.{op}: {what} is a float, integers are needed",
                because="the bits of a float are not a number",
                try_="ops.cast(x, 'int32')",
            )


def _bits(
    op: str, x: Operand, y: Operand, f: Callable[[Expr, Expr], Expr], of_bools: Callable[[Expr, Expr], Expr]
) -> Tensor:
    _no_floats(op, x, y)
    # a bool is a byte in memory of which only 0 and 1 are legal: the logical word keeps it so
    return nary(op, (x, y), lambda a, b: of_bools(a, b) if a.dtype.is_bool else f(a, b))


def bitwise_and(x: Operand, y: Operand) -> Tensor:
    """The bits that both have, broadcast. Shapes meet by numpy's rule, types by its promotion. Raises
    DeclareError for floats and for shapes that do not go together."""
    return _bits("bitwise_and", x, y, te.bitwise_and, make.and_)


def bitwise_or(x: Operand, y: Operand) -> Tensor:
    """The bits that either has, broadcast. Shapes meet by numpy's rule, types by its promotion. Raises
    DeclareError for floats and for shapes that do not go together."""
    return _bits("bitwise_or", x, y, te.bitwise_or, make.or_)


def bitwise_xor(x: Operand, y: Operand) -> Tensor:
    """The bits that exactly one has, broadcast. Shapes meet by numpy's rule, types by its promotion.
    Raises DeclareError for floats and for shapes that do not go together."""
    return _bits("bitwise_xor", x, y, te.bitwise_xor, make.ne)


def bitwise_not(x: Tensor) -> Tensor:
    """Every bit turned over: ``-x - 1`` of signed integers. The shape is that of ``x``. Raises
    DeclareError for floats."""
    x = inputs.tensor("bitwise_not", x)
    _no_floats("bitwise_not", x)
    return unary("bitwise_not", x, make.not_ if x.dtype.is_bool else te.bitwise_not)


def _shift(op: str, x: Operand, y: Operand, f: Callable[[Expr, Expr], Expr]) -> Tensor:
    _no_floats(op, x, y)
    # one bool beside an integer is promoted to it, as numpy does
    if all(isinstance(v, bool) or (isinstance(v, Tensor | Expr) and v.dtype.is_bool) for v in (x, y)):
        raise DeclareError(
            f"ops.{op}: the operands are bool, integers are needed", try_="ops.cast(x, 'int8')"
        )
    return nary(op, (x, y), f)


def left_shift(x: Operand, y: Operand) -> Tensor:
    """``x`` times 2 to the power of ``y``, what leaves the type cut off, broadcast. Raises DeclareError for
    operands that are no integers."""
    return _shift("left_shift", x, y, te.shift_left)


def right_shift(x: Operand, y: Operand) -> Tensor:
    """``x`` divided by 2 to the power of ``y``, rounded down, broadcast. Raises DeclareError for operands
    that are no integers."""
    return _shift("right_shift", x, y, te.shift_right)
