"""ATen's inverses and determinants of matrices. Knows ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import ops
from ...te import Tensor
from .table import aten, graph_op, needs


@aten("linalg_inv", "inverse")
def inverse(x: Tensor) -> Tensor:
    """Of a matrix that has none what is no number, where torch raises an error."""
    return ops.inverse(x)


@aten("linalg_det", "det")
def determinant(x: Tensor) -> Tensor:
    return ops.determinant(x)


@graph_op("linalg_inv_ex")
def inverse_and_state(g: Any, x: Any, check: bool = False) -> Sequence[Any]:
    def state() -> Any:
        needs(False, "whether a matrix has an inverse")

    return lambda: g(ops.inverse, x), state


@graph_op("_linalg_det")
def determinant_and_parts(g: Any, x: Any) -> Sequence[Any]:
    def parts() -> Any:
        needs(False, "the two triangles of a matrix")

    return lambda: g(ops.determinant, x), parts, parts
