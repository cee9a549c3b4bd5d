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
from .attention import Mask, attended, heads, joined, rotated
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
    *,
    num_heads: int,
    kv_num_heads: int,
    scale: float = 0.0,
    softcap: float = 0.0,
    do_rotary: int = 0,
    rotary_interleaved: int = 0,
    local_window_size: int = -1,
    smooth_softmax: int = 0,
    results: int = 1,
) -> Any:
    """``last`` [B] is one less than the keys of each sequence, the cache included; queries are the last of
    them. Without ``key`` and ``value`` all three stand together in ``query``."""
    if smooth_softmax:
        raise DeclareError("GroupQueryAttention: smooth_softmax is not supported")
    if key is None or value is None:
        each = (const_int(query.shape[2]) or 0) // (num_heads + 2 * kv_num_heads)
        ends = [each * num_heads, each * (num_heads + kv_num_heads)]
        query, key, value = ops.split(query, ends, 2)
    q, k, v = heads(query, num_heads), heads(key, kv_num_heads), heads(value, kv_num_heads)
    new = q.shape[2]

    def before(b: Any) -> Expr:
        """The keys of a sequence that are in the cache."""
        assert last is not None
        count = te.cast("int32", last(b) if last.ndim == 1 else last(b, 0)) + 1
        return make.max_(make.sub(count, new), make.as_expr(0))

    if do_rotary and cos is not None and sin is not None:
        turned = 2 * (const_int(cos.shape[1]) or 0)  # elements of a head
        q, k = (rotated(x, cos, sin, positions, 0, bool(rotary_interleaved), turned, before) for x in (q, k))
    if past_key is not None and past_value is not None:
        k, v = _behind(past_key, k, before), _behind(past_value, v, before)
    lengths = te.compute((q.shape[0],), lambda b: before(b) + new, name="lengths")
    mask = Mask(added, True, left=local_window_size - 1 if local_window_size > 0 else -1, lengths=lengths)
    y = joined(attended(q, k, v, mask, scale or None, softcap)[0])
    return (y, k, v)[:results] if results > 1 else y


def _behind(past: Tensor, new: Tensor, before: Any) -> Tensor:
    """The new rows behind those of each sequence that are in the cache."""
    b, h, p, d = past.shape
    count = new.shape[2]

    def element(n: Any, head: Any, s: Any, e: Any) -> Expr:
        at = s - before(n)
        own = kept_within(at, count)
        return te.if_then_else(at >= 0, new(n, head, own, e), past(n, head, make.min_(s, make.sub(p, 1)), e))

    return te.compute((b, h, make.add(p, count), d), element, name="present")  # type: ignore[return-value]
