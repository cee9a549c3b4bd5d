"""softmax, log_softmax and hard_max: row operators in stages that a schedule fuses row by row. Knows
reductions over dimensions.

The first two take the largest element out first, so that no exp overflows. softmax multiplies a row by the
reciprocal of its sum, one division for all its elements: within 1.5 ulp of their quotients, which take ten
times as long as products. 16-bit floats are computed in float32 and rounded once. A row that is all minus
infinity gives NaN, as in torch.
"""

from __future__ import annotations

from typing import Any

from .. import te
from ..expr import make
from ..expr.nodes import Expr
from ..te import Tensor
from . import inputs, tags
from .reduce import argmax, over

__all__ = ["hard_max", "log_softmax", "softmax"]

# below, exp or exp2 is too small a number for a float of all its digits
_LEAST = {"exp": {32: -87.0, 64: -708.0}, "exp2": {32: -126.0, 64: -1022.0}}


def weight(x: Expr, grown: str = "exp") -> Expr:
    """``exp(x)`` of what is at most 0, or ``exp2(x)``, and 0 where that is smaller than the least number with
    all digits: of smaller ones a processor takes a hundred cycles for each product, so that windows masked by
    -100 took twenty times as long as others."""
    least, zero = te.const(_LEAST[grown][x.dtype.bits], x.dtype), te.const(0, x.dtype)
    # bounded also before the exponential: a select computes both sides, and denormals are slow to make. From
    # above too, so that it is known that no lane needs more than the usual formula
    return te.select(x < least, zero, make.call(grown, te.max(te.min(x, zero), least)))


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """``exp(x) / sum(exp(x))`` along ``axis``, of floats: the shape and dtype of ``x``.

    Stages ``softmax.max`` (rows), ``softmax.exp`` (elements, each exp once), ``softmax.sum`` (rows),
    ``softmax``; attrs["axis"] is the axis.

    >>> x = te.placeholder((2, 3), name="x")
    >>> ops.softmax(x, 1)
    Tensor(softmax: float32[2, 3])
    """
    x = inputs.floating("softmax", x)
    d, inside = inputs.axis_of("softmax", axis, x.ndim), inputs.wide(x.dtype)
    top = over("softmax.max", x, (d,), te.max, lambda e: te.cast(inside, e))
    grown = inputs.stage(
        "softmax.exp",
        tags.BROADCAST,
        x.shape,
        lambda *i: weight(te.cast(inside, x(*i)) - top(*inputs.without(i, (d,)))),
    )
    # a division for each row, a product for each element
    total, one = over("softmax.sum", grown, (d,), te.sum), make.const(1.0, inside)
    return inputs.stage(
        "softmax",
        tags.SOFTMAX,
        x.shape,
        lambda *i: te.cast(x.dtype, grown(*i) * (one / total(*inputs.without(i, (d,))))),
        {"axis": d},
    )


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """``log(softmax(x))`` along ``axis`` without its cancellation: ``x - max - log(sum(exp(x - max)))``. Of
    floats.

    Stages ``log_softmax.max``, ``log_softmax.exp`` (elements), ``log_softmax.sum``, ``log_softmax.log``,
    ``log_softmax``; attrs["axis"] is the axis.

    >>> x = te.placeholder((2, 3), name="x")
    >>> ops.log_softmax(x, 1)
    Tensor(log_softmax: float32[2, 3])
    """
    x = inputs.floating("log_softmax", x)
    d, inside = inputs.axis_of("log_softmax", axis, x.ndim), inputs.wide(x.dtype)
    top = over("log_softmax.max", x, (d,), te.max, lambda e: te.cast(inside, e))

    def shifted(*i: Any) -> Expr:
        # twice computed and never stored: a subtraction is less than a load
        return te.cast(inside, x(*i)) - top(*inputs.without(i, (d,)))

    grown = inputs.stage("log_softmax.exp", tags.BROADCAST, x.shape, lambda *i: weight(shifted(*i)))
    total = over("log_softmax.sum", grown, (d,), te.sum)
    # once for a row, and not for each vector of it
    log = inputs.stage("log_softmax.log", tags.TABLE, total.shape, lambda *i: te.log(total(*i)))
    return inputs.stage(
        "log_softmax",
        tags.LOG_SOFTMAX,
        x.shape,
        lambda *i: te.cast(x.dtype, shifted(*i) - log(*inputs.without(i, (d,)))),
        {"axis": d},
    )


def hard_max(x: Tensor, axis: int = -1) -> Tensor:
    """1 where the largest element along ``axis`` is, the first of equals, and 0 elsewhere: the shape and
    dtype of ``x``."""
    x = inputs.tensor("hard_max", x)
    d = inputs.axis_of("hard_max", axis, x.ndim)
    best, one, zero = argmax(x, d), make.const(1, x.dtype), make.const(0, x.dtype)
    return inputs.stage(
        "hard_max",
        tags.BROADCAST,
        x.shape,
        lambda *i: te.select(make.eq(te.cast("int64", i[d]), best(*inputs.without(i, (d,)))), one, zero),
    )
