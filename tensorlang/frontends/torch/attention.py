"""ATen's attention. Knows ops."""

from __future__ import annotations

import math
from typing import Any

from ... import ops, te
from ...expr.nodes import const_int
from ...ops.attention_sums import log_sums
from ...te import Tensor
from ..words import constant_like, times
from .table import aten, graph_op, needs
from .types import as_type, widened

MOST_KEPT = 1 << 22  # bytes of scores


@aten("scaled_dot_product_attention")
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    dropout: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    needs(not dropout, "attention with dropout")
    if mask is not None and not mask.dtype.is_bool:
        # torch takes float32 masks beside halves
        mask = as_type(mask, q.dtype)
    return ops.scaled_dot_product_attention(q, k, v, mask, is_causal, scale, enable_gqa)


@graph_op("_scaled_dot_product_flash_attention_for_cpu")
def flash_attention(
    g: Any,
    q: Any,
    k: Any,
    v: Any,
    dropout: float = 0.0,
    is_causal: bool = False,
    mask: Any = None,
    scale: float | None = None,
) -> Any:
    """With the logarithms of the sums of exponentials, which the way back reads."""
    how = {"is_causal": is_causal, "scale": scale}
    if len(g.asked) == 2 and not dropout and mask is None and not is_causal and _few(q, k):
        seen = g(_scores, q, k, scale=scale)
        sums = g(_sums_of, seen)
        return (lambda: g(_weighted, seen, sums, v), lambda: sums)
    return (lambda: g(_attention, q, k, v, mask, dropout=dropout, **how), lambda: g(_sums, q, k, mask, **how))


def _few(q: Any, k: Any) -> bool:
    """Whether all scores are better kept than made twice, once for the sums. Measured (Emerald Rapids): 1 MB
    of them take 0.73 of the time, 3 MB 0.93, 16 MB 1.06."""
    sizes = [const_int(n) for n in (*q.shape, k.shape[-2])]
    *batch, rows, _, keys = (n or 0 for n in sizes)
    wide = q.dtype.is_float and q.dtype.bits >= 32
    return wide and None not in sizes and math.prod(batch) * rows * keys * q.dtype.bytes <= MOST_KEPT


def _scores(q: Tensor, k: Tensor, *, scale: float | None) -> Tensor:
    return scores(q, k, None, False, scale)


def _sums_of(s: Tensor) -> Tensor:
    return ops.logsumexp(s, -1)


def _weighted(s: Tensor, sums: Tensor, v: Tensor) -> Tensor:
    return ops.matmul(ops.exp(ops.subtract(s, ops.expand_dims(sums, (-1,)))), v)


def _attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, **how: Any) -> Tensor:
    return attention(q, k, v, mask, **how)


def _sums(q: Tensor, k: Tensor, mask: Tensor | None, *, is_causal: bool, scale: float | None) -> Tensor:
    return log_sums(q, k, mask, is_causal, scale)


def factor(q: Tensor, scale: float | None) -> float:
    """What scores are multiplied with."""
    n = const_int(q.shape[-1])
    needs(scale is not None or n is not None, "heads of open size")
    return scale if scale is not None else float(n or 1) ** -0.5


def scores(
    q: Tensor, k: Tensor, mask: Tensor | None, is_causal: bool, scale: float | None, by_key: bool = False
) -> Tensor:
    """What the softmax is of, a row for each query, or for each key; of 16 bits in float32."""
    rows, columns = (k, q) if by_key else (q, k)
    s = times(ops.matmul(widened(rows), widened(columns), False, True), factor(q, scale))
    if mask is not None and by_key:
        mask = _turned(mask)
    if mask is not None and mask.dtype.is_bool:
        s = ops.where(mask, s, constant_like(s, float("-inf")))
    elif mask is not None:
        s = ops.add(s, as_type(mask, s.dtype))
    if not is_causal:
        return s
    low = te.const(float("-inf"), s.dtype)
    query, key = (-1, -2) if by_key else (-2, -1)
    return te.compute(s.shape, lambda *i: te.select(i[key] <= i[query], s(*i), low), name="causal")


def _turned(mask: Tensor) -> Tensor:
    """With its last two dimensions changed."""
    if mask.ndim < 2:
        return ops.expand_dims(mask, (-1,))
    return ops.transpose(mask, (*range(mask.ndim - 2), mask.ndim - 1, mask.ndim - 2))
