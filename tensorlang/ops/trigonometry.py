"""Inverse trigonometric, hyperbolic and inverse hyperbolic functions of elements, with torch's names.

Outside a function's domain the result is NaN. Integers give floats, as for ``ops.exp``. Knows maps; no
other operator.
"""

from __future__ import annotations

from collections.abc import Callable

from .. import te
from ..expr.nodes import Expr
from ..te import Tensor
from . import inputs
from .maps import unary

__all__ = ["acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "sinh"]


def _float(op: str, x: Tensor, f: Callable[[Expr], Expr]) -> Tensor:
    x = inputs.tensor(op, x)
    return unary(op, x, f, inputs.float_type(x.dtype))


def asin(x: Tensor) -> Tensor:
    """The angle in radians whose sine is ``x``, from -pi/2 to pi/2; NaN outside -1 to 1."""
    return _float("asin", x, te.asin)


def acos(x: Tensor) -> Tensor:
    """The angle in radians whose cosine is ``x``, from 0 to pi; NaN outside -1 to 1."""
    return _float("acos", x, te.acos)


def atan(x: Tensor) -> Tensor:
    """The angle in radians whose tangent is ``x``, from -pi/2 to pi/2. Of two coordinates: ``ops.atan2``."""
    return _float("atan", x, te.atan)


def sinh(x: Tensor) -> Tensor:
    """The hyperbolic sine, ``(exp(x) - exp(-x)) / 2``. The shape is that of ``x``; floats keep their
    type, int32 gives float64, uint8 float16. Raises DeclareError for what is not a tensor."""
    return _float("sinh", x, te.sinh)


def cosh(x: Tensor) -> Tensor:
    """The hyperbolic cosine, ``(exp(x) + exp(-x)) / 2``. The shape is that of ``x``; floats keep their
    type, int32 gives float64, uint8 float16. Raises DeclareError for what is not a tensor."""
    return _float("cosh", x, te.cosh)


def asinh(x: Tensor) -> Tensor:
    """The number whose hyperbolic sine is ``x``. The shape is that of ``x``; floats keep their type,
    int32 gives float64, uint8 float16. Raises DeclareError for what is not a tensor."""
    return _float("asinh", x, te.asinh)


def acosh(x: Tensor) -> Tensor:
    """The number from 0 on whose hyperbolic cosine is ``x``; NaN below 1."""
    return _float("acosh", x, te.acosh)


def atanh(x: Tensor) -> Tensor:
    """The number whose hyperbolic tangent is ``x``; infinite at -1 and 1, NaN beyond."""
    return _float("atanh", x, te.atanh)
