"""Types of elements: torch's names, and torch's rules for the type of a result. Knows dtypes and tensors.

Tensors of some dimensions decide by numpy's lattice, with two differences: a float with a whole number stays
what it is, and what has no dimensions, a tensor or a number, decides only when its kind (bool, whole, float)
is higher.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ... import ops, te
from ...core.dtype import BOOL, FLOAT32, INT64, DType, dtype
from ...expr.nodes import Expr
from ...te import Tensor
from .table import needs

Number = bool | int | float
PARTS = {"complex64": "float32", "complex128": "float64"}  # of complex numbers
KINDS = {"float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "bool"}


def kind(t: DType) -> int:
    """0 for bool, 1 for whole numbers, 2 for floats."""
    return 2 if t.is_float else 1 if t.is_int else 0


def both(a: DType, b: DType) -> DType:
    """The type that holds elements of both."""
    if kind(a) != kind(b):
        return a if kind(a) > kind(b) else b
    if a == b:
        return a
    if {a.code, b.code} == {"float", "bfloat"} and a.bits == b.bits:
        return FLOAT32
    if a.code == b.code or kind(a) == 2:
        return a if a.bits > b.bits else b
    signed, unsigned = (a, b) if a.code == "int" else (b, a)
    return signed if signed.bits > unsigned.bits else dtype(f"int{min(64, 2 * unsigned.bits)}")


def result_type(*xs: Any) -> DType:
    """The type of a result of these tensors and numbers."""
    ranks: list[DType | None] = [None, None, None]
    for x in xs:
        if isinstance(x, Tensor):
            rank, t = (0, x.dtype) if x.ndim else (1, x.dtype)
        else:
            rank, t = 2, of_number(x)
        have = ranks[rank]
        ranks[rank] = t if have is None else both(have, t)
    found: DType | None = None
    for r in ranks:
        if r is not None and (found is None or kind(r) > kind(found)):
            found = r
    assert found is not None
    return found


def of_number(x: Any) -> DType:
    """The type a Python number has among tensors of lower kinds."""
    if isinstance(x, Expr):  # of sizes
        return FLOAT32 if x.dtype.is_float else INT64
    return BOOL if isinstance(x, bool) else INT64 if isinstance(x, int) else FLOAT32


def is_just(x: Any, number: int) -> bool:
    """Whether a factor is this number; one that is made of open sizes is not known to be."""
    return not isinstance(x, Expr) and x == number


def as_type(x: Any, t: DType | str) -> Tensor:
    """A tensor or number as a tensor of a type; itself when it is that. What is not 0 is true."""
    t = dtype(t)
    if not isinstance(x, Tensor):
        number = te.cast(t, x) if isinstance(x, Expr) else te.const(around(x, t), t)
        return te.compute((), lambda: number, name="c")
    if x.dtype == t:
        return x
    if t.is_bool:
        return te.compute(x.shape, lambda *i: x(*i) != te.const(0, x.dtype), name="cast")
    if x.dtype.is_float and t == "uint8":  # C's way round zero, by a wider whole number
        return ops.cast(ops.cast(x, "int64"), t)
    return ops.cast(x, t)


def held(x: Any, t: DType | str) -> Tensor:
    """A number that is put into a tensor of a type, as ``as_type``. Raises DeclareError for one beyond the
    type, which torch refuses when it runs: masks of -1e9 in float16, 300 among bytes."""
    t = dtype(t)
    if not isinstance(x, Number):
        return as_type(x, t)
    needs(_takes(t, x), f"{x} in a tensor of {t}")
    return as_type(int(x) if t.is_int else x, t)


def _takes(t: DType, x: Number) -> bool:
    """Whether torch takes a number for an element: an infinity is one of floats, and a negative whole number
    comes round among bytes."""
    if t.is_bool:
        return True
    if t.is_float:
        most: float = te.max_value(t).value  # type: ignore[attr-defined]
        return not math.isfinite(x) or abs(x) <= most
    low, high = t.limits()
    if isinstance(x, int) and t.code == "uint":
        low = -high
    return math.isfinite(x) and low <= x <= high


def around(x: Number, t: DType) -> Number:
    """A number as elements of a type have it: whole ones that are too large come round, as -1 is 255 of a
    byte."""
    if not (t.is_int and isinstance(x, int)):
        return x
    least = -(1 << t.bits - 1) if t.code == "int" else 0
    return (x - least) % (1 << t.bits) + least


def promoted(*xs: Any) -> list[Tensor]:
    """These tensors and numbers as tensors of one type."""
    t = result_type(*xs)
    return [as_type(x, t) for x in xs]


def floats(x: Tensor) -> Tensor:
    """The tensor, in float32 when it holds whole numbers."""
    return x if x.dtype.is_float else as_type(x, FLOAT32)


def widened(x: Any) -> Any:
    """16-bit floats as float32; all else as it is."""
    narrow = isinstance(x, Tensor) and x.dtype.is_float and x.dtype.bits == 16
    return as_type(x, FLOAT32) if narrow else x


def of_floats(f: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function of floats that takes whole numbers too."""

    def g(x: Tensor, *more: Any) -> Tensor:
        return f(floats(x), *more)

    g.__name__ = f.__name__
    return g


def wide(f: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function of floats and whole numbers whose 16-bit floats are computed in float32 and rounded once."""
    return of_floats(rounded_once(f))


def rounded_once(f: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function whose tensors of 16-bit floats are computed in float32, and its result rounded to their type
    once."""

    def g(*args: Any) -> Tensor:
        narrow = [x.dtype for x in args if isinstance(x, Tensor) and x.dtype.is_float and x.dtype.bits == 16]
        if not narrow:
            return f(*args)
        return as_type(f(*(widened(x) for x in args)), narrow[0])

    g.__name__ = f.__name__
    return g
