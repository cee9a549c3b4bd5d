"""Operands of 16 bits whose products are summed in 32: which are made wider, and which multiplied in pairs.
Knows products."""

from __future__ import annotations

from ..analysis import Product
from ..schedule import Stage
from ..te import Tensor


def halves(inside: Stage, product: Product) -> bool:
    """Whether products of bfloat16 are summed in float32."""
    return all(t.dtype == "bfloat16" and widens(inside, t) for t in (product.left, product.right))


def widens(inside: Stage, tensor: Tensor) -> bool:
    """Whether an operand of 16-bit floats is summed in float32. A copy of it is of that type: converted once
    by whole vectors, and not at every use, where one element of the left operand takes three instructions in
    the place of a load."""
    return tensor.dtype.is_float and tensor.dtype.bits == 16 and inside.op.body[0].dtype.name == "float32"
