"""Mixtures of experts of com.microsoft, with weights of floats or of a few bits, and other pieces of decoders
of language models. Knows ops.

Each token is computed by the experts that it chose, no others: their weights are read by the index of the
expert.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ... import ops, te
from ...errors import DeclareError
from ...expr import make
from ...expr.nodes import Expr, const_int
from ...ops.places import kept_within
from ...te import Tensor
from ..words import constant_like
from .attention import Mask, attended, heads, joined, of_one, rotated
from .microsoft import attended_masked, multi_head_attention
from .table import MICROSOFT, te_op

Weight = Callable[[Any, Any, Any], Expr]  # of an expert, a row of what it makes, a column of what it reads
Layer = tuple[Weight, Any, Tensor | None]  # with the number of rows and a bias

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": ops.relu,
    "gelu": lambda x: ops.gelu(x, "tanh"),
    "silu": ops.silu,
    "identity": lambda x: x,
}


def _chosen(router: Tensor, k: int, normalise: bool, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """The experts [T, k] of each token and their shares of its result."""
    _, experts = ops.top_k(router, k)
    # over all experts and not the chosen ones; normalised among those only if asked for
    shares = ops.softmax(router, -1) if weights is None else weights
    own = ops.gather_elements(shares, experts, 1)
    return experts, ops.divide(own, ops.sum(own, -1, None, True)) if normalise else own


def _layer(x: Tensor, experts: Tensor, layer: Layer) -> Tensor:
    """[T, k, N] of x [T, K], or [T, k, K]."""
    weight, rows, bias = layer
    j = te.reduce_axis((0, x.shape[-1]), "j")
    count = experts.shape[1]

    def element(t: Any, s: Any, n: Any) -> Expr:
        # each token reads the weights of its experts alone: no product with experts that have no share
        e = te.cast("int32", experts(t, s))
        own = x(t, j) if x.ndim == 2 else x(t, s, j)
        return te.sum(te.cast("float32", own) * te.cast("float32", weight(e, n, j)), axis=j)

    total: Any = te.compute((x.shape[0], count, rows), element, name="expert")
    if bias is None:
        return total
    added = lambda t, s, n: total(t, s, n) + te.cast("float32", bias(te.cast("int32", experts(t, s)), n))
    return te.compute(total.shape, added, name="biased")  # type: ignore[return-value]


def _mixed(
    x: Tensor,
    router: Tensor,
    layers: tuple[Layer, Layer, Layer | None],
    *,
    k: int,
    normalise: bool,
    weights: Tensor | None,
    activation: tuple[str, float, float, float, int],
) -> Tensor:
    rows = ops.flatten(x, 0, 1) if x.ndim == 3 else x
    experts, shares = _chosen(router, k, normalise, weights)
    first, second, gate = layers
    h = _layer(rows, experts, first)
    h = _activated(h, None if gate is None else _layer(rows, experts, gate), activation)
    y = _layer(h, experts, second)
    weighed = ops.multiply(y, ops.expand_dims(ops.cast(shares, "float32"), -1))
    return ops.reshape(ops.cast(ops.sum(weighed, 1), x.dtype), x.shape)


def _activated(h: Tensor, gate: Tensor | None, activation: tuple[str, float, float, float, int]) -> Tensor:
    name, alpha, beta, limit, fusion = activation
    if name != "swiglu":
        if name not in _ACTIVATIONS:
            raise DeclareError(f"activation_type={name!r}", legal=f"{', '.join(_ACTIVATIONS)}, swiglu")
        h = _ACTIVATIONS[name](h)
        return h if gate is None else ops.multiply(h, gate)
    if gate is None:
        if not fusion:
            raise DeclareError("swiglu with swiglu_fusion=0 and without a third layer", legal="1, 2")
        half = make.floordiv(h.shape[2], make.as_expr(2))
        # 1: both halves interleaved, 2: one behind the other
        own = (lambda n, p: n * 2 + p) if fusion == 1 else (lambda n, p: n + half * p)
        parts = (
            te.compute((*h.shape[:2], half), lambda t, s, n, p=p: h(t, s, own(n, p)), name="part")
            for p in (0, 1)
        )
        h, gate = parts  # type: ignore[assignment]
    assert gate is not None
    if math.isfinite(limit):
        h = ops.minimum(h, constant_like(h, limit))
        # onnxruntime bounds the activated half from above only, the other on both sides
        gate = ops.clip(gate, -limit, limit)
    share = ops.sigmoid(ops.multiply(h, constant_like(h, alpha)))
    return ops.multiply(ops.multiply(h, share), ops.add(gate, constant_like(gate, beta)))


@te_op("MoE", domain=MICROSOFT)
def mixture(
    x: Tensor,
    router: Tensor,
    w1: Tensor,
    b1: Tensor | None,
    w2: Tensor,
    b2: Tensor | None = None,
    w3: Tensor | None = None,
    b3: Tensor | None = None,
    *,
    k: int = 1,
    activation_type: str = "relu",
    activation_alpha: float = 1.0,
    activation_beta: float = 0.0,
    swiglu_limit: float = math.inf,
    swiglu_fusion: int = 0,
    normalize_routing_weights: int = 0,
    use_sparse_mixer: int = 0,
) -> Tensor:
    """``router`` [T, E] are scores; weights [E, N, K]."""
    _dense_mixer(use_sparse_mixer)

    def layer(w: Tensor, b: Tensor | None) -> Layer:
        return (lambda e, n, j: w(kept_within(e, w.shape[0]), n, j)), w.shape[1], b

    layers = (layer(w1, b1), layer(w2, b2), None if w3 is None else layer(w3, b3))
    how = (activation_type, activation_alpha, activation_beta, swiglu_limit, swiglu_fusion)
    normalise = bool(normalize_routing_weights)
    return _mixed(x, router, layers, k=k, normalise=normalise, weights=None, activation=how)


def _dense_mixer(sparse: int) -> None:
    if sparse:
        raise DeclareError("use_sparse_mixer=1 is not supported", legal="0")


@te_op("QMoE", domain=MICROSOFT)
def quantised_mixture(
    x: Tensor,
    router: Tensor,
    w1: Tensor,
    s1: Tensor,
    b1: Tensor | None,
    w2: Tensor,
    s2: Tensor,
    b2: Tensor | None = None,
    w3: Tensor | None = None,
    s3: Tensor | None = None,
    b3: Tensor | None = None,
    z1: Tensor | None = None,
    z2: Tensor | None = None,
    z3: Tensor | None = None,
    router_weights: Tensor | None = None,
    *,
    k: int = 1,
    activation_type: str = "relu",
    activation_alpha: float = 1.0,
    activation_beta: float = 0.0,
    swiglu_limit: float = math.inf,
    swiglu_fusion: int = 0,
    normalize_routing_weights: int = 0,
    use_sparse_mixer: int = 0,
    quant_type: str = "int",
    expert_weight_bits: int = 4,
    fc1_expert_weight_bits: int = 0,
    fc2_expert_weight_bits: int = 0,
    fc3_expert_weight_bits: int = 0,
    block_size: int = 0,
    accuracy_level: int = 0,
    weights_prepacked: int = 0,
) -> Tensor:
    """Weights of 2, 4 or 8 bits, the low ones of a byte first, times a scale of their row, or of each block
    of it; without zero points the middle is 0."""
    _dense_mixer(use_sparse_mixer)
    if quant_type != "int" or weights_prepacked > 0:
        raise DeclareError(
            f"QMoE: quant_type={quant_type!r}, weights_prepacked={weights_prepacked}", legal="'int', 0"
        )

    def layer(w: Tensor, s: Tensor | None, b: Tensor | None, z: Tensor | None, own_bits: int) -> Layer:
        assert s is not None
        bits = own_bits or expert_weight_bits
        return _few_bits(w, s, z, bits, block_size), w.shape[1], b

    layers = (
        layer(w1, s1, b1, z1, fc1_expert_weight_bits),
        layer(w2, s2, b2, z2, fc2_expert_weight_bits),
        None if w3 is None else layer(w3, s3, b3, z3, fc3_expert_weight_bits),
    )
    how = (activation_type, activation_alpha, activation_beta, swiglu_limit, swiglu_fusion)
    normalise = bool(normalize_routing_weights)
    return _mixed(x, router, layers, k=k, normalise=normalise, weights=router_weights, activation=how)


def _few_bits(w: Tensor, scales: Tensor, zeros: Tensor | None, bits: int, block: int) -> Weight:
    # numbers in a byte
    each, mask = 8 // bits, (1 << bits) - 1

    def number(t: Tensor, at: tuple[Any, ...], k: Any) -> Expr:
        """The k-th number of the last dimension of bytes."""
        k = make.as_expr(k)
        byte = te.cast("int32", t(*at, make.floordiv(k, each)))
        return te.bitwise_and(byte >> (make.floormod(k, each) * bits), mask)

    def weight(e: Any, n: Any, j: Any) -> Expr:
        e = kept_within(e, w.shape[0])
        part = make.floordiv(make.as_expr(j), block) if block and scales.ndim == 3 else 0
        scale = scales(e, n, part) if scales.ndim == 3 else scales(e, n)
        if zeros is None:
            # the middle of the range, where no zero points are given
            zero: Any = 1 << bits - 1
        elif zeros.ndim == 3:
            zero = number(zeros, (e, n), part)
        else:
            zero = number(zeros, (e,), n)
        return te.cast("float32", number(w, (e, n), j) - zero) * te.cast("float32", scale)

    return weight


@te_op("NGramRepeatBlock", domain=MICROSOFT)
def no_repeated_ngrams(ids: Tensor, scores: Tensor, *, ngram_size: int) -> Tensor:
    """-inf for each token that would end a row of ``ngram_size`` tokens which ``ids`` has already."""
    length, last = ids.shape[1], ngram_size - 1

    def place(b: Any, start: Any) -> tuple[Expr, Expr]:
        # the tokens before the end beside those at each start: where they are the same, the token that came
        # next, else a place that is none; the maximum for sequences shorter than that, of which there are no
        # starts
        token = ids(b, start + last)
        same = [make.eq(ids(b, start + d), ids(b, te.max(length - last + d, 0))) for d in range(last)]
        return b, te.select(te.all(*same), token, te.const(-1, token.dtype)) if same else token

    # written for each start, which are few, and not asked of each token for each of them
    starts = (ids.shape[0], te.max(length - last, 0))
    low = te.const(-math.inf, scores.dtype)
    return te.scatter(scores, starts, place, lambda b, start: low, "set", name="scores")


@te_op("DecoderMaskedMultiHeadAttention", domain=MICROSOFT)
def decoder_attention(
    q: Tensor,
    k: Tensor | None = None,
    v: Tensor | None = None,
    mask: Tensor | None = None,
    added: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    past_length: Tensor | None = None,
    beams: Tensor | None = None,
    cache: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    num_heads: int,
    scale: float = 0.0,
    mask_filter_value: float = -10000.0,
    past_present_share_buffer: int = 0,
    output_qk: int = 0,
    results: int = 1,
) -> Any:
    """One query of each sequence, behind a cache that grows; or in one of a fixed size
    (``past_present_share_buffer``), at the place ``past_length``, behind which nothing is seen."""
    if cache is not None or output_qk or results > 3:
        raise DeclareError(
            "DecoderMaskedMultiHeadAttention: beams and the product as an output are not supported",
            legal="no cache_indirection, output_qk=0",
        )
    if k is None:
        q, k, v = ops.split(q, 3, 2)
    how: dict[str, Any] = {"num_heads": num_heads, "scale": scale, "mask_filter_value": mask_filter_value}
    if not past_present_share_buffer or k.ndim == 4:
        return multi_head_attention(q, k, v, bias, mask, added, past_key, past_value, results=results, **how)
    if past_key is None or past_value is None or past_length is None or v is None:
        raise DeclareError("DecoderMaskedMultiHeadAttention: a shared cache or its length is left out")
    if bias is not None:
        q, k, v = (ops.add(x, b) for x, b in zip((q, k, v), ops.split(bias, 3, 0), strict=True))
    place = lambda: te.cast("int32", past_length(*[0] * past_length.ndim))

    def written(past: Tensor, x: Tensor) -> Tensor:
        new = heads(x, num_heads)
        element = lambda b, h, s, d: te.if_then_else(make.eq(s, place()), new(b, h, 0, d), past(b, h, s, d))
        return te.compute(past.shape, element, name="present")  # type: ignore[return-value]

    keys, values = written(past_key, k), written(past_value, v)
    lengths = te.compute((q.shape[0],), lambda b: place() + 1, name="lengths")
    y = attended_masked(heads(q, num_heads), keys, values, mask, added, lengths, scale, mask_filter_value)
    return y if results == 1 else (y, keys, values)[:results]


@te_op("MRotaryEmbedding", domain=MICROSOFT)
def rotary_of_three_places(
    x: Tensor,
    positions: Tensor,
    cos: Tensor,
    sin: Tensor,
    *,
    mrope_section: Any,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    interleaved: int = 0,
    mrope_layout: int = 0,
    is_packed_batching: int = 0,
    scale: float = 1.0,
) -> Tensor:
    """``positions`` [3, B, S] in time, height and width: the angles of a head are in sections of each, behind
    each other, or with every third of height and of width."""
    first, second, third = mrope_section

    def stream(k: Any) -> Expr:
        # interleaved: the three take turns, as far as the sections reach
        if mrope_layout:
            rest = make.floormod(make.as_expr(k), 3)
            high = te.all(make.eq(rest, 1), k < 3 * second)
            wide = te.all(make.eq(rest, 2), k < 3 * third)
            return te.select(high, 1, te.select(wide, 2, 0))
        return te.select(k < first, 0, te.select(k < first + second, 1, 2))

    def angles(table: Tensor) -> Tensor:
        rows = lambda b, s, k: kept_within(te.cast("int32", positions(stream(k), b, s)), table.shape[0])
        shape = (*positions.shape[1:], table.shape[1])
        return te.compute(shape, lambda b, s, k: table(rows(b, s, k), k), name="angles")  # type: ignore[return-value]

    if x.ndim == 3 and not num_heads:
        num_heads = (const_int(x.shape[2]) or 1) // (2 * (const_int(cos.shape[1]) or 1))
    turned = rotary_embedding_dim or 2 * (const_int(cos.shape[1]) or 0)
    return rotated(x, angles(cos), angles(sin), None, num_heads, bool(interleaved), turned)


@te_op("SparseAttention", domain=MICROSOFT)
def sparse_attention(
    q: Tensor,
    k: Tensor | None,
    v: Tensor | None,
    past_key: Tensor,
    past_value: Tensor,
    block_rows: Tensor,
    block_columns: Tensor,
    total: Tensor,
    lengths: Tensor,
    cos: Tensor | None = None,
    sin: Tensor | None = None,
    *,
    num_heads: int,
    kv_num_heads: int,
    sparse_block_size: int,
    scale: float = 0.0,
    do_rotary: int = 0,
    rotary_interleaved: int = 0,
    results: int = 1,
) -> Any:
    """New keys and values are written in caches of a fixed size, behind those of each sequence, which has
    ``lengths`` with them. A query sees the keys before it in the blocks that the rows of its layout name;
    heads take the layouts in turn."""
    q, k, v = of_one(q, k, v, num_heads, kv_num_heads)
    new = q.shape[2]

    def before(b: Any) -> Expr:
        return make.max_(make.sub(te.cast("int32", lengths(b)), new), make.as_expr(0))

    if do_rotary and cos is not None and sin is not None:
        turned = 2 * (const_int(cos.shape[1]) or 0)
        q, k = (rotated(x, cos, sin, None, 0, bool(rotary_interleaved), turned, before) for x in (q, k))

    keys, values = _written(past_key, k, before), _written(past_value, v, before)
    blocks = _dense(block_rows, block_columns)
    layouts, count, _ = blocks.shape

    def seen(b: Any, h: Any, i: Any, j: Any) -> Expr:
        row, column = (
            kept_within(make.floordiv(make.as_expr(p), sparse_block_size), count) for p in (before(b) + i, j)
        )
        return blocks(make.floormod(make.as_expr(h), layouts), row, column) > 0

    mask: Any = te.compute((q.shape[0], num_heads, new, keys.shape[2]), seen, name="seen")
    reached = te.compute((q.shape[0],), lambda b: before(b) + new, name="lengths")
    y = joined(attended(q, keys, values, Mask(mask, True, lengths=reached), scale or None)[0])  # type: ignore[arg-type]
    return y if results == 1 else (y, keys, values)[:results]


def _written(past: Tensor, new: Tensor, before: Callable[[Any], Expr]) -> Tensor:
    """A cache of a fixed size with the new rows in it, behind the ``before`` ones of each sequence."""
    count = new.shape[2]

    def element(b: Any, h: Any, s: Any, d: Any) -> Expr:
        at = s - before(b)
        own = new(b, h, kept_within(at, count), d)
        return te.if_then_else(te.all(at >= 0, at < count), own, past(b, h, s, d))

    return te.compute(past.shape, element, name="present")  # type: ignore[return-value]


def _dense(rows: Tensor, columns: Tensor) -> Tensor:
    """Layouts of blocks in CSR form as a small dense mask: built once, and read by all queries."""
    layouts, count = const_int(rows.shape[0]) or 1, make.sub(rows.shape[1], 1)
    n = te.reduce_axis((0, columns.shape[1]), "n")

    def there(layout: Any, row: Any, column: Any) -> Expr:
        own = te.all(
            n >= te.cast("int32", rows(layout, row)),
            n < te.cast("int32", rows(layout, row + 1)),
            make.eq(te.cast("int32", columns(layout, n)), te.cast("int32", column)),
        )
        return te.max(te.cast("int32", own), axis=n)

    return te.compute((layouts, count, count), there, name="blocks")  # type: ignore[return-value]
