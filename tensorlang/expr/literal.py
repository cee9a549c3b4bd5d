"""Literals and conversion: what a Python number, or a thing that converts itself, is as an expression. Below
the smart constructors, which fold what is built here; and which of two lines of numbers is larger."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..core.dtype import BOOL, FLOAT32, INT32, INT64, DType, dtype
from ..core.node import intern, intern_as
from ..core.text import type_of
from ..errors import DeclareError, TensorLangError
from . import linear
from .nodes import Broadcast, Const, Expr, Ramp, const_int

if TYPE_CHECKING:
    from .operators import Operators

    # what has ``as_expr()`` has Python's operators too
    ExprLike: TypeAlias = Operators | int | float | np.generic
else:
    ExprLike = Any

_INT32_LO, _INT32_HI = INT32.limits()
_FLOAT = struct.Struct("<f")
_TRUTHS = (bool, np.bool_)


_dtype_of = dtype  # where a parameter that users name is called dtype


def _names_type(text: str) -> bool:
    try:
        dtype(text)
    except TensorLangError:
        return False
    return True


def _no_scalar(value: Any) -> DeclareError:
    if isinstance(value, np.ndarray):
        return DeclareError(
            f"an array of shape {value.shape} stands where one number is meant",
            because="an expression is one element, an array is many",
            try_="te.placeholder(shape, dtype) for the array, and pass it when the kernel is called",
        )
    shown = repr(value) if isinstance(value, str | complex | None) else type_of(value)
    try_ = "a number, a variable, or a tensor element such as A[i, j]"
    if isinstance(value, str) and _names_type(value):
        try_ = f"te.cast({value!r}, value), the type first, or value.astype({value!r})"
    return DeclareError(f"{shown} stands where a number is meant", try_=try_)


def const(value: int | float | bool | np.generic, dtype: str | DType | None = None) -> Expr:
    """A literal of that type; without one, ``bool``, ``int32`` (``int64`` when it does not fit) or
    ``float32``.

    Raises DeclareError for a value the type cannot hold.

    >>> te.const(1, "int32") + 2
    3
    """
    if isinstance(value, np.generic):
        value = value.item()
    if dtype is None:
        if isinstance(value, bool):
            t = BOOL
        elif isinstance(value, int):
            t = INT32 if _INT32_LO <= value <= _INT32_HI else _dtype_of("int64")
        elif isinstance(value, float):
            t = FLOAT32
        else:
            raise _no_scalar(value)
    else:
        t = _dtype_of(dtype)
        if not isinstance(value, int | float):
            raise DeclareError(f"const({value!r}, {t.name!r}): not a number", try_=_a_number(value, t))
    if t.lanes > 1:
        return broadcast(const(value, t.element), t.lanes)
    if t.is_index and type(value) is int and value in linear.SMALL:
        return linear.literal(value, t)
    if t.is_float:
        x = float(value)
        if t.bits == 32:
            x = _single(x)
        elif t.code == "float" and t.bits == 16:
            with np.errstate(over="ignore"):
                x = float(np.float16(x))
        bits = struct.pack("<d", x)
        return intern_as((Const, t, bits), lambda: Const(t, x))
    if t.is_bool:
        flag = bool(value)
        return intern_as((Const, t, flag), lambda: Const(t, flag))
    if isinstance(value, float) and not value.is_integer():
        raise DeclareError(
            f"const({value!r}, {t.name!r}): not an integer", try_="a float dtype, or round it first"
        )
    n = int(value)
    lo, hi = t.limits()
    if not lo <= n <= hi:
        raise DeclareError(f"const({n}, {t.name!r}): out of range {lo}..{hi}", try_=_that_holds(n))
    return intern_as((Const, t, n), lambda: Const(t, n))


def _single(x: float) -> float:
    """The nearest float32. Packing rounds as numpy does, at a tenth of the time; it refuses what is too
    large."""
    try:
        return _FLOAT.unpack(_FLOAT.pack(x))[0]  # type: ignore[no-any-return]
    except OverflowError:
        return math.copysign(math.inf, x)


def _a_number(value: Any, t: DType) -> str | None:
    """What to write in place of a literal of an expression, or of text that reads as a number."""
    if isinstance(value, Expr) or hasattr(value, "as_expr"):
        return f".astype({t.name!r}), which converts expressions"
    read = float if t.is_float else int
    try:
        read(value)
    except (ValueError, TypeError):
        return None
    return f"te.const({read.__name__}({value!r}), {t.name!r})"


def _that_holds(n: int) -> str:
    """The literal in the narrowest type that holds it."""
    for name in ("int8", "int16", "int32", "int64", "uint64"):
        lo, hi = _dtype_of(name).limits()
        if lo <= n <= hi:
            return f"te.const({n}, {name!r})"
    return "a float dtype"


TRUE = const(True)
FALSE = const(False)


def as_expr(x: ExprLike, like: DType | None = None) -> Expr:
    """``x`` as an expression; a Python number takes the type ``like`` when that can hold it.

    Raises DeclareError for a thing that is not a scalar.
    """
    if isinstance(x, Expr):
        return x
    if type(x) is int and (like is INT32 or like is INT64) and x in linear.SMALL:
        return linear.literal(x, like)
    if isinstance(x, _TRUTHS):
        return const(bool(x))
    if like is not None and isinstance(x, int | np.integer):
        n = int(x)
        element = like.element
        if element.is_float:
            return const(float(n), element)
        if element.is_int:
            lo, hi = element.limits()
            if lo <= n <= hi:
                return const(n, element)
        return const(n)
    if like is not None and like.is_float and isinstance(x, float | np.floating):
        return const(float(x), like.element)
    convert = getattr(x, "as_expr", None)
    if convert is not None:
        return convert()  # type: ignore[no-any-return]
    return const(x)  # type: ignore[arg-type]  # refused there when it is not a number


def broadcast(value: ExprLike, lanes: int) -> Expr:
    """The vector of ``lanes`` copies of a scalar."""
    value = as_expr(value)
    return value if lanes == 1 or value.dtype.lanes == lanes else intern(Broadcast, value, lanes)


def further(a: Expr, b: Expr, larger: bool) -> Expr | None:
    """The larger, or the smaller, of two lines of numbers, where one is so in every lane."""
    x, y = _line(a), _line(b)
    if x is None or y is None:
        return None
    if x[0] >= y[0] and x[1] >= y[1]:
        return a if larger else b
    return (b if larger else a) if x[0] <= y[0] and x[1] <= y[1] else None


def _line(e: Expr) -> tuple[int, int] | None:
    """The first and the last number of a line of them."""
    if type(e) is Ramp:
        base, stride = const_int(e.base), const_int(e.stride)
        return None if base is None or stride is None else (base, base + stride * (e.lanes - 1))
    value = const_int(e.value) if type(e) is Broadcast else None
    return None if value is None else (value, value)
