"""ONNX's elementwise arithmetic, comparisons, logic and casts. Knows ops."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import ops, te
from ...core.dtype import DType, dtype
from ...errors import TensorLangError
from ...expr.make import ExprLike
from ...te import Tensor
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


def constant_like(x: Tensor, value: Any) -> Tensor:
    """A number as a tensor of the dtype of ``x``."""
    return te.compute((), lambda: te.const(value, x.dtype), name="c")


def times(x: Tensor, factor: float) -> Tensor:
    """The product with a number; ``x`` itself for 1."""
    return x if factor == 1 else ops.multiply(x, constant_like(x, factor))


def of_type(x: Tensor, kind: DType) -> Tensor:
    """``x`` in another dtype, itself when it has that."""
    return x if x.dtype == kind else ops.cast(x, kind)


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
    if str(x.dtype) == kind and x not in c.narrow:
        return x
    return c.g.call(_cast, x, op="Cast", name=call.name, outputs=call.outputs, to=kind)


def _cast(x: Tensor, *, to: str) -> Tensor:
    """A new tensor, be its type the same."""
    return te.compute(x.shape, lambda *i: te.cast(to, x(*i)), name="cast")


@graph_op("CastLike")
def cast_like(c: Importer, call: Call) -> Any:
    """A Cast to the type of the second input, of which nothing else is read."""
    attrs = {**call.attrs, "to": c.kind(call.inputs[1])}
    return c.take(replace(call, op="Cast", inputs=call.inputs[:1], attrs=attrs))


@graph_op("BitCast")
def bit_cast(c: Importer, call: Call) -> Any:
    """The same bytes under another type: a function of arrays, which copies nothing."""
    x, kind = c.tensor(call.inputs[0]), dtype_name(call.attrs["to"])
    if x in c.narrow or kind in WIDE:
        raise TensorLangError(f"{call!r}: between {c.kind(call.inputs[0])} and {kind}")
    return c.g.host(_viewed, [x], [(x.shape, kind)], call.op, call.name, call.outputs, kind=kind)


def _viewed(x: np.ndarray, *, kind: str) -> np.ndarray:
    return x.view(dtype(kind).to_numpy())


@te_op("Div")
@_binary
def div(a: Tensor, b: Tensor) -> Tensor:
    """Of whole numbers the quotient towards zero."""
    return ops.divide(a, b) if a.dtype.is_float else _truncated(a, b)


def _truncated(a: Tensor, b: Tensor) -> Tensor:
    return _paired("div", a, b, te.truncdiv)


def _paired(name: str, a: Tensor, b: Tensor, f: Callable[[Any, Any], Any]) -> Tensor:
    """``f`` of the elements of two tensors that broadcast."""
    shape = te.whole.broadcast_shape(name, [a, b])

    def own(t: Tensor, at: tuple[ExprLike, ...]) -> Any:
        at = at[len(at) - t.ndim :] if t.ndim else ()
        return t(*(0 if te.whole.is_one(n) else i for n, i in zip(t.shape, at, strict=True)))

    return te.compute(shape, lambda *i: f(own(a, i), own(b, i)), name=name)


@te_op("Pow")
@_binary
def pow_(a: Tensor, b: Tensor) -> Tensor:
    """In the dtype of the base."""
    if a.dtype.is_int and b.dtype.is_int:
        return _paired("pow", a, b, _whole_power)
    if a.dtype == b.dtype:
        return ops.power(a, b)
    wide = "float64" if a.dtype.is_int or "64" in f"{a.dtype}{b.dtype}" else "float32"
    return ops.cast(ops.power(ops.cast(a, wide), ops.cast(b, wide)), a.dtype)


def _whole_power(base: Any, exponent: Any) -> Any:
    """By squaring: six bits of an exponent say all, for of larger ones only powers of -1, 0 and 1 are whole
    numbers of 64 bits. A negative exponent leaves nothing of other numbers than those."""
    one = te.const(1, base.dtype)
    found, square = one, base
    for k in range(6):
        bit = te.bitwise_and(
            te.shift_right(exponent, te.const(k, exponent.dtype)), te.const(1, exponent.dtype)
        )
        found = te.select(bit != 0, found * square, found)
        square = square * square
    found = te.select(te.all(base == 0, exponent != 0), te.const(0, base.dtype), found)
    if exponent.dtype.code == "uint":
        return found
    unit = base == 1 if base.dtype.code == "uint" else te.any(base == 1, base == -1)
    return te.select(te.any(exponent >= 0, unit), found, te.const(0, base.dtype))


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


__all__ = ["aligned", "constant_like", "of_type", "times"]
