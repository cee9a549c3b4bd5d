"""ONNX's attention and what goes with it: rotary embedding, caches of keys and values. Knows ops."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ... import ops, te
from ...errors import DeclareError
from ...expr import make
from ...expr.nodes import Expr, const_int
from ...ops.attention_rules import Sight, masked, rotate_pairs
from ...ops.places import kept_within
from ...te import Tensor
from ..words import constant_like, of_type
from .proto import dtype_name
from .table import te_op


def of_one(
    query: Tensor, key: Tensor | None, value: Tensor | None, num_heads: int, kv_num_heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values by heads. Without ``key`` and ``value`` all three stand in ``query``, behind
    each other."""
    if key is None or value is None:
        # keys and values have the same number of heads, which may be fewer than the queries'
        each = (const_int(query.shape[2]) or 0) // (num_heads + 2 * kv_num_heads)
        ends = [each * num_heads, each * (num_heads + kv_num_heads)]
        query, key, value = ops.split(query, ends, 2)
    return heads(query, num_heads), heads(key, kv_num_heads), heads(value, kv_num_heads)


def heads(x: Tensor, number: int) -> Tensor:
    """[B, S, H D] as [B, H, S, D]."""
    return ops.transpose(ops.reshape(x, (*x.shape[:2], number, _each(x, number))), (0, 2, 1, 3))


def _each(x: Tensor, number: int) -> int:
    hidden = const_int(x.shape[-1])
    if hidden is None or not number or hidden % number:
        raise DeclareError(f"{number} heads of {x.shape[-1]} elements", because="each has as many")
    return hidden // number


def joined(x: Tensor) -> Tensor:
    """[B, H, S, D] as [B, S, H D]."""
    b, h, s, d = x.shape
    return ops.reshape(ops.transpose(x, (0, 2, 1, 3)), (b, s, make.mul(h, d)))


def as_many_heads(x: Tensor, q: Tensor) -> Tensor:
    """Each head of keys or values for a group of heads of queries."""
    have, wanted = const_int(x.shape[1]), const_int(q.shape[1])
    # what does not divide is refused by the product that follows, which can name both tensors
    if have is None or wanted is None or have == wanted or wanted % have:
        return x
    return ops.repeat(x, wanted // have, 1)


def after(
    past_key: Tensor | None, past_value: Tensor | None, k: Tensor, v: Tensor
) -> tuple[Tensor, Tensor, Any]:
    """Keys and values behind those of a cache, and how many it has."""
    if past_key is None or past_value is None:
        return k, v, 0
    # a cache that grows: its size is the place of the first query
    return ops.concatenate([past_key, k], 2), ops.concatenate([past_value, v], 2), past_key.shape[2]


@dataclass
class Mask:
    """Which keys a query sees: ``mask`` (bools, or floats to add; the end may be missing), ``causal`` and
    windows around the place of the query, which is ``offset`` (a number, or one for each image) behind its
    index; ``lengths`` of keys that are there."""

    mask: Tensor | None = None
    causal: bool = False
    left: int = -1
    right: int = -1
    past: Any = 0
    lengths: Tensor | None = None
    unseen: float = -math.inf

    @property
    def plain(self) -> bool:
        return not (self.causal or self.lengths is not None or self.left >= 0 or self.right >= 0)

    def added(self, scores: Tensor) -> Tensor:
        """The scores [B, H, L, S] with what is not seen at -inf."""
        queries, keys = scores.shape[2:]
        sight = Sight(queries, self.past, self.lengths, self.causal, self.left, self.right)

        def element(*i: Any) -> Expr:
            seen = sight.of(i)
            value: Expr = scores(*i)
            if self.mask is not None:
                value = masked(value, self.mask, i, keys, seen)
            if not seen:
                return value
            return te.if_then_else(te.all(*seen), value, te.const(self.unseen, scores.dtype))

        return te.compute(scores.shape, element, name="attention.masked")  # type: ignore[return-value]


def shares(scores: Tensor, sink: Tensor | None = None) -> Tensor:
    """The softmax over the last dimension; a row of -inf gives zeros. ``sink`` [H] is a score more in each
    row, of nothing."""
    most = ops.max(scores, -1, True)
    if sink is not None:
        sink = of_type(ops.reshape(sink, (1, sink.shape[0], 1, 1)), scores.dtype)
        # the sink takes part in the maximum too, or its exponential could overflow
        most = ops.maximum(most, sink)
    low = -math.inf

    def exponential(*i: Any) -> Expr:
        top = most(*i[:-1], 0)
        return te.if_then_else(
            make.eq(top, te.const(low, scores.dtype)), te.const(0, scores.dtype), te.exp(scores(*i) - top)
        )

    powers: Any = te.compute(scores.shape, exponential, name="attention.exp")
    total = ops.sum(powers, -1, None, True)
    if sink is not None:
        total = ops.add(total, ops.exp(ops.subtract(sink, most)))
    # a row that sees nothing: 0 / 0 would be NaN, and ONNX wants zeros
    nothing, one = constant_like(total, 0), constant_like(total, 1)
    return ops.divide(powers, ops.where(ops.equal(total, nothing), one, total))


def attended(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Mask,
    scale: float | None = None,
    softcap: float = 0.0,
    precision: str | None = None,
    stage: int | None = None,
    sink: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    """[B, H, L, D], and the scores at a stage of their making if that is asked for: 0 products, 1 capped, 2
    masked, 3 shares."""
    k, v = as_many_heads(k, q), as_many_heads(v, q)
    if stage is None and not softcap and precision is None and sink is None:
        short = mask.mask is not None and te.whole.equal(mask.mask.shape[-1], k.shape[2]) is not True
        # the fused kernel, which keeps no scores; whatever asks for more is written out below
        if mask.plain and not short:
            return ops.scaled_dot_product_attention(q, k, v, mask.mask, False, scale), None
        if mask.mask is None and mask.lengths is None and mask.left < 0 and mask.right < 0:
            # with a cache the first query sees more than itself: ``is_causal`` of the plain one has no such
            # offset
            if const_int(make.as_expr(mask.past)) == 0:
                return ops.scaled_dot_product_attention(q, k, v, None, True, scale), None
    factor = 1 / math.sqrt(float(const_int(q.shape[3]) or 1)) if scale is None else scale
    # sums of products of halves overflow at 65504
    inside = "float32" if q.dtype.bits == 16 else str(q.dtype)
    product = ops.matmul(q, k, False, True, inside)
    product = ops.multiply(product, constant_like(product, factor))
    capped = product
    if softcap:
        cap = constant_like(product, softcap)
        capped = ops.multiply(ops.tanh(ops.divide(product, cap)), cap)
    masked = mask.added(capped)
    part = shares(masked if precision is None else ops.cast(masked, precision), sink)
    # ONNX rounds the shares before the second product
    part = of_type(part, q.dtype)
    shown = None if stage is None else of_type((product, capped, masked, part)[stage], q.dtype)
    return ops.matmul(part, v), shown


@te_op("Attention")
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    lengths: Tensor | None = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int = 0,
    q_num_heads: int = 0,
    qk_matmul_output_mode: int = 0,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
    left_window_size: int = -1,
    right_window_size: int = -1,
    results: int = 1,
) -> Any:
    flat = q.ndim == 3
    if flat:
        q, k, v = heads(q, q_num_heads), heads(k, kv_num_heads), heads(v, kv_num_heads)
    k, v, past = after(past_key, past_value, k, v)
    seen = Mask(mask, bool(is_causal), left_window_size, right_window_size, past, lengths)
    precision = None if softmax_precision is None else dtype_name(softmax_precision)
    # the mode has a meaning only for a node that has the fourth output
    stage = qk_matmul_output_mode if results > 3 else None
    y, shown = attended(q, k, v, seen, scale, softcap, precision, stage)
    y = joined(y) if flat else y
    return (y, k, v, shown)[:results] if results > 1 else y


def rotated(
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    positions: Tensor | None,
    number: int,
    interleaved: bool,
    part: int = 0,
    start: Any = None,
) -> Tensor:
    """Pairs of elements of each head turned by the angle of their position. x is [B, H, S, D], or [B, S, H D]
    of ``number`` heads; the angles' cosines and sines are [positions, D / 2], or [B, S, D / 2] without
    ``positions`` [B, S]. ``part`` elements of a head are turned, all for 0; ``start`` is added to the index
    of a token where positions are those."""
    size = make.as_expr(_each(x, number)) if x.ndim == 3 else x.shape[3]

    def place(b: Any, s: Any) -> tuple[Any, ...]:
        if positions is None and start is None:
            return b, s
        at = te.cast("int32", positions(b, s)) if positions is not None else start(b) + s
        return (kept_within(at, cos.shape[0]),)

    def angle(b: Any, s: Any, k: Expr) -> tuple[Expr, Expr]:
        row = place(b, s)
        return cos(*row, k), sin(*row, k)

    return rotate_pairs(x, size, make.as_expr(part) if part else size, interleaved, angle)


@te_op("RotaryEmbedding")
def rotary_embedding(
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    positions: Tensor | None = None,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> Tensor:
    return rotated(x, cos, sin, positions, num_heads, bool(interleaved), rotary_embedding_dim)
