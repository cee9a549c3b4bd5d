"""Comparisons, logic and choice, elementwise with numpy's names and broadcasting.

Comparisons with NaN are false, except ``not_equal``. The logical operators take any dtype: what is not zero
is true. Knows ``te`` elements and the checks of arguments; no reductions.
"""

from __future__ import annotations

from .. import te
from ..core.dtype import BOOL, FLOAT64, DType
from ..core.dtype import dtype as as_dtype
from ..expr import make
from ..expr.nodes import Expr
from ..te import Tensor
from . import inputs
from .maps import Operand, broadcast, nary

__all__ = [
    "equal",
    "greater",
    "greater_equal",
    "isclose",
    "less",
    "less_equal",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "not_equal",
    "where",
]


def _bool(_: DType) -> DType:
    return BOOL


def _ordered(t: DType) -> DType:
    # bools are ordered False < True, as in numpy, but a comparison of one bit is that of a sign
    return as_dtype("uint8") if t.is_bool else t


def equal(x: Operand, y: Operand) -> Tensor:
    """Whether ``x == y``, broadcast: bool. int64 beside uint64 is compared as float64, their promoted
    type.

    >>> x, y = te.placeholder((2, 3), name="x"), te.placeholder((3,), name="y")
    >>> ops.equal(x, y)
    Tensor(equal: bool[2, 3])
    """
    return nary("equal", (x, y), make.eq, _bool, _ordered)


def not_equal(x: Operand, y: Operand) -> Tensor:
    """Whether ``x != y``, broadcast: bool. Shapes meet by numpy's rule. Raises DeclareError for shapes
    that do not go together."""
    return nary("not_equal", (x, y), make.ne, _bool, _ordered)


def less(x: Operand, y: Operand) -> Tensor:
    """Whether ``x < y``, broadcast: bool. Shapes meet by numpy's rule. Raises DeclareError for shapes
    that do not go together.

    >>> x, y = te.placeholder((2, 3), name="x"), te.placeholder((3,), name="y")
    >>> ops.less(x, y)
    Tensor(less: bool[2, 3])
    """
    return nary("less", (x, y), make.lt, _bool, _ordered)


def less_equal(x: Operand, y: Operand) -> Tensor:
    """Whether ``x <= y``, broadcast: bool. Shapes meet by numpy's rule. Raises DeclareError for shapes
    that do not go together."""
    return nary("less_equal", (x, y), make.le, _bool, _ordered)


def greater(x: Operand, y: Operand) -> Tensor:
    """Whether ``x > y``, broadcast: bool. Shapes meet by numpy's rule. Raises DeclareError for shapes
    that do not go together.

    >>> x, y = te.placeholder((2, 3), name="x"), te.placeholder((3,), name="y")
    >>> ops.greater(x, y)
    Tensor(greater: bool[2, 3])
    """
    return nary("greater", (x, y), make.gt, _bool, _ordered)


def greater_equal(x: Operand, y: Operand) -> Tensor:
    """Whether ``x >= y``, broadcast: bool. Shapes meet by numpy's rule. Raises DeclareError for shapes
    that do not go together."""
    return nary("greater_equal", (x, y), make.ge, _bool, _ordered)


def isclose(
    x: Operand, y: Operand, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """Whether ``abs(x - y) <= atol + rtol * abs(y)``, broadcast: bool. Infinities are close to themselves,
    and with ``equal_nan`` so is NaN."""

    def close(a: Expr, b: Expr) -> Expr:
        # of an infinite b the right side would be infinite, and all numbers close to it
        near = te.all(te.isfinite(b), te.abs(a - b) <= te.abs(b) * rtol + atol)
        same = te.any(make.eq(a, b), near)
        return te.any(same, te.all(te.isnan(a), te.isnan(b))) if equal_nan else same

    return nary("isclose", (x, y), close, _bool, lambda t: t if t.is_float else FLOAT64)


def logical_and(x: Operand, y: Operand) -> Tensor:
    """Whether both are true (not zero), broadcast: bool. Shapes meet by numpy's rule. Raises DeclareError
    for shapes that do not go together."""
    return nary("logical_and", (x, y), make.and_, _bool, _bool)


def logical_or(x: Operand, y: Operand) -> Tensor:
    """Whether one is true (not zero), broadcast: bool. Shapes meet by numpy's rule. Raises DeclareError
    for shapes that do not go together."""
    return nary("logical_or", (x, y), make.or_, _bool, _bool)


def logical_xor(x: Operand, y: Operand) -> Tensor:
    """Whether exactly one is true (not zero), broadcast: bool. Shapes meet by numpy's rule. Raises
    DeclareError for shapes that do not go together."""
    return nary("logical_xor", (x, y), make.ne, _bool, _bool)


def logical_not(x: Tensor) -> Tensor:
    """Whether ``x`` is false (zero): bool. The shape is that of ``x``. Raises DeclareError for what is no
    tensor."""
    return nary("logical_not", (inputs.tensor("logical_not", x),), make.not_, _bool, _bool)


def where(condition: Tensor, x: Operand, y: Operand) -> Tensor:
    """``x`` where ``condition`` is true (not zero), else ``y``; all three broadcast. Both sides are
    evaluated.

    The result has the common type of ``x`` and ``y``.

    >>> x = te.placeholder((2, 3), name="x")
    >>> ops.where(ops.greater(x, 0), x, 0)
    Tensor(where: float32[2, 3])
    """
    condition = inputs.tensor("where", condition, "condition")
    # the condition takes no part in the promotion
    (a, b), common = inputs.operands("where", (x, y))
    return broadcast(
        "where",
        (condition, a, b),
        lambda c, u, v: te.select(te.cast(BOOL, c), te.cast(common, u), te.cast(common, v)),
    )
