"""Operators of the domain com.microsoft: what onnxruntime's optimisers and quantisers write into files. Knows
ops; what has a fused kernel there is said here by the operators it stands for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import ops, te
from ...core.dtype import DType
from ...expr import make
from ...expr.nodes import Expr, const_int
from ...te import Tensor
from ..words import constant_like, inverse_root, times
from .activation import swish
from .attention import Mask, after, attended, heads, joined, rotated
from .norms import layer_normalization, rms_normalization
from .table import MICROSOFT, ONNX, plain, te_op
from .windows import convolved

_ACTIVATIONS = {
    "Relu": lambda y, p: ops.relu(y),
    "Tanh": lambda y, p: ops.tanh(y),
    "Sigmoid": lambda y, p: ops.sigmoid(y),
    "LeakyRelu": lambda y, p: ops.leaky_relu(y, *p[:1]),
    "Clip": lambda y, p: ops.clip(y, *p[:2]),
    "HardSigmoid": lambda y, p: ops.hard_sigmoid(y, *p[:2]),
}


def _activated(y: Tensor, activation: str, parameters: Any) -> Tensor:
    return _ACTIVATIONS[activation](y, parameters or []) if activation else y


def _plus(x: Tensor, y: Tensor | None) -> Tensor:
    return x if y is None else ops.add(x, y)


# --- products and convolutions ------------------------------------------------------------------------------


@te_op("FusedMatMul", "TransposeMatMul", domain=MICROSOFT)
def fused_matmul(
    a: Tensor,
    b: Tensor,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> Tensor:
    a, b = (_batch_last(x) if t else x for x, t in ((a, transBatchA), (b, transBatchB)))
    return times(ops.matmul(a, b, bool(transA), bool(transB)), alpha)


def _batch_last(x: Tensor) -> Tensor:
    """The batch dimensions, which stand after the rows, before them again."""
    return ops.transpose(x, (*range(1, x.ndim - 1), 0, x.ndim - 1))


@te_op("FusedGemm", domain=MICROSOFT)
def fused_gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    activation: str = "",
    activation_alpha: float = 0.01,
    activation_beta: float = 0.0,
    activation_gamma: float = 0.0,
) -> Tensor:
    y = times(ops.matmul(a, b, bool(transA), bool(transB)), alpha)
    y = y if c is None else ops.add(y, times(c, beta))
    return _activated(y, activation, [activation_alpha, activation_beta])


@te_op("FusedConv", domain=MICROSOFT)
def fused_conv(
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
    y = _plus(convolved(x, w, b, strides, pads, dilations, group, auto_pad), z)
    return _activated(y, activation, activation_params)


@te_op("MatMulIntegerToFloat", domain=MICROSOFT, stored=(4, 1, 5, -1))
def matmul_integer_to_float(
    a: Tensor,
    b: Tensor,
    a_scale: Tensor,
    b_scale: Tensor,
    a_zero: Tensor | None = None,
    b_zero: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    y = ops.cast(ops.matmul_integer(a, b, a_zero, b_zero), a_scale.dtype)
    return _plus(ops.multiply(y, ops.multiply(a_scale, b_scale)), bias)


@te_op("DynamicQuantizeMatMul", domain=MICROSOFT, stored=(None, 1, 3, -1))
def dynamic_quantize_matmul(
    a: Tensor, b: Tensor, b_scale: Tensor, b_zero: Tensor | None = None, bias: Tensor | None = None
) -> Tensor:
    whole, scale, zero = ops.dynamic_quantize_linear(a)
    return matmul_integer_to_float(whole, b, scale, b_scale, zero, b_zero, bias)


@te_op("MatMulNBits", domain=MICROSOFT)
def matmul_n_bits(
    a: Tensor,
    b: Tensor,
    scales: Tensor,
    zeros: Tensor | None = None,
    order: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    K: int,
    N: int,
    bits: int = 4,
    block_size: int,
    accuracy_level: int = 0,
) -> Tensor:
    """``a @ Wᵀ``, W [N, K] in blocks of whole numbers of 2, 4 or 8 bits, the low ones of a byte first."""
    each, blocks = 8 // bits, -(-K // block_size)
    # the zero point where none is given: 8 of 4 bits
    middle = float(1 << bits - 1)

    def number(byte: Expr, k: Any) -> Expr:
        """The k-th number, of which its byte is given."""
        return te.bitwise_and(te.cast("int32", byte) >> (make.floormod(k, each) * bits), (1 << bits) - 1)

    def entry(x: Tensor, n: Any, i: Any, width: int) -> Expr:
        """Of a matrix [N, width], which may be given flat."""
        return x(n, i) if x.ndim == 2 else x(n * width + i)

    def element(n: Any, k: Any) -> Expr:
        block, at = (f(make.as_expr(k), block_size) for f in (make.floordiv, make.floormod))
        whole = te.cast(a.dtype, number(b(n, block, make.floordiv(at, each)), at))
        if zeros is None:
            zero: Any = te.const(middle, a.dtype)
        elif zeros.dtype.is_float:
            zero = entry(zeros, n, block, blocks)
        else:
            # packed as the weight is, each row padded to whole bytes
            zero = number(entry(zeros, n, make.floordiv(block, each), -(-blocks // each)), block)
        return (whole - te.cast(a.dtype, zero)) * te.cast(a.dtype, entry(scales, n, block, blocks))

    weight: Any = te.compute((N, K), element, name="weight")
    return _plus(ops.matmul(a, weight, False, True), bias)


# --- normalisations and activations -------------------------------------------------------------------------


@te_op("SimplifiedLayerNormalization", domain=MICROSOFT)
@te_op("SimplifiedLayerNormalization", domain=ONNX)
def simplified_layer_normalization(
    x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1, results: int = 1
) -> Any:
    y = rms_normalization(x, scale, axis=axis, epsilon=epsilon, stash_type=stash_type)
    if results == 1:
        return y
    mean = ops.mean(ops.square(x), tuple(range(axis % x.ndim, x.ndim)), True)
    return y, inverse_root(mean, epsilon)


@te_op("SkipLayerNormalization", domain=MICROSOFT)
def skip_layer_normalization(
    x: Tensor,
    skip: Tensor,
    gamma: Tensor,
    beta: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    epsilon: float = 1e-12,
    results: int = 1,
) -> Any:
    total = _plus(ops.add(x, skip), bias)
    y = layer_normalization(total, gamma, beta, epsilon=epsilon)
    return y if results == 1 else (y, *_statistics(total, epsilon), total)[:results]


def _statistics(x: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    var = ops.var(x, -1, 0, True)
    return ops.mean(x, -1, True), inverse_root(var, epsilon)


@te_op("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_simplified_layer_normalization(
    x: Tensor,
    skip: Tensor,
    gamma: Tensor,
    bias: Tensor | None = None,
    *,
    epsilon: float = 1e-12,
    results: int = 1,
) -> Any:
    total = _plus(ops.add(x, skip), bias)
    y = rms_normalization(total, gamma, epsilon=epsilon)
    return y if results == 1 else (y, *_statistics(total, epsilon), total)[:results]


plain(ops.gelu, "Gelu", domain=MICROSOFT)


@te_op("BiasGelu", domain=MICROSOFT)
def bias_gelu(x: Tensor, bias: Tensor) -> Tensor:
    return ops.gelu(ops.add(x, bias))


@te_op("FastGelu", domain=MICROSOFT)
def fast_gelu(x: Tensor, bias: Tensor | None = None) -> Tensor:
    return ops.gelu(_plus(x, bias), "tanh")


@te_op("QuickGelu", domain=MICROSOFT)
def quick_gelu(x: Tensor, *, alpha: float = 1.702) -> Tensor:
    return swish(x, alpha=alpha)


# --- transformers -------------------------------------------------------------------------------------------


def _key_mask(mask: Tensor, keys: Expr) -> Tensor:
    """A mask of keys as onnxruntime takes it: whole numbers, 0 is not seen; [B] are lengths, [B, S], [B, L,
    S], [B, 1, M, M]."""
    if mask.ndim == 1:
        there = lambda b, h, i, j: j < te.cast("int32", mask(b))
        return te.compute((mask.shape[0], 1, 1, keys), there, name="there")  # type: ignore[return-value]
    seen = ops.not_equal(mask, constant_like(mask, 0))
    if mask.ndim == 2:
        seen = ops.reshape(seen, (mask.shape[0], 1, 1, mask.shape[1]))
    elif mask.ndim == 3:
        seen = ops.expand_dims(seen, 1)
    return seen


def _attended(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    added: Tensor | None,
    past: Any,
    causal: bool,
    scale: float,
    filter_value: float,
) -> Tensor:
    seen = None if mask is None else _key_mask(mask, k.shape[2])
    if added is not None:
        seen = added if seen is None else ops.where(seen, added, constant_like(added, filter_value))
    # the filter value, not an infinity: a row that sees nothing is the mean of all, as onnxruntime has it
    how = Mask(seen, causal, past=past, unseen=filter_value)
    return joined(attended(q, k, v, how, scale or None)[0])


def attended_masked(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    added: Tensor | None,
    lengths: Tensor,
    scale: float,
    filter_value: float,
) -> Tensor:
    """Of queries at the end of as many keys as ``lengths`` has of each sequence; the mask may be as long."""
    total = mask.shape[-1] if mask is not None else k.shape[2]
    seen = None if mask is None else _key_mask(mask, total)
    if seen is not None and added is not None:
        seen = ops.where(seen, added, constant_like(added, filter_value))
    how = Mask(added if seen is None else seen, True, lengths=lengths)
    return joined(attended(q, k, v, how, scale or None)[0])


def _unpacked(x: Tensor, number: int, axis: int) -> list[Tensor]:
    """The tensors that are stacked along an axis."""
    return [ops.squeeze(t, axis) for t in ops.split(x, number, axis)]


@te_op("Attention", domain=MICROSOFT)
def attention(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    past: Tensor | None = None,
    added: Tensor | None = None,
    past_length: Tensor | None = None,
    *,
    num_heads: int,
    unidirectional: int = 0,
    scale: float = 0.0,
    qkv_hidden_sizes: Any = None,
    mask_filter_value: float = -10000.0,
    do_rotary: int = 0,
    rotary_embedding_dim: int = 0,
    past_present_share_buffer: int = 0,
    results: int = 1,
) -> Any:
    """Queries, keys and values are one product with a packed weight."""
    y = _plus(ops.matmul(x, weight), bias)
    # equal thirds unless the sizes are given
    width = const_int(weight.shape[1]) or 0
    sizes = list(qkv_hidden_sizes or [width // 3] * 3)
    how = (bool(unidirectional), scale, mask_filter_value)
    return attended_packed(y, sizes, num_heads, mask, past, added, how, results)


def attended_packed(
    packed: Tensor,
    sizes: Sequence[int],
    num_heads: int,
    mask: Tensor | None,
    past: Tensor | None,
    added: Tensor | None,
    how: tuple[bool, float, float],
    results: int,
) -> Any:
    """Of queries, keys and values of these sizes that stand together in the last dimension; ``how``: causal,
    scale, what is put for a score that is masked."""
    q, k, v = (heads(t, num_heads) for t in ops.split(packed, [sizes[0], sizes[0] + sizes[1]], 2))
    past_key, past_value = (None, None) if past is None else _unpacked(past, 2, 0)
    k, v, before = after(past_key, past_value, k, v)
    y = _attended(q, k, v, mask, added, before, *how)
    # one tensor for both, as ``past`` is
    return y if results == 1 else (y, ops.stack([k, v], 0))


@te_op("MultiHeadAttention", domain=MICROSOFT)
def multi_head_attention(
    q: Tensor,
    k: Tensor | None = None,
    v: Tensor | None = None,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    added: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    *,
    num_heads: int,
    scale: float = 0.0,
    unidirectional: int = 0,
    mask_filter_value: float = -10000.0,
    results: int = 1,
) -> Any:
    """Queries [B, L, H D]; keys and values so too, or [B, H, S, D]; or all of them packed [B, L, H, 3, D]."""
    if k is None:
        q, k, v = (ops.flatten(t, 2, 3) for t in _unpacked(q, 3, 3))
    elif v is None:  # [B, S, H, 2, D]
        k, v = (ops.flatten(t, 2, 3) for t in _unpacked(k, 2, 3))
    assert k is not None and v is not None
    if bias is not None:
        width, keys = q.shape[2], k.shape[2] if k.ndim == 3 else q.shape[2]
        ends = [width, make.add(width, keys)]
        own = ops.split(bias, ends, 0)
        # one bias for all three, behind each other; keys that come as heads [B, H, S, D] have had theirs
        q = ops.add(q, own[0])
        k, v = (t if t.ndim == 4 else ops.add(t, b) for t, b in ((k, own[1]), (v, own[2])))
    q = heads(q, num_heads)
    k, v = (t if t.ndim == 4 else heads(t, num_heads) for t in (k, v))
    k, v, before = after(past_key, past_value, k, v)
    y = _attended(q, k, v, mask, added, before, bool(unidirectional), scale, mask_filter_value)
    return (y, k, v)[:results] if results > 1 else y


@te_op("RotaryEmbedding", domain=MICROSOFT)
def rotary_embedding(
    x: Tensor,
    positions: Tensor,
    cos: Tensor,
    sin: Tensor,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    scale: float = 1.0,
    is_packed_batching: int = 0,
) -> Tensor:
    """``positions`` [B, S], or one number: that of the first token."""
    if x.ndim == 3 and not num_heads:
        half = const_int(cos.shape[1]) or 1
        num_heads = (const_int(x.shape[2]) or 1) // (2 * half)
    if positions.ndim == 2:
        return rotated(x, cos, sin, positions, num_heads, bool(interleaved), rotary_embedding_dim)
    # all sequences begin at one position
    first = lambda b: te.cast("int32", positions(0))
    return rotated(x, cos, sin, None, num_heads, bool(interleaved), rotary_embedding_dim, first)


@te_op("EmbedLayerNormalization", domain=MICROSOFT)
def embed_layer_normalization(
    ids: Tensor,
    segments: Tensor | None,
    words: Tensor,
    places: Tensor,
    segment_table: Tensor | None = None,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    mask: Tensor | None = None,
    position_ids: Tensor | None = None,
    *,
    epsilon: float = 1e-12,
    mask_index_type: int = 0,
    results: int = 1,
) -> Any:
    total = ops.take(words, ids, 0)
    if position_ids is not None:
        total = ops.add(total, ops.take(places, position_ids, 0))
    else:
        rows: Any = te.compute((ids.shape[1], places.shape[1]), lambda s, d: places(s, d), name="places")
        total = ops.add(total, rows)
    if segments is not None and segment_table is not None:
        total = ops.add(total, ops.take(segment_table, segments, 0))
    y = layer_normalization(total, gamma, beta, epsilon=epsilon)
    if results == 1:
        return y
    batch = (ids.shape[0],)
    # the number of tokens that count, as onnxruntime's mask_index
    index = ops.full(batch, 0, "int32") if mask is None else ops.sum(mask, 1, "int32")
    return (y, index, total)[:results]


# --- quantised numbers --------------------------------------------------------------------------------------


def in_steps(y: Tensor, scale: Tensor, zero: Tensor | None, kind: DType) -> Tensor:
    """Floats as whole numbers of that type, by a factor, as onnxruntime does: a vector of divisions takes as
    long as all the rest."""
    return rounded(ops.multiply(y, ops.reciprocal(scale)), zero, kind)


def rounded(steps: Tensor, zero: Tensor | None, kind: DType) -> Tensor:
    """Numbers of steps, as they are stored."""
    return ops.quantize_linear(steps, ops.full((), 1.0, steps.dtype), zero, 1, kind)


@te_op("QLinearAdd", domain=MICROSOFT)
def qlinear_add(
    a: Tensor,
    a_scale: Tensor,
    a_zero: Tensor | None,
    b: Tensor,
    b_scale: Tensor,
    b_zero: Tensor | None,
    y_scale: Tensor,
    y_zero: Tensor | None = None,
) -> Tensor:
    """As onnxruntime does: all zero points are one number, added before the rounding."""
    one, other = ops.divide(a_scale, y_scale), ops.divide(b_scale, y_scale)
    kind = one.dtype
    fixed = ops.full((), 0.0, kind) if y_zero is None else ops.cast(y_zero, kind)
    for zero, factor in ((a_zero, one), (b_zero, other)):
        if zero is not None:
            # three numbers that no element changes, and so computed once
            fixed = ops.subtract(fixed, ops.multiply(ops.cast(zero, kind), factor))
    terms = (ops.multiply(ops.cast(x, kind), by) for x, by in ((a, one), (b, other)))
    y = ops.add(next(terms), ops.add(next(terms), fixed))
    return rounded(y, None, a.dtype if y_zero is None else y_zero.dtype)


@te_op("QLinearMul", domain=MICROSOFT)
def qlinear_mul(
    a: Tensor,
    a_scale: Tensor,
    a_zero: Tensor | None,
    b: Tensor,
    b_scale: Tensor,
    b_zero: Tensor | None,
    y_scale: Tensor,
    y_zero: Tensor | None = None,
) -> Tensor:
    # all three scales in one operand: the product of the two is in steps of the result at once
    factor = ops.divide(ops.multiply(a_scale, b_scale), y_scale)
    one = ops.full((), 1.0, factor.dtype)
    y = ops.multiply(ops.dequantize_linear(a, factor, a_zero), ops.dequantize_linear(b, one, b_zero))
    return rounded(y, y_zero, a.dtype)


@te_op("QLinearSigmoid", domain=MICROSOFT)
def qlinear_sigmoid(
    x: Tensor, x_scale: Tensor, x_zero: Tensor | None, y_scale: Tensor, y_zero: Tensor | None = None
) -> Tensor:
    y = ops.sigmoid(ops.dequantize_linear(x, x_scale, x_zero))
    return in_steps(y, y_scale, y_zero, x.dtype)


@te_op("QLinearLeakyRelu", domain=MICROSOFT)
def qlinear_leaky_relu(
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor | None,
    y_scale: Tensor,
    y_zero: Tensor | None = None,
    *,
    alpha: float = 0.01,
) -> Tensor:
    y = ops.leaky_relu(ops.dequantize_linear(x, x_scale, x_zero), alpha)
    return in_steps(y, y_scale, y_zero, x.dtype)


@te_op("QLinearGlobalAveragePool", domain=MICROSOFT)
def qlinear_global_average_pool(
    x: Tensor, x_scale: Tensor, x_zero: Tensor, y_scale: Tensor, y_zero: Tensor, *, channels_last: int = 0
) -> Tensor:
    axes = tuple(range(1, x.ndim - 1) if channels_last else range(2, x.ndim))
    y = ops.mean(ops.dequantize_linear(x, x_scale, x_zero), axes, True)
    return in_steps(y, y_scale, y_zero, x.dtype)


@te_op("QLinearConcat", domain=MICROSOFT)
def qlinear_concat(y_scale: Tensor, y_zero: Tensor, *parts: Tensor, axis: int) -> Tensor:
    """``parts``: of each tensor its numbers, their scale and zero point."""
    triples = (parts[i : i + 3] for i in range(0, len(parts), 3))
    # in steps of the result: one rounding for each element
    steps = [ops.dequantize_linear(x, ops.divide(scale, y_scale), zero) for x, scale, zero in triples]
    return rounded(ops.concatenate(steps, axis), y_zero, y_zero.dtype)
