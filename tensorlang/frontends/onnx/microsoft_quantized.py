"""Operators of the domain com.microsoft on quantised numbers that compute in floats inside. Knows ops; what
they stand for is said here by operators on floats between roundings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import ops
from ...expr.nodes import const_int
from ...graph import Value
from ...ops.recurrent_bytes import lstm_of_bytes
from ...te import Tensor
from . import narrow
from .microsoft import attended_packed, embed_layer_normalization, in_steps, matmul_integer_to_float
from .microsoft_names import channels_first
from .microsoft_names import channels_last as _last
from .proto import Call
from .quantized import dequantize_linear, quantize_linear
from .recurrent import as_results
from .table import MICROSOFT, graph_op, te_op
from .windows import average_pool, average_pool_last, qlinear_conv

if TYPE_CHECKING:
    from .importer import Importer


graph_op("QuantizeLinear", domain=MICROSOFT)(quantize_linear)
graph_op("DequantizeLinear", domain=MICROSOFT)(dequantize_linear)


@te_op("QAttention", domain=MICROSOFT, stored=(6, 1, 7, -1))
def qattention(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    x_scale: Tensor,
    w_scale: Tensor,
    mask: Tensor | None = None,
    x_zero: Tensor | None = None,
    w_zero: Tensor | None = None,
    past: Tensor | None = None,
    *,
    num_heads: int,
    unidirectional: int = 0,
    scale: float = 0.0,
    mask_filter_value: float = -10000.0,
    do_rotary: int = 0,
    past_present_share_buffer: int = 0,
    results: int = 1,
) -> Any:
    """Queries, keys and values are one product of whole numbers with a packed weight."""
    # the heads attend in floats: only the projection is quantised
    y = matmul_integer_to_float(x, weight, x_scale, w_scale, x_zero, w_zero, bias)
    sizes = [(const_int(weight.shape[1]) or 0) // 3] * 3
    how = (bool(unidirectional), scale, mask_filter_value)
    return attended_packed(y, sizes, num_heads, mask, past, None, how, results)


@te_op("QGemm", domain=MICROSOFT, stored=(2, 3, 5, None))
def qgemm(
    a: Tensor,
    a_scale: Tensor,
    a_zero: Tensor | None,
    b: Tensor,
    b_scale: Tensor,
    b_zero: Tensor | None,
    c: Tensor | None = None,
    y_scale: Tensor | None = None,
    y_zero: Tensor | None = None,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    """``c`` is of whole numbers, in the scale of the product; floats come out where no scale is given."""
    a, b = (ops.transpose(x, (1, 0)) if t else x for x, t in ((a, transA), (b, transB)))
    whole = ops.matmul_integer(a, b, a_zero, b_zero)
    whole = whole if c is None else ops.add(whole, c)
    scale = ops.multiply(ops.multiply(a_scale, b_scale), alpha)
    y = ops.multiply(ops.cast(whole, a_scale.dtype), scale)
    return y if y_scale is None else ops.quantize_linear(y, y_scale, y_zero, 1, a.dtype)


@te_op("QEmbedLayerNormalization", domain=MICROSOFT)
def qembed_layer_normalization(
    ids: Tensor,
    segments: Tensor | None,
    words: Tensor,
    places: Tensor,
    segment_table: Tensor | None,
    gamma: Tensor,
    beta: Tensor,
    mask: Tensor | None,
    *numbers: Tensor | None,
    epsilon: float = 1e-12,
    results: int = 1,
) -> Any:
    """``numbers``: the scales of the five tables and vectors, then their zero points."""
    tables = (words, places, segment_table, gamma, beta)
    scales, zeros = (*numbers[:5], *[None] * 5)[:5], (*numbers[5:], *[None] * 5)[:5]
    floats = [
        None if t is None or s is None else ops.dequantize_linear(t, s, z)
        for t, s, z in zip(tables, scales, zeros, strict=True)
    ]
    assert floats[0] is not None and floats[1] is not None
    return embed_layer_normalization(
        ids, segments, floats[0], floats[1], *floats[2:], mask, epsilon=epsilon, results=results
    )


@te_op("QLinearWhere", domain=MICROSOFT)
def qlinear_where(
    condition: Tensor,
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    y: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
    z_scale: Tensor,
    z_zero: Tensor,
) -> Tensor:
    floats = (ops.dequantize_linear(x, x_scale, x_zero), ops.dequantize_linear(y, y_scale, y_zero))
    return in_steps(ops.where(condition, *floats), z_scale, z_zero, x.dtype)


@te_op("QLinearConv", domain=MICROSOFT, stored=(2, 3, 5, 0))
def qlinear_conv_of_either_layout(
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor | None,
    w: Tensor,
    w_scale: Tensor,
    w_zero: Tensor | None,
    y_scale: Tensor,
    y_zero: Tensor,
    b: Tensor | None = None,
    *,
    kernel_shape: Any = None,
    strides: Any = None,
    pads: Any = None,
    dilations: Any = None,
    group: int = 1,
    auto_pad: str = "NOTSET",
    channels_last: int = 0,
) -> Tensor:
    y = qlinear_conv(
        channels_first(x) if channels_last else x,
        x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, b,
        kernel_shape=kernel_shape, strides=strides, pads=pads, dilations=dilations, group=group,
        auto_pad=auto_pad,
    )  # fmt: skip
    return _last(y) if channels_last else y


@te_op("QLinearAveragePool", domain=MICROSOFT)
def qlinear_average_pool(
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor | None,
    y_scale: Tensor,
    y_zero: Tensor | None = None,
    *,
    kernel_shape: Any,
    strides: Any = None,
    pads: Any = None,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    channels_last: int = 0,
) -> Tensor:
    y = ops.dequantize_linear(x, x_scale, x_zero)
    how = {"strides": strides, "pads": pads, "auto_pad": auto_pad}
    if channels_last:
        y = average_pool_last(y, kernel_shape, ceil_mode, count_include_pad, **how)
    else:
        counts = {"ceil_mode": ceil_mode, "count_include_pad": count_include_pad}
        y = average_pool(y, kernel_shape=kernel_shape, **how, **counts)
    return in_steps(y, y_scale, y_zero, x.dtype)


@graph_op("QLinearSoftmax", domain=MICROSOFT)
def qlinear_softmax(c: Importer, call: Call) -> Any:
    """Its attribute ``opset`` says what a row is: below 13 all axes from ``axis`` on."""
    given = [c.tensor(n) if n else None for n in call.inputs]
    # not the opset of the file, which is that of another domain
    old = call.attrs.get("opset", 13) < 13
    axis = call.attrs.get("axis", 1 if old else -1)
    return c.g.call(_shares, *given, op=call.op, name=call.name, outputs=call.outputs, axis=axis, flat=old)


def _shares(
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor | None,
    y_scale: Tensor,
    y_zero: Tensor | None = None,
    *,
    axis: int,
    flat: bool,
) -> Tensor:
    y = ops.dequantize_linear(x, x_scale, x_zero)
    if flat:
        # as the Softmax of that opset does: what lies behind the axis is one row
        y = ops.reshape(ops.softmax(ops.flatten(y, axis % y.ndim, y.ndim - 1), -1), x.shape)
    else:
        y = ops.softmax(y, axis)
    return in_steps(y, y_scale, y_zero, x.dtype)


@graph_op("DynamicQuantizeLSTM", domain=MICROSOFT)
def dynamic_quantize_lstm(c: Importer, call: Call) -> Any:
    """Constant weights are int8 without zero points, where they fit."""
    given: list[Value | None] = [c.tensor(n) if n else None for n in call.inputs]
    given += [None] * (12 - len(given))
    for weight, zero in ((1, 9), (2, 11)):
        w, z = given[weight], given[zero]
        if z is not None and z.data is not None:
            # of each direction, or of each of its columns
            z = c.new(z.data.reshape(z.data.shape[0], 1, -1))
        whole, left = narrow.less_zero_points([w, z], None, 0, 1, None, c.g.constant)
        if left is None:
            given[weight], given[zero] = whole, None
    how: dict[str, Any] = {"op": call.op, "name": call.name, "outputs": call.outputs}
    return c.g.call(_byte_lstm, *given, results=len(call.outputs), **call.attrs, **how)


def _byte_lstm(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    initial_h: Tensor | None = None,
    initial_c: Tensor | None = None,
    peepholes: Tensor | None = None,
    w_scale: Tensor | None = None,
    w_zero: Tensor | None = None,
    r_scale: Tensor | None = None,
    r_zero: Tensor | None = None,
    *,
    results: int = 1,
    activations: Any = None,
    activation_alpha: Any = None,
    activation_beta: Any = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int = 0,
    input_forget: int = 0,
) -> Any:
    """Weights [D, I, 4 H] and [D, H, 4 H] of whole numbers, with a scale for each direction, or for each of
    its columns; the input, and the state at each time, are rounded to uint8 over their range."""
    assert w_scale is not None and r_scale is not None
    how: dict[str, Any] = {
        "sequence_lens": lengths,
        "initial_h": initial_h,
        "initial_c": initial_c,
        "direction": direction,
        "activations": activations,
        "activation_alpha": activation_alpha,
        "activation_beta": activation_beta,
        "clip": clip,
        "input_forget": bool(input_forget),
    }
    bytes_ = w.dtype.name == r.dtype.name == "int8" and w_zero is None and r_zero is None
    if bytes_ and peepholes is None and x.dtype.name == "float32":
        return as_results(lstm_of_bytes(x, w, r, b, w_scale, r_scale, **how), 0, results)
    made = ops.lstm(
        # rounded to 8 bits and back: answers are those of the quantised product, computed in floats
        ops.dequantize_linear(*ops.dynamic_quantize_linear(x)),
        _weights(w, w_scale, w_zero),
        _weights(r, r_scale, r_zero),
        b,
        p=peepholes,
        rounds_state=True,
        **how,
    )
    return as_results(made, 0, results)


def _weights(w: Tensor, scale: Tensor, zero: Tensor | None) -> Tensor:
    """[D, K, 4 H] as floats [D, 4 H, K]."""

    def along(t: Tensor) -> Tensor:
        return ops.reshape(t, (t.shape[0], 1, t.shape[1] if t.ndim == 2 else 1))

    floats = ops.cast(w, scale.dtype)
    if zero is not None:
        floats = ops.subtract(floats, ops.cast(along(zero), scale.dtype))
    return ops.swapaxes(ops.multiply(floats, along(scale)), 1, 2)
