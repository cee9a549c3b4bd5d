"""ONNX's matrix products. Knows ops."""

from __future__ import annotations

from ... import ops
from ...te import Tensor
from ..words import times
from .table import plain, te_op

plain(ops.matmul, "MatMul")


@te_op("Gemm")
def gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    broadcast: int = 1,
) -> Tensor:
    y = times(ops.matmul(a, b, bool(transA), bool(transB)), alpha)
    return y if c is None or beta == 0 else ops.add(y, times(c, beta))
