"""ATen's inverses, determinants, triangles and equations of matrices. Knows ops.

Where torch raises an error, for a matrix of which there is no such thing, there is what is no number."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ... import ops, te
from ...expr.make import as_expr
from ...expr.nodes import const_int
from ...te import Tensor
from .table import aten, graph_op, needs
from .types import promoted


@aten("linalg_inv", "inverse")
def inverse(x: Tensor) -> Tensor:
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


@graph_op("_linalg_slogdet")
def sign_and_logarithm(g: Any, x: Any) -> Sequence[Any]:
    def parts() -> Any:
        needs(False, "the two triangles of a matrix")

    both = functools.cache(lambda: g(ops.slogdet, x))
    return lambda: both()[0], lambda: both()[1], parts, parts


@aten("cholesky", "linalg_cholesky")
def cholesky(x: Tensor, upper: bool = False) -> Tensor:
    made = ops.cholesky(_turned(x) if upper else x)
    return _turned(made) if upper else made


@graph_op("linalg_cholesky_ex")
def cholesky_and_state(g: Any, x: Any, upper: bool = False, check: bool = False) -> Sequence[Any]:
    def state() -> Any:
        needs(False, "whether a matrix has a triangle")

    return lambda: g(cholesky, x, upper=upper), state


def _turned(x: Tensor) -> Tensor:
    return ops.swapaxes(x, -1, -2)


def _alike(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Matrices and right sides, as many of each."""
    batch = (
        te.whole.broadcast_shape("solve", [ops.sum(t, (-2, -1)) for t in (a, b)])
        if a.ndim + b.ndim > 4
        else ()
    )
    a, b = promoted(a, b)
    return ops.broadcast_to(a, (*batch, *a.shape[-2:])), ops.broadcast_to(b, (*batch, *b.shape[-2:]))


@aten("linalg_solve_triangular")
def solve_triangular(a: Tensor, b: Tensor, upper: bool, left: bool = True, unit: bool = False) -> Tensor:
    if not left:
        return _turned(solve_triangular(_turned(a), _turned(b), not upper, True, unit))
    return ops.solve_triangular(*_alike(a, b), upper, unit)


@aten("triangular_solve")
def triangular_solve(
    b: Tensor, a: Tensor, upper: bool = True, transpose: bool = False, unit: bool = False
) -> Any:
    a, b = _alike(a, b)
    if transpose:
        return ops.solve_triangular(_turned(a), b, not upper, unit), a
    return ops.solve_triangular(a, b, upper, unit), a


@aten("cholesky_solve")
def cholesky_solve(b: Tensor, triangle: Tensor, upper: bool = False) -> Tensor:
    lower, b = _alike(_turned(triangle) if upper else triangle, b)
    return ops.solve_triangular(_turned(lower), ops.solve_triangular(lower, b), True)


@aten("cholesky_inverse")
def cholesky_inverse(triangle: Tensor, upper: bool = False) -> Tensor:
    n = triangle.shape[-1]
    unit = te.compute((n, n), lambda i, j: te.cast(triangle.dtype, i.equal(j)), name="unit")
    return cholesky_solve(ops.broadcast_to(unit, triangle.shape), triangle, upper)


@aten("linalg_solve")
def solved(a: Tensor, b: Tensor, left: bool = True) -> Tensor:
    """Torch takes vectors for right sides where their shape is that of the matrices without a dimension."""
    if not left:
        return _turned(solved(_turned(a), _turned(b), True))
    if b.ndim == 1 or (b.ndim == a.ndim - 1 and _same(b.shape, a.shape[:-1])):
        return ops.squeeze(ops.solve(*_alike(a, ops.expand_dims(b, (-1,)))), (-1,))
    return ops.solve(*_alike(a, b))


def _same(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return all(const_int(as_expr(x) - as_expr(y)) == 0 for x, y in zip(a, b, strict=True))


@graph_op("_linalg_solve_ex", "linalg_solve_ex")
def solved_and_parts(g: Any, a: Any, b: Any, left: bool = True, check: bool = False) -> Sequence[Any]:
    def parts() -> Any:
        needs(False, "the two triangles of a matrix, and whether there are any")

    return lambda: g(solved, a, b, left=left), parts, parts, parts
