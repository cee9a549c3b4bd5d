"""ATen's matrix products. Knows ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import ops
from ...te import Tensor
from ..words import times
from .elementwise import mul
from .table import aten
from .types import as_type, rounded_once

aten("mm", "bmm", "matmul", "mv", "dot")(ops.matmul)


@aten("linear")
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Of 16-bit floats the bias is added before the sum is rounded."""
    wide = "float32" if bias is not None and x.dtype.is_float and x.dtype.bits == 16 else None
    if x.ndim == 1:
        y = ops.squeeze(ops.matmul(ops.expand_dims(x, (0,)), weight, False, True, wide), (0,))
    else:
        y = ops.matmul(x, weight, False, weight.ndim == 2, wide)
    return y if bias is None else as_type(ops.add(y, as_type(bias, y.dtype)), x.dtype)


@aten("addmm", "baddbmm", "addmv")
@rounded_once
def addmm(x: Tensor, a: Tensor, b: Tensor, beta: Any = 1, alpha: Any = 1) -> Tensor:
    y = times(ops.matmul(a, b), alpha)
    # torch does not read x for a beta of 0: NaN in it stays out
    return y if beta == 0 else ops.add(y, times(x, beta))


@aten("einsum")
def einsum(equation: str, tensors: Sequence[Tensor], path: Any = None) -> Tensor:
    return ops.einsum(equation, *tensors)


@aten("outer")
def outer(a: Tensor, b: Tensor) -> Tensor:
    return mul(ops.expand_dims(a, (1,)), ops.expand_dims(b, (0,)))
