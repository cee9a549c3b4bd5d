"""Elements and slices read and written at places that are data: gather_elements, gather_nd, scatter_elements,
scatter_nd, reverse_sequence.

Indices are numpy's: a negative one counts from the end. Read out of range it is clipped, written out of
range it is left out; nothing outside a tensor is ever touched. Knows what ``take`` knows of indices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import te
from ..errors import DeclareError
from ..expr import make
from ..expr.nodes import Expr, const_int
from ..te import Tensor
from . import inputs, tags
from .take import counted, gather, index_rule, indices_of, signed

__all__ = ["gather_elements", "gather_nd", "reverse_sequence", "scatter_elements", "scatter_nd"]

REDUCTIONS = {"none": "set", "add": "add", "mul": "mul", "max": "max", "min": "min"}


def gather_elements(x: Tensor, indices: Tensor, axis: int = 0, mode: str = "index") -> Tensor:
    """``out[i, j, …] = x[i, indices[i, j, …], …]`` with the index along ``axis`` taken from ``indices``: its
    shape. numpy's take_along_axis; ``ops.gather`` with ONNX's order of arguments and negative indices.

    ``indices`` has the dimensions of ``x``, none longer but ``axis``. Raises DeclareError otherwise.
    """
    return gather(x, axis, indices, mode)


def _depth(op: str, x: Tensor, indices: Tensor, batch_dims: int) -> int:
    """How many dimensions of ``x`` the last dimension of ``indices`` names. Raises DeclareError."""
    if indices.ndim == 0:
        raise DeclareError(
            f"ops.{op}: indices {indices.name} has no dimensions",
            because="its last dimension holds the indices of one place",
        )
    depth = const_int(indices.shape[-1])
    most = x.ndim - batch_dims
    if depth is None or not 1 <= depth <= most:
        raise DeclareError(
            f"ops.{op}: the last dimension of indices {inputs.named(indices)} is {indices.shape[-1]}",
            because=f"it holds the indices of one place in {inputs.named(x)}"
            + (f", whose first {batch_dims} dimensions are the batch" if batch_dims else ""),
            legal=f"1 to {most}, a number" if most > 1 else "1",
        )
    return depth


def gather_nd(x: Tensor, indices: Tensor, batch_dims: int = 0, mode: str = "index") -> Tensor:
    """The elements or slices of ``x`` at places: the last dimension of ``indices`` [..., k] holds k indices
    of one place, and the result is ``[..., *x.shape[batch_dims + k:]]``.

    The first ``batch_dims`` dimensions are those of both, row by row. ``mode`` as for ``ops.take``. Raises
    DeclareError when k is not a number or more than ``x`` has dimensions. ``ops.gather_nd(x, at)`` with
    ``at`` of shape (n, 2) and ``x`` of shape (8, 9, 4) gives (n, 4).
    """
    x, indices, at = (
        inputs.tensor("gather_nd", x),
        indices_of("gather_nd", indices),
        index_rule("gather_nd", mode),
    )
    batch = inputs.integer("gather_nd", "batch_dims", batch_dims)
    if not 0 <= batch < max(1, min(x.ndim, indices.ndim)):
        raise DeclareError(
            f"ops.gather_nd: batch_dims={batch} of {inputs.named(x)} and {inputs.named(indices)}",
            because="both have a dimension more at least",
        )
    depth = _depth("gather_nd", x, indices, batch)
    for d in range(batch):
        inputs.same_size(
            "gather_nd",
            f"dimension {d} of indices {indices.name}",
            indices.shape[d],
            x.shape[d],
            f"the first {batch} dimension{'' if batch == 1 else 's'} are the batch of {inputs.named(x)} too",
        )
    # the last dimension holds the k indices of one place
    outer = indices.ndim - 1

    def element(*i: Any) -> Expr:
        place = [at(indices(*i[:outer], k), x.shape[batch + k]) for k in range(depth)]
        return x(*i[:batch], *place, *i[outer:])

    out = inputs.stage("gather_nd", tags.INJECTIVE, [*indices.shape[:-1], *x.shape[batch + depth :]], element)
    for d in range(batch, batch + depth):
        # an index is brought within bounds, and an empty dimension has none to bring it to
        inputs.needing("gather_nd", out, x, d, 1, unless_empty=True)
    return out


def _scatter(
    op: str, x: Tensor, updates: Tensor, reduction: str, where: Callable[..., tuple[Any, ...]]
) -> Tensor:
    if reduction not in REDUCTIONS:
        raise DeclareError(f"ops.{op}: reduction={reduction!r}", legal=", ".join(map(repr, REDUCTIONS)))
    if x.dtype is not updates.dtype:
        raise DeclareError(
            f"ops.{op}: updates {updates.name} are {updates.dtype}, {x.name} is {x.dtype}",
            try_=f"ops.cast({updates.name}, {x.dtype.name!r})",
        )
    # add and mul of bools would wrap in a byte where only 0 and 1 are legal
    if x.dtype.is_bool and reduction != "none":
        raise DeclareError(
            f"ops.{op}: reduction={reduction!r} of bools", try_="reduction='none', or ops.cast(x, 'uint8')"
        )
    return te.scatter(
        x, updates.shape, where, lambda *i: updates(*i), REDUCTIONS[reduction], name=op, tag=tags.SCATTER
    )


def scatter_elements(
    x: Tensor, indices: Tensor, updates: Tensor, axis: int = 0, reduction: str = "none"
) -> Tensor:
    """``x`` after ``out[i, indices[i, j], …] = updates[i, j, …]`` for each element of ``indices``, the index
    along ``axis`` taken from there; or after ``+=``, ``*=``, ``max=``, ``min=`` with ``reduction`` ``"add"``,
    ``"mul"``, ``"max"``, ``"min"``, as torch's scatter and scatter_reduce.

    ``indices`` and ``updates`` have one shape. Several updates of one place are made in row-major order.
    Raises DeclareError for shapes that do not fit.
    """
    op = "scatter_elements"
    x, updates = inputs.tensor(op, x), inputs.tensor(op, updates, "updates")
    indices, d = indices_of(op, indices), inputs.axis_of(op, axis, x.ndim)
    if not indices.ndim == updates.ndim == x.ndim:
        raise DeclareError(
            f"ops.{op}: {inputs.named(x)}, indices {inputs.named(indices)}, updates {inputs.named(updates)}",
            because="all three have the same number of dimensions",
            try_="ops.scatter_nd for places of several indices",
        )
    for k in range(x.ndim):
        inputs.same_size(
            op,
            f"dimension {k} of updates {updates.name}",
            updates.shape[k],
            indices.shape[k],
            f"there is one update for each index; indices {indices.name} is {inputs.text(indices.shape)}",
        )
    return _scatter(
        op,
        x,
        updates,
        reduction,
        lambda *i: tuple(counted(signed(indices(*i)), x.shape[d]) if k == d else v for k, v in enumerate(i)),
    )


def scatter_nd(x: Tensor, indices: Tensor, updates: Tensor, reduction: str = "none") -> Tensor:
    """``x`` after updates of elements or slices: the last dimension of ``indices`` [..., k] holds k indices
    of one place, ``updates`` is ``[..., *x.shape[k:]]``. ``reduction`` as for :func:`scatter_elements`.

    Several updates of one place are made in row-major order. Raises DeclareError for shapes that do not fit.
    """
    op = "scatter_nd"
    x, updates, indices = (
        inputs.tensor(op, x),
        inputs.tensor(op, updates, "updates"),
        indices_of(op, indices),
    )
    depth, outer = _depth(op, x, indices, 0), indices.ndim - 1
    wanted = [*indices.shape[:-1], *x.shape[depth:]]
    because = f"indices {inputs.named(indices)} are places in {inputs.named(x)}"
    if updates.ndim != len(wanted):
        raise DeclareError(
            f"ops.{op}: updates {inputs.named(updates)}, {inputs.text(wanted)} are needed", because=because
        )
    for k, n in enumerate(wanted):
        inputs.same_size(op, f"dimension {k} of updates {updates.name}", updates.shape[k], n, because)

    def where(*i: Any) -> tuple[Any, ...]:
        place = [counted(signed(indices(*i[:outer], k)), x.shape[k]) for k in range(depth)]
        return (*place, *i[outer:])

    return _scatter(op, x, updates, reduction, where)


def reverse_sequence(x: Tensor, lengths: Tensor, time_axis: int = 0, batch_axis: int = 1) -> Tensor:
    """``x`` with the first ``lengths[b]`` elements along ``time_axis`` turned round for each ``b`` along
    ``batch_axis``, the others as they are.

    A length below 0 or above the size counts as that. Raises DeclareError for axes that are one, and for a
    number of lengths that is not the size of the batch.
    """
    op = "reverse_sequence"
    x, lengths = inputs.tensor(op, x), indices_of(op, lengths, "lengths")
    t, b = (
        inputs.axis_of(op, time_axis, x.ndim, "time_axis"),
        inputs.axis_of(op, batch_axis, x.ndim, "batch_axis"),
    )
    if t == b:
        raise DeclareError(
            f"ops.{op}: time_axis and batch_axis are both {t}", because="each has one of its own"
        )
    if lengths.ndim != 1:
        raise DeclareError(
            f"ops.{op}: lengths {inputs.named(lengths)} has {lengths.ndim} dimension(s), 1 is needed",
            because="there is one for each element of the batch",
        )
    inputs.same_size(
        op,
        f"the size of lengths {lengths.name}",
        lengths.shape[0],
        x.shape[b],
        f"there is one for each element of the batch, dimension {b} of {inputs.named(x)}",
    )
    n = x.shape[t]

    def element(*i: Any) -> Expr:
        # lengths are data: what is too long or negative must not read beside the tensor
        length = te.max(te.min(signed(lengths(i[b])), n), 0)
        # a select reads both sides: behind the length this would be a place before the tensor
        turned = te.max(length - 1 - i[t], 0)
        return x(*i[:t], te.select(make.lt(i[t], length), turned, i[t]), *i[t + 1 :])

    return inputs.stage(op, tags.INJECTIVE, x.shape, element)
