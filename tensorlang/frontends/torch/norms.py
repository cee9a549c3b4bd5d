"""ATen's normalisations. Knows ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import ops
from ...te import Tensor
from ..words import by_channel, inverse_root, scaled
from .table import aten, needs
from .types import as_type, widened


def last_axes(x: Tensor, count: int) -> tuple[int, ...]:
    """The last ``count`` dimensions."""
    return tuple(range(x.ndim - count, x.ndim))


@aten("layer_norm", "rms_norm")
def layer_norm(x: Tensor, shape: Sequence[Any], *args: Any) -> Tensor:
    """The parameters of the two differ by the bias."""
    axes = last_axes(x, len(shape))
    if len(args) < 3:
        weight, eps = args
        return ops.rms_norm(x, None, weight, eps, axis=axes)
    weight, bias, eps = args[:3]
    return ops.layer_norm(x, None, weight, bias, eps, axis=axes)


def native_layer_norm_parts(x: Tensor, count: int, eps: float) -> tuple[Tensor, Tensor]:
    """The mean of the last ``count`` dimensions, and the inverse of their deviation."""
    axes = last_axes(x, count)
    wide = as_type(x, "float32") if x.dtype.bits == 16 else x
    mean, factor = ops.mean(wide, axes, True), inverse_root(ops.var(wide, axes, 0, True), eps)
    return as_type(mean, x.dtype), as_type(factor, x.dtype)


@aten("_fused_rms_norm")
def fused_rms_norm(x: Tensor, shape: Sequence[Any], weight: Tensor | None, eps: float | None) -> Any:
    axes = last_axes(x, len(shape))
    # of the type that torch computes it in
    eps = (2**-52 if x.dtype.bits == 64 else 2**-23) if eps is None else eps
    factor = inverse_root(ops.mean(ops.square(x), axes, True), eps)
    return ops.rms_norm(x, None, weight, eps, axis=axes), factor


@aten("group_norm")
def group_norm(
    x: Tensor,
    groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *_: Any,
) -> Tensor:
    return ops.group_norm(x, groups, weight, bias, eps)


@aten("native_group_norm")
def native_group_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, n: Any, c: Any, hw: Any, groups: int, eps: float
) -> Any:
    rows = ops.reshape(x, (x.shape[0], groups, -1))
    mean, factor = ops.mean(rows, 2), inverse_root(ops.var(rows, 2), eps)
    return ops.group_norm(x, groups, weight, bias, eps), mean, factor


@aten("instance_norm")
def instance_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor | None,
    var: Tensor | None,
    from_input: bool,
    momentum: float,
    eps: float,
    *_: Any,
) -> Tensor:
    if not from_input:
        assert mean is not None and var is not None
        return ops.batch_norm(x, mean, var, weight, bias, eps)
    needs(mean is None, "running statistics that change")
    return ops.instance_norm(x, weight, bias, eps)


@aten("_native_batch_norm_legit_no_training", "batch_norm")
def batch_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, var: Tensor, *args: Any
) -> Any:
    """Of running statistics. The operator of three results has no further two here, for they are empty."""
    if len(args) > 2:
        training, _, eps, _ = args
        needs(not training, "statistics of the batch")
        return ops.batch_norm(x, mean, var, weight, bias, eps)
    _, eps = args
    return ops.batch_norm(x, mean, var, weight, bias, eps), *_nothing(x)


def _nothing(x: Tensor) -> tuple[Tensor, Tensor]:
    """Two results without elements."""
    return ops.full((0,), 0.0, x.dtype), ops.full((0,), 0.0, x.dtype)


@aten("_native_batch_norm_legit_functional", "_native_batch_norm_legit.no_stats")
def batch_norm_training(x: Tensor, weight: Tensor | None, bias: Tensor | None, *args: Any) -> Any:
    """Of the statistics of the batch; with running ones these follow, renewed. Of 16 bits all is computed in
    float32, and running statistics stay so until they are written back."""
    *running, training, momentum, eps = args
    axes, kind = tuple(d for d in range(x.ndim) if d != 1), x.dtype
    needs(
        kind.bits > 16 or all(t is None or t.dtype == kind for t in (weight, bias, *running)),
        "batch norm of 16-bit floats by parameters of another type, whose statistics torch keeps in theirs",
    )
    x, weight, bias, *running = (widened(t) for t in (x, weight, bias, *running))
    if not training:
        mean, var = running
        y = as_type(ops.batch_norm(x, mean, var, weight, bias, eps), kind)
        return y, *_nothing(y), mean, var
    mean, var = ops.mean(x, axes), ops.var(x, axes)
    factor = inverse_root(var, eps)
    y = ops.multiply(ops.subtract(x, by_channel(mean, x)), by_channel(factor, x))
    y = scaled(y, *(None if p is None else by_channel(p, x) for p in (weight, bias)))
    found = [as_type(t, kind) for t in (y, mean, factor)]
    # running variances are unbiased, divided by n - 1; that of the batch is not
    renewed = zip(running, (mean, ops.var(x, axes, 1)), strict=False)
    return (*found, *(_moved(old, new, momentum) for old, new in renewed))


def _moved(old: Tensor, new: Tensor, momentum: float) -> Tensor:
    old_part = ops.multiply(old, as_type(1 - momentum, old.dtype))
    return ops.add(old_part, ops.multiply(as_type(new, old.dtype), as_type(momentum, old.dtype)))
