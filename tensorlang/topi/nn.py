"""``topi.nn``: what networks are made of, in TVM's words: padding as (top, left, bottom, right), kernels of
depthwise convolutions with a dimension for the multiplier, the second matrix of a batch transposed.
Everything is done by ``ops``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import ops, signposts
from ..core.dtype import DType
from ..entries import close
from ..errors import DeclareError, counted
from ..ops import log_softmax, relu, softmax
from ..te import Tensor
from .broadcast import add, multiply

__all__ = [
    "adaptive_pool",
    "batch_matmul",
    "batch_norm",
    "bias_add",
    "conv1d",
    "conv1d_ncw",
    "conv1d_nwc",
    "conv2d",
    "conv2d_nchw",
    "conv2d_nhwc",
    "conv2d_transpose_nchw",
    "conv3d_ncdhw",
    "conv3d_ndhwc",
    "dense",
    "depthwise_conv2d_nchw",
    "depthwise_conv2d_nhwc",
    "fast_softmax",
    "flatten",
    "global_pool",
    "group_conv2d_nchw",
    "group_conv2d_nhwc",
    "instance_norm",
    "layer_norm",
    "leaky_relu",
    "log_softmax",
    "matmul",
    "pad",
    "pool1d",
    "pool2d",
    "pool3d",
    "prelu",
    "relu",
    "scale_shift_nchw",
    "scale_shift_nhwc",
    "softmax",
    "upsampling",
]

Type = str | DType | None
# TVM's has a quicker exponential; ours is quick enough to be the only one
fast_softmax = softmax


# --- activations, norms -------------------------------------------------------------------------------------


def leaky_relu(x: Tensor, alpha: float) -> Tensor:
    """``x`` where it is positive, else ``alpha * x``."""
    return ops.leaky_relu(x, alpha)


def prelu(x: Tensor, slope: Tensor, axis: int = 1) -> Tensor:
    """``x`` where it is positive, else ``slope * x`` with a slope for each channel."""
    return ops.prelu(x, slope, axis)


def _along(x: Tensor, values: Tensor, axis: int) -> Tensor:
    """A vector as a tensor that broadcasts along ``axis`` of ``x``."""
    return ops.reshape(values, (values.shape[0], *[1] * (x.ndim - 1 - axis % x.ndim)))


def bias_add(data: Tensor, bias: Tensor, axis: int = 1) -> Tensor:
    """``bias``, a vector, added along ``axis``."""
    return add(data, _along(data, bias, axis))  # type: ignore[no-any-return]


def scale_shift_nchw(Input: Tensor, Scale: Tensor, Shift: Tensor) -> Tensor:
    """``Input * Scale + Shift`` with one of each for every channel."""
    return add(multiply(Input, _along(Input, Scale, 1)), _along(Input, Shift, 1))  # type: ignore[no-any-return]


def scale_shift_nhwc(Input: Tensor, Scale: Tensor, Shift: Tensor) -> Tensor:
    """``Input * Scale + Shift`` with one of each for every channel."""
    return add(multiply(Input, Scale), Shift)  # type: ignore[no-any-return]


def batch_norm(
    data: Tensor,
    gamma: Tensor,
    beta: Tensor,
    moving_mean: Tensor,
    moving_var: Tensor,
    axis: int | None = None,
    epsilon: float | None = None,
    center: bool | None = None,
    scale: bool | None = None,
    training: bool | None = None,
    momentum: float | None = None,
) -> list[Tensor]:
    """``[out, moving_mean, moving_var]``: inference, with the statistics given, which are handed back as they
    are."""
    if training:
        raise DeclareError(
            "topi.nn.batch_norm: training=True",
            because="the statistics are given, not computed",
            try_="training=False",
        )
    # ``center`` and ``scale`` are True when left out, as in TVM
    out = ops.batch_norm(
        data,
        moving_mean,
        moving_var,
        None if scale is False else gamma,
        None if center is False else beta,
        1e-5 if epsilon is None else epsilon,
        axis=1 if axis is None else axis,
    )
    return [out, moving_mean, moving_var]


def layer_norm(
    data: Tensor, gamma: Tensor, beta: Tensor, axis: int | Sequence[int], epsilon: float = 1e-5
) -> Tensor:
    """Over the last dimensions, which ``axis`` names."""
    axes = sorted(a % data.ndim for a in ([axis] if isinstance(axis, int) else axis))
    if axes != list(range(data.ndim - len(axes), data.ndim)):
        raise DeclareError(
            f"topi.nn.layer_norm: axis={axis} of {counted(data.ndim, 'dimension')}",
            because="the last dimensions are normalised",
            try_="topi.transpose first",
        )
    return ops.layer_norm(data, [data.shape[a] for a in axes], gamma, beta, epsilon)


def instance_norm(
    data: Tensor, gamma: Tensor, beta: Tensor, axis: Sequence[int], epsilon: float = 1e-5
) -> Tensor:
    """Over all positions of each channel, dimension 1: ``axis`` names the others after it."""
    if [a % data.ndim for a in axis] != list(range(2, data.ndim)):
        raise DeclareError(
            f"topi.nn.instance_norm: axis={list(axis)}",
            because="the channels are dimension 1",
            legal=str(list(range(2, data.ndim))),
        )
    return ops.instance_norm(data, gamma, beta, epsilon)


# --- products -----------------------------------------------------------------------------------------------


def matmul(
    tensor_a: Tensor,
    tensor_b: Tensor,
    bias: Tensor | None = None,
    out_dtype: Type = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> Tensor:
    """The product of two matrices, ``bias`` added."""
    product = ops.matmul(tensor_a, tensor_b, transpose_a, transpose_b, out_dtype)
    return product if bias is None else add(product, bias)  # type: ignore[no-any-return]


def dense(data: Tensor, weight: Tensor, bias: Tensor | None = None, out_dtype: Type = None) -> Tensor:
    """[batch, in] and ``weight`` [out, in] give [batch, out]."""
    return ops.dense(data, weight, bias, out_dtype=out_dtype)


def batch_matmul(
    tensor_a: Tensor,
    tensor_b: Tensor,
    oshape: Any = None,
    out_dtype: Type = None,
    transpose_a: bool = False,
    transpose_b: bool = True,
) -> Tensor:
    """Products of the matrices of two batches; the second matrix is transposed by default."""
    return ops.batch_matmul(tensor_a, tensor_b, transpose_a, transpose_b, out_dtype)


# --- windows ------------------------------------------------------------------------------------------------


def _padding(padding: Any, n: int) -> Any:
    """TVM's padding of ``n`` dimensions: one number, one for each, or all befores and then all afters."""
    # (top, left, bottom, right): ops wants a pair for each dimension
    if isinstance(padding, list | tuple) and len(padding) == 2 * n:
        return tuple(zip(padding[:n], padding[n:], strict=True))
    return padding.lower() if isinstance(padding, str) else padding


def flatten(data: Tensor) -> Tensor:
    """[N, …] as [N, rest]."""
    return ops.flatten(data, 1)


def pad(
    data: Tensor,
    pad_before: Sequence[Any],
    pad_after: Sequence[Any] | None = None,
    pad_value: float = 0.0,
    name: str = "PadInput",
    attrs: Any = None,
) -> Tensor:
    """``pad_before`` and ``pad_after`` elements of ``pad_value`` at the ends of each dimension."""
    after = pad_before if pad_after is None else pad_after
    return ops.pad(data, tuple(zip(pad_before, after, strict=False)), "constant", pad_value)


def conv1d(
    data: Tensor,
    kernel: Tensor,
    strides: Any = 1,
    padding: Any = "VALID",
    dilation: Any = 1,
    groups: int = 1,
    data_layout: str = "NCW",
    kernel_layout: str = "",
    out_dtype: Type = None,
) -> Tensor:
    """[N, C, W] and ``kernel`` [O, C / groups, KW], or NWC and WIO."""
    return ops.conv1d(
        data,
        kernel,
        None,
        strides,
        _padding(padding, 1),
        dilation,
        groups,
        data_layout,
        kernel_layout or None,
        out_dtype,
    )


def conv1d_ncw(
    data: Tensor,
    kernel: Tensor,
    strides: Any = 1,
    padding: Any = "VALID",
    dilation: Any = 1,
    out_dtype: Type = None,
) -> Tensor:
    """[N, C, W] and ``kernel`` [O, C, KW]."""
    return conv1d(data, kernel, strides, padding, dilation, out_dtype=out_dtype)


def conv1d_nwc(
    data: Tensor,
    kernel: Tensor,
    strides: Any = 1,
    padding: Any = "VALID",
    dilation: Any = 1,
    out_dtype: Type = None,
) -> Tensor:
    """[N, W, C] and ``kernel`` [KW, C, O]."""
    return conv1d(data, kernel, strides, padding, dilation, data_layout="NWC", out_dtype=out_dtype)


def conv2d(
    input: Tensor,
    filter: Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    data_layout: str = "NCHW",
    kernel_layout: str = "",
    out_dtype: Type = None,
) -> Tensor:
    """A convolution in any layout of ``ops.conv2d``."""
    return ops.conv2d(
        input,
        filter,
        None,
        strides,
        _padding(padding, 2),
        dilation,
        1,
        data_layout,
        kernel_layout or None,
        out_dtype,
    )


def conv2d_nchw(
    Input: Tensor, Filter: Tensor, stride: Any, padding: Any, dilation: Any, out_dtype: Type = None
) -> Tensor:
    """[N, C, H, W] and ``Filter`` [O, C, KH, KW]."""
    return conv2d(Input, Filter, stride, padding, dilation, "NCHW", out_dtype=out_dtype)


def conv2d_nhwc(
    Input: Tensor, Filter: Tensor, stride: Any, padding: Any, dilation: Any, out_dtype: Type = None
) -> Tensor:
    """[N, H, W, C] and ``Filter`` [KH, KW, C, O]."""
    return conv2d(Input, Filter, stride, padding, dilation, "NHWC", out_dtype=out_dtype)


def group_conv2d_nchw(
    Input: Tensor,
    Filter: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    out_dtype: Type = None,
) -> Tensor:
    """[N, C, H, W] and ``Filter`` [O, C / groups, KH, KW]."""
    return ops.conv2d(
        Input, Filter, None, stride, _padding(padding, 2), dilation, groups, out_dtype=out_dtype
    )


def group_conv2d_nhwc(
    Input: Tensor,
    Filter: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    out_dtype: Type = None,
) -> Tensor:
    """[N, H, W, C] and ``Filter`` [KH, KW, C / groups, O]."""
    return ops.conv2d(
        Input, Filter, None, stride, _padding(padding, 2), dilation, groups, "NHWC", out_dtype=out_dtype
    )


def depthwise_conv2d_nchw(
    Input: Tensor, Filter: Tensor, stride: Any, padding: Any, dilation: Any, out_dtype: Type = None
) -> Tensor:
    """[N, C, H, W] and ``Filter`` [C, multiplier, KH, KW] give [N, C * multiplier, …]."""
    # outputs of a channel stand side by side in both forms: nothing is copied
    c, m, *kernel = Filter.shape
    return ops.depthwise_conv2d(
        Input,
        ops.reshape(Filter, (c * m, 1, *kernel)),
        None,
        stride,
        _padding(padding, 2),
        dilation,
        out_dtype=out_dtype,
    )


def depthwise_conv2d_nhwc(
    Input: Tensor,
    Filter: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    kernel_layout: str = "HWOI",
    out_dtype: Type = None,
) -> Tensor:
    """[N, H, W, C] and ``Filter`` [KH, KW, C, multiplier] give […, C * multiplier]."""
    if kernel_layout != "HWOI":
        raise DeclareError(
            f"topi.nn.depthwise_conv2d_nhwc: kernel_layout={kernel_layout!r}",
            legal="'HWOI'",
            try_="topi.transpose of the kernel",
        )
    *kernel, c, m = Filter.shape
    weight = ops.reshape(Filter, (*kernel, 1, c * m))
    return ops.depthwise_conv2d(
        Input, weight, None, stride, _padding(padding, 2), dilation, "NHWC", out_dtype=out_dtype
    )


def conv2d_transpose_nchw(
    Input: Tensor, Filter: Tensor, strides: Any, padding: Any, out_dtype: Type, output_padding: Any
) -> Tensor:
    """[N, C, H, W] and ``Filter`` [C, O, KH, KW]."""
    return ops.conv_transpose2d(
        Input, Filter, None, strides, _padding(padding, 2), output_padding, out_dtype=out_dtype
    )


def conv3d_ncdhw(
    Input: Tensor,
    Filter: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    out_dtype: Type = None,
) -> Tensor:
    """[N, C, D, H, W] and ``Filter`` [O, C / groups, KD, KH, KW]."""
    return ops.conv3d(
        Input, Filter, None, stride, _padding(padding, 3), dilation, groups, out_dtype=out_dtype
    )


def conv3d_ndhwc(
    Input: Tensor,
    Filter: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    out_dtype: Type = None,
) -> Tensor:
    """[N, D, H, W, C] and ``Filter`` [KD, KH, KW, C / groups, O]."""
    return ops.conv3d(
        Input, Filter, None, stride, _padding(padding, 3), dilation, groups, "NDHWC", out_dtype=out_dtype
    )


def _pooled(
    op: str,
    n: int,
    data: Tensor,
    kernel: Any,
    stride: Any,
    dilation: Any,
    padding: Any,
    pool_type: str,
    ceil_mode: bool,
    layout: str,
    count_include_pad: bool,
) -> Tensor:
    where = _padding(padding, n)
    if pool_type == "max":
        return getattr(ops, f"max_{op}")(data, kernel, stride, where, dilation, ceil_mode, layout)  # type: ignore[no-any-return]
    if pool_type != "avg":
        raise DeclareError(f"topi.nn.{op}: pool_type={pool_type!r}", legal="'max' and 'avg'")
    return getattr(ops, f"avg_{op}")(  # type: ignore[no-any-return]
        data, kernel, stride, where, ceil_mode, count_include_pad, dilation, layout
    )


def pool1d(
    data: Tensor,
    kernel: Any,
    stride: Any,
    dilation: Any,
    padding: Any,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCW",
    count_include_pad: bool = True,
) -> Tensor:
    """The maximum (``pool_type="max"``) or mean (``"avg"``) of windows."""
    return _pooled(
        "pool1d", 1, data, kernel, stride, dilation, padding, pool_type, ceil_mode, layout, count_include_pad
    )


def pool2d(
    data: Tensor,
    kernel: Any,
    stride: Any,
    dilation: Any,
    padding: Any,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCHW",
    count_include_pad: bool = True,
) -> Tensor:
    """The maximum (``pool_type="max"``) or mean (``"avg"``) of windows."""
    return _pooled(
        "pool2d", 2, data, kernel, stride, dilation, padding, pool_type, ceil_mode, layout, count_include_pad
    )


def pool3d(
    data: Tensor,
    kernel: Any,
    stride: Any,
    dilation: Any,
    padding: Any,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCDHW",
    count_include_pad: bool = True,
) -> Tensor:
    """The maximum (``pool_type="max"``) or mean (``"avg"``) of windows."""
    return _pooled(
        "pool3d", 3, data, kernel, stride, dilation, padding, pool_type, ceil_mode, layout, count_include_pad
    )


def _of(op: str, pool_type: str) -> Any:
    if pool_type not in ("max", "avg"):
        raise DeclareError(f"topi.nn.{op}: pool_type={pool_type!r}", legal="'max', 'avg'")
    return getattr(ops, f"{op.split('_')[0]}_{pool_type}_pool2d")


def global_pool(data: Tensor, pool_type: str, layout: str = "NCHW") -> Tensor:
    """The maximum or mean of each channel."""
    return _of("global_pool", pool_type)(data, layout)  # type: ignore[no-any-return]


def adaptive_pool(data: Tensor, output_size: Any, pool_type: str, layout: str = "NCHW") -> Tensor:
    """The maxima or means of ``output_size`` parts of each image."""
    return _of("adaptive_pool", pool_type)(data, output_size, layout)  # type: ignore[no-any-return]


def upsampling(
    data: Tensor,
    scale_h: float,
    scale_w: float,
    layout: str = "NCHW",
    method: str = "nearest_neighbor",
    align_corners: bool = False,
    output_shape: Any = None,
) -> Tensor:
    """An image ``scale_h`` times as high and ``scale_w`` times as wide; ``method`` is ``nearest_neighbor`` or
    ``bilinear``."""
    modes = {"nearest_neighbor": "nearest", "bilinear": "bilinear"}
    if method not in modes:
        raise DeclareError(f"topi.nn.upsampling: method={method!r}", legal=", ".join(map(repr, modes)))
    h, w = layout.index("H"), layout.index("W")
    size = [
        # a whole factor keeps a symbolic size; another wants a number
        data.shape[d] * int(s) if float(s).is_integer() else round(int(data.shape[d]) * s)
        for d, s in ((h, scale_h), (w, scale_w))
    ]
    return ops.resize(
        data, size if output_shape is None else output_shape, modes[method], align_corners, layout
    )


close(__name__, "topi.nn", DeclareError, signposts.ROOMS["topi.nn"])
