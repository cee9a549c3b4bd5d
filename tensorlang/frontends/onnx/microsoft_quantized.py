"""Operators of the domain com.microsoft on quantised numbers that compute in floats inside. Knows ops; what
they stand for is said here by operators on floats between roundings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import ops
from ...te import Tensor
from .proto import Call
from .recurrent import as_results
from .table import MICROSOFT, graph_op, te_op
from .windows import average_pool

if TYPE_CHECKING:
    from .importer import Importer


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
    last = y.ndim - 1
    y = ops.transpose(y, (0, last, *range(1, last))) if channels_last else y
    y = average_pool(
        y,
        kernel_shape=kernel_shape,
        strides=strides,
        pads=pads,
        auto_pad=auto_pad,
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
    )
    y = ops.transpose(y, (0, *range(2, last + 1), 1)) if channels_last else y
    return ops.quantize_linear(y, y_scale, y_zero, 1, x.dtype)


@graph_op("QLinearSoftmax", domain=MICROSOFT)
def qlinear_softmax(c: Importer, call: Call) -> Any:
    """Its attribute ``opset`` says what a row is: below 13 all axes from ``axis`` on."""
    given = [c.tensor(n) if n else None for n in call.inputs]
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
        y = ops.reshape(ops.softmax(ops.flatten(y, axis % y.ndim, y.ndim - 1), -1), x.shape)
    else:
        y = ops.softmax(y, axis)
    return ops.quantize_linear(y, y_scale, y_zero, 1, x.dtype)


@te_op("DynamicQuantizeLSTM", domain=MICROSOFT)
def dynamic_quantize_lstm(
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
    made = ops.lstm(
        ops.dequantize_linear(*ops.dynamic_quantize_linear(x)),
        _weights(w, w_scale, w_zero),
        _weights(r, r_scale, r_zero),
        b,
        sequence_lens=lengths,
        initial_h=initial_h,
        initial_c=initial_c,
        p=peepholes,
        direction=direction,
        activations=activations,
        activation_alpha=activation_alpha,
        activation_beta=activation_beta,
        clip=clip,
        input_forget=bool(input_forget),
        rounds_state=True,
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
