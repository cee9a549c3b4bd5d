"""Computations whose arrays end in dimensions of size 1, as ``[n, c, 1, 1]`` of an average over an image
does, as the same ones without these dimensions.

What lies in memory is the same, and a schedule finds the axis along memory where it looks for it: last. With
them the last axis has one element, and neither vectors nor products would be seen (measured on Granite
Rapids: a sigmoid of [3, 480, 1, 1] takes 8 times as long, a 1×1 convolution of one pixel up to 20 times).
Knows te; nothing of schedules and kernels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..core.node import intern
from ..expr.nodes import Expr, Var, const_int
from ..expr.walk import rewrite, substitute, variables
from .axis import IterVar
from .exchange import Exchanged
from .graph import operations
from .products import Conv, conv_of
from .reducers import Reduce
from .tensor import ComputeOp, PlaceholderOp, Tensor, TensorRead

FEW = 16  # outputs of a group, and pixels of all images


class Folded(Exchanged):
    """The tensors of a computation, each with the one that it is without its last dimensions of size 1."""

    def values(self, arrays: Mapping[Tensor, Any]) -> dict[Tensor, Any]:
        """The arrays of inputs in the shapes that they have here."""
        there = {t: self.tensors.get(t, t) for t in arrays}
        return {new: arrays[t].reshape(arrays[t].shape[: new.ndim]) for t, new in there.items()}


def folded(outputs: Sequence[Tensor]) -> Folded:
    """The computation of ``outputs`` without the last dimensions of size 1 of its tensors: the very same
    where no output ends in one, and where the axes have a meaning that their number is part of: images of
    more than one pixel (but for some single ones), scans, scatters and externs, and inputs with strides."""
    # operations are left as they are, and what is neither is refused where the schedule is made
    if not all(isinstance(t, Tensor) for t in outputs):
        return Folded({})
    if not any(t.ndim > 1 and const_int(t.shape[-1]) == 1 for t in outputs):
        return Folded({})
    made: dict[Tensor, Tensor] = {}
    for op in operations(t.op for t in outputs):  # producers first
        if isinstance(op, PlaceholderOp) and op.strides is None:
            (old,) = op.outputs
            kept = old.shape[: _kept(old.shape)]
            made[old] = old if len(kept) == old.ndim else PlaceholderOp(op.name, kept, op.dtype).outputs[0]
            continue
        new = _without(op, made) if type(op) is ComputeOp else None
        if new is None:
            return Folded({})
        made.update(zip(op.outputs, new.outputs, strict=True))
    return Folded(made)


def _kept(shape: Sequence[Expr]) -> int:
    """How many dimensions are left; of a tensor that has some, at least one."""
    n = len(shape)
    while n > 1 and const_int(shape[n - 1]) == 1:
        n -= 1
    return n


def _without(op: ComputeOp, made: dict[Tensor, Tensor]) -> ComputeOp | None:
    """A definition without the axes that its tensors lose, None where they mean more."""
    axes = op.axis[: _kept([a.extent for a in op.axis])]
    sums = [a for a in op.reduce_axis if const_int(a.extent) != 1] or list(op.reduce_axis[:1])
    gone = [a for a in (*op.axis, *op.reduce_axis) if a not in axes and a not in sums]
    if gone and _pixels(op):
        return None
    first: dict[Var, Expr] = {a.var: a.dom.min for a in gone if a.dom is not None}

    def renewed(e: Expr) -> Expr | None:
        if type(e) is TensorRead:
            return intern(TensorRead, made[e.tensor], e.indices[: made[e.tensor].ndim])
        if type(e) is Reduce and len(sums) < len(e.axes):
            return e.with_axes(tuple(a for a in e.axes if a in sums))
        return None

    body = tuple(rewrite(substitute(e, first), renewed) for e in op.body)
    if not gone and all(new is old for new, old in zip(body, op.body, strict=True)):
        return op
    return ComputeOp(op.name, axes, tuple(sums), body, op.tag, op.attrs, None, op.needs)


def _pixels(op: ComputeOp) -> bool:
    """Whether it goes over the windows of an image of several pixels, one for each index of its results."""
    conv = conv_of(op)
    if conv is not None:
        return any(n != 1 for n in conv.sizes) and not _products(conv)
    return any(_moves(i, op.axis) and _moves(i, op.reduce_axis) for read in op.reads for i in read.indices)


def _products(conv: Conv) -> bool:
    """Whether a convolution of single pixels is better a product of matrices whose columns are the pixels:
    those of a few outputs in a group, and of few pixels, are neither lanes nor worth the copy of a weight.

    Measured (Zen 5, one thread), images of a pixel's width: of groups of up to 15 outputs 0.02 to 0.26 of the
    time, 512 to 64 channels of 7 pixels 0.02 where the weight comes with the call (at stride 2, packed, 1.2
    to 1.7); larger groups take 1.0 to 9 times as long, many pixels as long.
    """
    if any(const_int(t.extent) != 1 for t in conv.taps):
        return False
    if conv.groups > 1:
        return conv.each < FEW
    return 0 < math.prod(conv.sizes) * (conv.images or FEW) < FEW


def _moves(index: Expr, axes: Sequence[IterVar]) -> bool:
    return any(a.var in variables(index) and const_int(a.extent) != 1 for a in axes)
