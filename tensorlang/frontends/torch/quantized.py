"""ATen's operators of networks that are trained for small whole numbers. Knows ops."""

from __future__ import annotations

from typing import Any

from ... import ops, te
from ...core.dtype import BOOL, FLOAT32
from ...te import Tensor
from .table import aten
from .types import as_type


def _rounded(x: Any, scale: Any, zero: Any) -> Any:
    """The whole number of an element, before it is kept within what there is."""
    # torch multiplies by the reciprocal, and adds the zero point after rounding
    return te.nearbyint(x * (te.const(1, scale.dtype) / scale)) + zero


def _faked(x: Tensor, scale: Any, zero: Any, low: int, high: int) -> Tensor:
    """Quantised and back; ``scale`` and ``zero`` are functions of the place."""
    lo, hi = te.const(low, FLOAT32), te.const(high, FLOAT32)

    def element(*i: Any) -> Any:
        by, at = te.cast(FLOAT32, scale(*i)), te.cast(FLOAT32, zero(*i))
        n = te.max(te.min(_rounded(te.cast(FLOAT32, x(*i)), by, at), hi), lo)
        return te.cast(x.dtype, (n - at) * by)

    return te.compute(x.shape, element, name="fake_quantize")  # type: ignore[return-value]


def _within(x: Tensor, scale: Any, zero: Any, low: int, high: int) -> Tensor:
    lo, hi = te.const(low, FLOAT32), te.const(high, FLOAT32)

    def element(*i: Any) -> Any:
        n = _rounded(te.cast(FLOAT32, x(*i)), te.cast(FLOAT32, scale(*i)), te.cast(FLOAT32, zero(*i)))
        return te.all(n >= lo, n <= hi)

    return te.compute(x.shape, element, name="within")  # type: ignore[return-value]


def _number(n: Any) -> Any:
    """A number, or a tensor of one, for every place."""
    t = n if isinstance(n, Tensor) else as_type(n, FLOAT32)
    return lambda *_: t(*[0] * t.ndim)


@aten("fake_quantize_per_tensor_affine", "fake_quantize_per_tensor_affine.tensor_qparams")
def fake_quantize(x: Tensor, scale: Any, zero: Any, low: int, high: int) -> Tensor:
    return _faked(x, _number(scale), _number(zero), low, high)


@aten("fake_quantize_per_tensor_affine_cachemask")
def fake_quantize_and_mask(x: Tensor, scale: Any, zero: Any, low: int, high: int) -> Any:
    s, z = _number(scale), _number(zero)
    return _faked(x, s, z, low, high), _within(x, s, z, low, high)


@aten("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams")
def fake_quantize_where_enabled(
    x: Tensor, scale: Tensor, zero: Tensor, enabled: Tensor, low: int, high: int
) -> Any:
    s, z = _number(scale), _number(zero)
    on = as_type(enabled, BOOL)
    on = ops.reshape(on, ())
    within = _within(x, s, z, low, high)
    return ops.where(on, _faked(x, s, z, low, high), x), ops.logical_or(within, ops.logical_not(on))


def _of_channels(t: Tensor, axis: int) -> Any:
    return lambda *i: t(i[axis])


@aten("fake_quantize_per_channel_affine")
def fake_quantize_channels(x: Tensor, scale: Tensor, zero: Tensor, axis: int, low: int, high: int) -> Tensor:
    return _faked(x, _of_channels(scale, axis), _of_channels(zero, axis), low, high)


@aten("fake_quantize_per_channel_affine_cachemask")
def fake_quantize_channels_and_mask(
    x: Tensor, scale: Tensor, zero: Tensor, axis: int, low: int, high: int
) -> Any:
    s, z = _of_channels(scale, axis), _of_channels(zero, axis)
    return _faked(x, s, z, low, high), _within(x, s, z, low, high)
