"""ONNX's operators of networks: products, convolutions, pools, norms, softmax. Knows ops."""

from __future__ import annotations

from typing import Any

from ... import ops
from ...expr.nodes import const_int
from ...te import Tensor
from .elementwise import constant_like
from .table import plain, te_op

plain(ops.matmul, "MatMul")


@te_op("Gemm")
def gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    y = ops.matmul(a, b, bool(transA), bool(transB))
    y = y if alpha == 1 else ops.multiply(y, constant_like(y, alpha))
    if c is None or beta == 0:
        return y
    return ops.add(y, c if beta == 1 else ops.multiply(c, constant_like(c, beta)))


def _margins(
    x: Tensor, kernel: Any, strides: Any, dilations: Any, pads: Any, auto_pad: str
) -> list[tuple[int, int]]:
    """Pairs (before, after) for each spatial dimension."""
    n = len(kernel)
    if auto_pad in ("NOTSET", ""):
        return [(pads[d], pads[d + n]) for d in range(n)] if pads else [(0, 0)] * n
    if auto_pad == "VALID":
        return [(0, 0)] * n
    margins = []
    for d in range(n):
        reach = dilations[d] * (kernel[d] - 1) + 1
        extent = x.shape[2 + d]
        number = const_int(extent) or 0
        if const_int(extent) is None and strides[d] != 1:
            raise NotImplementedError
        total = (
            reach - 1
            if strides[d] == 1
            else max(0, (-(-number // strides[d]) - 1) * strides[d] + reach - number)
        )
        small = total // 2
        margins.append((small, total - small) if auto_pad == "SAME_UPPER" else (total - small, small))
    return margins


_CONV = {1: ops.conv1d, 2: ops.conv2d, 3: ops.conv3d}
_TRANSPOSED = {1: ops.conv_transpose1d, 2: ops.conv_transpose2d, 3: ops.conv_transpose3d}
_MAX = {1: ops.max_pool1d, 2: ops.max_pool2d, 3: ops.max_pool3d}
_AVG = {1: ops.avg_pool1d, 2: ops.avg_pool2d, 3: ops.avg_pool3d}


@te_op("Conv")
def conv(
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    *,
    kernel_shape: Any = None,
    strides: Any = None,
    pads: Any = None,
    dilations: Any = None,
    group: int = 1,
    auto_pad: str = "NOTSET",
) -> Tensor:
    n = x.ndim - 2
    kernel = [const_int(s) for s in w.shape[2:]]
    strides, dilations = strides or [1] * n, dilations or [1] * n
    margins = _margins(x, kernel, strides, dilations, pads, auto_pad)
    return _CONV[n](x, w, b, tuple(strides), tuple(margins), tuple(dilations), group)


@te_op("ConvTranspose")
def conv_transpose(
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    *,
    kernel_shape: Any = None,
    strides: Any = None,
    pads: Any = None,
    dilations: Any = None,
    group: int = 1,
    auto_pad: str = "NOTSET",
    output_padding: Any = None,
    output_shape: Any = None,
) -> Tensor:
    n = x.ndim - 2
    margins = [(pads[d], pads[d + n]) for d in range(n)] if pads else [(0, 0)] * n
    return _TRANSPOSED[n](
        x,
        w,
        b,
        tuple(strides or [1] * n),
        tuple(margins),
        tuple(output_padding or [0] * n),
        group,
        tuple(dilations or [1] * n),
    )


@te_op("MaxPool")
def max_pool(
    x: Tensor,
    *,
    kernel_shape: Any,
    strides: Any = None,
    pads: Any = None,
    dilations: Any = None,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    storage_order: int = 0,
    results: int = 1,
) -> Tensor:
    n = x.ndim - 2
    strides, dilations = strides or [1] * n, dilations or [1] * n
    margins = _margins(x, kernel_shape, strides, dilations, pads, auto_pad)
    return _MAX[n](x, tuple(kernel_shape), tuple(strides), tuple(margins), tuple(dilations), bool(ceil_mode))


@te_op("AveragePool")
def average_pool(
    x: Tensor,
    *,
    kernel_shape: Any,
    strides: Any = None,
    pads: Any = None,
    dilations: Any = None,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
) -> Tensor:
    n = x.ndim - 2
    strides = strides or [1] * n
    margins = _margins(x, kernel_shape, strides, [1] * n, pads, auto_pad)
    return _AVG[n](
        x, tuple(kernel_shape), tuple(strides), tuple(margins), bool(ceil_mode), bool(count_include_pad)
    )


@te_op("GlobalAveragePool")
def global_average_pool(x: Tensor) -> Tensor:
    return ops.mean(x, tuple(range(2, x.ndim)), keepdims=True)


@te_op("GlobalMaxPool")
def global_max_pool(x: Tensor) -> Tensor:
    return ops.max(x, tuple(range(2, x.ndim)), keepdims=True)


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
) -> Tensor:
    return ops.batch_norm(x, mean, var, scale, bias, epsilon)


@te_op("LayerNormalization")
def layer_normalization(
    x: Tensor,
    scale: Tensor,
    bias: Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Tensor:
    return ops.layer_norm(x, None, scale, bias, epsilon, axis=tuple(range(axis % x.ndim, x.ndim)))


@te_op("Resize", values=(1, 2, 3))
def resize(
    x: Tensor,
    roi: Any = None,
    scales: Any = None,
    sizes: Any = None,
    *,
    mode: str = "nearest",
    coordinate_transformation_mode: str = "half_pixel",
    nearest_mode: str = "round_prefer_floor",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    antialias: int = 0,
    axes: Any = None,
    keep_aspect_ratio_policy: str = "stretch",
) -> Tensor:
    if not sizes:
        sizes = [n * int(s) for n, s in zip(x.shape, scales, strict=True)]
    return ops.resize(x, sizes[2:], mode)
