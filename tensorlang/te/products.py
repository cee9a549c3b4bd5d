"""Products of two tensors and a sum, recognised by what they read along which axis: matrix products and
convolutions. Knows te; no schedules, and nothing of what a schedule makes of them.

A convolution is recognised in one place, ``windows_of``: which read is the weight, which axis counts the
outputs, and how each index of the image moves. Who wants certain orders, taps or strides asks that of the
answer: ``conv_of`` here for channels first, ``schedule/legality/filtering`` for 3×3 taps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..expr.linear import poly
from ..expr.nodes import Cast, Expr, FloorDiv, FloorMod, Mul, const_int
from ..expr.walk import preorder, variables
from .axis import IterVar
from .patterns import constant, is_narrow, narrow_product, reads_of, reducer_kind, step, typical
from .reducers import Reduce
from .tensor import ComputeOp, Tensor, TensorRead

FEW_ROWS = 64  # what packing of the left operand and blocks of the right one are spread over
OPEN_ROWS = 16  # what an open number of rows without a hint counts as


@dataclass(frozen=True)
class Product:
    """``out[…, i, …, j] = sum(left[…, i, k] * right[…, k, j])``: operands with the dimension of each axis, in
    whatever order they have; other dimensions are read at one place."""

    left: Tensor
    right: Tensor
    left_axes: dict[IterVar, int]
    right_axes: dict[IterVar, int]
    row: IterVar | None  # of the axes that the right operand does not have: see _row
    column: IterVar
    narrow: bool  # of 8- or 16-bit integers, summed in 32 bits

    @property
    def in_lines(self) -> bool:
        """Whether the columns of the right operand are neighbours in memory."""
        return self.right_axes[self.column] == len(self.right.shape) - 1


def product_of(op: ComputeOp, views: bool = False) -> Product | None:
    """The matrix product that ``op`` computes, None when it is something else. With ``views`` the rows of the
    left operand may lie in another order than they are counted in, as those of the windows of an image do:
    it has no dimension for their axes then, and the last one for the sum's."""
    reads = _factors(op)
    if not reads or not op.axis:
        return None
    by_var = {a.var: a for a in (*op.axis, *op.reduce_axis)}
    operands = list[tuple[Tensor, dict[IterVar, int]]]()
    picked = list[Tensor]()
    for tensor, indices in reads:
        axes = [by_var.get(i) for i in indices]  # type: ignore[call-overload]
        places = {a: d for d, a in enumerate(axes) if a is not None}
        # some index is neither an axis nor a number
        if len(places) + sum(const_int(i) is not None for i in indices) < len(indices):
            picks = views and not any(n is tensor for n, _ in operands) and _picks_rows(op, indices)
            if not picks:
                return None
            picked.append(tensor)
            places = {a: d for a, d in places.items() if a in op.reduce_axis}
        operands.append((tensor, places))
    column = op.axis[-1]
    sides = [i for i, (_, places) in enumerate(operands) if column in places]
    # both operands move with the columns, or none does: no tile would use a column twice
    if len(sides) != 1:
        return None
    (right, right_axes), (left, left_axes) = operands[sides[0]], operands[1 - sides[0]]
    if any(t is right for t in picked):
        return None
    rows = [a for a in op.axis if a not in right_axes]
    # a sum over an axis of one operand alone is a product with a sum
    if not all(a in left_axes and a in right_axes for a in op.reduce_axis):
        return None
    return Product(left, right, left_axes, right_axes, _row(rows), column, narrow_product(op))


def _picks_rows(op: ComputeOp, indices: Sequence[Expr]) -> bool:
    """Whether these are rows, picked by quotients of the axes of all but the columns, and an element of a row
    for each index of the sum."""
    *rows, last = indices
    sums, column = op.reduce_axis, op.axis[-1].var
    return (
        len(sums) == 1
        and last is sums[0].var
        and not any(v is column or v is last for i in rows for v in variables(i))
        and any(isinstance(e, FloorDiv | FloorMod) for i in rows for e in preorder(i))
    )


def _row(rows: Sequence[IterVar]) -> IterVar | None:
    """The axis of which a register tile has several: the innermost, but for short ones, as the batch is of
    (time, batch, features), one that is longer by far. The right operand is read for each index of the
    others: 50 × 1 rows took ten times as long as 1 × 50, 50 × 8 rows 1.6 times."""
    return rows[row_among([typical(a.extent, OPEN_ROWS) for a in rows])] if rows else None


def row_among(lengths: Sequence[int]) -> int:
    """Which of the axes of these lengths, of the left operand alone, has the rows of a register tile."""
    longest = max(lengths)
    short = lengths[-1] < FEW_ROWS and longest >= 2 * lengths[-1]
    return lengths.index(longest) if short else len(lengths) - 1


def sums_columns(op: ComputeOp, product: Product) -> bool:
    """Whether ``op`` sums the right operand of a product, integers of 8 or 16 bits, over the axes that its
    sums go over, for each of its columns."""
    first = op.body[0] if len(op.body) == 1 else None
    if type(first) is not Reduce or reducer_kind(op) != "add" or first.condition is not None or not op.axis:
        return False
    source, by_var = first.sources[0], {a.var: a for a in (*op.axis, *op.reduce_axis)}
    if first.init is not None or not is_narrow(source) or source.a.tensor is not product.right:  # type: ignore[attr-defined]
        return False
    mine = [by_var.get(i) for i in source.a.indices]  # type: ignore[attr-defined]
    theirs = {d: a for a, d in product.right_axes.items()}
    return (
        len(theirs) == len(mine) == len(by_var) == len(set(mine))
        and all(
            a is not None and a.kind == theirs[d].kind and a.extent is theirs[d].extent
            for d, a in enumerate(mine)
        )
        and mine[product.right_axes[product.column]] is op.axis[-1]
    )


@dataclass(frozen=True, slots=True)
class Contraction:
    """A sum of products of two tensors over axes that both have, each index of which is an axis: ``sides``
    are the tensors, with the dimension of each axis, and the axes of the result that they alone have;
    ``both`` those that both have."""

    sides: tuple[tuple[Tensor, dict[IterVar, int], tuple[IterVar, ...]], ...]
    both: tuple[IterVar, ...]


def contraction_of(op: ComputeOp) -> Contraction | None:
    """The contraction that ``op`` computes, None when it is something else."""
    by_var: dict[Expr, IterVar] = {a.var: a for a in (*op.axis, *op.reduce_axis)}
    operands = [(t, {by_var[i]: d for d, i in enumerate(at) if i in by_var}) for t, at in _factors(op)]
    known = {a for _, places in operands for a in places}
    if (
        len(operands) != 2
        or any(len(places) < len(t.shape) for t, places in operands)
        or not all(a in places for _, places in operands for a in op.reduce_axis)
        or not known.issuperset(op.axis)
    ):
        return None
    both = tuple(a for a in op.axis if all(a in places for _, places in operands))
    own = [tuple(a for a in op.axis if a in places and a not in both) for _, places in operands]
    return Contraction(tuple((*o, mine) for o, mine in zip(operands, own, strict=True)), both)


def alone_in_of(op: ComputeOp) -> tuple[Tensor, dict[IterVar, int], tuple[IterVar, ...]] | None:
    """Of a sum of products of two tensors the one that has the last axis of the result, where each of its
    indices is an axis: with the dimension of each, and the axes that it alone has, whatever windows of the
    other are read. None where there is none."""
    by_var: dict[Expr, IterVar] = {a.var: a for a in (*op.axis, *op.reduce_axis)}
    reads = _factors(op) if op.axis else ()
    for (tensor, at), (_, other) in (reads, reads[::-1]) if reads else ():
        places = {by_var[i]: d for d, i in enumerate(at) if i in by_var}
        beside = {v for i in other for v in variables(i)}
        if len(places) == len(at) and op.axis[-1] in places and op.axis[-1].var not in beside:
            return tensor, places, tuple(a for a in op.axis if a in places and a.var not in beside)
    return None


@dataclass(frozen=True, slots=True)
class Moved:
    """How an index of an image moves: ``axis * stride + tap * dilation + added``. Without such an axis it is
    None and its step 0; a step that is not always the same is 0, what is added and no number is None."""

    axis: IterVar | None  # of the result
    stride: int
    tap: IterVar | None
    dilation: int
    added: int | None


@dataclass(frozen=True)
class Windows:
    """A sum over windows of ``data``, which is read at ``place``, times ``weight``, read at ``at``: the
    weight has one axis of the result, ``outputs``, and each of its indices is an axis or 0."""

    data: Tensor
    weight: Tensor
    place: tuple[Expr, ...]
    at: tuple[Expr, ...]
    weight_axes: dict[IterVar, int]  # the dimension of each axis; one of a single value may be missing
    outputs: IterVar
    moved: tuple[Moved, ...]  # of each dimension of the data


def factors_of(op: ComputeOp, widened: bool = False) -> tuple[TensorRead, TensorRead] | None:
    """The two elements whose product a reduction is over, as they are read; None where it is over something
    else, also of the same two. ``widened``: also of floats that are made wider before."""
    source = op.body[0].sources[0] if isinstance(op.body[0], Reduce) else None
    if not isinstance(source, Mul):
        return None
    a, b = (before_widening(e) if widened else e for e in (source.a, source.b))
    return (a, b) if isinstance(a, TensorRead) and isinstance(b, TensorRead) else None


def before_widening(e: Expr) -> Expr:
    """What a float is made wider of; any other expression itself."""
    wide = isinstance(e, Cast) and e.dtype.is_float and e.a.dtype.is_float and e.dtype.bytes > e.a.dtype.bytes
    return e.a if wide else e  # type: ignore[attr-defined]


def windows_of(op: ComputeOp) -> Windows | None:
    """The windows and weight whose products ``op`` sums; None where it sums something else, or where an index
    has two axes of the result, or two taps."""
    reads = _factors(op)
    # products commute: which operand is the weight shows by its plain indices
    for (weight, at), (data, place) in (reads, reads[::-1]) if reads else ():
        axes = _weight_axes(op, at)
        outputs = [a for a in op.axis if axes is not None and a in axes]
        if axes is not None and len(outputs) == 1:
            moved = tuple(m for i in place if (m := _moved(op, i, outputs[0])) is not None)
            whole = len(moved) == len(place)
            return Windows(data, weight, place, at, axes, outputs[0], moved) if whole else None
    return None


def _moved(op: ComputeOp, index: Expr, outputs: IterVar) -> Moved | None:
    axes, taps = (
        [(a, step(index, a)) for a in of if a is not outputs and step(index, a) != 0]
        for of in (op.axis, op.reduce_axis)
    )
    # an index moves with one place of the result and one tap, or the windows are of another kind
    if len(axes) > 1 or len(taps) > 1:
        return None
    moving = {(a.var,) for a, _ in (*axes, *taps)}
    rest = {term: n for term, n in poly(index).items() if term not in moving}
    added = rest.pop((), 0)
    axis, stride = axes[0] if axes else (None, 0)
    tap, dilation = taps[0] if taps else (None, 0)
    return Moved(axis, stride or 0, tap, dilation or 0, None if rest else added)


@dataclass(frozen=True)
class Conv:
    """``out[*batch, o, *places] = sum(data[*batch, first + c, *places * strides + …] * weight[o, c,
    *taps])``; ``groups`` of ``each`` outputs.

    Any number of batch axes, none too; a place may lack its tap; the weight has its axes in any order, at
    ``weight_axes``.
    """

    data: Tensor
    weight: Tensor
    weight_axes: dict[IterVar, int]  # the dimension of each axis; one of a single value may be missing
    batch: tuple[IterVar, ...]
    outputs: IterVar
    spatial: tuple[IterVar, ...]
    channels: IterVar
    taps: tuple[IterVar, ...]  # in the order of their places
    strides: tuple[int, ...]
    groups: int
    each: int

    @property
    def sizes(self) -> list[int]:
        """Of the output image; 0 for a symbolic one."""
        return [constant(a.extent) or 0 for a in self.spatial]

    @property
    def images(self) -> int | None:
        """In the batch; None when symbolic."""
        sizes = [constant(a.extent) for a in self.batch]
        return None if None in sizes else math.prod(n or 0 for n in sizes)

    @property
    def pointwise(self) -> bool:
        """Whether the reduction is over channels only, and what it reads are the pixels at multiples of the
        stride, all of them."""
        extents = [constant(n) for n in self.data.shape[-len(self.spatial) :]]
        return (
            self.groups == 1
            and all(constant(t.extent) == 1 for t in self.taps)
            and all(
                n is not None and -(-n // st) == m
                for n, st, m in zip(extents, self.strides, self.sizes, strict=True)
            )
        )


def conv_of(op: ComputeOp) -> Conv | None:
    """The convolution that ``op`` computes, None when it is something else. Batch and places may have
    symbolic sizes, the rest may not.

    Each axis has the role that the reads give it: the weight's only data axis counts the outputs; before the
    dimension of the channels, the data has the batch, and behind it the places, each alone or with a tap.
    """
    w = windows_of(op)
    if w is None or len(w.place) != len(op.axis):
        return None
    first = next(d for d, a in enumerate(op.axis) if a is w.outputs)
    batch, spatial, c, places = op.axis[:first], op.axis[first + 1 :], w.moved[first], w.moved[first + 1 :]
    if (
        not spatial
        or any(constant(a.extent) in (None, 0) for a in (w.outputs, *op.reduce_axis))
        or any(constant(a.extent) == 0 for a in spatial)
        or any(i is not a.var for i, a in zip(w.place, batch, strict=False))
        or any(m.axis is not a or not m.stride for m, a in zip(places, spatial, strict=True))
        or c.axis is not None
        or c.tap is None
        or c.dilation != 1
    ):
        return None
    moving = [m.tap for m in places if m.tap is not None]
    # taps of a single value fold away in the index; they are still axes of the sum
    still = [t for t in op.reduce_axis if t not in {c.tap, *moving}]
    taps = [*still, *moving]
    if any(constant(t.extent) != 1 for t in still):
        return None
    if not taps or not len({c.tap, *taps}) == len(taps) + 1 == len(op.reduce_axis):
        return None
    there, wanted = constant(w.data.shape[first]), constant(w.outputs.extent) or 1
    groups = (
        1 if w.place[first] is c.tap.var else 0 if there is None else there // (constant(c.tap.extent) or 1)
    )
    if not groups or wanted % groups:
        return None
    strides = tuple(m.stride for m in places)
    return Conv(
        w.data,
        w.weight,
        w.weight_axes,
        batch,
        w.outputs,
        spatial,
        c.tap,
        tuple(taps),
        strides,
        groups,
        wanted // groups,
    )


def phases_of(op: ComputeOp) -> dict[IterVar, int]:
    """Of a sum of products that reads an image at ``axis // stride``, as a transposed convolution does: those
    axes with their strides. Empty for any other compute, and where an axis is divided by two numbers."""
    found: dict[IterVar, int] = {}
    by_var = {a.var: a for a in op.axis}
    for tensor, at in _factors(op, conditional=True):
        if len(at) != len(op.axis) or not op.body[0].dtype.holds(tensor.dtype):
            continue
        for i in at:
            for e in preorder(i):
                if not isinstance(e, FloorDiv):
                    continue
                stride = const_int(e.b)
                axes = [by_var[v] for v in variables(e.a) if v in by_var]
                if stride is None or len(axes) != 1 or step(e.a, axes[0]) != 1:
                    return {}
                # two reads of different strides have no common phases
                if found.setdefault(axes[0], stride) != stride:
                    return {}
    return found


def _weight_axes(op: ComputeOp, at: Sequence[Any]) -> dict[IterVar, int] | None:
    """The dimension of each axis of a weight, whose indices are one axis each, or 0."""
    by_var = {a.var: a for a in (*op.axis, *op.reduce_axis)}
    axes = {by_var[i]: d for d, i in enumerate(at) if i in by_var}
    if len(axes) != sum(constant(i) != 0 for i in at) or not all(
        a in axes or constant(a.extent) == 1 for a in op.reduce_axis
    ):
        return None
    return axes


def _factors(op: ComputeOp, conditional: bool = False) -> tuple[tuple[Tensor, tuple[Expr, ...]], ...]:
    """The two reads of a plain sum, or of one that leaves some out; none for any other compute."""
    if (
        reducer_kind(op) != "add"
        or len(op.body) != 1
        or (op.body[0].condition is not None and not conditional)
        or op.body[0].init is not None
    ):
        return ()
    reads = reads_of(op).plain
    return reads if len(reads) == 2 else ()
