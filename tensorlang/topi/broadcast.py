"""Arithmetic, comparisons and logic of whole tensors with broadcasting, by te's rules of dtypes; of two
expressions the expression."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from .. import ops, te
from ..te import Tensor, whole


def _binary(name: str, f: Callable[[Any, Any], Any], what: str) -> Callable[[Any, Any], Any]:
    def operation(lhs: Any, rhs: Any) -> Any:
        if not isinstance(lhs, Tensor) and not isinstance(rhs, Tensor):
            return f(te.convert(lhs), te.convert(rhs))  # text and lists have arithmetic of their own
        return whole.broadcast(f"topi.{name}", f"T_{name}", (lhs, rhs), f)

    operation.__name__ = operation.__qualname__ = name
    operation.__doc__ = f"{what}, broadcast. Raises DeclareError for shapes and types that do not fit."
    return operation


def _quotient(a: Any, b: Any) -> Any:
    a, b = te.convert(a), te.convert(b)
    return te.truncdiv(a, b) if a.dtype.is_int and b.dtype.is_int else a / b


def _xor(a: Any, b: Any) -> Any:
    return te.any(te.all(a, te.logical_not(b)), te.all(b, te.logical_not(a)))


add = _binary("add", operator.add, "``lhs + rhs``")
subtract = _binary("subtract", operator.sub, "``lhs - rhs``")
multiply = _binary("multiply", operator.mul, "``lhs * rhs``")
divide = _binary("divide", _quotient, "``lhs / rhs``, of integers rounded towards zero")
floor_divide = _binary("floor_divide", operator.floordiv, "``lhs // rhs``, of integers")
mod = _binary("mod", te.truncmod, "The remainder with the sign of ``lhs``, of integers")
floor_mod = _binary("floor_mod", operator.mod, "The remainder with the sign of ``rhs``, of integers")
maximum = _binary("maximum", lambda a, b: te.max(a, b), "The larger")
minimum = _binary("minimum", lambda a, b: te.min(a, b), "The smaller")
power = _binary("power", te.power, "``lhs`` to the power of ``rhs``, of floats")
greater = _binary("greater", operator.gt, "``lhs > rhs``")
less = _binary("less", operator.lt, "``lhs < rhs``")
equal = _binary("equal", lambda a, b: te.convert(a).equal(b), "``lhs == rhs``")
not_equal = _binary("not_equal", lambda a, b: te.logical_not(te.convert(a).equal(b)), "``lhs != rhs``")
greater_equal = _binary("greater_equal", operator.ge, "``lhs >= rhs``")
less_equal = _binary("less_equal", operator.le, "``lhs <= rhs``")
logical_and = _binary("logical_and", lambda a, b: te.all(a, b), "Whether both hold")
logical_or = _binary("logical_or", lambda a, b: te.any(a, b), "Whether one holds")
logical_xor = _binary("logical_xor", _xor, "Whether just one holds")
bitwise_and = _binary("bitwise_and", operator.and_, "``lhs & rhs``")
bitwise_or = _binary("bitwise_or", operator.or_, "``lhs | rhs``")
bitwise_xor = _binary("bitwise_xor", operator.xor, "``lhs ^ rhs``")
left_shift = _binary("left_shift", operator.lshift, "``lhs << rhs``")
right_shift = _binary("right_shift", operator.rshift, "``lhs >> rhs``")


def logical_not(data: Tensor) -> Tensor:
    """Whether it does not hold, element by element. Raises DeclareError as ``ops.logical_not`` does."""
    return ops.logical_not(data)


def bitwise_not(data: Tensor) -> Tensor:
    """``~data``. Raises DeclareError for operands that do not fit."""
    return ~data  # type: ignore[no-any-return]


def broadcast_to(data: Tensor, shape: Sequence[Any]) -> Tensor:
    """``data`` repeated along dimensions of 1 and in front. Raises DeclareError as ``ops.broadcast_to``."""
    return ops.broadcast_to(data, shape)


def elemwise_sum(xs: Sequence[Tensor]) -> Tensor:
    """The sum of tensors of one shape. Raises DeclareError for operands that do not fit."""
    return functools.reduce(add, xs)  # type: ignore[no-any-return]
