"""Reductions over dimensions and running totals, in TVM's dtypes: sums keep that of the data, indices are
int32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import ops
from ..errors import DeclareError
from ..ops import all, any, max, min
from ..te import Tensor

__all__ = ["all", "any", "argmax", "argmin", "cumprod", "cumsum", "max", "min", "prod", "sum"]

Axis = int | Sequence[int] | None


def _own(data: Any) -> Any:
    return getattr(data, "dtype", None)


def sum(data: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The sum over ``axis``, in the dtype of ``data``. Raises DeclareError as ``ops.sum`` does."""
    return ops.sum(data, axis, _own(data), keepdims)


def prod(data: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The product over ``axis``, in the dtype of ``data``. Raises DeclareError as ``ops.prod`` does."""
    return ops.prod(data, axis, _own(data), keepdims)


def argmax(
    data: Tensor, axis: int | None = None, keepdims: bool = False, select_last_index: bool = False
) -> Tensor:
    """The index of the largest element, the first of equals: int32. Raises DeclareError for
    ``select_last_index``."""
    _first("argmax", select_last_index)
    return ops.cast(ops.argmax(data, axis, keepdims), "int32")


def argmin(
    data: Tensor, axis: int | None = None, keepdims: bool = False, select_last_index: bool = False
) -> Tensor:
    """The index of the smallest element, the first of equals: int32. Raises DeclareError for
    ``select_last_index``."""
    _first("argmin", select_last_index)
    return ops.cast(ops.argmin(data, axis, keepdims), "int32")


def _first(op: str, last: bool) -> None:
    if last:
        raise DeclareError(
            f"topi.{op}: select_last_index=True",
            because="of equals the first is found",
            try_=f"topi.{op} of topi.flip(data, axis)",
        )


def cumsum(data: Tensor, axis: int | None = None, dtype: Any = None, exclusive: bool | None = None) -> Tensor:
    """The running sum along ``axis``, or of the flattened tensor, in the dtype of ``data``. Raises
    DeclareError for ``exclusive``."""
    _inclusive("cumsum", exclusive)
    return ops.cumsum(data, axis, _own(data) if dtype is None else dtype)


def cumprod(
    data: Tensor, axis: int | None = None, dtype: Any = None, exclusive: bool | None = None
) -> Tensor:
    """The running product along ``axis``, or of the flattened tensor, in the dtype of ``data``. Raises
    DeclareError for ``exclusive``."""
    _inclusive("cumprod", exclusive)
    return ops.cumprod(data, axis, _own(data) if dtype is None else dtype)


def _inclusive(op: str, exclusive: bool | None) -> None:
    if exclusive:
        raise DeclareError(
            f"topi.{op}: exclusive=True",
            because="each total includes its own element",
            try_=f"topi.{op}(data) / data, or a te.scan",
        )
