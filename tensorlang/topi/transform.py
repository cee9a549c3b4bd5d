"""Changes of shape, slices, joins, look-ups, and tensors made of nothing: ``ops`` with TVM's order of
arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import ops
from ..core.dtype import DType
from ..errors import DeclareError
from ..ops import (
    concatenate,
    einsum,
    matmul,
    repeat,
    split,
    squeeze,
    stack,
    strided_slice,
    tile,
    transpose,
    where,
)
from ..te import Tensor

__all__ = [
    "arange",
    "concatenate",
    "einsum",
    "expand_dims",
    "flip",
    "full",
    "full_like",
    "gather",
    "matmul",
    "one_hot",
    "repeat",
    "reshape",
    "split",
    "squeeze",
    "stack",
    "strided_slice",
    "take",
    "tile",
    "transpose",
    "where",
]


def expand_dims(a: Tensor, axis: int, num_newaxis: int = 1) -> Tensor:
    """``num_newaxis`` dimensions of 1 before dimension ``axis``. Raises DeclareError as ``ops.expand_dims``
    does."""
    for _ in range(num_newaxis):
        a = ops.expand_dims(a, axis)
    return a


def flip(a: Tensor, axis: int = 0) -> Tensor:
    """The elements in reverse order along ``axis``. Raises DeclareError as ``ops.flip`` does."""
    return ops.flip(a, axis)


def reshape(a: Tensor, newshape: Sequence[Any]) -> Tensor:
    """The same elements in another shape; one size may be -1. Raises DeclareError as ``ops.reshape`` does."""
    return ops.reshape(a, newshape)


def take(
    a: Tensor, indices: Tensor, axis: int | None = None, batch_dims: int = 0, mode: str = "clip"
) -> Tensor:
    """The elements of ``a`` along ``axis`` at ``indices``; ``mode`` is ``clip`` or ``wrap``. Raises
    DeclareError for ``batch_dims``."""
    if batch_dims:
        raise DeclareError(
            f"topi.take: batch_dims={batch_dims}",
            because="indices are the same for every batch",
            try_="topi.gather(a, axis, indices) for indices of each batch",
        )
    return ops.take(a, indices, axis, mode)


def gather(data: Tensor, axis: int, indices: Tensor) -> Tensor:
    """``data[…, indices[…], …]`` with the index at dimension ``axis``."""
    return ops.gather(data, axis, indices)


def one_hot(
    indices: Tensor, on_value: Any, off_value: Any, depth: Any, axis: int, dtype: str | DType
) -> Tensor:
    """``on_value`` at each index of a new dimension of ``depth``, elsewhere ``off_value``."""
    return ops.one_hot(indices, depth, on_value, off_value, axis, dtype)


def full(shape: Sequence[Any], dtype: str | DType, fill_value: Any) -> Tensor:
    """A tensor of one value. Raises DeclareError as ``ops.full`` does."""
    return ops.full(shape, fill_value, dtype)


def full_like(x: Tensor, fill_value: Any) -> Tensor:
    """A tensor of one value, in the shape and dtype of ``x``. Raises DeclareError as ``ops.full`` does."""
    return ops.full(x.shape, fill_value, x.dtype)


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: str | DType = "float32") -> Tensor:
    """Numbers from ``start`` to ``stop`` (exclusive) by ``step``. Raises DeclareError as ``ops.arange``."""
    return ops.arange(start, stop, step, dtype)
