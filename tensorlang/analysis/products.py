"""Products of two tensors and a sum, recognised by what they read along which axis: matrix products and
convolutions. Knows te; no schedules, and nothing of what a schedule makes of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..expr.nodes import Expr, FloorDiv, const_int
from ..expr.walk import preorder, variables
from ..te.axis import IterVar
from ..te.tensor import ComputeOp, Tensor
from .patterns import constant, narrow_product, reads_of, reducer_kind, step


@dataclass(frozen=True)
class Product:
    """``out[…, i, …, j] = sum(left[…, i, k] * right[…, k, j])``: operands with the dimension of each axis, in
    whatever order they have; other dimensions are read at one place."""

    left: Tensor
    right: Tensor
    left_axes: dict[IterVar, int]
    right_axes: dict[IterVar, int]
    row: IterVar | None  # the innermost axis that the right operand does not have
    column: IterVar
    narrow: bool  # of 8- or 16-bit integers, summed in 32 bits

    @property
    def in_lines(self) -> bool:
        """Whether the columns of the right operand are neighbours in memory."""
        return self.right_axes[self.column] == len(self.right.shape) - 1


def product_of(op: ComputeOp) -> Product | None:
    """The matrix product that ``op`` computes, None when it is something else."""
    reads = _factors(op)
    if not reads or not op.axis:
        return None
    by_var = {a.var: a for a in (*op.axis, *op.reduce_axis)}
    operands = []
    for tensor, indices in reads:
        axes = [by_var.get(i) for i in indices]  # type: ignore[call-overload]
        places = {a: d for d, a in enumerate(axes) if a is not None}
        if len(places) + sum(const_int(i) is not None for i in indices) < len(indices):
            return None
        operands.append((tensor, places))
    column = op.axis[-1]
    sides = [i for i, (_, places) in enumerate(operands) if column in places]
    if len(sides) != 1:
        return None
    (right, right_axes), (left, left_axes) = operands[sides[0]], operands[1 - sides[0]]
    rows = [a for a in op.axis if a not in right_axes]
    if not all(a in left_axes and a in right_axes for a in op.reduce_axis):
        return None
    return Product(left, right, left_axes, right_axes, rows[-1] if rows else None, column, narrow_product(op))


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
    reads = _factors(op)
    if not reads:
        return None
    for (weight, at), (data, place) in (reads, reads[::-1]):
        axes = _weight_axes(op, at)
        outputs = [a for a in op.axis if axes is not None and a in axes]
        if axes is not None and len(outputs) == 1:
            return _with_data(op, weight, axes, outputs[0], data, place)
    return None


def phases_of(op: ComputeOp) -> dict[IterVar, int]:
    """Of a sum of products that reads an image at ``axis // stride``, as a transposed convolution does: those
    axes with their strides. Empty for any other compute, and where an axis is divided by two numbers."""
    found: dict[IterVar, int] = {}
    by_var = {a.var: a for a in op.axis}
    for tensor, at in _factors(op, conditional=True):
        if len(at) != len(op.axis) or tensor.dtype != op.body[0].dtype:
            continue
        for i in at:
            for e in preorder(i):
                if not isinstance(e, FloorDiv):
                    continue
                stride = const_int(e.b)
                axes = [by_var[v] for v in variables(e.a) if v in by_var]
                if stride is None or len(axes) != 1 or step(e.a, axes[0]) != 1:
                    return {}
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


def _with_data(
    op: ComputeOp,
    weight: Tensor,
    axes: dict[IterVar, int],
    outputs: IterVar,
    data: Tensor,
    place: Sequence[Any],
) -> Conv | None:
    """The convolution of ``weight`` with what is read at ``place``, None where that is not an image."""
    first = next(d for d, a in enumerate(op.axis) if a is outputs)
    batch, spatial = op.axis[:first], op.axis[first + 1 :]
    if (
        not spatial
        or len(place) != len(op.axis)
        or any(constant(a.extent) in (None, 0) for a in (outputs, *op.reduce_axis))
        or any(constant(a.extent) == 0 for a in spatial)
    ):
        return None
    if any(i is not a.var for i, a in zip(place, batch, strict=False)):
        return None
    strides = [step(i, a) for i, a in zip(place[first + 1 :], spatial, strict=True)]
    channels = [c for c in op.reduce_axis if step(place[first], c) == 1]
    if len(channels) != 1 or not all(strides):
        return None
    (c,) = channels
    moved = [[t for t in op.reduce_axis if step(i, t) != 0] for i in place[first + 1 :]]
    still = [t for t in op.reduce_axis if t is not c and all(step(i, t) == 0 for i in place)]
    taps = [*still, *(t for here in moved for t in here)]
    if any(len(here) > 1 for here in moved) or any(constant(t.extent) != 1 for t in still):
        return None
    if not taps or not len({c, *taps}) == len(taps) + 1 == len(op.reduce_axis):
        return None
    there, wanted, depth = constant(data.shape[first]), constant(outputs.extent) or 1, constant(c.extent) or 1
    groups = 1 if place[first] is c.var else 0 if there is None else there // depth
    if not groups or wanted % groups:
        return None
    return Conv(
        data,
        weight,
        axes,
        tuple(batch),
        outputs,
        tuple(spatial),
        c,
        tuple(taps),
        tuple(st or 1 for st in strides),
        groups,
        wanted // groups,
    )


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
