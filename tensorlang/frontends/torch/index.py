"""ATen's operators that read and write at places that are data. Knows ops."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import ops, te
from ...core.dtype import INT64, DType, dtype
from ...expr import make
from ...expr.nodes import const_int
from ...ops.places import kept_within
from ...ops.take import counted
from ...te import Tensor
from ..words import constant_like
from .elementwise import mul
from .table import aten, graph_op, known, needs
from .types import as_type, held, is_just, rounded_once


@aten("embedding")
def embedding(weight: Tensor, indices: Tensor, *_: Any) -> Tensor:
    return ops.take(weight, indices, 0, "index")


@aten("index_select")
def index_select(x: Tensor, dim: int, indices: Tensor) -> Tensor:
    if not x.ndim:
        return x
    # torch takes one index without dimensions for a list of one
    return ops.take(x, indices if indices.ndim else ops.reshape(indices, (1,)), dim, "index")


MOST_COMPARED = 64  # boundaries, of which all are compared with: more are searched by halves


@aten("bucketize.Tensor")
def bucketize(x: Tensor, boundaries: Tensor, out_int32: bool = False, right: bool = False) -> Tensor:
    return searchsorted(boundaries, x, out_int32, right)


@aten("searchsorted.Tensor")
def searchsorted(
    boundaries: Tensor,
    x: Tensor,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """How many boundaries of its row lie before each number, which is its place among them."""
    n = known(boundaries.shape[-1], "boundaries")
    right = right or side == "right"
    kind = dtype("int32") if out_int32 else INT64
    floats = x.dtype.is_float and boundaries.dtype.is_float

    def before(at: Any, value: Any) -> Any:
        found = at <= value if right else at < value
        # what is no number is behind all numbers
        return te.any(found, te.all(te.isnan(value), make.not_(te.isnan(at)))) if floats else found

    def read(i: Sequence[Any], j: Any) -> Any:
        row = i[: boundaries.ndim - 1]
        return boundaries(*row, j if sorter is None else _place(sorter(*row, j), n))

    def counted_before(*i: Any) -> Any:
        j = te.reduce_axis((0, n), name="j")
        return te.sum(te.cast(kind, before(read(i, j), x(*i))), axis=j)

    if n <= MOST_COMPARED:
        return te.compute(x.shape, counted_before, name="place")  # type: ignore[return-value]
    # so many are known to lie before: by halves of what is left, each step a stage that reads the one before
    done = None
    for step in (1 << k for k in reversed(range(n.bit_length()))):

        def further(*i: Any, done: Any = done, step: int = step) -> Any:
            have = te.const(0, "int32") if done is None else done(*i)
            more = have + step
            last = te.min(more, n) - 1
            return te.select(te.all(more <= n, before(read(i, last), x(*i))), more, have)

        done = te.compute(x.shape, further, name="place")
    assert done is not None
    return as_type(done, kind)


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


def mask_axes(i: Any) -> int:
    """How many dimensions a mask stands for, bytes too; 0 for places."""
    return i.ndim if str(i.dtype) in ("bool", "uint8") else 0


@aten("index.Tensor", "_unsafe_index.Tensor")
def index(x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """As numpy's: the indices broadcast; their dimensions come first, or where they stand side by side."""
    needs(whole_indices(indices), "masks as indices")
    found = _Indexed(x, indices)
    return te.compute(found.shape, lambda *i: x(*found.place(i, _place)), name="index")


def _put_at_mask(x: Tensor, mask: Tensor, values: Tensor, first: int) -> Tensor:
    """A value for each place of a mask over the dimensions from ``first`` on, or one for all."""
    after = x.ndim - first - mask.ndim
    axis = values.ndim - after - 1  # of the values, that of the places
    if axis < 0 or const_int(values.shape[axis]) == 1:
        if axis >= 0:
            ones = [1] * mask.ndim
            values = ops.reshape(values, (*values.shape[:axis], *ones, *values.shape[axis + 1 :]))
        return ops.where(ops.reshape(mask, (*[1] * first, *mask.shape, *[1] * after)), values, x)
    turn, n = _turns(mask), te.cast(INT64, values.shape[axis])

    def element(*i: Any) -> Any:
        at = i[first : first + mask.ndim]
        # not a place kept within, which there must be one of, while masks may have none
        inside = te.all(mask(*at), turn(*at) >= te.const(0, INT64), turn(*at) < n)
        own = (*i[:first], turn(*at), *i[first + mask.ndim :])
        return te.if_then_else(inside, te.whole.read(values, own), x(*i))

    return te.compute(x.shape, element, name="index_put")  # type: ignore[return-value]


class _Indexed:
    """The elements that indices name, None for a whole dimension: the ``shape`` of all of them is as
    numpy's."""

    def __init__(self, x: Tensor, indices: Sequence[Tensor | None]) -> None:
        self.x, self.indices = x, [*indices, *[None] * (x.ndim - len(indices))]
        places = [d for d, i in enumerate(self.indices) if i is not None]
        shape = te.whole.broadcast_shape("index", [i for i in indices if i is not None])
        # numpy's rule: indices with a slice between them put their dimensions in front
        together = places == list(range(places[0], places[-1] + 1))
        self.first = places[0] if together else 0
        self.end = self.first + len(shape)
        rest = [n for d, n in enumerate(x.shape) if d not in places]
        self.shape: list[Any] = [*rest[: self.first], *shape, *rest[self.first :]]

    def place(self, i: Sequence[Any], counted: Callable[[Any, Any], Any]) -> list[Any]:
        """Where the element at ``i`` stands in the tensor."""
        own, others = i[self.first : self.end], iter((*i[: self.first], *i[self.end :]))
        return [
            next(others) if t is None else counted(te.whole.read(t, own), n)
            for t, n in zip(self.indices, self.x.shape, strict=True)
        ]


def _place(i: Any, n: Any) -> Any:
    """An index that counts from the end when it is negative, kept within."""
    return kept_within(from_start(i, n), te.cast(INT64, n))


@aten("index_put", "_unsafe_index_put")
def index_put(
    x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False, *_: Any
) -> Tensor:
    """A mask stands alone, for it names as many elements as are true."""
    given = [i for i in indices if i is not None]
    if len(given) == 1 and given[0].dtype.is_bool:
        needs(not accumulate, "values that are added at a mask")
        before = [1 for i in itertools.takewhile(lambda i: i is None, indices)]
        return _put_at_mask(x, given[0], as_type(values, x.dtype), len(before))
    needs(whole_indices(indices), "masks beside indices")
    found = _Indexed(x, indices)
    values = as_type(values, x.dtype)
    return te.scatter(
        x,
        found.shape,
        lambda *i: tuple(found.place(i, from_start)),
        lambda *i: te.whole.read(values, i[len(found.shape) - values.ndim :]),
        combine="add" if accumulate else "set",
    )


def from_start(i: Any, n: Any) -> Any:
    """An index that counts from the end when it is negative."""
    return counted(te.cast(INT64, i), te.cast(INT64, n))


@aten("scatter.src", "scatter.value")
def scatter(x: Tensor, dim: int, indices: Tensor, values: Any) -> Tensor:
    return _scattered(x, dim, indices, values, "none")


@aten("scatter_add")
@rounded_once
def scatter_add(x: Tensor, dim: int, indices: Tensor, values: Tensor) -> Tensor:
    return _scattered(x, dim, indices, values, "add")


@aten("scatter.reduce", "scatter.value_reduce")
def scatter_with(x: Tensor, dim: int, indices: Tensor, values: Any, reduce: str) -> Tensor:
    return rounded_once(_scattered)(x, dim, indices, values, {"add": "add", "multiply": "mul"}[reduce])


def _scattered(x: Tensor, dim: int, indices: Tensor, values: Any, how: str) -> Tensor:
    if not isinstance(values, Tensor):
        number = held(values, x.dtype)
        values = te.compute(indices.shape, lambda *i: number(), name="values")
    else:
        whole = values
        values = te.compute(indices.shape, lambda *i: whole(*i), name="values")
    return ops.scatter_elements(x, indices, values, dim, how)


@aten("scatter_reduce.two")
def scatter_reduce(
    x: Tensor, dim: int, indices: Tensor, values: Tensor, reduce: str, include_self: bool = True
) -> Tensor:
    if not x.ndim:
        x, indices, values = (ops.reshape(t, (1,)) for t in (x, indices, values))
        return ops.reshape(scatter_reduce(x, 0, indices, values, reduce, include_self), ())
    needs(reduce != "mean" or x.dtype.is_float, "means of whole numbers")
    needs(not x.dtype.is_bool, "places of truth values")
    return rounded_once(_scatter_reduced)(x, dim, indices, values, reduce, include_self)


def _scatter_reduced(
    x: Tensor, dim: int, indices: Tensor, values: Tensor, reduce: str, include_self: bool
) -> Tensor:
    if not include_self:  # what is written to begins with what changes nothing
        low, high = _ends(x.dtype)
        first = {"sum": 0, "mean": 0, "prod": 1, "amax": low, "amin": high}[reduce]
        x = _scattered(x, dim, indices, first, "none")
    how = {"sum": "add", "mean": "add", "prod": "mul", "amax": "max", "amin": "min"}[reduce]
    found = _scattered(x, dim, indices, values, how)
    if reduce != "mean":
        return found
    begin = constant_like(x, int(include_self))
    counts = _scattered(ops.broadcast_to(begin, x.shape), dim, indices, 1, "add")
    return ops.divide(found, ops.maximum(counts, constant_like(x, 1)))


def _ends(t: DType) -> tuple[Any, Any]:
    """The least and the largest number of a type."""
    if t.is_float:
        return float("-inf"), float("inf")
    signed = t.code == "int"
    return -(1 << t.bits - 1) if signed else 0, (1 << t.bits - signed) - 1


@aten("index_reduce")
def index_reduce(
    x: Tensor, dim: int, indices: Tensor, values: Tensor, reduce: str, include_self: bool = True
) -> Tensor:
    """Slices are reduced into those that the indices name: at one place of each of their elements."""
    if not x.ndim:
        return ops.reshape(
            index_reduce(ops.reshape(x, (1,)), 0, indices, ops.reshape(values, (1,)), reduce, include_self),
            (),
        )
    dim = dim % x.ndim
    indices = indices if indices.ndim else ops.reshape(indices, (1,))
    at = te.compute(values.shape, lambda *i: indices(i[dim]), name="places")
    return scatter_reduce(x, dim, at, values, reduce, include_self)


@aten("masked_scatter")
def masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """The elements of ``source`` one after the other where the mask is true."""
    shape = te.whole.broadcast_shape("masked_scatter", [x, mask])
    x, mask = (ops.broadcast_to(t, shape) for t in (x, mask))
    flat = ops.reshape(source, (-1,))
    n = te.cast(INT64, flat.shape[0])
    places = _turns(mask)
    chosen = te.compute(shape, lambda *i: flat(kept_within(places(*i), n)), name="chosen")
    return ops.where(mask, chosen, x)


@aten("masked_scatter_backward")
def masked_scatter_backward(grad: Tensor, mask: Tensor, sizes: Sequence[Any]) -> Tensor:
    mask = ops.broadcast_to(mask, grad.shape)
    places, none = _turns(mask), te.const(-1, INT64)
    count: Any = 1
    for n in sizes:
        count = count * n
    flat = te.scatter(
        0,
        grad.shape,
        lambda *i: te.select(mask(*i), places(*i), none),  # no place: it is left out
        lambda *i: grad(*i),
        combine="set",
        shape=(count,),
        dtype=grad.dtype,
    )
    return ops.reshape(flat, tuple(sizes))


def _turns(mask: Tensor) -> Tensor:
    """How many are true before each element, in the order of rows."""
    flat = as_type(ops.reshape(mask, (-1,)), INT64)
    return ops.reshape(ops.subtract(ops.cumsum(flat, 0, INT64), constant_like(flat, 1)), mask.shape)


@aten("index_add")
def index_add(x: Tensor, dim: int, indices: Tensor, values: Tensor, alpha: Any = 1) -> Tensor:
    """Torch sums slices of 16-bit floats in float32, and single numbers as they are."""
    values = values if is_just(alpha, 1) else mul(values, as_type(alpha, x.dtype))
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


@aten("put")
def put(x: Tensor, indices: Tensor, values: Tensor, accumulate: bool = False) -> Tensor:
    """At places among all elements."""
    flat = ops.reshape(x, (-1,))
    at, new = ops.reshape(indices, (-1,)), ops.reshape(values, (-1,))
    at = te.compute(at.shape, lambda i, at=at: from_start(at(i), flat.shape[0]), name="places")
    return ops.reshape(_by_slices(flat, 0, at, new, "add" if accumulate else "set"), x.shape)


@graph_op("tril_indices")
def tril_indices(g: Any, rows: Any, columns: Any, offset: int = 0, kind: str | None = None) -> Any:
    return _corner(g, rows, columns, kind, lambda i, j: j - i <= offset)


@graph_op("triu_indices")
def triu_indices(g: Any, rows: Any, columns: Any, offset: int = 0, kind: str | None = None) -> Any:
    return _corner(g, rows, columns, kind, lambda i, j: j - i >= offset)


def _corner(g: Any, rows: Any, columns: Any, kind: str | None, inside: Callable[[Any, Any], Any]) -> Any:
    """The rows and the columns of the places within a triangle: numbers that are known."""
    n, m = known(rows, "rows of a triangle"), known(columns, "columns of a triangle")
    places = np.stack(np.nonzero(inside(*np.indices((n, m), np.int64))))
    return g.graph.constant(places.astype(kind if isinstance(kind, str) else "int64"))
