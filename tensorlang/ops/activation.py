"""Activations, with torch's functional names and formulas: elementwise functions of floats. 16-bit floats are
computed in float32 and rounded once. ``relu``, ``relu6`` and ``shrink`` take integers too. NaN gives NaN,
except where a comparison with a threshold decides.
Knows maps; no other operator."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .. import te
from ..core.dtype import FLOAT64
from ..errors import DeclareError, counted
from ..expr import make
from ..expr.nodes import Expr
from ..te import Tensor
from . import inputs, tags
from .cells import elu_of, softplus_of
from .maps import unary

__all__ = [
    "celu",
    "elu",
    "gelu",
    "hard_sigmoid",
    "hard_swish",
    "hard_tanh",
    "leaky_relu",
    "mish",
    "prelu",
    "relu",
    "relu6",
    "selu",
    "shrink",
    "sigmoid",
    "silu",
    "softplus",
    "softsign",
    "swish",
    "tanh",
    "thresholded_relu",
]


def _of_floats(op: str, x: Any, f: Callable[[Expr], Expr]) -> Tensor:
    return unary(op, inputs.floating(op, x), f)


def _of_numbers(op: str, x: Any, f: Callable[[Expr], Expr]) -> Tensor:
    x = inputs.tensor(op, x)
    return unary(op, x, f) if x.dtype.is_int else _of_floats(op, x, f)


def _clamped(e: Expr, lo: float, hi: float) -> Expr:
    # max_ and min_ hand a NaN on from either side, so that a NaN stays one
    return make.min_(make.max_(e, make.const(lo, e.dtype)), make.const(hi, e.dtype))


def relu(x: Tensor) -> Tensor:
    """``max(x, 0)``, of floats and integers. The shape is that of ``x``, and so is the type. Raises
    DeclareError for bool.

    >>> x = te.placeholder((2,), name="x")
    >>> te.reference.evaluate(ops.relu(x), {x: np.array([-1.0, 2.0], np.float32)})[0].tolist()
    [0.0, 2.0]
    """
    return _of_numbers("relu", x, lambda e: make.max_(e, make.const(0, e.dtype)))


def relu6(x: Tensor) -> Tensor:
    """``min(max(x, 0), 6)``, of floats and integers. The shape is that of ``x``, and so is the type.
    Raises DeclareError for bool."""
    return _of_numbers("relu6", x, lambda e: _clamped(e, 0, 6))


def leaky_relu(x: Tensor, negative_slope: float = 0.01) -> Tensor:
    """``x`` where it is positive, else ``negative_slope * x``. The shape is that of ``x``, and so is the
    type. Raises DeclareError for integers and bool."""
    slope = inputs.number("leaky_relu", "negative_slope", negative_slope)
    # not max(x, slope x), which takes the wrong side for a slope above 1
    return _of_floats("leaky_relu", x, lambda e: te.select(e > 0.0, e, e * make.const(slope, e.dtype)))


def prelu(x: Tensor, weight: Tensor, axis: int = 1) -> Tensor:
    """``x`` where it is positive, else ``weight * x``; ``weight`` has one number, or one for each channel of
    ``x`` along ``axis``. Raises DeclareError for other shapes of it."""
    x, weight = inputs.floating("prelu", x), inputs.floating("prelu", weight, "weight")
    if weight.ndim > 1:
        raise DeclareError(
            f"ops.prelu: weight {inputs.text(weight.shape)} has {counted(weight.ndim, 'dimension')}",
            try_="one number, or one for each channel",
        )
    shared = weight.ndim == 0 or inputs.is_one(weight.shape[0])
    d = 0 if shared else inputs.axis_of("prelu", axis, x.ndim)
    if not shared:
        inputs.same_size(
            "prelu",
            f"the size of weight {weight.name}",
            weight.shape[0],
            x.shape[d],
            f"{inputs.named(x)} has one weight for each channel, dimension {d}",
        )

    def element(*i: Any) -> Expr:
        e = te.cast(inputs.wide(x.dtype), x(*i))
        # a weight of no dimensions takes no index at all
        w = te.cast(e.dtype, weight(*[0 if shared else i[d]] * weight.ndim))
        return te.cast(x.dtype, te.select(e > 0.0, e, e * w))

    return inputs.stage("prelu", tags.BROADCAST, x.shape, element)


def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """``x`` where it is positive, else ``alpha * (exp(x) - 1)`` (Clevert et al. 2015)."""
    a = inputs.number("elu", "alpha", alpha)
    return _of_floats("elu", x, lambda e: elu_of(e, make.const(a, e.dtype)))


def selu(x: Tensor) -> Tensor:
    """``scale * elu(x, alpha)`` with the constants of self-normalising networks (Klambauer et al. 2017)."""
    # where mean 0 and variance 1 are a fixed point; all digits, as torch and ONNX have them
    alpha, scale = 1.6732632423543772, 1.0507009873554805
    return _of_floats("selu", x, lambda e: make.const(scale, e.dtype) * elu_of(e, make.const(alpha, e.dtype)))


def celu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """``max(x, 0) + min(alpha (exp(x / alpha) - 1), 0)``: an :func:`elu` whose slope is continuous at 0
    (Barron 2017).

    Raises DeclareError when ``alpha`` is 0.
    """
    a = inputs.number("celu", "alpha", alpha)
    if a == 0:
        raise DeclareError("ops.celu: alpha is 0", because="x is divided by it", try_="ops.relu")

    def of(e: Expr) -> Expr:
        zero, c = make.const(0, e.dtype), make.const(a, e.dtype)
        # no select: one of the two is zero on either side, and a NaN comes through both
        return make.max_(e, zero) + make.min_(c * te.expm1(e / c), zero)

    return _of_floats("celu", x, of)


def thresholded_relu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """``x`` where it is greater than ``alpha``, else 0, NaN included (Konda, Memisevic and Krueger 2014)."""
    a = inputs.number("thresholded_relu", "alpha", alpha)

    def of(e: Expr) -> Expr:
        return te.select(e > make.const(a, e.dtype), e, make.const(0, e.dtype))

    return _of_floats("thresholded_relu", x, of)


def shrink(x: Tensor, lambd: float = 0.5, bias: float = 0.0) -> Tensor:
    """``x + bias`` below ``-lambd``, ``x - bias`` above ``lambd``, else 0: torch's hardshrink with no bias,
    its softshrink with ``bias=lambd``. Of floats, and of integers, which are computed in float64."""
    limit, b = inputs.number("shrink", "lambd", lambd), inputs.number("shrink", "bias", bias)
    x = inputs.tensor("shrink", x)
    # a bias of 0.5 beside integers is rounded once, at the end
    inside = FLOAT64 if x.dtype.is_int else inputs.wide(inputs.floating("shrink", x).dtype)
    low, high, by, zero = (make.const(v, inside) for v in (-limit, limit, b, 0))

    def of(e: Expr) -> Expr:
        wide = te.cast(inside, e)
        outside = te.select(wide > high, wide - by, zero)
        return te.cast(e.dtype, te.select(wide < low, wide + by, outside))

    return unary("shrink", x, of)


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """``x * Phi(x)`` with the normal distribution function (Hendrycks and Gimpel 2016): exact by erf, or with
    ``approximate="tanh"`` ``0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x³)))``.

    Raises DeclareError for another ``approximate``.

    >>> x = te.placeholder((2,), name="x")
    >>> te.reference.evaluate(ops.gelu(x), {x: np.array([0.0, 10.0], np.float32)})[0].tolist()
    [0.0, 10.0]
    """
    if approximate not in ("none", "tanh"):
        raise DeclareError(f"ops.gelu: approximate={approximate!r}", legal="'none', 'tanh'")

    def exact(e: Expr) -> Expr:
        return 0.5 * e * (1.0 + te.erf(e * make.const(math.sqrt(0.5), e.dtype)))

    def by_tanh(e: Expr) -> Expr:
        inner = make.const(math.sqrt(2 / math.pi), e.dtype) * (e + make.const(0.044715, e.dtype) * e * e * e)
        return 0.5 * e * (1.0 + te.tanh(inner))

    return _of_floats("gelu", x, exact if approximate == "none" else by_tanh)


def sigmoid(x: Tensor) -> Tensor:
    """``1 / (1 + exp(-x))``. The shape is that of ``x``, and so is the type. Raises DeclareError for
    integers and bool.

    >>> x = te.placeholder((2,), name="x")
    >>> te.reference.evaluate(ops.sigmoid(x), {x: np.array([0.0, 100.0], np.float32)})[0].tolist()
    [0.5, 1.0]
    """
    return _of_floats("sigmoid", x, te.sigmoid)


def tanh(x: Tensor) -> Tensor:
    """The hyperbolic tangent. The shape is that of ``x``, and so is the type. Raises DeclareError for
    integers and bool.

    >>> x = te.placeholder((2,), name="x")
    >>> te.reference.evaluate(ops.tanh(x), {x: np.array([0.0, 100.0], np.float32)})[0].tolist()
    [0.0, 1.0]
    """
    return _of_floats("tanh", x, te.tanh)


def silu(x: Tensor) -> Tensor:
    """``x * sigmoid(x)``, also called swish (Ramachandran et al. 2017).

    >>> x = te.placeholder((2,), name="x")
    >>> te.reference.evaluate(ops.silu(x), {x: np.array([0.0, 100.0], np.float32)})[0].tolist()
    [0.0, 100.0]
    """
    return _of_floats("silu", x, lambda e: e * te.sigmoid(e))


swish = silu


def softplus(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """``log(1 + exp(beta x)) / beta`` without overflow; ``x`` itself where ``beta x > threshold``, as torch
    has it.

    Raises DeclareError when ``beta`` is 0.

    >>> x = te.placeholder((2,), name="x")
    >>> te.reference.evaluate(ops.softplus(x), {x: np.array([100.0, 200.0], np.float32)})[0].tolist()
    [100.0, 200.0]
    """
    b, limit = inputs.number("softplus", "beta", beta), inputs.number("softplus", "threshold", threshold)
    if b == 0:
        raise DeclareError("ops.softplus: beta is 0", because="the result is divided by it")

    def of(e: Expr) -> Expr:
        scaled = e * make.const(b, e.dtype)
        # not against overflow, which softplus_of avoids itself: torch gives x there, to the bit
        return te.select(scaled > make.const(limit, e.dtype), e, softplus_of(scaled) / make.const(b, e.dtype))

    return _of_floats("softplus", x, of)


def softsign(x: Tensor) -> Tensor:
    """``x / (1 + |x|)``. The shape is that of ``x``, and so is the type. Raises DeclareError for integers
    and bool."""
    return _of_floats("softsign", x, lambda e: e / (1.0 + te.abs(e)))


def hard_sigmoid(x: Tensor, alpha: float | None = None, beta: float = 0.5) -> Tensor:
    """``min(max(x + 3, 0), 6) / 6``, torch's hardsigmoid (Howard et al. 2019); with ``alpha`` the one of
    Courbariaux et al. 2015, ``min(max(alpha x + beta, 0), 1)``."""
    if alpha is not None:
        a, b = inputs.number("hard_sigmoid", "alpha", alpha), inputs.number("hard_sigmoid", "beta", beta)
        return _of_floats(
            "hard_sigmoid", x, lambda e: _clamped(e * make.const(a, e.dtype) + make.const(b, e.dtype), 0, 1)
        )
    return _of_floats("hard_sigmoid", x, lambda e: _clamped(e + 3.0, 0, 6) * make.const(1 / 6, e.dtype))


def hard_swish(x: Tensor) -> Tensor:
    """``x * hard_sigmoid(x)`` (Howard et al. 2019, MobileNetV3). The shape is that of ``x``, and so is
    the type. Raises DeclareError for integers and bool."""
    return _of_floats("hard_swish", x, lambda e: e * _clamped(e + 3.0, 0, 6) * make.const(1 / 6, e.dtype))


def hard_tanh(x: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """``min(max(x, min_val), max_val)``. The shape is that of ``x``, and so is the type. Raises
    DeclareError for integers and bool, and for bounds of which the lower is the greater one."""
    lo, hi = inputs.number("hard_tanh", "min_val", min_val), inputs.number("hard_tanh", "max_val", max_val)
    inputs.in_order("hard_tanh", x, lo, hi)
    return _of_floats("hard_tanh", x, lambda e: _clamped(e, lo, hi))


def mish(x: Tensor) -> Tensor:
    """``x * tanh(softplus(x))`` (Misra 2019), as ``x n / (n + 2)`` with ``n = exp(x) (exp(x) + 2)``: one exp,
    and no cancellation.

    Beyond 20 the factor is 1 to the last bit, and exp would overflow in the end.
    """

    def of(e: Expr) -> Expr:
        # without a bound exp overflows, and inf / inf is NaN; from 20 on n / (n + 2) is 1 to the last bit
        t = te.exp(make.min_(e, make.const(20.0, e.dtype)))
        n = t * (t + 2.0)
        return e * (n / (n + 2.0))

    return _of_floats("mish", x, of)
