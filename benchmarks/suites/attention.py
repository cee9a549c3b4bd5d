"""Scaled dot product attention: 12 heads of 64, 128 to 1024 tokens, no mask."""

from __future__ import annotations

import math

import numpy as np

from ..harness.case import Argument, Array, Case

HEADS, WIDTH = 12, 64
TOKENS = (128, 256, 512, 1024)
QUICK = {128, 512}


def attend(q: Array, k: Array, v: Array) -> Array:
    """softmax(q kᵀ / sqrt(width)) v in float64; a head of k and v serves as many heads of q as there are to
    each."""
    q, k, v = (x.astype("float64") for x in (q, k, v))
    k, v = (np.repeat(x, q.shape[1] // k.shape[1], axis=1) for x in (k, v))
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return scores / scores.sum(axis=-1, keepdims=True) @ v


def attention_case(
    suite: str, heads: int, queries: int, keys: int, width: int, *, shared: int = 1, quick: bool
) -> Case:
    """``shared`` heads of queries read one head of keys and values."""
    q, kv = (1, heads, queries, width), (1, heads // shared, keys, width)
    tokens = f"{keys} tokens" if queries == keys else f"{queries} of {keys} tokens"
    return Case(
        suite,
        f"{heads}{f'/{heads // shared}' if shared > 1 else ''} heads, {tokens}, {width}",
        "attention" if shared == 1 else "attention_shared",
        (Argument("q", q), Argument("k", kv), Argument("v", kv)),
        Argument("out", q),
        attend,
        flops=4.0 * heads * queries * keys * width,
        quick=quick,
    )


def cases() -> list[Case]:
    return [attention_case("attention", HEADS, n, n, WIDTH, quick=n in QUICK) for n in TOKENS]
