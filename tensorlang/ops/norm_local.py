"""Normalisations of older networks: over neighbouring channels (lrn), and over any dimensions with the
deviation floored (mean_variance_norm). Knows reductions over dimensions."""

from __future__ import annotations

from typing import Any

from .. import te
from ..errors import DeclareError
from ..expr import make
from ..expr.nodes import Expr
from ..te import Tensor
from . import inputs, tags
from .inputs import Axis
from .reduce import count, mean_stages, scaled, squares_about

__all__ = ["lrn", "mean_variance_norm"]


def lrn(
    x: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0, axis: int = 1
) -> Tensor:
    """``x / (bias + alpha / size * sum(x²)) ** beta`` with the sum over ``size`` neighbouring channels along
    ``axis``, ``(size - 1) // 2`` of them before (Krizhevsky, Sutskever and Hinton 2012).

    What lies beyond the first and the last channel counts as 0. As torch's local_response_norm, whose odd
    channel of an even size is one before. Of floats. Raises DeclareError for a size below 1.
    """
    x = inputs.floating("lrn", x)
    n, d = inputs.integer("lrn", "size", size), inputs.axis_of("lrn", axis, x.ndim)
    if n < 1:
        raise DeclareError(
            f"ops.lrn: size={n}, 1 is the least", because="it is the number of channels summed"
        )
    numbers = {"alpha": alpha, "beta": beta, "bias": bias}
    inside = inputs.wide(x.dtype)
    a, b, c = (make.const(inputs.number("lrn", what, v), inside) for what, v in numbers.items())
    # of an even size one neighbour more behind, as in ONNX's LRN
    before, channels = (n - 1) // 2, x.shape[d]
    r = te.reduce_axis((0, n), "r")

    def square(*i: Any) -> Expr:
        at = i[d] + r - before
        e = te.cast(inside, x(*i[:d], at, *i[d + 1 :]))
        within = te.all(at >= 0, at < channels)
        # the divisor stays ``size`` at the border too, so zeros need not be told from what is missing
        return te.sum(te.if_then_else(within, e * e, make.const(0, inside)), axis=r)

    squares = inputs.stage("lrn.squares", tags.REDUCE, x.shape, square)

    def element(*i: Any) -> Expr:
        base = c + squares(*i) * (a / n)
        return te.cast(x.dtype, te.cast(inside, x(*i)) / te.power(base, b))

    return inputs.stage("lrn", tags.ELEMENTWISE, x.shape, element)


def mean_variance_norm(x: Tensor, axis: Axis = (0, 2, 3), eps: float = 1e-9) -> Tensor:
    """``(x - mean) / (std + eps)`` with both over ``axis``: all elements of a channel of images [N, C, H, W]
    when left out. Of floats."""
    x = inputs.floating("mean_variance_norm", x)
    axes, inside = inputs.axes_of("mean_variance_norm", axis, x.ndim), inputs.wide(x.dtype)
    floor = make.const(inputs.number("mean_variance_norm", "eps", eps), inside)

    def wide(*i: Any) -> Expr:
        return te.cast(inside, x(*i))

    mean = mean_stages("mean_variance_norm.mean", x.shape, axes, wide)
    squares = squares_about("mean_variance_norm.squares", x.shape, axes, wide, mean)
    scale = scaled(
        "mean_variance_norm.scale",
        squares,
        lambda e: 1.0 / (te.sqrt(e / count(x.shape, axes, inside)) + floor),
        inside,
    )

    def element(*i: Any) -> Expr:
        row = list(inputs.without(i, axes))
        return te.cast(x.dtype, (wide(*i) - mean(*row)) * scale(*row))

    return inputs.stage("mean_variance_norm", tags.NORM, x.shape, element, {"axes": axes})
