"""ATen's activations, softmax among them. Knows ops."""

from __future__ import annotations

from typing import Any

from ... import ops
from ...te import Tensor
from ..words import by_channel, constant_like, times
from .table import aten, needs
from .types import as_type, floats, held, rounded_once, wide

for _name, _op in {"hardswish": ops.hard_swish, "mish": ops.mish, "silu": ops.silu}.items():
    aten(_name)(wide(_op))


@aten("hardsigmoid")
def hard_sigmoid(x: Tensor) -> Tensor:
    return wide(lambda t: ops.hard_sigmoid(t, 1 / 6, 0.5))(x)


@aten("gelu")
def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    return ops.gelu(x, approximate)


@aten("leaky_relu")
def leaky_relu(x: Tensor, slope: float = 0.01) -> Tensor:
    zero = constant_like(x, 0)
    return ops.where(ops.greater(x, zero), x, times(x, slope))


@aten("rrelu")
def rrelu(x: Tensor, low: float = 1 / 8, high: float = 1 / 3, training: bool = False, *_: Any) -> Tensor:
    """Without training the slope is the middle of its range."""
    needs(not training, "slopes that are drawn by chance")
    return leaky_relu(x, (low + high) / 2)


@aten("rrelu_with_noise_functional")
def rrelu_with_noise(x: Tensor, noise: Tensor, *args: Any) -> Any:
    return rrelu(x, *args), noise


@aten("prelu", "_prelu_kernel")
def prelu(x: Tensor, weight: Tensor) -> Tensor:
    if weight.ndim == 1 and x.ndim > 1:
        weight = by_channel(weight, x)
    return ops.where(ops.greater(x, constant_like(x, 0)), x, ops.multiply(x, weight))


@aten("elu")
def elu(x: Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Tensor:
    def of(t: Tensor) -> Tensor:
        low = times(ops.expm1(times(t, input_scale)), alpha * scale)
        return ops.where(ops.greater(t, constant_like(t, 0)), times(t, scale), low)

    return wide(of)(x)


@aten("celu")
def celu(x: Tensor, alpha: float = 1.0) -> Tensor:
    # as ATen decomposes it: a product with the reciprocal and no division
    return elu(x, alpha, 1.0, 1.0 / alpha)


@aten("selu")
def selu(x: Tensor) -> Tensor:
    return elu(x, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946)


@aten("softplus")
def softplus(x: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    return wide(lambda t: ops.softplus(t, float(beta), float(threshold)))(x)


@aten("threshold")
def threshold(x: Tensor, least: float, value: float) -> Tensor:
    # asked this way round, since NaN stays
    return ops.where(ops.less_equal(x, held(least, x.dtype)), held(value, x.dtype), x)


@aten("glu")
def glu(x: Tensor, axis: int = -1) -> Tensor:
    a, b = ops.split(x, 2, axis)
    return ops.multiply(a, ops.sigmoid(b))


@aten("log_sigmoid_forward")
def log_sigmoid_forward(x: Tensor) -> Any:
    """The second result is what torch keeps for the way back on some devices; nothing on a CPU of it."""
    return log_sigmoid(x), ops.exp(ops.negative(ops.abs(x)))


@aten("log_sigmoid")
def log_sigmoid(x: Tensor) -> Tensor:
    zero = constant_like(x, 0)
    # of the two exponents the one that cannot overflow
    return ops.subtract(ops.minimum(x, zero), ops.log1p(ops.exp(ops.negative(ops.abs(x)))))


@aten("_softmax", "softmax.int")
def softmax(x: Tensor, axis: int, kind: Any = None) -> Tensor:
    x = _of_kind(x, kind)
    # torch takes axis 0 of a scalar
    return ops.full((), 1.0, x.dtype) if x.ndim == 0 else ops.softmax(x, axis)


def _of_kind(x: Tensor, kind: Any) -> Tensor:
    """As it enters a softmax: ``kind`` is a dtype, or whether half is turned to float, which is for other
    devices."""
    return floats(as_type(x, kind) if isinstance(kind, str) else x)


@aten("_safe_softmax")
def safe_softmax(x: Tensor, axis: int, kind: str | None = None) -> Tensor:
    """A row of nothing but -inf gives zeros."""
    y = softmax(x, axis, kind)
    # asked of the scores: their softmax is NaN there, as 0 / 0
    empty = ops.equal(ops.max(x, axis, True), constant_like(x, float("-inf")))
    return ops.where(empty, constant_like(y, 0), y)


@aten("_log_softmax", "log_softmax.int")
def log_softmax(x: Tensor, axis: int, kind: Any = None) -> Tensor:
    x = _of_kind(x, kind)
    if x.ndim == 0:
        return ops.full((), 0.0, x.dtype)
    last = axis % x.ndim == x.ndim - 1
    return _of_rows(x) if last and x.dtype.bits == 16 else rounded_once(ops.log_softmax)(x, axis)


def _of_rows(x: Tensor) -> Tensor:
    """The logarithm of softmax in the last dimension, of 16 bits: torch rounds the sum and its logarithm to
    these, and nothing else before the result."""
    wide = as_type(x, "float32")
    less = ops.subtract(wide, ops.max(wide, -1, True))
    total = as_type(as_type(ops.sum(ops.exp(less), -1, keepdims=True), x.dtype), "float32")
    log = as_type(as_type(ops.log(total), x.dtype), "float32")
    return as_type(ops.subtract(less, log), x.dtype)
