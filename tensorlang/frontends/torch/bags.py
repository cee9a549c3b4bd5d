"""ATen's bags of embeddings: sums, means and maxima of rows of a table. Knows ops."""

from __future__ import annotations

from typing import Any

from ... import ops, te
from ...core.dtype import INT64
from ...te import Tensor
from ..words import constant_like
from .table import graph_op, needs
from .types import as_type, rounded_once

SUM, MEAN, MAX = range(3)


@graph_op("_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(
    g: Any,
    weight: Any,
    indices: Any,
    offsets: Any,
    by_count: bool = False,
    mode: int = SUM,
    sparse: bool = False,
    each: Any = None,
    ends: bool = False,
    padding: int = -1,
) -> Any:
    """``offsets`` say where bags begin in the list of ``indices``. What the way back reads is torch's: its
    forms depend on how torch computes the bags."""
    needs(indices.ndim == 1, "bags without offsets")
    optional = () if each is None else (each,)

    def rows() -> Any:
        how = {"mode": mode, "ends": ends, "padding": padding}
        return g(_bags, weight, indices, offsets, *optional, **how)

    def theirs() -> Any:
        needs(False, "gradients of bags")

    return rows, theirs, theirs, theirs


def _bags(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    each: Tensor | None = None,
    *,
    mode: int,
    ends: bool,
    padding: int,
) -> Tensor:
    n, width = indices.shape[0], weight.shape[1]
    count = offsets.shape[0] - 1 if ends else offsets.shape[0]
    # of several bags that begin at one place all but the last are empty
    begins = te.scatter(
        0, offsets.shape, lambda i: te.cast(INT64, offsets(i)), lambda i: 1, shape=(n,), dtype="int64"
    )
    bag = ops.subtract(ops.cumsum(begins, 0, INT64), constant_like(begins, 1))
    none = te.const(-1, INT64)

    def place(i: Any) -> Any:
        if padding < 0:
            return bag(i)
        return te.select(te.cast(INT64, indices(i)) == te.const(padding, INT64), none, bag(i))

    return rounded_once(_pooled)(ops.take(weight, indices, 0, "index"), each, place, count, width, mode)


def _pooled(rows: Tensor, each: Tensor | None, place: Any, count: Any, width: Any, mode: int) -> Tensor:
    kind = rows.dtype

    def value(i: Any, j: Any) -> Any:
        return rows(i, j) if each is None else rows(i, j) * each(i)

    made = te.scatter(
        float("-inf") if mode == MAX else 0,
        rows.shape,
        lambda i, j: (place(i), j),
        value,
        combine="max" if mode == MAX else "add",
        shape=(count, width),
        dtype=kind,
    )
    if mode == SUM:
        return made
    found = te.scatter(0, rows.shape[:1], place, lambda i: 1, shape=(count,), dtype="int64")
    sizes = te.compute((count, width), lambda b, j: found(b), name="sizes")
    if mode == MAX:
        return ops.where(ops.greater(sizes, constant_like(sizes, 0)), made, constant_like(made, 0))
    return ops.divide(made, as_type(ops.maximum(sizes, constant_like(sizes, 1)), kind))
