"""Scaled dot product attention: 12 heads of 64, 128 to 1024 tokens, no mask."""

from __future__ import annotations

import math

import numpy as np

from ..harness.case import Argument, Array, Case

HEADS, WIDTH = 12, 64
TOKENS = (128, 256, 512, 1024)
QUICK = {128, 512}


def attend(q: Array, k: Array, v: Array) -> Array:
    """softmax(q kᵀ / sqrt(width)) v in float64."""
    q, k, v = (x.astype("float64") for x in (q, k, v))
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return scores / scores.sum(axis=-1, keepdims=True) @ v


def cases() -> list[Case]:
    found = []
    for tokens in TOKENS:
        shape = (1, HEADS, tokens, WIDTH)
        found.append(
            Case(
                "attention",
                f"{HEADS} heads, {tokens} tokens, {WIDTH}",
                "attention",
                tuple(Argument(x, shape) for x in "qkv"),
                Argument("out", shape),
                attend,
                flops=4.0 * HEADS * tokens * tokens * WIDTH,
                quick=tokens in QUICK,
            )
        )
    return found
