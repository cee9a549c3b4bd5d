"""ATen's operators that read and write at places that are data. Knows ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import ops, te
from ...core.dtype import INT64
from ...ops.places import kept_within
from ...ops.take import counted
from ...te import Tensor
from .elementwise import mul
from .table import aten, needs
from .types import as_type, rounded_once


@aten("embedding")
def embedding(weight: Tensor, indices: Tensor, *_: Any) -> Tensor:
    return ops.take(weight, indices, 0, "index")


@aten("index_select")
def index_select(x: Tensor, dim: int, indices: Tensor) -> Tensor:
    if not x.ndim:
        return x
    # torch takes one index without dimensions for a list of one
    return ops.take(x, indices if indices.ndim else ops.reshape(indices, (1,)), dim, "index")


@aten("gather")
def gather(x: Tensor, dim: int, indices: Tensor, *_: Any) -> Tensor:
    """Along the other dimensions the indices may be fewer."""
    if not x.ndim:
        return ops.broadcast_to(x, indices.shape)
    if not indices.ndim:
        return ops.reshape(gather(x, dim, ops.reshape(indices, (1,))), ())
    dim = dim % x.ndim
    n = te.cast(INT64, x.shape[dim])

    def element(*i: Any) -> Any:
        return x(*i[:dim], kept_within(indices(*i), n), *i[dim + 1 :])

    return te.compute(indices.shape, element, name="gather")


def whole_indices(indices: Sequence[Tensor | None]) -> bool:
    """Masks name as many elements as are true, which only a call shows."""
    return all(i is None or i.dtype.is_int for i in indices)


@aten("index.Tensor", "_unsafe_index.Tensor")
def index(x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """As numpy's: the indices broadcast; their dimensions come first, or where they stand side by side."""
    needs(whole_indices(indices), "masks as indices")
    indices = [*indices, *[None] * (x.ndim - len(indices))]
    places = [d for d, i in enumerate(indices) if i is not None]
    given = [i for i in indices if i is not None]
    shape = te.whole.broadcast_shape("index", given)
    # numpy's rule: indices with a slice between them put their dimensions in front
    together = places == list(range(places[0], places[-1] + 1))
    first = places[0] if together else 0
    rest = [n for d, n in enumerate(x.shape) if d not in places]
    before = rest[:first] if together else []
    rank = len(shape)

    def element(*i: Any) -> Any:
        own, others = i[first : first + rank], iter((*i[:first], *i[first + rank :]))
        at = []
        for d, t in enumerate(indices):
            at.append(next(others) if t is None else _place(te.whole.read(t, own), x.shape[d]))
        return x(*at)

    return te.compute([*before, *shape, *rest[len(before) :]], element, name="index")


def _place(i: Any, n: Any) -> Any:
    """An index that counts from the end when it is negative, kept within."""
    return kept_within(_counted(i, n), te.cast(INT64, n))


@aten("index_put", "_unsafe_index_put")
def index_put(
    x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False, *_: Any
) -> Tensor:
    if len(indices) == 1 and indices[0] is not None and indices[0].dtype.is_bool:
        # one number for all places is a `where`; several would have to be counted through the mask
        needs(not accumulate and values.ndim == 0, "values for a mask")
        mask = indices[0]
        mask = ops.reshape(mask, (*mask.shape, *[1] * (x.ndim - mask.ndim)))
        return ops.where(mask, values, x)
    needs(whole_indices(indices) and all(i is not None for i in indices), "masks and slices as indices")
    given = [i for i in indices if i is not None]
    shape = te.whole.broadcast_shape("index_put", given)
    inner = x.shape[len(given) :]
    wanted: list[Any] = [*shape, *inner]
    values = as_type(values, x.dtype)

    def where(*i: Any) -> Any:
        own = i[: len(shape)]
        return (
            *(_counted(te.whole.read(t, own), n) for t, n in zip(given, x.shape, strict=False)),
            *i[len(shape) :],
        )

    return te.scatter(
        x,
        wanted,
        where,
        lambda *i: te.whole.read(values, i[len(wanted) - values.ndim :]),
        combine="add" if accumulate else "set",
    )


def _counted(i: Any, n: Any) -> Any:
    return counted(te.cast(INT64, i), te.cast(INT64, n))


@aten("scatter.src", "scatter.value")
def scatter(x: Tensor, dim: int, indices: Tensor, values: Any) -> Tensor:
    return _scattered(x, dim, indices, values, "none")


@aten("scatter_add")
@rounded_once
def scatter_add(x: Tensor, dim: int, indices: Tensor, values: Tensor) -> Tensor:
    return _scattered(x, dim, indices, values, "add")


def _scattered(x: Tensor, dim: int, indices: Tensor, values: Any, how: str) -> Tensor:
    if not isinstance(values, Tensor):
        number = as_type(values, x.dtype)
        values = te.compute(indices.shape, lambda *i: number(), name="values")
    else:
        whole = values
        values = te.compute(indices.shape, lambda *i: whole(*i), name="values")
    return ops.scatter_elements(x, indices, values, dim, how)


@aten("index_add")
def index_add(x: Tensor, dim: int, indices: Tensor, values: Tensor, alpha: Any = 1) -> Tensor:
    """Torch sums slices of 16-bit floats in float32, and single numbers as they are."""
    values = values if alpha == 1 else mul(values, as_type(alpha, x.dtype))
    return (rounded_once(_by_slices) if x.ndim > 1 else _by_slices)(x, dim, indices, values, "add")


@aten("index_copy")
def index_copy(x: Tensor, dim: int, indices: Tensor, values: Tensor) -> Tensor:
    return _by_slices(x, dim, indices, values, "set")


def _by_slices(x: Tensor, dim: int, indices: Tensor, values: Tensor, how: str) -> Tensor:
    """Slices of ``values`` go where the indices say."""
    if not x.ndim:
        return ops.reshape(_by_slices(ops.reshape(x, (1,)), 0, indices, ops.reshape(values, (1,)), how), ())
    dim = dim % x.ndim
    indices = indices if indices.ndim else ops.reshape(indices, (1,))
    values = ops.expand_dims(values, (dim,)) if values.ndim < x.ndim else values

    def where(*i: Any) -> Any:
        return (*i[:dim], te.cast(INT64, indices(i[dim])), *i[dim + 1 :])

    return te.scatter(x, values.shape, where, lambda *i: values(*i), combine=how)


@aten("one_hot")
def one_hot(indices: Tensor, classes: int = -1) -> Tensor:
    needs(classes > 0, "a number of classes that is data")
    return ops.one_hot(indices, classes, dtype=INT64)
