"""Computations of arrays that are seen in other shapes, row by row the same elements: a schedule finds then
what lies side by side in memory where it looks for it. Who calls gives and gets arrays of the shapes that
were declared.

An input that is read as a reshape only is one of that shape: a reduction over what was a row and a column,
``x[k // n, k % n]``, would be taken one element after the other. Measured (Zen 4, one thread): the sum of all
of 3 × 30,001, flattened, and of three rows made of 303 × 300, 0.05 of the time.

Rows of a few elements that are reduced are counted by one index and not by several, whose last one may be
few: as many as a vector has lanes are reduced side by side. Measured (Zen 4, one thread): sums of
6001 × 5 × 3 along the last axis 0.25 of the time, the largest bytes of 51 × 41 × 7 × 3 0.04; (Zen 5) of an
open number, 1000, of 5 × 3 sums 0.33, largest bytes 0.14, softmax 0.25, argmax 0.17, any 0.07.

Knows te; nothing of schedules and kernels.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from ..core.node import intern
from ..expr import make
from ..expr.nodes import Expr, FloorDiv, FloorMod, Var, const_int
from ..expr.walk import preorder, rewrite, variables
from .axis import fresh_axis
from .exchange import Exchanged, reading
from .graph import operations
from .patterns import made_of_place, own_place, reads_of
from .row_major import place, same
from .tensor import ComputeOp, Operation, PlaceholderOp, Tensor, TensorRead
from .unit_axes import Folded, folded
from .whole_windows import windows_as_rows

Readers = Mapping[Tensor, Sequence[ComputeOp]]
SHORT = 16  # elements of a row, and rows, that are fewer than a vector has lanes
MOST = 1 << 30  # rows, which are counted in 32 bits


def as_computed(outputs: Sequence[Tensor], fixed: Collection[Tensor] = ()) -> Folded:
    """The computation of ``outputs`` with its arrays in the shapes in which they are best computed. Those of
    ``fixed`` only lose dimensions of size 1."""
    found: Exchanged = folded(outputs)
    if not all(isinstance(t, Tensor) for t in outputs):
        return Folded(found.tensors)
    kept = found.of(fixed)
    found = found.then(windows_as_rows(found.of(outputs), kept))
    while (made := _one_as_read(found.of(outputs), kept)) is not None:
        found = found.then(made)
    return Folded(found.then(_rows_as_one(found.of(outputs), kept)).tensors)


def _plain(outputs: Sequence[Tensor]) -> tuple[Operation, ...]:
    """The operations, producers first; none where one is a scan, a scatter or an extern."""
    found = operations(t.op for t in outputs)
    return found if all(type(op) in (ComputeOp, PlaceholderOp) for op in found) else ()


# --- inputs that are read as a reshape only -----------------------------------------------------------------


def _one_as_read(outputs: Sequence[Tensor], kept: Sequence[Tensor]) -> Exchanged | None:
    """The computation with one reshape less, None where there is none that nothing else depends on."""
    ops = _plain(outputs)
    found = [op for op in ops if type(op) is ComputeOp and _joins(op)]
    if not found:
        return None
    readers: dict[Tensor, list[ComputeOp]] = {}
    for op in ops:
        for t in op.input_tensors if type(op) is ComputeOp else ():
            readers.setdefault(t, []).append(op)  # type: ignore[arg-type]
    for op in found:
        shape = op.outputs[0].shape
        before = _seen_alike(op, shape, readers, outputs, kept)
        if before:
            return _declared_in(shape, before, ops)
    return None


def _joins(op: ComputeOp) -> bool:
    """Whether an operation gives the elements of a tensor in their order, in a shape whose rows are not parts
    of its rows, nor the other way round."""
    if len(op.body) != 1 or type(op.body[0]) is not TensorRead:
        return False
    read = op.body[0]
    if not any(type(e) in (FloorDiv, FloorMod) for i in read.indices for e in preorder(i)):
        return False
    shape = op.outputs[0].shape
    shapes = (shape, read.tensor.shape)
    known, other = ([n for n in map(const_int, s) if n is not None] for s in shapes)
    bare, others = ([n for n in s if const_int(n) is None] for s in shapes)
    if not 0 < math.prod(known) == math.prod(other) or not same(bare, others):
        return False
    at = place(read.tensor.shape, shape, [a.var for a in op.axis])
    return all(isinstance(n, Var) for n in bare) and same(read.indices, [make.as_expr(i) for i in at])


def _seen_alike(
    view: ComputeOp,
    shape: Sequence[Expr],
    readers: Readers,
    outputs: Sequence[Tensor],
    kept: Sequence[Tensor],
) -> set[Tensor]:
    """The inputs, and what is made of them element by element, that are read in this shape or by one another
    only; none where one is read otherwise too."""
    (first,) = view.input_tensors
    found, waiting = {first}, [first]
    for t in waiting:  # grows on the way
        if any(t is k for k in kept) or not same(t.shape, first.shape) or not _element_by_element(t.op):
            return set()
        beside = [s for s in t.op.input_tensors if s.ndim]
        for r in readers.get(t, ()):
            if not _joins(r):
                beside.append(r.outputs[0])
            elif any(r.outputs[0] is o for o in outputs) or not same(r.outputs[0].shape, shape):
                return set()
        waiting += [s for s in dict.fromkeys(beside) if s not in found]
        found.update(beside)
    return found


def _element_by_element(op: Operation) -> bool:
    """Whether it gives an input as its arrays lie, or what is made of elements at its own place and of what
    is one for all."""
    if type(op) is PlaceholderOp:
        return op.strides is None
    if type(op) is not ComputeOp or op.reduce_axis or len(op.outputs) > 1 or op.needs or made_of_place(op):
        return False
    return all(not at or own_place(op, at) for _, at in reads_of(op).plain)


def _declared_in(shape: Sequence[Expr], these: set[Tensor], ops: Sequence[Operation]) -> Exchanged:
    """The computation with these tensors in another shape, which is that of all that read them."""
    made: dict[Tensor, Tensor] = {}
    for op in ops:
        first = op.outputs[0]
        if first in these:
            made[first] = _in_shape(op, tuple(shape), made)
        elif type(op) is ComputeOp and any(t in these for t in op.input_tensors):
            made[first] = made[op.input_tensors[0]]
        elif type(op) is ComputeOp and any(t in made for t in op.input_tensors):
            made.update(zip(op.outputs, reading(op, made, op.name).outputs, strict=True))
    return Exchanged(made)


def _in_shape(op: Operation, shape: tuple[Expr, ...], made: Mapping[Tensor, Tensor]) -> Tensor:
    if type(op) is PlaceholderOp:
        return PlaceholderOp(op.name, shape, op.dtype).outputs[0]
    assert type(op) is ComputeOp
    axes = tuple(fresh_axis(f"i{d}", n) for d, n in enumerate(shape))
    own = tuple(a.var for a in axes)

    def there(e: Expr) -> Expr | None:
        if type(e) is not TensorRead:
            return None
        return intern(TensorRead, made.get(e.tensor, e.tensor), own if e.indices else ())

    body = tuple(rewrite(e, there) for e in op.body)
    return ComputeOp(op.name, axes, (), body, op.tag, op.attrs).outputs[0]


# --- short rows ---------------------------------------------------------------------------------------------


def _rows_as_one(outputs: Sequence[Tensor], kept: Sequence[Tensor]) -> Exchanged:
    """The computation with one index of rows, where they are short, have several, and all that is computed
    has these first."""
    ops = [op for op in _plain(outputs) if type(op) is ComputeOp]
    sums = [op for op in ops if op.reduce_axis]
    if not sums or any(
        math.prod(const_int(a.extent) or SHORT for a in op.reduce_axis) >= SHORT for op in sums
    ):
        return Exchanged({})
    sizes = [a.extent for a in sums[0].axis[: min(len(op.axis) for op in ops)]]
    count = next((d for d, n in enumerate(sizes) if const_int(n) == 0), len(sizes))
    while count > 1 and not _have_rows(ops, sizes[:count], kept):
        count -= 1
    rows = _number(sizes[:count])
    few = rows is not None and (const_int(sizes[count - 1]) or SHORT) % SHORT != 0
    alone = any(all(const_int(a.extent) == 1 for a in op.axis[count:]) for op in sums)
    if rows is None or not few or not alone:
        return Exchanged({})
    made: dict[Tensor, Tensor] = {}
    for op in ops:
        made[op.outputs[0]] = _counted(op, count, rows, made)
    return Exchanged(made)


def _number(sizes: Sequence[Expr]) -> Expr | None:
    """The number of rows of several such axes, of which one may be open, for a call cannot tell more of them
    from it. None where there are too few for a vector, or too many to be counted."""
    known = math.prod(const_int(n) or 1 for n in sizes)
    open_ = [n for n in sizes if const_int(n) is None]
    if len(sizes) < 2 or len(open_) > 1 or known > MOST or (not open_ and known < SHORT):
        return None
    return make.mul(open_[0], known) if open_ else make.const(known, "int32")


def _have_rows(ops: Sequence[ComputeOp], sizes: Sequence[Expr], kept: Sequence[Tensor]) -> bool:
    """Whether the first axes of all operations are of these sizes, and name a row in all that is read there
    and nothing else."""
    by_row: dict[Tensor, bool] = {op.outputs[0]: True for op in ops}
    for op in ops:
        own = tuple(a.var for a in op.axis[: len(sizes)])
        if len(op.outputs) > 1 or not _begins(op.outputs[0], sizes) or not made_of_place(op).isdisjoint(own):
            return False
        for tensor, at in reads_of(op).plain:
            moves = any(not variables(i).isdisjoint(own) for i in at)
            behind = [i for i in at[len(own) :] if not variables(i).isdisjoint(own)]
            if moves and (behind or not same(at[: len(own)], own) or not _begins(tensor, sizes)):
                return False
            if by_row.setdefault(tensor, moves) is not moves or (moves and any(tensor is k for k in kept)):
                return False
            if moves and type(tensor.op) is PlaceholderOp and tensor.op.strides is not None:
                return False
    return True


def _begins(tensor: Tensor, sizes: Sequence[Expr]) -> bool:
    shape = tensor.shape[: len(sizes)]
    alike = lambda a, b: a is b or (const_int(a) is not None and const_int(a) == const_int(b))
    return len(shape) == len(sizes) and all(map(alike, shape, sizes))


def _counted(op: ComputeOp, count: int, rows: Expr, made: dict[Tensor, Tensor]) -> Tensor:
    """A definition with one axis in the place of the first ``count``; what it reads by these is ``made``."""
    gone, row = {a.var for a in op.axis[:count]}, fresh_axis(op.axis[count - 1].var.name, rows)

    def there(e: Expr) -> Expr | None:
        if type(e) is not TensorRead or not any(i in gone for i in e.indices[:count]):
            return None
        if e.tensor not in made:
            shape = (rows, *e.tensor.shape[count:])
            made[e.tensor] = PlaceholderOp(e.tensor.name, shape, e.tensor.dtype).outputs[0]
        return intern(TensorRead, made[e.tensor], (row.var, *e.indices[count:]))

    body = tuple(rewrite(e, there) for e in op.body)
    axes = (row, *op.axis[count:])
    return ComputeOp(op.name, axes, op.reduce_axis, body, op.tag, op.attrs, None, op.needs).outputs[0]
