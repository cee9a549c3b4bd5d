"""ONNX's elementwise operators. Knows ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import ops, te
from ...expr.make import ExprLike
from ...te import Tensor
from .proto import dtype_name
from .table import plain, te_op

_SAME: dict[str, Callable[..., Any]] = {
    "Abs": ops.abs,
    "Add": ops.add,
    "And": ops.logical_and,
    "Ceil": ops.ceil,
    "Cos": ops.cos,
    "Equal": ops.equal,
    "Erf": ops.erf,
    "Exp": ops.exp,
    "Floor": ops.floor,
    "Greater": ops.greater,
    "GreaterOrEqual": ops.greater_equal,
    "HardSwish": ops.hard_swish,
    "IsNaN": ops.isnan,
    "Less": ops.less,
    "LessOrEqual": ops.less_equal,
    "Log": ops.log,
    "Mish": ops.mish,
    "Mul": ops.multiply,
    "Neg": ops.negative,
    "Not": ops.logical_not,
    "Or": ops.logical_or,
    "PRelu": ops.prelu,
    "Reciprocal": ops.reciprocal,
    "Relu": ops.relu,
    "Round": ops.round,
    "Sigmoid": ops.sigmoid,
    "Sign": ops.sign,
    "Sin": ops.sin,
    "Softplus": ops.softplus,
    "Softsign": ops.softsign,
    "Sqrt": ops.sqrt,
    "Sub": ops.subtract,
    "Tan": ops.tan,
    "Tanh": ops.tanh,
    "Where": ops.where,
    "Xor": ops.logical_xor,
}
for _name, _op in _SAME.items():
    plain(_op, _name)


def constant_like(x: Tensor, value: Any) -> Tensor:
    """A number as a tensor of the dtype of ``x``."""
    return te.compute((), lambda: te.const(value, x.dtype), name="c")


@te_op("Identity", "Dropout")
def identity(x: Tensor, ratio: Any = None, training: Any = None, *, seed: int = 0) -> Tensor:
    return x


@te_op("Cast")
def cast(x: Tensor, *, to: int, saturate: int = 1, round_mode: str = "up") -> Tensor:
    kind = dtype_name(to)
    return x if str(x.dtype) == kind else ops.cast(x, kind)


@te_op("Div")
def div(a: Tensor, b: Tensor) -> Tensor:
    """Of whole numbers the quotient towards zero."""
    return ops.divide(a, b) if a.dtype.is_float else _truncated(a, b)


def _truncated(a: Tensor, b: Tensor) -> Tensor:
    shape = te.whole.broadcast_shape("Div", [a, b])

    def own(t: Tensor, at: tuple[ExprLike, ...]) -> Any:
        at = at[len(at) - t.ndim :] if t.ndim else ()
        return t(*(0 if te.whole.is_one(n) else i for n, i in zip(t.shape, at, strict=True)))

    return te.compute(shape, lambda *i: te.truncdiv(own(a, i), own(b, i)), name="div")


@te_op("Pow")
def pow_(a: Tensor, b: Tensor) -> Tensor:
    """In the dtype of the base."""
    if a.dtype == b.dtype:
        return ops.power(a, b)
    wide = "float64" if "64" in f"{a.dtype}{b.dtype}" else "float32"
    return ops.cast(ops.power(ops.cast(a, wide), ops.cast(b, wide)), a.dtype)


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
    def of(*tensors: Tensor) -> Tensor:
        found = tensors[0]
        for t in tensors[1:]:
            found = f(found, t)
        return found

    return of


for _name, _op in {"Max": ops.maximum, "Min": ops.minimum, "Sum": ops.add}.items():
    plain(_several(_op), _name)


@te_op("LeakyRelu")
def leaky_relu(x: Tensor, *, alpha: float = 0.01) -> Tensor:
    return ops.leaky_relu(x, alpha)


@te_op("Elu")
def elu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return ops.elu(x, alpha)


@te_op("HardSigmoid")
def hard_sigmoid(x: Tensor, *, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    return ops.clip(ops.add(ops.multiply(x, alpha), beta), 0.0, 1.0)


@te_op("Gelu")
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    return ops.gelu(x, approximate)


__all__ = ["constant_like"]
