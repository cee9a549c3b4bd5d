"""Losses of classification: nll_loss and cross_entropy, with torch's signatures. Knows log_softmax and the
rule of indices.

The classes are dimension 1 of the scores, and the target has the other dimensions. A target that is
``ignore_index`` counts nothing; any other out of range is clipped.
"""

from __future__ import annotations

from typing import Any

from .. import te
from ..errors import DeclareError
from ..expr import make
from ..expr.nodes import Expr
from ..te import Tensor
from . import inputs, tags
from .reduce import count, over, scaled
from .softmax import log_softmax
from .take import index_rule, indices_of, signed

__all__ = ["cross_entropy", "nll_loss"]


def nll_loss(
    x: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
) -> Tensor:
    """``-x[n, target[n, …], …]`` of log-probabilities x [N, C, …] (or [C]) and a target [N, …] of classes,
    times ``weight`` [C] of the class.

    ``reduction``: ``"none"`` gives [N, …], ``"sum"`` the sum, ``"mean"`` the sum divided by the sum of the
    weights. Raises DeclareError for shapes that do not fit, and another reduction.
    """
    return _nll("nll_loss", x, target, weight, reduction, ignore_index)


def cross_entropy(
    x: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
) -> Tensor:
    """:func:`nll_loss` of ``log_softmax(x, 1)``: x are scores [N, C, …], the target classes [N, …]. Raises
    DeclareError for shapes that do not fit."""
    x = inputs.floating("cross_entropy", x)
    return _nll(
        "cross_entropy", log_softmax(x, 0 if x.ndim == 1 else 1), target, weight, reduction, ignore_index
    )


def _nll(op: str, x: Any, target: Any, weight: Any, reduction: str, ignore_index: int | None) -> Tensor:
    x, target = inputs.floating(op, x), indices_of(op, target, "target")
    if reduction not in ("none", "sum", "mean"):
        raise DeclareError(f"ops.{op}: reduction={reduction!r}", legal="'none', 'sum', 'mean'")
    d = 0 if x.ndim == 1 else 1
    weight = _fitting(op, x, target, weight, d)
    # clipped, since ignore_index may be any number: -100 is torch's default, and its element is read all the
    # same
    inside, classes, rule = inputs.wide(x.dtype), x.shape[d], index_rule(op, "clip")

    def weighing(*i: Any) -> Expr:
        c = target(*i)
        w = make.const(1, inside) if weight is None else te.cast(inside, weight(rule(c, classes)))
        if ignore_index is None:
            return w
        left_out = make.eq(signed(c), inputs.integer(op, "ignore_index", ignore_index))
        return te.select(left_out, make.const(0, inside), w)

    def losing(*i: Any) -> Expr:
        value = te.cast(inside, x(*i[:d], rule(target(*i), classes), *i[d:]))
        w = weighing(*i)
        lost = make.neg(value * w)
        if ignore_index is None:
            return lost
        # of what is left out not even an infinity counts
        return te.select(make.eq(w, 0.0), make.const(0, inside), lost)

    if reduction == "none":
        return _stage(op, target, lambda *i: te.cast(x.dtype, losing(*i)))
    # a stage, so that the sum over it is a plain reduction along memory
    lost = _stage(f"{op}.each", target, losing)
    axes = tuple(range(target.ndim))
    total = over(f"{op}.sum", lost, axes, te.sum)
    if reduction == "sum":
        return scaled(op, total, lambda e: e, x.dtype)
    # the mean is over weights, not over elements: with no element counted it is NaN, as torch's
    if weight is None and ignore_index is None:
        return scaled(op, total, lambda e: e / count(target.shape, axes, inside), x.dtype)
    weights = _stage(f"{op}.weights", target, weighing)
    weighed = over(f"{op}.count", weights, axes, te.sum)
    return scaled(op, total, lambda e: e / weighed(), x.dtype)


def _fitting(op: str, x: Tensor, target: Tensor, weight: Any, d: int) -> Tensor | None:
    """The weight of each class. Raises DeclareError where the target or the weight does not fit ``x``, whose
    dimension ``d`` are the classes."""
    if x.ndim == 0 or target.ndim != x.ndim - 1:
        raise DeclareError(
            f"ops.{op}: target {inputs.named(target)} for {inputs.named(x)}",
            because="the target has every dimension of x but the classes",
        )
    for k, n in enumerate(inputs.without(x.shape, (d,))):
        inputs.same_size(
            op,
            f"dimension {k} of target {target.name}",
            target.shape[k],
            n,
            f"there is one class for each; x is {inputs.named(x)}",
        )
    if weight is not None:
        weight = inputs.floating(op, weight, "weight")
        if weight.ndim != 1:
            raise DeclareError(
                f"ops.{op}: weight {inputs.named(weight)}", because="it has one number a class"
            )
        inputs.same_size(
            op, f"the size of weight {weight.name}", weight.shape[0], x.shape[d], "it has one number a class"
        )
    return weight  # type: ignore[no-any-return]


def _stage(name: str, target: Tensor, f: Any) -> Tensor:
    return inputs.stage(name, tags.INJECTIVE, target.shape, f)
