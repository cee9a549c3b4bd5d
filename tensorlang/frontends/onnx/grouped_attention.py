"""GroupQueryAttention of com.microsoft: attention of a decoder with fewer heads of keys and values than of
queries, a cache, and rotary embedding. Knows ops and ONNX's attention."""

from __future__ import annotations

from typing import Any

from ... import ops, te
from ...errors import DeclareError
from ...expr import make
from ...expr.nodes import Expr, const_int
from ...ops.places import kept_within
from ...te import Tensor
from ..words import of_type
from .attention import Mask, attended, joined, of_one, rotated
from .norms import rms_normalization
from .table import MICROSOFT, te_op


@te_op("GroupQueryAttention", domain=MICROSOFT)
def group_query_attention(
    query: Tensor,
    key: Tensor | None = None,
    value: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    last: Tensor | None = None,
    total: Tensor | None = None,
    cos: Tensor | None = None,
    sin: Tensor | None = None,
    positions: Tensor | None = None,
    added: Tensor | None = None,
    sink: Tensor | None = None,
    k_scale: Tensor | None = None,
    v_scale: Tensor | None = None,
    q_norm: Tensor | None = None,
    k_norm: Tensor | None = None,
    *,
    num_heads: int,
    kv_num_heads: int,
    scale: float = 0.0,
    softcap: float = 0.0,
    do_rotary: int = 0,
    rotary_interleaved: int = 0,
    local_window_size: int = -1,
    smooth_softmax: int = -1,
    causal: int = 1,
    qk_norm_epsilon: float = 1e-6,
    qk_output: int = 0,
    k_quant_type: str = "NONE",
    v_quant_type: str = "NONE",
    kv_cache_bit_width: int = 8,
    sliding_window_cache: int = 0,
    results: int = 1,
) -> Any:
    """``last`` [B] is one less than the keys of each sequence, the cache included; queries are the last of
    them. Without ``key`` and ``value`` all three stand together in ``query``. ``sink`` is a score more for
    each head, 0 for a smooth softmax. A cache of int8 has numbers of ``k_scale`` and ``v_scale``."""
    _check_cache(sliding_window_cache, {k_quant_type, v_quant_type}, kv_cache_bit_width)
    if smooth_softmax == 1 and sink is None:
        # a score of 0 more in each row is what onnxruntime calls smooth
        sink = ops.full((num_heads,), 0, query.dtype)
    q, k, v = of_one(query, key, value, num_heads, kv_num_heads)
    if q_norm is not None and k_norm is not None:
        q, k = (rms_normalization(x, w, epsilon=qk_norm_epsilon) for x, w in ((q, q_norm), (k, k_norm)))
    new = q.shape[2]

    def before(b: Any) -> Expr:
        """The keys of a sequence that are in the cache."""
        assert last is not None
        count = te.cast("int32", last(b) if last.ndim == 1 else last(b, 0)) + 1
        # a prompt that is padded behind is shorter than its queries
        return make.max_(make.sub(count, new), make.as_expr(0))

    if do_rotary and cos is not None and sin is not None:
        turned = 2 * (const_int(cos.shape[1]) or 0)  # elements of a head
        q, k = (rotated(x, cos, sin, positions, 0, bool(rotary_interleaved), turned, before) for x in (q, k))
    scales = (None if k_quant_type == "NONE" else k_scale, None if v_quant_type == "NONE" else v_scale)
    k, v = (_stored(x, s) for x, s in zip((k, v), scales, strict=True))
    if past_key is not None and past_value is not None:
        k, v = _behind(past_key, k, before), _behind(past_value, v, before)
    lengths = te.compute((q.shape[0],), lambda b: before(b) + new, name="lengths")
    # onnxruntime counts the query itself
    left = local_window_size - 1 if local_window_size > 0 else -1
    mask = Mask(added, bool(causal), left=left, lengths=lengths)
    stage = {0: None, 1: 1, 2: 3}[qk_output] if results > 3 else None
    keys, values = (_floats(x, s, q) for x, s in zip((k, v), scales, strict=True))
    y, shown = attended(q, keys, values, mask, scale or None, softcap, None, stage, sink)
    return (joined(y), k, v, shown)[:results] if results > 1 else joined(y)


def _check_cache(sliding: int, kinds: set[str], bits: int) -> None:
    if sliding:
        raise DeclareError("GroupQueryAttention: sliding_window_cache is not supported", legal="0")
    if kinds != {"NONE"} and bits not in (0, 8):
        raise DeclareError(f"GroupQueryAttention: a cache of {bits} bits", legal="8")


def _stored(x: Tensor, scale: Tensor | None) -> Tensor:
    """As a cache has it: whole numbers of a scale, one number or [1, H, 1, D]."""
    if scale is None:
        return x
    steps = ops.divide(ops.cast(x, "float32"), _of_heads(scale))
    return ops.cast(ops.clip(ops.round(steps), -128, 127), "int8")


def _floats(x: Tensor, scale: Tensor | None, like: Tensor) -> Tensor:
    if scale is None:
        return x
    return of_type(ops.multiply(ops.cast(x, "float32"), _of_heads(scale)), like.dtype)


def _of_heads(scale: Tensor) -> Tensor:
    return ops.reshape(scale, (1, 1, 1, 1)) if scale.ndim < 4 else scale


def _behind(past: Tensor, new: Tensor, before: Any) -> Tensor:
    """The new rows behind those of each sequence that are in the cache."""
    b, h, p, d = past.shape
    count = new.shape[2]

    def element(n: Any, head: Any, s: Any, e: Any) -> Expr:
        at = s - before(n)
        own = kept_within(at, count)
        # behind the last new row some row is written: lengths hide it. A cache may be empty
        old = te.if_then_else(p > 0, past(n, head, make.min_(s, make.sub(p, 1)), e), te.const(0, past.dtype))
        return te.if_then_else(at >= 0, new(n, head, own, e), old)

    return te.compute((b, h, make.add(p, count), d), element, name="present")  # type: ignore[return-value]
