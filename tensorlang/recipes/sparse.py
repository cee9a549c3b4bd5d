"""Reductions over rows that data delimit, as those of a sparse matrix: a row at a time, so that its loop ends
where the row does, with vectors along an axis that all rows have in common, if there is one. Uses public
primitives only."""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis import reads_of, rows_by_data
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import Tensor
from .common import in_registers, share_out, size, work
from .lanes import vector_width


def applies(s: Schedule, inside: Stage, target: Target, constants: Sequence[Tensor]) -> bool:
    """Whether the ranges of ``inside`` are data."""
    op = inside.op
    return (
        bool(op.axis)
        and rows_by_data(op) is not None
        and all(size(a) != 0 for a in (*op.axis, *op.reduce_axis))
    )


def apply(s: Schedule, out: Stage, inside: Stage, target: Target, constants: Sequence[Tensor]) -> None:
    """Compute ``inside`` at each element, or at each vector of elements of one row, of ``out``, which has its
    shape and reads it at its own place."""
    iterations = work(inside)
    *axes, last = out.op.axis
    own = inside.op.axis
    n = size(last)
    if own[-1].var not in (rows_by_data(inside.op) or ()) and reads_of(inside.op).along(own[-1]) and n != 1:
        last, lanes = out.split(last, vector_width(inside, n, target))
        out.vectorize(lanes)
        inside.compute_at(out, last)
        inside.reorder(*inside.op.reduce_axis, *own)
        inside.vectorize(own[-1])
    else:
        inside.compute_at(out, last)
    in_registers(s, inside)
    share_out(out, axes or [last], iterations, target)
