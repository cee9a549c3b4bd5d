"""ONNX's matrix products. Knows ops."""

from __future__ import annotations

from ... import ops
from ...te import Tensor
from .elementwise import constant_like
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
    y = ops.matmul(a, b, bool(transA), bool(transB))
    y = y if alpha == 1 else ops.multiply(y, constant_like(y, alpha))
    if c is None or beta == 0:
        return y
    return ops.add(y, c if beta == 1 else ops.multiply(c, constant_like(c, beta)))
