"""ONNX's reductions, running sums, softmax and its kin. Knows ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import ops
from ...te import Tensor
from ..words import of_type
from .table import one, te_op

Reduction = Callable[[Tensor, Any, bool], Tensor]


def _reduction(f: Reduction) -> Any:
    """Axes are an attribute or an input. With none, and ``noop_with_empty_axes``, every element is reduced
    alone."""

    def reduce(
        x: Tensor, where: Any = None, *, axes: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Tensor:
        where = axes if where is None else [where] if isinstance(where, int) else where
        if not where:
            # no axes are all axes, unless the attribute says that they are none
            where = () if noop_with_empty_axes else None
        return f(x, None if where is None else tuple(where), bool(keepdims))

    return reduce


def _sum(x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    # ONNX keeps the type, where numpy widens sums of integers
    return ops.sum(x, axis, x.dtype, keepdims)


REDUCTIONS: dict[str, Reduction] = {
    # each back in the type of x: ONNX's reductions do not promote
    "ReduceMean": lambda x, axis, keepdims: of_type(ops.mean(x, axis, keepdims), x.dtype),
    "ReduceMax": lambda x, axis, keepdims: ops.max(x, axis, keepdims),
    "ReduceMin": lambda x, axis, keepdims: ops.min(x, axis, keepdims),
    "ReduceProd": lambda x, axis, keepdims: ops.prod(x, axis, x.dtype, keepdims),
    "ReduceSum": _sum,
    "ReduceSumSquare": lambda x, axis, keepdims: _sum(ops.square(x), axis, keepdims),
    "ReduceLogSum": lambda x, axis, keepdims: of_type(ops.log(_sum(x, axis, keepdims)), x.dtype),
    "ReduceLogSumExp": lambda x, axis, keepdims: of_type(
        ops.logsumexp(x if x.dtype.is_float else ops.cast(x, "float64"), axis, keepdims), x.dtype
    ),
    "ReduceL1": lambda x, axis, keepdims: _sum(ops.abs(x), axis, keepdims),
    "ReduceL2": lambda x, axis, keepdims: of_type(ops.norm(x, 2, axis, keepdims), x.dtype),
}
for _name, _op in REDUCTIONS.items():
    te_op(_name, values=(1,))(_reduction(_op))


def _extreme(f: Any) -> Any:
    def where(x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
        if not select_last_index:
            return f(x, axis, bool(keepdims))
        # ours is the first of equals: the last one is the first from behind
        back = f(ops.flip(x, axis), axis, bool(keepdims))
        return ops.subtract(x.shape[axis] - 1, back)

    return where


te_op("ArgMax")(_extreme(ops.argmax))
te_op("ArgMin")(_extreme(ops.argmin))


def _running(f: Any) -> Any:
    def running(x: Tensor, where: Any, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
        return f(x, one(where), x.dtype, exclusive=bool(exclusive), reverse=bool(reverse))

    return running


te_op("CumSum", values=(1,))(_running(ops.cumsum))
te_op("CumProd", values=(1,))(_running(ops.cumprod))


def _normalised(f: Any) -> Any:
    """Along one axis; before opset 13 over all dimensions from the axis on."""

    def along(x: Tensor, *, axis: int | None = None, opset: int = 13) -> Tensor:
        if opset >= 13:
            return f(x, -1 if axis is None else axis)
        # a scalar has no axis to take a remainder by
        axis = (1 if axis is None else axis) % max(1, x.ndim)
        if axis == x.ndim - 1:
            return f(x, axis)
        return ops.reshape(f(ops.flatten(x, axis, x.ndim - 1), -1), x.shape)

    return along


te_op("Softmax")(_normalised(ops.softmax))
te_op("LogSoftmax")(_normalised(ops.log_softmax))
te_op("Hardmax")(_normalised(ops.hard_max))


@te_op("NegativeLogLikelihoodLoss")
def nll_loss(
    x: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    reduction: str = "mean",
    ignore_index: int | None = None,
) -> Tensor:
    return ops.nll_loss(x, target, weight, reduction, ignore_index)


@te_op("SoftmaxCrossEntropyLoss")
def cross_entropy(
    x: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    reduction: str = "mean",
    ignore_index: int | None = None,
    results: int,
) -> Any:
    """The loss, and the logarithms of the probabilities where they are asked for."""
    probabilities = ops.log_softmax(x, 1)
    loss = ops.nll_loss(probabilities, target, weight, reduction, ignore_index)
    return (loss, probabilities) if results > 1 else loss
