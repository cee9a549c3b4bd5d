"""ONNX's elementwise arithmetic, comparisons, logic and casts. Knows ops."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import ops, te
from ...core.dtype import dtype
from ...errors import TensorLangError
from ...te import Tensor
from ..words import constant_like, paired, truncated, whole_power
from .narrow import WIDE, rounded
from .proto import Call, dtype_name
from .table import graph_op, plain, te_op

if TYPE_CHECKING:
    from .importer import Importer

_SAME: dict[str, Callable[..., Any]] = {
    "Abs": ops.abs,
    "Acos": ops.acos,
    "Acosh": ops.acosh,
    "Asin": ops.asin,
    "Asinh": ops.asinh,
    "Atan": ops.atan,
    "Atanh": ops.atanh,
    "BitwiseAnd": ops.bitwise_and,
    "BitwiseNot": ops.bitwise_not,
    "BitwiseOr": ops.bitwise_or,
    "BitwiseXor": ops.bitwise_xor,
    "Ceil": ops.ceil,
    "Cos": ops.cos,
    "Cosh": ops.cosh,
    "Erf": ops.erf,
    "Exp": ops.exp,
    "Floor": ops.floor,
    "GreaterOrEqual": ops.greater_equal,
    "IsNaN": ops.isnan,
    "LessOrEqual": ops.less_equal,
    "Log": ops.log,
    "Neg": ops.negative,
    "Not": ops.logical_not,
    "Reciprocal": ops.reciprocal,
    "Round": ops.round,
    "Sigmoid": ops.sigmoid,
    "Sign": ops.sign,
    "Sin": ops.sin,
    "Sinh": ops.sinh,
    "Sqrt": ops.sqrt,
    "Tan": ops.tan,
    "Tanh": ops.tanh,
    "Where": ops.where,
}
for _name, _op in _SAME.items():
    plain(_op, _name)


def aligned(a: Tensor, b: Tensor, broadcast: int, axis: int | None) -> Tensor:
    """``b`` with its dimensions at those of ``a`` from the axis on, as opset 6 has it."""
    if not broadcast or axis is None:
        return b
    # numpy aligns at the last dimension, opset 6 at any: dimensions of one behind b make the two agree
    trailing = a.ndim - axis % a.ndim - b.ndim
    return ops.expand_dims(b, tuple(range(b.ndim, b.ndim + trailing))) if trailing > 0 else b


def _binary(f: Callable[..., Any]) -> Callable[..., Any]:
    """An operator of two tensors that before opset 7 said by attributes how they broadcast."""

    def of(a: Tensor, b: Tensor, *, broadcast: int = 0, axis: int | None = None) -> Tensor:
        return f(a, aligned(a, b, broadcast, axis))

    of.__name__ = f.__name__
    return of


_BINARY: dict[str, Callable[..., Any]] = {
    "Add": ops.add,
    "And": ops.logical_and,
    "Equal": ops.equal,
    "Greater": ops.greater,
    "Less": ops.less,
    "Mul": ops.multiply,
    "Or": ops.logical_or,
    "Sub": ops.subtract,
    "Xor": ops.logical_xor,
}
for _name, _op in _BINARY.items():
    te_op(_name)(_binary(_op))


@graph_op("Identity")
def identity(c: Importer, call: Call) -> Any:
    return (c.value(call.inputs[0]),)  # of whatever kind


@graph_op("Cast")
def cast(c: Importer, call: Call) -> Any:
    """To a type of few bits the numbers are rounded to those it has."""
    x, kind = c.tensor(call.inputs[0]), dtype_name(call.attrs["to"])
    if kind in WIDE:
        saturate, up = bool(call.attrs.get("saturate", 1)), call.attrs.get("round_mode", "up")
        return c.narrowed(rounded(c.g, x, kind, saturate, up), kind)
    # no kernel for a cast to the type that is there
    if str(x.dtype) == kind and x not in c.narrow:
        return x
    return c.g.call(_cast, x, op="Cast", name=call.name, outputs=call.outputs, to=kind)


def _cast(x: Tensor, *, to: str) -> Tensor:
    """A new tensor, be its type the same."""
    return te.compute(x.shape, lambda *i: te.cast(to, x(*i)), name="cast")


@graph_op("CastLike")
def cast_like(c: Importer, call: Call) -> Any:
    """A Cast to the type of the second input, of which nothing else is read."""
    # so that the array of the second input need not exist when the kernel runs
    attrs = {**call.attrs, "to": c.kind(call.inputs[1])}
    return c.take(replace(call, op="Cast", inputs=call.inputs[:1], attrs=attrs))


@graph_op("BitCast")
def bit_cast(c: Importer, call: Call) -> Any:
    """The same bytes under another type: a function of arrays, which copies nothing."""
    x, kind = c.tensor(call.inputs[0]), dtype_name(call.attrs["to"])
    # a type of few bits is stored as another: its bytes are not those of the file
    if x in c.narrow or kind in WIDE:
        raise TensorLangError(f"{call!r}: between {c.kind(call.inputs[0])} and {kind}")
    return c.g.host(_viewed, [x], [(x.shape, kind)], call.op, call.name, call.outputs, kind=kind)


def _viewed(x: np.ndarray, *, kind: str) -> np.ndarray:
    return x.view(dtype(kind).to_numpy())


@te_op("Div")
@_binary
def div(a: Tensor, b: Tensor) -> Tensor:
    """Of whole numbers the quotient towards zero."""
    return ops.divide(a, b) if a.dtype.is_float else truncated(a, b)


@te_op("Pow")
@_binary
def pow_(a: Tensor, b: Tensor) -> Tensor:
    """In the dtype of the base."""
    if a.dtype.is_int and b.dtype.is_int:
        return paired("pow", a, b, whole_power)
    if a.dtype == b.dtype:
        return ops.power(a, b)
    # the base decides the result's type, not how exactly it is computed
    wide = "float64" if a.dtype.is_int or "64" in f"{a.dtype}{b.dtype}" else "float32"
    return ops.cast(ops.power(ops.cast(a, wide), ops.cast(b, wide)), a.dtype)


@te_op("Mod")
def mod(a: Tensor, b: Tensor, *, fmod: int = 0) -> Tensor:
    """With the sign of the divisor, or of the dividend as C has it."""
    return ops.fmod(a, b) if fmod else ops.mod(a, b)


@te_op("BitShift")
def bit_shift(a: Tensor, b: Tensor, *, direction: str) -> Tensor:
    return ops.left_shift(a, b) if direction == "LEFT" else ops.right_shift(a, b)


@te_op("IsInf")
def is_inf(x: Tensor, *, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    found = ops.isinf(x)
    if detect_negative and detect_positive:
        return found
    zero = constant_like(x, 0)
    sign = ops.less(x, zero) if detect_negative else ops.greater(x, zero)
    # neither is asked for: x != x is false of all infinities, and found is false of NaN
    return ops.logical_and(found, sign if detect_negative or detect_positive else ops.not_equal(x, x))


@te_op("Clip")
def clip(
    x: Tensor,
    low: Tensor | None = None,
    high: Tensor | None = None,
    *,
    min: float | None = None,
    max: float | None = None,
) -> Tensor:
    # bounds were attributes before opset 11, inputs since
    lowest = low if low is not None else None if min is None else constant_like(x, min)
    highest = high if high is not None else None if max is None else constant_like(x, max)
    x = x if lowest is None else ops.maximum(x, lowest)
    return x if highest is None else ops.minimum(x, highest)


def _several(f: Any) -> Any:
    return lambda *tensors: functools.reduce(f, tensors)


for _name, _op in {"Max": ops.maximum, "Min": ops.minimum, "Sum": ops.add}.items():
    te_op(_name)(_several(_op))


@te_op("Mean")
def mean(*tensors: Tensor) -> Tensor:
    total = functools.reduce(ops.add, tensors)
    return ops.divide(total, constant_like(total, len(tensors)))
