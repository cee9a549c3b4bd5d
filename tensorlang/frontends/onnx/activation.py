"""ONNX's activations. Knows ops."""

from __future__ import annotations

from ... import ops, te
from ...te import Tensor
from ..words import constant_like, times
from .elementwise import aligned
from .table import plain, te_op

for _name, _op in {
    "HardSwish": ops.hard_swish,
    "Mish": ops.mish,
    "Relu": ops.relu,
    "Softplus": ops.softplus,
    "Softsign": ops.softsign,
}.items():
    plain(_op, _name)

plain(ops.celu, "Celu", alpha=1.0)
plain(ops.elu, "Elu", alpha=1.0)
plain(ops.gelu, "Gelu", approximate="none")
plain(ops.hard_sigmoid, "HardSigmoid", alpha=0.2, beta=0.5)
plain(ops.shrink, "Shrink", lambd=0.5, bias=0.0)
plain(ops.thresholded_relu, "ThresholdedRelu", alpha=1.0)


@te_op("PRelu")
def prelu(x: Tensor, slope: Tensor, *, opset: int) -> Tensor:
    """The slope broadcasts to ``x``; before opset 7 it has one number a channel."""
    # not ops.prelu, whose slope is a vector of channels: ONNX's broadcasts as any operand
    slope = aligned(x, slope, 1, 1) if opset < 7 and not te.whole.is_one(slope.shape[0]) else slope
    zero = constant_like(x, 0)
    return ops.where(ops.less(x, zero), ops.multiply(x, slope), x)


@te_op("LeakyRelu")
def leaky_relu(x: Tensor, *, alpha: float = 0.01) -> Tensor:
    return ops.leaky_relu(x, alpha)


@te_op("Selu")
def selu(
    x: Tensor, *, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875
) -> Tensor:
    # the defaults are float32 numbers, and the attributes may be others: ops.selu has the paper's constants
    return ops.multiply(ops.elu(x, alpha), constant_like(x, gamma))


@te_op("Swish")
def swish(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return ops.multiply(x, ops.sigmoid(times(x, alpha)))


@te_op("SwiGLU")
def swiglu(gate: Tensor, x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return ops.multiply(swish(gate, alpha=alpha), x)
