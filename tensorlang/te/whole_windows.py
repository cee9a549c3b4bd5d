"""Convolutions of few pixels whose weight comes with the call, as those of a layer over a whole image are:
products of matrices over one axis of all channels and taps.

The weight, ``[o, channel, tap, tap]``, is seen as ``[o, k]``, as it lies, and the windows are so too: in a
copy, where they are no rows of memory. A weight is then read once, along memory, and not packed for so few
pixels nor read element by element for vectors of them that are mostly empty; and one of a whole image is no
product whose innermost sum is over the few taps of a row.

Knows te; nothing of schedules and kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence

from ..core.node import intern
from ..expr import make
from ..expr.nodes import Expr, Var, const_int
from ..expr.walk import rewrite, substitute, variables
from .axis import REDUCE, IterVar, fresh_axis
from .compute import LINES
from .exchange import Exchanged, exchanged
from .graph import operations
from .patterns import reducer_kind
from .products import factors_of
from .reducers import Reduce
from .row_major import place
from .tensor import ComputeOp, PlaceholderOp, Tensor, TensorRead

# pixels, of all images, and outputs for each of them, from which on the copy of the windows is worth it; of
# single rows, for which there is no other recipe. Measured (Zen 5): 65 drawn shapes take 0.06 to 1.1 of the
# time on one thread, but 2048 to 64 channels of 3 × 3 1.5, seven on two threads 0.12 to 0.84; with AVX2 the
# same 65 0.37 on the average. Of 16 pixels it would take 0.65 to 1.8 of the time, of fewer outputs up to 8
# times as long
FEW = 16
MANY, MANY_OF_ROW = 4, 2


def windows_as_rows(outputs: Sequence[Tensor], fixed: Collection[Tensor] = ()) -> Exchanged:
    """The computation of ``outputs`` with products in the place of such convolutions. Those whose weight is
    ``fixed``, or is read otherwise too, are left as they are."""
    readers: dict[Tensor, int] = {}
    for op in operations(t.op for t in outputs):
        for t in op.input_tensors:
            readers[t] = readers.get(t, 0) + 1

    def alone(t: Tensor) -> bool:
        given = type(t.op) is PlaceholderOp and t.op.strides is None
        return given and readers[t] == 1 and not any(t is k for k in (*fixed, *outputs))

    return exchanged(outputs, lambda op: _as_rows(op, alone))


def _as_rows(op: ComputeOp, alone: Callable[[Tensor], bool]) -> Tensor | None:
    """The product that ``op`` is; None where it is none, is one as it stands, or would gain nothing."""
    total, found = op.body[0], factors_of(op)
    if found is None or not isinstance(total, Reduce) or reducer_kind(op) != "add" or len(op.body) > 1:
        return None
    sizes = [const_int(a.extent) or 0 for a in total.axes]
    if not all(sizes) or len([n for n in sizes if n > 1]) < 2 or total.condition is not None:
        return None
    if not all(r.dtype.is_float for r in found):
        return None
    for data, weight in (found, found[::-1]):
        rows = [a for a in op.axis if any(a.var in variables(i) for i in data.indices)]
        columns = [a for a in op.axis if a not in rows]
        many = math.prod(const_int(a.extent) or FEW for a in rows)
        if not rows or len(columns) != 1 or many >= FEW or not alone(weight.tensor):
            continue
        least = many * (MANY if len(data.indices) > 3 else MANY_OF_ROW)
        if (const_int(columns[0].extent) or 0) < least or not _lies(weight, [*columns, *total.axes]):
            continue
        as_it_lies = alone(data.tensor) and _lies(data, [*rows, *total.axes])
        k = fresh_axis("k", make.const(math.prod(sizes), "int32"), REDUCE)
        tensors = (
            _seen(weight, columns, total.axes, f"{op.name}.weight", ""),
            _seen(data, rows, total.axes, f"{op.name}.window", "" if as_it_lies else LINES),
        )
        return _product(op, total, k, {weight: (tensors[0], columns), data: (tensors[1], rows)})
    return None


def _product(
    op: ComputeOp, total: Reduce, k: IterVar, seen: Mapping[Expr, tuple[Tensor, Sequence[IterVar]]]
) -> Tensor:
    """``op`` as a sum over ``k``, with what is ``seen`` at some of its axes in the place of what it reads."""

    def there(e: Expr) -> Expr | None:
        if e not in seen:
            return None
        tensor, own = seen[e]
        return intern(TensorRead, tensor, (*[a.var for a in own], k.var))

    sources = tuple(rewrite(e, there) for e in total.sources)
    body = intern(Reduce, total.reducer, sources, (k,), None, total.init, total.index)
    return ComputeOp(op.name, op.axis, (k,), (body,), op.tag, op.attrs, None, op.needs).outputs[0]


def _lies(read: TensorRead, axes: Sequence[IterVar]) -> bool:
    """Whether all of a tensor is read, by these axes in the order in which it lies."""
    at = [(i, const_int(n)) for i, n in zip(read.indices, read.tensor.shape, strict=True)]
    long = [(i, n) for i, n in at if n != 1]
    mine = [(a.var, const_int(a.extent)) for a in axes if const_int(a.extent) != 1]
    return len(long) == len(mine) and all(
        i is v and n is not None and n == m for (i, n), (v, m) in zip(long, mine, strict=True)
    )


def _seen(read: TensorRead, own: Sequence[IterVar], sums: Sequence[IterVar], name: str, tag: str) -> Tensor:
    """What is read, with one dimension for the sums behind its own."""
    axes = [fresh_axis(a.var.name, a.extent) for a in own]
    sizes = [a.extent for a in sums]
    k = fresh_axis("k", make.const(math.prod(const_int(n) or 1 for n in sizes), "int32"))
    shape = [a.extent for a in (*axes, k)]
    if tag:
        at = place(sizes, [k.extent], [k.var])
        known: dict[Var, Expr] = {a.var: make.as_expr(i) for a, i in zip(sums, at, strict=True)}
        known |= {a.var: b.var for a, b in zip(own, axes, strict=True)}
        indices = tuple(substitute(i, known) for i in read.indices)
    else:
        at = place(read.tensor.shape, shape, [a.var for a in (*axes, k)])
        indices = tuple(make.as_expr(i) for i in at)
    body = intern(TensorRead, read.tensor, indices)
    return ComputeOp(name, (*axes, k), (), (body,), tag, {}).outputs[0]
