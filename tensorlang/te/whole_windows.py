"""Convolutions of few pixels whose weight comes with the call, as those of a layer over a whole image are:
products of matrices over one axis of all channels and taps.

The weight, ``[o, channel, tap, tap]``, is seen as ``[o, k]``, as it lies, and the windows are so too: in a
copy, where they are no rows of memory. A weight is then read once, along memory, and not packed for so few
pixels nor read element by element for vectors of them that are mostly empty; and one of a whole image is no
product whose innermost sum is over the few taps of a row. Channels in groups are a product for each.

Knows te; nothing of schedules and kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ..core.node import intern
from ..expr import make
from ..expr.linear import Monomial, poly
from ..expr.nodes import Expr, FloorDiv, Var, const_int
from ..expr.walk import preorder, rewrite, substitute, variables
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
# the same of groups, and of those with a known weight whose images are single places. Measured (Zen 5, 36
# drawn shapes): the 22 that are taken 0.04 to 0.73 of the time on one thread, on two 0.11 to 1.04, but 768 to
# 32 channels of 4 × 4, 3×3, in 2 groups 1.3; 384 to 320 of 5 × 5, 5×5, in 2 known groups 0.37 and 0.53, 256
# to 256 of 3 × 3 in 4 0.08 and 0.11
MANY, MANY_OF_ROW = 4, 2

Seen = Mapping[Any, tuple[Tensor, Sequence[IterVar]]]  # a tensor and its axes in the place of what is read


def windows_as_rows(outputs: Sequence[Tensor], fixed: Collection[Tensor] = ()) -> Exchanged:
    """The computation of ``outputs`` with products in the place of such convolutions. Those whose weight is
    ``fixed`` are left as they are, but for groups of single places; those whose weight is read otherwise too,
    all."""
    readers: dict[Tensor, int] = {}
    for op in operations(t.op for t in outputs):
        for t in op.input_tensors:
            readers[t] = readers.get(t, 0) + 1

    def alone(t: Tensor) -> bool:
        given = type(t.op) is PlaceholderOp and t.op.strides is None
        return given and readers[t] == 1 and not any(t is k for k in outputs)

    return exchanged(outputs, lambda op: _as_rows(op, alone, fixed))


def _as_rows(op: ComputeOp, alone: Callable[[Tensor], bool], fixed: Collection[Tensor]) -> Tensor | None:
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
        if not alone(weight.tensor):
            continue
        known = any(weight.tensor is t for t in fixed)
        lies = alone(data.tensor) and not any(data.tensor is t for t in fixed)
        made = _in_groups(op, total, data, weight, known=known, lies=lies)
        if made is not None:
            return made
        rows = [a for a in op.axis if any(a.var in variables(i) for i in data.indices)]
        columns = [a for a in op.axis if a not in rows]
        many = math.prod(const_int(a.extent) or FEW for a in rows)
        if known or not rows or len(columns) != 1 or many >= FEW:
            continue
        least = many * (MANY if len(data.indices) > 3 else MANY_OF_ROW)
        if (const_int(columns[0].extent) or 0) < least or not _lies(weight, [*columns, *total.axes]):
            continue
        windows = _windows(op, data, rows, total, lies=lies)
        matrix = _seen(weight, columns, total.axes, f"{op.name}.weight", "")
        seen: Seen = {weight: (matrix, columns), data: (windows, rows)}
        return _product(op, op.axis, total, seen)
    return None


def _in_groups(
    op: ComputeOp, total: Reduce, data: TensorRead, weight: TensorRead, *, known: bool, lies: bool
) -> Tensor | None:
    """The same of channels in groups, each of which has a product with a matrix of its own. Of a weight that
    is ``known``: where each image is one place."""
    outputs = next((a for a in op.axis if weight.indices and weight.indices[0] is a.var), None)
    found = None if outputs is None else _of_group(data, outputs)
    if outputs is None or found is None or not _lies(weight, [outputs, *total.axes]):
        return None
    of_group, group, each = found
    rows = [a for a in op.axis if a is not outputs]
    many = math.prod(const_int(a.extent) or FEW for a in rows)
    if many >= FEW or each < many * MANY:
        return None
    if known and any(const_int(a.extent) != 1 for a in op.axis[op.axis.index(outputs) :][1:]):
        return None
    own = fresh_axis("j", make.const(each, "int32"))
    matrix = _seen(weight, [group, own], total.axes, f"{op.name}.weight", "")
    windows = _windows(op, of_group, [*rows, group], total, lies=lies)
    # of a weight that lies as it came each sum is along memory; a packed one has outputs side by side
    order = [*rows, group, own] if known else [group, own, *rows]
    fresh = {a: fresh_axis(a.var.name, a.extent) for a in order}
    seen = {weight: (matrix, [fresh[group], fresh[own]]), data: (windows, [fresh[a] for a in [*rows, group]])}
    product = _product(op, tuple(fresh.values()), total, seen, f"{op.name}.groups")
    place: dict[IterVar, Expr] = {a: a.var for a in rows}
    place |= {group: make.floordiv(outputs.var, each), own: make.floormod(outputs.var, each)}
    read = intern(TensorRead, product, tuple(place[a] for a in order))
    return ComputeOp(op.name, op.axis, (), (read,), "", {}, None, op.needs).outputs[0]


def _of_group(data: TensorRead, outputs: IterVar) -> tuple[TensorRead, IterVar, int] | None:
    """What is read for an output of a group, the axis of the groups, and how many outputs each has; None
    where there are no groups."""
    divided = {e for i in data.indices for e in preorder(i) if isinstance(e, FloorDiv) and e.a is outputs.var}
    if len(divided) != 1:
        return None
    (which,) = divided
    each, many = const_int(which.b), const_int(outputs.extent)
    if each is None or many is None or each < 2 or many % each:
        return None
    group = fresh_axis("g", make.const(many // each, "int32"))
    indices = tuple(rewrite(i, lambda e: group.var if e is which else None) for i in data.indices)
    if any(outputs.var in variables(i) for i in indices):
        return None
    return intern(TensorRead, data.tensor, indices), group, each


def _windows(
    op: ComputeOp, data: TensorRead, rows: Sequence[IterVar], total: Reduce, *, lies: bool
) -> Tensor:
    """The windows of each of the ``rows``, as they lie or in a copy."""
    lies = lies and _lies(data, [*rows, *total.axes])
    return _seen(data, rows, total.axes, f"{op.name}.window", "" if lies else LINES)


def _product(op: ComputeOp, axes: Sequence[IterVar], total: Reduce, seen: Seen, name: str = "") -> Tensor:
    """``op`` at these axes as a sum over one axis, with what is ``seen`` at some of them in the place of what
    it reads."""
    k = fresh_axis("k", make.const(math.prod(const_int(a.extent) or 1 for a in total.axes), "int32"), REDUCE)

    def there(e: Expr) -> Expr | None:
        if e not in seen:
            return None
        tensor, own = seen[e]
        return intern(TensorRead, tensor, (*[a.var for a in own], k.var))

    sources = tuple(rewrite(e, there) for e in total.sources)
    body = intern(Reduce, total.reducer, sources, (k,), None, total.init, total.index)
    return ComputeOp(name or op.name, tuple(axes), (k,), (body,), op.tag, op.attrs, None, op.needs).outputs[0]


def _lies(read: TensorRead, axes: Sequence[IterVar]) -> bool:
    """Whether all of a tensor is read, by these axes in the order in which it lies."""
    shape = [const_int(n) or 0 for n in read.tensor.shape]
    sizes = [const_int(a.extent) or 0 for a in axes]
    if not 0 < math.prod(shape) == math.prod(sizes):
        return False
    there, here = dict[Monomial, int](), dict[Monomial, int]()
    for total, at, ns in ((there, read.indices, shape), (here, [a.var for a in axes], sizes)):
        step = 1
        for i, n in zip(reversed(at), reversed(ns), strict=True):
            for atoms, many in poly(i).items() if n > 1 else ():
                total[atoms] = total.get(atoms, 0) + many * step
            step *= n
    return there == here


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
