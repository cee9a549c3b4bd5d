"""ATen's attention. Knows ops."""

from __future__ import annotations

from typing import Any

from ... import ops, te
from ...expr.nodes import const_int
from ...ops.attention_sums import log_sums
from ...te import Tensor
from ..words import constant_like, times
from .table import aten, graph_op, needs
from .types import as_type, widened


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
    return (lambda: g(_attention, q, k, v, mask, dropout=dropout, **how), lambda: g(_sums, q, k, mask, **how))


def _attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, **how: Any) -> Tensor:
    return attention(q, k, v, mask, **how)


def _sums(q: Tensor, k: Tensor, mask: Tensor | None, *, is_causal: bool, scale: float | None) -> Tensor:
    return log_sums(q, k, mask, is_causal, scale)


def factor(q: Tensor, scale: float | None) -> float:
    """What scores are multiplied with."""
    n = const_int(q.shape[-1])
    needs(scale is not None or n is not None, "heads of open size")
    return scale if scale is not None else float(n or 1) ** -0.5


def scores(q: Tensor, k: Tensor, mask: Tensor | None, is_causal: bool, scale: float | None) -> Tensor:
    """What the softmax is of; of 16 bits in float32."""
    s = times(ops.matmul(widened(q), widened(k), False, True), factor(q, scale))
    if mask is not None and mask.dtype.is_bool:
        s = ops.where(mask, s, constant_like(s, float("-inf")))
    elif mask is not None:
        s = ops.add(s, as_type(mask, s.dtype))
    if not is_causal:
        return s
    low = te.const(float("-inf"), s.dtype)
    return te.compute(s.shape, lambda *i: te.select(i[-1] <= i[-2], s(*i), low), name="causal")
