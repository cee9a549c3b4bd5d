"""ATen's operators whose results are as large as their elements say: places of a mask, distinct elements.

They are of programs that are wholly ours: a kernel fills the most there can be, and a function of arrays cuts
off what is behind, so that the size is a dim for all that comes after. Who asks torch for such a size while a
program runs has to wait for the region; those graphs stay in torch. Knows ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import ops, te
from ...core.dtype import INT64
from ...expr.make import as_expr
from ...expr.nodes import const_int
from ...ops.inputs import product
from ...runtime import choices
from ...te import Tensor
from .index import index, mask_axes
from .table import known, of_program


def _places(g: Any, x: Any) -> Any:
    """The places of what is not 0, a row for each dimension."""
    return g.host(choices.first_columns, g(ops.nonzero, x), [((max(1, x.ndim), None), "int64")])[0]


@of_program("nonzero", "argwhere")
def nonzero(g: Any, x: Any) -> Any:
    # a row for each place, with a number for each dimension: of a number that is not 0 a row of none
    return g(_row_each, _places(g, x), width=x.ndim)


def _row_each(places: Tensor, *, width: int) -> Tensor:
    if width:
        return ops.transpose(places, (1, 0))
    return te.compute((places.shape[1], 0), lambda i, d: te.const(0, INT64), name="rows")  # type: ignore[return-value]


@of_program("nonzero_numpy", "where")
def nonzero_numpy(g: Any, x: Any) -> Any:
    places = _places(g, x)
    return [lambda d=d: g(_row, places, d=d) for d in range(max(1, x.ndim))]


def _row(x: Tensor, *, d: int) -> Tensor:
    return te.compute(x.shape[1:], lambda i: x(d, i), name="row")


@of_program("masked_select")
def masked_select(g: Any, x: Any, mask: Any) -> Any:
    return g.host(choices.first_rows, g(_chosen, x, mask), [((None,), x.dtype)])[0]


def _chosen(x: Tensor, mask: Tensor) -> Any:
    shape = te.whole.broadcast_shape("masked_select", [x, mask])
    x, mask = (ops.broadcast_to(t, shape) for t in (x, mask))
    return ops.compress(ops.reshape(mask, (-1,)), ops.reshape(x, (-1,)), 0)


@of_program("index.Tensor", "_unsafe_index.Tensor")
def index_by_masks(g: Any, x: Any, indices: Sequence[Any]) -> Any:
    """A mask stands for the places where it is true, one index for each of its dimensions."""
    (first, *more) = [k for k, i in enumerate(indices) if i is not None]
    mask = indices[first]
    if not more and first == 0:
        return _rows(g, x, mask)
    spread: list[Any] = []
    for i in indices:
        if i is not None and mask_axes(i):
            places = _places(g, i)
            spread += [g(_row, places, d=d) for d in range(i.ndim)]
        else:
            spread.append(i)
    given = [i for i in spread if i is not None]
    return g(_indexed, x, *given, gaps=tuple(i is None for i in spread))


def _rows(g: Any, x: Any, mask: Any) -> Any:
    """The slices of the first dimensions for which a mask holds."""
    shape = (None, *x.shape[mask.ndim :])
    return g.host(choices.first_rows, g(_slices, x, mask), [(shape, x.dtype)])[0]


def _slices(x: Tensor, mask: Tensor) -> Any:
    rows = ops.reshape(x, (-1, *x.shape[mask.ndim :])) if mask.ndim > 1 else x
    return ops.compress(ops.reshape(mask, (-1,)) if mask.ndim > 1 else mask, rows, 0)


def _indexed(x: Tensor, *given: Tensor, gaps: Sequence[bool]) -> Tensor:
    found = iter(given)
    return index(x, [None if gap else next(found) for gap in gaps])


@of_program("repeat_interleave.Tensor")
def repeat_interleave(g: Any, repeats: Any, size: Any = None) -> Any:
    return g.host(choices.repeated, [repeats], [((None,), "int64")])[0]


@of_program("repeat_interleave.self_Tensor")
def repeat_slices(g: Any, x: Any, repeats: Any, dim: int | None = None, size: Any = None) -> Any:
    if dim is None or not x.ndim:
        x, dim = g(ops.reshape, x, shape=(-1,)), 0
    if not repeats.ndim or const_int(as_expr(repeats.shape[0])) == 1:
        repeats = g(_spread, repeats, n=x.shape[dim])
    return g(ops.take, x, repeat_interleave(g, repeats), axis=dim, mode="index")


def _spread(x: Tensor, *, n: Any) -> Tensor:
    return te.compute((n,), lambda i: x(*[0] * x.ndim), name="spread")


@of_program("bincount")
def bincount(g: Any, x: Any, weights: Any = None, least: Any = 0) -> Any:
    """At least as many as asked for; how many the largest number says, where nothing else does: a program
    that goes on with as many as there are rows has it so."""
    shape, kind = g.said[0]
    given = [x] if weights is None else [x, weights]
    return g.host(choices.counts, given, [(shape, kind)], least=known(least, "a least size"), kind=kind)[0]


@of_program("_unique2")
def unique(
    g: Any, x: Any, in_order: bool = True, inverse: bool = False, counts: bool = False
) -> Sequence[Any]:
    return _unique(g, x, inverse, counts, None)


@of_program("unique_dim")
def unique_dim(
    g: Any, x: Any, dim: int, in_order: bool = True, inverse: bool = False, counts: bool = False
) -> Sequence[Any]:
    return _unique(g, x, inverse, counts, dim)


def _unique(g: Any, x: Any, inverse: bool, counts: bool, dim: int | None) -> Sequence[Any]:
    shape, count = _shapes(x, dim)
    numbers = [count if inverse else None]
    results = [(shape, x.dtype), ([None], "int64"), (numbers, "int64"), ([None], "int64")]
    # for torch what is no number is like nothing else
    asked = (False, inverse, counts)
    options = {"axis": dim, "in_order": True, "apart": True, "asked": asked}
    found, _, which, often = g.host(choices.unique, [x], results, **options)
    return _told(g, x, dim, found, which if inverse else None, often if counts else None)


@of_program("unique_consecutive")
def unique_consecutive(
    g: Any, x: Any, inverse: bool = False, counts: bool = False, dim: int | None = None
) -> Sequence[Any]:
    """One of each run of equal ones."""
    shape, count = _shapes(x, dim)
    results = [(shape, x.dtype), ([count], "int64"), ([None], "int64")]
    found, which, often = g.host(choices.runs, [x], results, axis=dim)
    return _told(g, x, dim, found, which if inverse else None, often if counts else None)


def _shapes(x: Any, dim: int | None) -> tuple[list[Any], Any]:
    """The shape of some of the elements, or of the slices along a dimension, and how many all are."""
    if dim is None:
        return [None], product(x.shape)
    return [None if d == dim % x.ndim else n for d, n in enumerate(x.shape)], x.shape[dim]


def _told(g: Any, x: Any, dim: int | None, found: Any, which: Any, often: Any) -> Sequence[Any]:
    """Torch's three results; one that was not asked for is empty."""

    def none() -> Any:
        return g(ops.full, shape=(0,), fill_value=0, dtype="int64")

    def numbers() -> Any:
        return which if dim is not None or x.ndim == 1 else g(ops.reshape, which, shape=tuple(x.shape))

    return lambda: found, none if which is None else numbers, none if often is None else lambda: often


def counted(g: Any, n: Any) -> Any:
    """A number that is data, as a size from here on."""
    as_int = n if str(n.dtype) == "int64" else g(ops.cast, n, dtype=INT64)
    return g.host(choices.as_many, [as_int], [((None,), "uint8")])[0].shape[0]
