"""ONNX's normalisations. Knows ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import ops
from ...expr.nodes import const_int
from ...te import Tensor
from ..words import by_channel, constant_like, inverse_root, of_type, scaled
from .table import te_op


def _wide(x: Tensor, stash_type: int = 1) -> Tensor:
    """In the type in which statistics are made; ``stash_type`` 1 is float32."""
    return ops.cast(x, "float32") if x.dtype.bits == 16 and stash_type == 1 else x


@te_op("BatchNormalization")
def batch_normalization(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    var: Tensor,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
    spatial: int = 1,
    is_test: int = 1,
    results: int = 1,
) -> Any:
    if not training_mode and spatial:
        return ops.batch_norm(x, mean, var, scale, bias, epsilon)
    if not spatial:  # opset 7: statistics for each element of a channel
        return scaled(_apart(x, mean, inverse_root(var, epsilon)), scale, bias)
    axes = tuple(d for d in range(x.ndim) if d != 1)
    here, spread = _statistics(_wide(x), axes)
    y = _apart(_wide(x), by_channel(here, x), by_channel(inverse_root(spread, epsilon), x))
    y = of_type(scaled(y, by_channel(_wide(scale), x), by_channel(_wide(bias), x)), x.dtype)
    if results == 1:
        return y

    def running(old: Tensor, new: Tensor) -> Tensor:
        # momentum is the share of the old statistics in ONNX, of the new ones in torch
        old_part = ops.multiply(old, constant_like(old, momentum))
        new = of_type(new, old.dtype)
        return ops.add(old_part, ops.multiply(new, constant_like(new, 1 - momentum)))

    return y, running(mean, here), running(var, spread)


def _statistics(x: Tensor, axes: Sequence[int], keepdims: bool = False) -> tuple[Tensor, Tensor]:
    """Mean and variance."""
    return ops.mean(x, tuple(axes), keepdims), ops.var(x, tuple(axes), 0, keepdims)


def _apart(x: Tensor, mean: Tensor, factor: Tensor) -> Tensor:
    return ops.multiply(ops.subtract(x, mean), factor)


@te_op("InstanceNormalization")
def instance_normalization(x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5) -> Tensor:
    return ops.instance_norm(x, scale, bias, epsilon)


@te_op("GroupNormalization")
def group_normalization(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    *,
    num_groups: int,
    epsilon: float = 1e-5,
    stash_type: int = 1,
    opset: int = 21,
) -> Tensor:
    """Before opset 21 scale and bias are given for each group, since then for each channel."""
    channels = const_int(x.shape[1])
    if opset < 21 and channels is not None and num_groups != channels:
        scale, bias = (ops.repeat(p, channels // num_groups, 0) for p in (scale, bias))
    return ops.group_norm(x, num_groups, scale, bias, epsilon)


@te_op("LayerNormalization")
def layer_normalization(
    x: Tensor,
    scale: Tensor | None,
    bias: Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
    results: int = 1,
) -> Any:
    axes = tuple(range(axis % x.ndim, x.ndim))
    # the fused operator has neither statistics as results nor parameters that broadcast
    if results == 1 and _fit(x, axes, scale, bias):
        return ops.layer_norm(x, None, scale, bias, epsilon, axis=axes)
    wide = _wide(x, stash_type)
    mean, var = _statistics(wide, axes, True)
    factor = inverse_root(var, epsilon)
    # rounded before scale and bias, as ONNX's function body has it, which is in two stages
    y = scaled(of_type(_apart(wide, mean, factor), x.dtype), scale, bias)
    return (y, mean, factor)[:results] if results > 1 else y


def _fit(x: Tensor, axes: Sequence[int], *parameters: Tensor | None) -> bool:
    """Whether parameters have just the sizes of these dimensions; ONNX broadcasts them otherwise."""
    return all(
        p is None
        or (p.ndim == len(axes) and all(a is x.shape[d] for a, d in zip(p.shape, axes, strict=True)))
        for p in parameters
    )


@te_op("RMSNormalization")
def rms_normalization(
    x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    axes = tuple(range(axis % x.ndim, x.ndim))
    if _fit(x, axes, scale):
        return ops.rms_norm(x, None, scale, epsilon, axis=axes)
    wide = _wide(x, stash_type)
    factor = inverse_root(ops.mean(ops.square(wide), axes, True), epsilon)
    return scaled(of_type(ops.multiply(wide, factor), x.dtype), scale)


@te_op("LpNormalization")
def lp_normalization(x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    """Where the norm is 0 the result is 0."""
    size = ops.norm(x, p, axis, True)
    nothing = constant_like(x, 0)
    return ops.where(ops.equal(size, nothing), nothing, ops.divide(x, size))


@te_op("MeanVarianceNormalization")
def mean_variance_normalization(x: Tensor, *, axes: Sequence[int] = (0, 2, 3)) -> Tensor:
    return ops.mean_variance_norm(x, tuple(axes))


@te_op("LRN")
def lrn(x: Tensor, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Tensor:
    return ops.lrn(x, size, alpha, beta, bias, 1)
