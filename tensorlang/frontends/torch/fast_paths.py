"""Operators that ``torch.nn`` puts in place of a layer of a transformer in eval mode, taken apart again: what
a layer computes is in regions like what is written out. Knows torch; no graphs.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

KEYS = 1  # what a mask hides: keys of each sequence; else pairs of places


def _hidden(mask: Any, kind: int | None, like: torch.Tensor) -> Any:
    """What is added to scores, of a mask that says what is hidden."""
    if mask is None:
        return None
    if mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=like.dtype).masked_fill(mask, float("-inf"))
    return mask[:, None, None, :] if kind == KEYS else mask


def _attention(x: Any, heads: int, qkv: Any, qkv_bias: Any, out: Any, out_bias: Any, mask: Any) -> Any:
    n, length, width = x.shape
    parts = functional.linear(x, qkv, qkv_bias).view(n, length, 3, heads, width // heads)
    q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
    made = functional.scaled_dot_product_attention(q, k, v, mask)
    return functional.linear(made.transpose(1, 2).reshape(n, length, width), out, out_bias)


def encoder_layer(
    x: Any,
    width: int,
    heads: int,
    qkv: Any,
    qkv_bias: Any,
    out: Any,
    out_bias: Any,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    *weights: Any,
    mask: Any = None,
    mask_type: int | None = None,
) -> Any:
    """``torch.nn.TransformerEncoderLayer``."""
    (w1, b1, w2, b2, up, up_bias, down, down_bias), given = weights[:8], weights[8:]
    if x.is_nested or width != x.shape[-1]:
        return NotImplemented
    hidden = _hidden(given[0] if given else mask, given[1] if len(given) > 1 else mask_type, x)

    def attended(t: Any) -> Any:
        return _attention(t, heads, qkv, qkv_bias, out, out_bias, hidden)

    def forward(t: Any) -> Any:
        made = functional.linear(t, up, up_bias)
        made = functional.gelu(made) if use_gelu else functional.relu(made)
        return functional.linear(made, down, down_bias)

    def first(t: Any) -> Any:
        return functional.layer_norm(t, (width,), w1, b1, eps)

    def second(t: Any) -> Any:
        return functional.layer_norm(t, (width,), w2, b2, eps)

    if norm_first:
        x = x + attended(first(x))
        return x + forward(second(x))
    x = first(x + attended(x))
    return second(x + forward(x))


DECOMPOSITIONS = {torch.ops.aten._transformer_encoder_layer_fwd.default: encoder_layer}
