"""Operators of the domain com.microsoft that fuse a few elementwise steps, norms, convolutions and sums of
whole numbers, as optimisers and builders for graphics processors write them. Knows ops and ONNX's operators;
each says in the words of ``ops`` what it stands for.
"""

from __future__ import annotations

import math
from typing import Any

from ... import ops, te
from ...errors import DeclareError
from ...expr import make
from ...expr.nodes import Expr, const_int
from ...te import Tensor
from ..words import constant_like, inverse_root, of_type, scaled, times
from .microsoft import fast_gelu, fused_conv, fused_matmul
from .microsoft_names import channels_first, channels_last
from .norms import group_normalization
from .reduce import REDUCTIONS
from .spectrum import dft
from .table import MICROSOFT, one, te_op
from .windows import conv_transpose, convolved


def _wide(x: Tensor) -> Tensor:
    return ops.cast(x, "float32") if x.dtype.bits == 16 else x


# --- sums, gates and activations ----------------------------------------------------------------------------


@te_op("BiasAdd", domain=MICROSOFT)
def bias_add(x: Tensor, bias: Tensor, skip: Tensor) -> Tensor:
    return ops.add(ops.add(x, bias), skip)


@te_op("BiasDropout", domain=MICROSOFT)
def bias_dropout(
    x: Tensor,
    bias: Tensor,
    residual: Tensor | None = None,
    ratio: Tensor | None = None,
    training: Tensor | None = None,
    *,
    seed: int = 0,
    results: int = 1,
) -> Any:
    """Of inference, where nothing is dropped."""
    if training is not None:
        raise DeclareError("BiasDropout: training_mode is not supported", try_="a model of inference")
    y = scaled(ops.add(x, bias), None, residual)
    return y if results == 1 else (y, ops.full(y.shape, 1, "bool"))


@te_op("BiasSplitGelu", domain=MICROSOFT)
def bias_split_gelu(x: Tensor, bias: Tensor) -> Tensor:
    left, right = ops.split(ops.add(x, bias), 2, -1)
    return ops.multiply(left, ops.gelu(right))


@te_op("BiasSoftmax", domain=MICROSOFT)
def bias_softmax(x: Tensor, bias: Tensor, *, is_inner_broadcast: int, axis: int = 1) -> Tensor:
    """Rows are all dimensions from ``axis`` on. Of the dimensions before them the bias lacks those in the
    middle (``is_inner_broadcast``) or those at the front, or they are 1."""
    d = axis % x.ndim
    if is_inner_broadcast and bias.ndim < x.ndim:
        # what the bias has before the row stays in front, and the missing dimensions follow it
        lead = bias.shape[: bias.ndim - (x.ndim - d)]
        bias = ops.reshape(bias, (*lead, *[1] * (d - len(lead)), *x.shape[d:]))
    total = ops.add(x, bias)
    if d == x.ndim - 1:
        return ops.softmax(total, -1)
    return ops.reshape(ops.softmax(ops.flatten(total, d, x.ndim - 1), -1), x.shape)


@te_op("GatedAdd", domain=MICROSOFT)
def gated_add(x: Tensor, y: Tensor, gate: Tensor) -> Tensor:
    return ops.add(x, ops.multiply(y, gate))


@te_op("ScaledSiLU", domain=MICROSOFT)
def scaled_silu(x: Tensor, scale: Tensor | None = None, *, alpha: float = 1.0) -> Tensor:
    """Both factors are rounded to the type of x."""
    wide = _wide(x)
    wide = times(wide, alpha) if scale is None else ops.multiply(wide, of_type(scale, wide.dtype))
    z = of_type(ops.reshape(wide, x.shape), x.dtype)
    return ops.multiply(z, ops.sigmoid(z))


@te_op("LinearAttentionGate", domain=MICROSOFT)
def linear_attention_gate(
    a: Tensor, dt_bias: Tensor, decay_scale: Tensor, b: Tensor | None = None, *, results: int = 1
) -> Any:
    decay = ops.multiply(ops.softplus(ops.add(_wide(a), dt_bias)), decay_scale)
    decay = of_type(decay, a.dtype)
    return decay if results == 1 or b is None else (decay, of_type(ops.sigmoid(_wide(b)), b.dtype))


@te_op("GemmFastGelu", domain=MICROSOFT)
def gemm_fast_gelu(x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
    return fast_gelu(ops.matmul(x, w), bias)


_AFTER = {
    "Relu": lambda y, a, b: ops.relu(y),
    "Tanh": lambda y, a, b: ops.tanh(y),
    "Sigmoid": lambda y, a, b: ops.sigmoid(y),
    "LeakyRelu": lambda y, a, b: ops.leaky_relu(y, a),
    "Elu": lambda y, a, b: ops.elu(y, a),
    "HardSigmoid": lambda y, a, b: ops.hard_sigmoid(y, a, b),
    "Softplus": lambda y, a, b: ops.softplus(y),
    "Softsign": lambda y, a, b: ops.softsign(y),
}


@te_op("FusedMatMulActivation", domain=MICROSOFT)
def fused_matmul_activation(
    a: Tensor,
    b: Tensor,
    *,
    activation: str,
    activation_alpha: float = 0.01,
    activation_beta: float = 0.5,
    activation_gamma: float = 0.0,
    activation_axis: int = -1,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> Tensor:
    how = {"transA": transA, "transB": transB, "transBatchA": transBatchA, "transBatchB": transBatchB}
    y = fused_matmul(a, b, alpha=alpha, **how)
    if activation == "Softmax":
        return ops.softmax(y, activation_axis)
    if activation not in _AFTER:
        legal = ", ".join(sorted([*_AFTER, "Softmax"]))
        raise DeclareError(f"FusedMatMulActivation: activation={activation!r}", legal=legal)
    return _AFTER[activation](y, activation_alpha, activation_beta)


@te_op("TorchEmbedding", domain=MICROSOFT)
def torch_embedding(
    weight: Tensor, indices: Tensor, padding: Tensor | None = None, by_frequency: Tensor | None = None
) -> Tensor:
    return ops.take(weight, indices, 0)


@te_op("SampleOp", domain=MICROSOFT)
def sample_op(x: Tensor) -> Tensor:
    """The example of an operator: nothing is done."""
    return ops.multiply(x, constant_like(x, 1))


# --- norms --------------------------------------------------------------------------------------------------


@te_op("GroupNorm", domain=MICROSOFT)
def group_norm(
    x: Tensor,
    gamma: Tensor,
    beta: Tensor,
    *,
    groups: int,
    activation: int,
    channels_last: int = 1,
    epsilon: float = 1e-5,
) -> Tensor:
    y = of_type(channels_first(x) if channels_last else x, gamma.dtype)
    y = group_normalization(y, gamma, beta, num_groups=groups, epsilon=epsilon, opset=21)
    y = of_type(ops.silu(y) if activation else y, x.dtype)
    return _last(y) if channels_last else y


_last = channels_last


@te_op("SkipGroupNorm", domain=MICROSOFT)
def skip_group_norm(
    x: Tensor,
    gamma: Tensor,
    beta: Tensor,
    skip: Tensor,
    bias: Tensor | None = None,
    *,
    groups: int,
    activation: int,
    channels_last: int = 1,
    epsilon: float = 1e-5,
    results: int = 1,
) -> Any:
    """``skip`` has the shape of x, or one number for each image and channel."""
    if skip.ndim == 2:
        one_each = (1, 1, skip.shape[1]) if channels_last else (skip.shape[1], 1, 1)
        skip = ops.reshape(skip, (skip.shape[0], *one_each))
    total = ops.add(x, skip)
    if bias is not None:
        total = ops.add(total, bias if channels_last else ops.reshape(bias, (bias.shape[0], 1, 1)))
    how = {"groups": groups, "activation": activation, "channels_last": channels_last}
    y = group_norm(total, gamma, beta, epsilon=epsilon, **how)
    return y if results == 1 else (y, total)


def _rms(x: Tensor, epsilon: float) -> Tensor:
    """Each row, in float32, over the root of its mean square."""
    wide = _wide(x)
    return ops.multiply(wide, inverse_root(ops.mean(ops.square(wide), -1, True), epsilon))


@te_op("GatedRMSNorm", domain=MICROSOFT)
def gated_rms_norm(
    x: Tensor, scale: Tensor, gate: Tensor, *, activation: str = "silu", epsilon: float = 1e-5
) -> Tensor:
    """Over parts of the last dimension as long as ``scale``."""
    if activation not in ("silu", "swish", "sigmoid"):
        raise DeclareError(f"GatedRMSNorm: activation={activation!r}", legal="silu, swish, sigmoid")
    parts = (*x.shape[:-1], make.floordiv(x.shape[-1], scale.shape[0]), scale.shape[0])
    y = ops.reshape(ops.multiply(_rms(ops.reshape(x, parts), epsilon), _wide(scale)), x.shape)
    z = _wide(gate)
    z = ops.sigmoid(z) if activation == "sigmoid" else ops.silu(z)
    return of_type(ops.multiply(y, z), x.dtype)


def _branches(x: Tensor, count: int) -> Tensor:
    """[…, C H] as [.., C, H]; as it is for a count of 0."""
    if not count:
        return x
    return ops.reshape(x, (*x.shape[:-1], count, make.floordiv(x.shape[-1], make.as_expr(count))))


@te_op("BranchwiseRMSNorm", domain=MICROSOFT)
def branchwise_rms_norm(
    x: Tensor, scale: Tensor | None = None, *, num_branches: int = 0, epsilon: float = 1e-5
) -> Tensor:
    y = _rms(_branches(x, num_branches), epsilon)
    if scale is not None:
        whole = scale.ndim == 1 and te.whole.equal(scale.shape[0], y.shape[-1]) is not True
        y = ops.multiply(y, _wide(ops.reshape(scale, y.shape[-2:]) if whole else scale))
    return of_type(ops.reshape(y, x.shape), x.dtype)


def _of_branches(gate: Tensor, x: Tensor) -> Tensor:
    """[…, C], […, C, 1], […, C, H] or […, C H] beside x […, C, H]."""
    if gate.ndim == x.ndim:
        return _wide(gate)
    single = te.whole.equal(gate.shape[-1], x.shape[-2]) is True
    return _wide(ops.expand_dims(gate, -1) if single else ops.reshape(gate, x.shape))


@te_op("HyperConnectionPreMix", domain=MICROSOFT)
def hyper_connection_pre_mix(
    streams: Tensor, pre_mix: Tensor, *, reduction_scale: float = 1.0, num_branches: int = 0
) -> Tensor:
    x = _branches(streams, num_branches)
    total = ops.sum(ops.multiply(_wide(x), _of_branches(pre_mix, x)), -2)
    return of_type(times(total, reduction_scale), streams.dtype)


@te_op("HyperConnectionPostMix", domain=MICROSOFT)
def hyper_connection_post_mix(
    streams: Tensor, block: Tensor, post_mix: Tensor, mix: Tensor | None = None, *, num_branches: int = 0
) -> Tensor:
    x = _branches(streams, num_branches)
    wide = _wide(x)
    mixed = wide if mix is None else ops.matmul(ops.swapaxes(_wide(mix), -1, -2), wide)
    added = ops.multiply(_of_branches(post_mix, x), ops.expand_dims(_wide(block), -2))
    return of_type(ops.reshape(ops.add(mixed, added), streams.shape), streams.dtype)


@te_op("EngramGate", domain=MICROSOFT)
def engram_gate(
    key: Tensor,
    query: Tensor,
    value: Tensor,
    key_scale: Tensor,
    query_scale: Tensor,
    conv_scale: Tensor | None = None,
    *,
    epsilon: float = 1e-5,
    results: int = 1,
) -> Any:
    keys, queries = (
        ops.multiply(_rms(x, epsilon), _wide(s)) for x, s in ((key, key_scale), (query, query_scale))
    )
    width = const_int(key.shape[-1])
    if width is None:
        raise DeclareError(f"EngramGate: a hidden size of {key.shape[-1]}", because="it is open")
    dot = times(ops.sum(ops.multiply(keys, queries), -1, None, True), 1 / math.sqrt(width))
    # a signed root whose slope at 0 stays finite
    size = ops.maximum(ops.abs(dot), constant_like(dot, 1e-6))
    gate = ops.sigmoid(ops.multiply(ops.sign(dot), ops.sqrt(size)))
    wide = ops.multiply(gate, ops.expand_dims(_wide(value), 2))
    y = of_type(wide, value.dtype)
    if results == 1 or conv_scale is None:
        return y
    return y, of_type(ops.multiply(_rms(wide, epsilon), _wide(conv_scale)), value.dtype)


# --- convolutions with channels at the end ------------------------------------------------------------------


@te_op("NhwcConv", domain=MICROSOFT)
def nhwc_conv(
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
    return _last(convolved(channels_first(x), w, b, strides, pads, dilations, group, auto_pad))


@te_op("NhwcFusedConv", domain=MICROSOFT)
def nhwc_fused_conv(
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    z: Tensor | None = None,
    *,
    kernel_shape: Any = None,
    strides: Any = None,
    pads: Any = None,
    dilations: Any = None,
    group: int = 1,
    auto_pad: str = "NOTSET",
    activation: str = "",
    activation_params: Any = None,
) -> Tensor:
    how = {"strides": strides, "pads": pads, "dilations": dilations, "group": group, "auto_pad": auto_pad}
    how |= {"activation": activation, "activation_params": activation_params}
    return _last(fused_conv(channels_first(x), w, b, None if z is None else channels_first(z), **how))


@te_op("ConvTransposeWithDynamicPads", values=(2,), domain=MICROSOFT)
def conv_transpose_with_pads(
    x: Tensor,
    w: Tensor,
    pads: Any = None,
    b: Tensor | None = None,
    *,
    kernel_shape: Any = None,
    strides: Any = None,
    dilations: Any = None,
    group: int = 1,
    auto_pad: str = "NOTSET",
    output_padding: Any = None,
) -> Tensor:
    how = {"strides": strides, "dilations": dilations, "group": group, "auto_pad": auto_pad}
    return conv_transpose(x, w, b, pads=pads, output_padding=output_padding, **how)


# --- whole numbers ------------------------------------------------------------------------------------------


@te_op("MatMulInteger16", domain=MICROSOFT)
def matmul_integer_16(a: Tensor, b: Tensor) -> Tensor:
    """Sums are int32, those of two unsigned operands uint32."""
    kind = "uint32" if a.dtype.code == b.dtype.code == "uint" else "int32"
    return ops.matmul(ops.cast(a, kind), ops.cast(b, kind))


@te_op("MulInteger", domain=MICROSOFT)
def mul_integer(a: Tensor, a_zero: Tensor | None, b: Tensor, b_zero: Tensor | None = None) -> Tensor:
    def shifted(x: Tensor, zero: Tensor | None) -> Tensor:
        wide = ops.cast(x, "int32")
        return wide if zero is None else ops.subtract(wide, ops.cast(zero, "int32"))

    return ops.multiply(shifted(a, a_zero), shifted(b, b_zero))


@te_op("ReduceSumInteger", domain=MICROSOFT)
def reduce_sum_integer(x: Tensor, *, axes: Any, keepdims: int) -> Tensor:
    kind = "uint32" if x.dtype.code == "uint" else "int32"
    return ops.sum(x, tuple(axes) or None, kind, bool(keepdims))


@te_op("QLinearReduceMean", domain=MICROSOFT)
def qlinear_reduce_mean(
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor | None,
    y_scale: Tensor,
    y_zero: Tensor | None = None,
    *,
    axes: Any,
    keepdims: int,
) -> Tensor:
    floats = ops.dequantize_linear(x, x_scale, x_zero)
    y = REDUCTIONS["ReduceMean"](floats, tuple(axes) or None, bool(keepdims))
    return ops.quantize_linear(y, y_scale, y_zero, 1, x.dtype)


@te_op("IsAllFinite", domain=MICROSOFT)
def is_all_finite(*parts: Tensor, isnan_only: int = 0, isinf_only: int = 0) -> Tensor:
    wrong = (
        ops.isnan if isnan_only else ops.isinf if isinf_only else lambda x: ops.logical_not(ops.isfinite(x))
    )
    found = [ops.any(wrong(x)) for x in parts]
    total = found[0]
    for f in found[1:]:
        total = ops.logical_or(total, f)
    return ops.logical_not(total)


# --- complex numbers, in the last dimension -----------------------------------------------------------------


def _complex_product(a: Tensor, b: Tensor, conjugated: bool) -> Tensor:
    pairs = [ops.reshape(x, (*x.shape[:-1], make.floordiv(x.shape[-1], make.as_expr(2)), 2)) for x in (a, b)]
    (ar, ai), (br, bi) = ([ops.squeeze(t, -1) for t in ops.split(p, 2, -1)] for p in pairs)
    bi = ops.negative(bi) if conjugated else bi
    real = ops.subtract(ops.multiply(ar, br), ops.multiply(ai, bi))
    other = ops.add(ops.multiply(ar, bi), ops.multiply(ai, br))
    y = ops.stack([real, other], -1)
    return ops.flatten(y, y.ndim - 2, y.ndim - 1)


@te_op("ComplexMul", domain=MICROSOFT)
def complex_mul(a: Tensor, b: Tensor) -> Tensor:
    """Parts of a number stand beside each other."""
    return _complex_product(a, b, False)


@te_op("ComplexMulConj", domain=MICROSOFT)
def complex_mul_conj(a: Tensor, b: Tensor) -> Tensor:
    """The product with the conjugate of b."""
    return _complex_product(a, b, True)


# --- positions ----------------------------------------------------------------------------------------------


@te_op("GemmaRotaryEmbedding", domain=MICROSOFT)
def gemma_rotary_embedding(emb: Tensor, q: Tensor, q_rot: Tensor, k: Tensor, k_rot: Tensor) -> Any:
    sine, cosine = (ops.expand_dims(ops.cast(f(emb), q.dtype), 1) for f in (ops.sin, ops.cos))
    turned = [
        ops.add(ops.multiply(x, cosine), ops.multiply(rot, sine)) for x, rot in ((q, q_rot), (k, k_rot))
    ]
    return turned[0], turned[1]


@te_op("RelativePositionBias", values=(1, 2), domain=MICROSOFT)
def relative_position_bias(
    table: Tensor, queries: Any, keys: Any, *, max_distance: int, is_bidirectional: int = 0
) -> Tensor:
    """[1, H, L, S] by the distance of a key: one bucket for each small one, beyond them logarithmic ones, the
    last for ``max_distance`` and more. Of both directions each has half of the buckets. The table is given
    column by column, as if [H, buckets]."""
    buckets = const_int(table.shape[0])
    if buckets is None:
        raise DeclareError(f"RelativePositionBias: {table.shape[0]} buckets", because="their number is open")
    half = buckets // 2 if is_bidirectional else buckets
    exact = half // 2

    def bucket(i: Any, j: Any) -> Expr:
        behind = te.cast("int32", i) - te.cast("int32", j)
        away = te.abs(behind) if is_bidirectional else te.max(behind, 0)
        step = te.log(te.cast("float32", te.max(away, 1)) / float(exact)) / math.log(max_distance / exact)
        far = te.min(exact + te.cast("int32", step * float(half - exact)), half - 1)
        found = te.select(away < exact, away, far)
        return found + te.select(behind < 0, half, 0) if is_bidirectional else found

    columns = ops.reshape(table, (table.shape[1], buckets))
    shape = (1, table.shape[1], one(queries), one(keys))
    return te.compute(shape, lambda b, h, i, j: columns(h, bucket(i, j)), name="position_bias")  # type: ignore[return-value]


def _transform(x: Tensor, signal_ndim: int, normalized: int, onesided: int, inverse: bool) -> Tensor:
    if signal_ndim != 1 or normalized or not onesided:
        raise DeclareError(
            f"{'Irfft' if inverse else 'Rfft'}: signal_ndim={signal_ndim}, normalized={normalized}, "
            f"onesided={onesided}",
            legal="signal_ndim=1, normalized=0, onesided=1",
        )
    if inverse:
        return ops.squeeze(dft(x, None, x.ndim - 2, inverse=1, onesided=1), -1)
    return dft(ops.expand_dims(x, -1), None, x.ndim - 1, onesided=1)


@te_op("Rfft", domain=MICROSOFT)
def rfft(x: Tensor, *, signal_ndim: int = 1, normalized: int = 0, onesided: int = 1) -> Tensor:
    return _transform(x, signal_ndim, normalized, onesided, False)


@te_op("Irfft", domain=MICROSOFT)
def irfft(x: Tensor, *, signal_ndim: int, normalized: int = 0, onesided: int = 1) -> Tensor:
    return _transform(x, signal_ndim, normalized, onesided, True)
