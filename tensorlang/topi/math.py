"""Functions of one element. Those that ``ops`` has are its; the others are te's intrinsics over whole
tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import ops, te
from ..core.dtype import DType
from ..ops import (
    abs,
    ceil,
    cos,
    erf,
    exp,
    floor,
    isfinite,
    isnan,
    log,
    log2,
    log10,
    negative,
    round,
    rsqrt,
    sigmoid,
    sign,
    sin,
    sqrt,
    tan,
    tanh,
    trunc,
)
from ..te import Tensor, whole

__all__ = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cast",
    "ceil",
    "clip",
    "cos",
    "cosh",
    "erf",
    "exp",
    "fast_erf",
    "fast_exp",
    "fast_tanh",
    "floor",
    "identity",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "log2",
    "log10",
    "negative",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
]


def _unary(name: str, f: Callable[[Any], Any]) -> Callable[[Tensor], Tensor]:
    def operation(x: Tensor) -> Tensor:
        return whole.broadcast(f"topi.{name}", f"T_{name}", (x,), f)

    operation.__name__ = operation.__qualname__ = name
    operation.__doc__ = f"``te.{name}`` of every element. Raises DeclareError as it does."
    return operation


acos, acosh, asin, asinh = (
    _unary("acos", te.acos),
    _unary("acosh", te.acosh),
    _unary("asin", te.asin),
    _unary("asinh", te.asinh),
)
atan, atanh, cosh, sinh = (
    _unary("atan", te.atan),
    _unary("atanh", te.atanh),
    _unary("cosh", te.cosh),
    _unary("sinh", te.sinh),
)
isinf = _unary("isinf", te.isinf)
identity = _unary("identity", lambda x: x)
fast_exp, fast_tanh, fast_erf = exp, tanh, erf  # ours are polynomials already


def cast(x: Any, dtype: str | DType) -> Any:
    """``x``, a tensor or an expression, converted to ``dtype``. Raises DeclareError as ``ops.cast`` does."""
    return ops.cast(x, dtype) if isinstance(x, Tensor) else te.cast(dtype, x)


def clip(x: Tensor, a_min: Any, a_max: Any) -> Tensor:
    """``x`` within ``a_min`` and ``a_max``. Raises DeclareError as ``ops.clip`` does."""
    return ops.clip(x, a_min, a_max)
