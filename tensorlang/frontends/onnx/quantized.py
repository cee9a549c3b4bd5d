"""ONNX's operators of quantised numbers. Knows ops."""

from __future__ import annotations

from typing import Any

from ... import ops
from ...te import Tensor
from .proto import dtype_name
from .table import te_op


@te_op("QuantizeLinear")
def quantize_linear(
    x: Tensor,
    scale: Tensor,
    zero: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    saturate: int = 1,
    precision: int = 0,
) -> Tensor:
    kind = dtype_name(output_dtype) if output_dtype else None
    return ops.quantize_linear(x, scale, zero, axis, kind, block_size)


@te_op("DequantizeLinear")
def dequantize_linear(
    x: Tensor,
    scale: Tensor,
    zero: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Tensor:
    y = ops.dequantize_linear(x, scale, zero, axis, block_size)
    kind = dtype_name(output_dtype) if output_dtype else str(y.dtype)
    return y if str(y.dtype) == kind else ops.cast(y, kind)


@te_op("DynamicQuantizeLinear")
def dynamic_quantize_linear(x: Tensor) -> Any:
    return ops.dynamic_quantize_linear(x)


@te_op("MatMulInteger")
def matmul_integer(
    a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None
) -> Tensor:
    return ops.matmul_integer(a, b, a_zero, b_zero)


@te_op("QLinearMatMul")
def qlinear_matmul(
    a: Tensor,
    a_scale: Tensor,
    a_zero: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
) -> Tensor:
    return ops.qlinear_matmul(a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero)
