"""The functions of elements that TVM's ``te`` exports: one line of Python each over the table in
``expr.intrinsics``.

A Python number among the arguments takes the type of the others. Floats are needed unless a function says
otherwise.
"""

from __future__ import annotations

import operator
from typing import Any, cast

from ..expr import make
from ..expr.make import ExprLike, call
from ..expr.nodes import Expr
from ..expr.operators import absolute, power

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "cbrt",
    "ceil",
    "clz",
    "convert",
    "copysign",
    "cos",
    "cosh",
    "div",
    "erf",
    "exp",
    "exp2",
    "exp10",
    "expm1",
    "float_bits",
    "float_of_bits",
    "floor",
    "fmod",
    "hypot",
    "indexdiv",
    "indexmod",
    "isfinite",
    "isinf",
    "isnan",
    "ldexp",
    "likely",
    "log",
    "log1p",
    "log2",
    "log10",
    "logical_and",
    "logical_not",
    "logical_or",
    "multiply",
    "nearbyint",
    "nextafter",
    "popcount",
    "pow",
    "power",
    "round",
    "rsqrt",
    "shift_left",
    "shift_right",
    "sigmoid",
    "sin",
    "sinh",
    "sqrt",
    "subtract",
    "tan",
    "tanh",
    "trunc",
]


# --- exponentials and logarithms ----------------------------------------------------------------------------


def exp(x: ExprLike) -> Expr:
    """e to the power of ``x``. Of one element, in the type of ``x``; whole tensors are for ``ops``.
    Raises DeclareError for integers and bool.

    >>> A = te.placeholder((8,), name="A")
    >>> te.compute((8,), lambda i: te.exp(A[i]), name="E")
    Tensor(E: float32[8])
    """
    return call("exp", x)


def exp2(x: ExprLike) -> Expr:
    """2 to the power of ``x``. Of one element, in the type of ``x``; whole tensors are for ``ops``.
    Raises DeclareError for integers and bool."""
    return call("exp2", x)


def exp10(x: ExprLike) -> Expr:
    """10 to the power of ``x``. Of one element, in the type of ``x``; whole tensors are for ``ops``.
    Raises DeclareError for integers and bool."""
    return call("exp10", x)


def expm1(x: ExprLike) -> Expr:
    """``exp(x) - 1``, precise near 0. Of one element, in the type of ``x``; whole tensors are for
    ``ops``. Raises DeclareError for integers and bool."""
    return call("expm1", x)


def log(x: ExprLike) -> Expr:
    """The natural logarithm; NaN below 0, minus infinity at 0. Of one element, in the type of ``x``;
    whole tensors are for ``ops``. Raises DeclareError for integers and bool."""
    return call("log", x)


def log2(x: ExprLike) -> Expr:
    """The logarithm to base 2. Of one element, in the type of ``x``; whole tensors are for ``ops``.
    Raises DeclareError for integers and bool."""
    return call("log2", x)


def log10(x: ExprLike) -> Expr:
    """The logarithm to base 10. Of one element, in the type of ``x``; whole tensors are for ``ops``.
    Raises DeclareError for integers and bool."""
    return call("log10", x)


def log1p(x: ExprLike) -> Expr:
    """``log(1 + x)``, precise near 0. Of one element, in the type of ``x``; whole tensors are for
    ``ops``. Raises DeclareError for integers and bool."""
    return call("log1p", x)


def sigmoid(x: ExprLike) -> Expr:
    """``1 / (1 + exp(-x))``. Of one element, in the type of ``x``; whole tensors are for ``ops``. Raises
    DeclareError for integers and bool."""
    return call("sigmoid", x)


def erf(x: ExprLike) -> Expr:
    """The error function. Of one element, in the type of ``x``; whole tensors are for ``ops``. Raises
    DeclareError for integers and bool."""
    return call("erf", x)


# --- roots and powers ---------------------------------------------------------------------------------------


def sqrt(x: ExprLike) -> Expr:
    """The square root; NaN below 0. Of one element, in the type of ``x``; whole tensors are for ``ops``.
    Raises DeclareError for integers and bool.

    >>> A = te.placeholder((8,), name="A")
    >>> te.compute((8,), lambda i: te.sqrt(A[i]), name="R")
    Tensor(R: float32[8])
    """
    return call("sqrt", x)


def rsqrt(x: ExprLike) -> Expr:
    """``1 / sqrt(x)``. Of one element, in the type of ``x``; whole tensors are for ``ops``. Raises
    DeclareError for integers and bool."""
    return call("rsqrt", x)


def cbrt(x: ExprLike) -> Expr:
    """The cube root, of negative numbers too. Of one element, in the type of ``x``; whole tensors are for
    ``ops``. Raises DeclareError for integers and bool."""
    return call("cbrt", x)


def pow(x: ExprLike, y: ExprLike) -> Expr:
    """``x`` to the power of ``y``: of floats, or of an integer to a literal power. The same as ``x ** y``."""
    return power(x, y)


def hypot(x: ExprLike, y: ExprLike) -> Expr:
    """``sqrt(x * x + y * y)`` that does not overflow on the way. Of one element each, in the type of
    both; whole tensors are for ``ops``. Raises DeclareError for integers and bool."""
    return call("hypot", x, y)


def ldexp(x: ExprLike, n: ExprLike) -> Expr:
    """``x * 2**n`` for an integer ``n``, rounded once, in the type of ``x``. Raises DeclareError for an ``x``
    that is not a float."""
    return call("ldexp", x, n)


# --- trigonometry -------------------------------------------------------------------------------------------


def sin(x: ExprLike) -> Expr:
    """The sine, ``x`` in radians. Of one element, in the type of ``x``; whole tensors are for ``ops``.
    Raises DeclareError for integers and bool."""
    return call("sin", x)


def cos(x: ExprLike) -> Expr:
    """The cosine, ``x`` in radians. Of one element, in the type of ``x``; whole tensors are for ``ops``.
    Raises DeclareError for integers and bool."""
    return call("cos", x)


def tan(x: ExprLike) -> Expr:
    """The tangent, ``x`` in radians. Of one element, in the type of ``x``; whole tensors are for ``ops``.
    Raises DeclareError for integers and bool."""
    return call("tan", x)


def asin(x: ExprLike) -> Expr:
    """The arc sine, from -pi/2 to pi/2; NaN outside -1..1. Of one element, in the type of ``x``; whole
    tensors are for ``ops``. Raises DeclareError for integers and bool."""
    return call("asin", x)


def acos(x: ExprLike) -> Expr:
    """The arc cosine, from 0 to pi; NaN outside -1..1. Of one element, in the type of ``x``; whole
    tensors are for ``ops``. Raises DeclareError for integers and bool."""
    return call("acos", x)


def atan(x: ExprLike) -> Expr:
    """The arc tangent, from -pi/2 to pi/2. Of one element, in the type of ``x``; whole tensors are for
    ``ops``. Raises DeclareError for integers and bool."""
    return call("atan", x)


def atan2(y: ExprLike, x: ExprLike) -> Expr:
    """The angle of the point (``x``, ``y``), from -pi to pi. Of one element each, in the type of both;
    whole tensors are for ``ops``. Raises DeclareError for integers and bool."""
    return call("atan2", y, x)


def sinh(x: ExprLike) -> Expr:
    """The hyperbolic sine. Of one element, in the type of ``x``; whole tensors are for ``ops``. Raises
    DeclareError for integers and bool."""
    return call("sinh", x)


def cosh(x: ExprLike) -> Expr:
    """The hyperbolic cosine. Of one element, in the type of ``x``; whole tensors are for ``ops``. Raises
    DeclareError for integers and bool."""
    return call("cosh", x)


def tanh(x: ExprLike) -> Expr:
    """The hyperbolic tangent. Of one element, in the type of ``x``; whole tensors are for ``ops``. Raises
    DeclareError for integers and bool."""
    return call("tanh", x)


def asinh(x: ExprLike) -> Expr:
    """The inverse of sinh. Of one element, in the type of ``x``; whole tensors are for ``ops``. Raises
    DeclareError for integers and bool."""
    return call("asinh", x)


def acosh(x: ExprLike) -> Expr:
    """The inverse of cosh; NaN below 1. Of one element, in the type of ``x``; whole tensors are for
    ``ops``. Raises DeclareError for integers and bool."""
    return call("acosh", x)


def atanh(x: ExprLike) -> Expr:
    """The inverse of tanh; NaN outside -1..1. Of one element, in the type of ``x``; whole tensors are for
    ``ops``. Raises DeclareError for integers and bool."""
    return call("atanh", x)


# --- rounding and signs -------------------------------------------------------------------------------------


def _rounded(name: str, x: ExprLike) -> Expr:
    """Rounding leaves integers as they are."""
    e = make.as_expr(x)
    return e if e.dtype.is_int else call(name, e)


def floor(x: ExprLike) -> Expr:
    """The next whole number below, in the type of ``x``. Integers stay."""
    return _rounded("floor", x)


def ceil(x: ExprLike) -> Expr:
    """The next whole number above, in the type of ``x``. Integers stay."""
    return _rounded("ceil", x)


def trunc(x: ExprLike) -> Expr:
    """The next whole number towards 0, in the type of ``x``. Integers stay."""
    return _rounded("trunc", x)


def round(x: ExprLike) -> Expr:
    """The nearest whole number, halves away from 0 (2.5 gives 3), as C rounds. Integers stay."""
    return _rounded("round", x)


def nearbyint(x: ExprLike) -> Expr:
    """The nearest whole number, halves to the even one (2.5 gives 2), as numpy rounds. Integers stay."""
    return _rounded("nearbyint", x)


def abs(x: ExprLike) -> Expr:
    """The absolute value, of floats and integers. That of the least int8 is itself, as it wraps."""
    return absolute(x)


def copysign(x: ExprLike, y: ExprLike) -> Expr:
    """The size of ``x`` with the sign of ``y``, which may be that of a zero."""
    return call("copysign", x, y)


def nextafter(x: ExprLike, y: ExprLike) -> Expr:
    """The neighbour of ``x`` in its type on the way to ``y``. Of one element each, in the type of both;
    whole tensors are for ``ops``. Raises DeclareError for integers and bool."""
    return call("nextafter", x, y)


def fmod(x: ExprLike, y: ExprLike) -> Expr:
    """The remainder of floats, with the sign of ``x``, as C's fmod."""
    return call("fmod", x, y)


def isnan(x: ExprLike) -> Expr:
    """Whether ``x`` is NaN: a bool. No integer is. Of one element; whole tensors are for ``ops``. Raises
    DeclareError for bool."""
    return _classified("isnan", x, False)


def isinf(x: ExprLike) -> Expr:
    """Whether ``x`` is infinite, either way: a bool. No integer is."""
    return _classified("isinf", x, False)


def isfinite(x: ExprLike) -> Expr:
    """Whether ``x`` is neither infinite nor NaN: a bool. Every integer is."""
    return _classified("isfinite", x, True)


def _classified(name: str, x: ExprLike, integer: bool) -> Expr:
    e = make.as_expr(x)
    return make.const(integer) if e.dtype.is_int else call(name, e)


# --- integers and bits --------------------------------------------------------------------------------------


def float_bits(x: ExprLike) -> Expr:
    """The bits of a float as a signed integer of as many, which order numbers that are not negative as the
    numbers do. Raises DeclareError for integers, bool and bfloat16.

    >>> te.float_bits(te.var("x", "float32")).dtype
    dtype('int32')
    """
    return call("float_bits", x)


def float_of_bits(x: ExprLike) -> Expr:
    """The float of these bits, an integer of int16, int32 or int64: undoes :func:`float_bits`. Raises
    DeclareError for other types.

    >>> te.float_of_bits(te.var("x", "int32")).dtype
    dtype('float32')
    """
    return call("float_of_bits", x)


def popcount(x: ExprLike) -> Expr:
    """How many bits are set, in the type of ``x``; of negative numbers those of the two's complement."""
    return call("popcount", x)


def clz(x: ExprLike) -> Expr:
    """How many zero bits lead, in the type of ``x``; all of them for 0."""
    return call("clz", x)


def _pair(x: ExprLike, y: ExprLike) -> tuple[Any, Any]:
    """Both as expressions; a Python number takes the type of the other."""
    if isinstance(x, int) and not isinstance(y, int):
        y = make.as_expr(y)
        # as numpy does: a Python number has no type of its own
        return make.as_expr(x, y.dtype), y
    x = make.as_expr(x)
    return x, make.as_expr(y, x.dtype)


def bitwise_and(x: ExprLike, y: ExprLike) -> Expr:
    """``x & y``. Of one element each; whole tensors are for ``ops``. Raises DeclareError for floats."""
    return operator.and_(*_pair(x, y))  # type: ignore[no-any-return]


def bitwise_or(x: ExprLike, y: ExprLike) -> Expr:
    """``x | y``. Of one element each; whole tensors are for ``ops``. Raises DeclareError for floats."""
    return operator.or_(*_pair(x, y))  # type: ignore[no-any-return]


def bitwise_xor(x: ExprLike, y: ExprLike) -> Expr:
    """``x ^ y``. Of one element each; whole tensors are for ``ops``. Raises DeclareError for floats and
    bool."""
    return operator.xor(*_pair(x, y))  # type: ignore[no-any-return]


def bitwise_not(x: ExprLike) -> Expr:
    """``~x``. Of one element; whole tensors are for ``ops``. Raises DeclareError for floats."""
    return operator.invert(cast(Any, make.as_expr(x)))  # type: ignore[no-any-return]


def shift_left(x: ExprLike, y: ExprLike) -> Expr:
    """``x << y``; 0 when all bits are shifted out. Of one element each; whole tensors are for ``ops``.
    Raises DeclareError for floats and bool."""
    return operator.lshift(*_pair(x, y))  # type: ignore[no-any-return]


def shift_right(x: ExprLike, y: ExprLike) -> Expr:
    """``x >> y``; signed numbers keep their sign. Of one element each; whole tensors are for ``ops``.
    Raises DeclareError for floats and bool."""
    return operator.rshift(*_pair(x, y))  # type: ignore[no-any-return]


# --- arithmetic under its names -----------------------------------------------------------------------------


def add(a: ExprLike, b: ExprLike) -> Expr:
    """``a + b``. Of one element each, in the type of both; whole tensors are for ``ops``. Raises
    DeclareError for bool."""
    return make.add(a, b)


def subtract(a: ExprLike, b: ExprLike) -> Expr:
    """``a - b``. Of one element each, in the type of both; whole tensors are for ``ops``. Raises
    DeclareError for bool."""
    return make.sub(a, b)


def multiply(a: ExprLike, b: ExprLike) -> Expr:
    """``a * b``. Of one element each, in the type of both; whole tensors are for ``ops``. Raises
    DeclareError for bool."""
    return make.mul(a, b)


def div(a: ExprLike, b: ExprLike) -> Expr:
    """Division as in C: true for floats, rounding towards zero for integers (:func:`te.floordiv` rounds
    down)."""
    x, y = make.unify(a, b)
    # TVM's name, and TVM's meaning, which is C's
    return make.div(x, y) if x.dtype.is_float else make.truncdiv(x, y)


def indexdiv(a: ExprLike, b: ExprLike) -> Expr:
    """``a // b`` for indices, which are not negative. Of one element each; whole tensors are for ``ops``.
    Raises DeclareError for floats and bool."""
    return make.floordiv(a, b)


def indexmod(a: ExprLike, b: ExprLike) -> Expr:
    """``a % b`` for indices, which are not negative. Of one element each; whole tensors are for ``ops``.
    Raises DeclareError for floats and bool."""
    return make.floormod(a, b)


def logical_and(a: ExprLike, b: ExprLike) -> Expr:
    """Whether both conditions hold. Both are evaluated. Of one element each; whole tensors are for
    ``ops``. Raises DeclareError for floats and integers."""
    return make.and_(a, b)


def logical_or(a: ExprLike, b: ExprLike) -> Expr:
    """Whether one of the conditions holds. Both are evaluated. Of one element each; whole tensors are for
    ``ops``. Raises DeclareError for floats and integers."""
    return make.or_(a, b)


def likely(cond: ExprLike) -> Expr:
    """The condition itself: which iterations need a test is found out by proofs. For TVM's sake."""
    return make.as_expr(cond)


def convert(value: ExprLike) -> Expr:
    """A Python number, or anything that converts, as an expression."""
    return make.as_expr(value)


def logical_not(a: ExprLike) -> Expr:
    """Whether the condition does not hold. Of one element; whole tensors are for ``ops``. Raises
    DeclareError for floats and integers."""
    return make.not_(a)
