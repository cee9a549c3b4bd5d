"""Terms of formulas that every row would compute again, as stages of their own: those written in a formula,
and stages that would be written into what reads them. Uses public primitives only; schedules no loops.

Along the axes behind those that a term depends on, it is computed once anyway: loops are left by what they do
not change.

Measured (Zen 4, one thread), held ÷ computed in each row: 3000 × 128 by a reciprocal root for each column
0.39, 300 × 768 by a sigmoid 0.35, 488 × 256 by a window of cosines 0.19, rotations of 8 × 512 × 64 by angles
that heads share 0.11.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..analysis import cost_of, divisions, operations, reads_of, step, terms_of, typical
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import ComputeOp, Expr, IterVar

# operations that an element has to take; of them, what a division or a root counts, and from how many on it
# may come from memory beyond the second cache
LEAST_OPERATIONS, DIVISION, MANY_OPERATIONS = 8, 8, 20
LEAST_CYCLES = 300  # that are spared, for a loop of its own
OPEN = 64  # rows and elements that an open number counts as
MOST_TERMS = 8  # of a formula


def hold_terms(s: Schedule, stage: Stage, target: Target) -> None:
    """Compute the dear terms of a formula that depend on some of its axes in stages before it, outer ones
    first, and what is dear in those likewise."""
    for _ in range(MOST_TERMS):
        axes = dear_term(s, stage, target)
        if axes is None:
            return
        hold_terms(s, s[s.precompute(stage.name, axes)], target)


def dear_term(s: Schedule, stage: Stage, target: Target) -> list[str] | None:
    """The axes of the outermost term of a formula that had better be a stage of its own; None where there is
    none, and where the schedule of the stage is begun."""
    op = stage.op
    for term in terms_of(op):
        if _pays((term.expr,), term.axes, _rows(op, term.axes), target):
            axes = [a.name for a in term.axes]
            return axes if s.can("precompute", stage.name, axes) else None
    return None


def same_in_rows(op: ComputeOp, producer: Stage, target: Target) -> bool:
    """Whether every row of an elementwise stage would compute the same of the producer again, as the roots of
    the variances of an image's channels where these are last."""
    if op.reduce_axis:
        return False
    again = 1
    for at in reads_of(op).of(producer.op):
        again = max(again, _rows(op, [a for a in op.axis if any(step(i, a) != 0 for i in at)]))
    return _pays(producer.op.body, producer.op.axis, again, target)


def handed(op: ComputeOp, target: Target) -> float:
    """Cycles until other threads have what one has written."""
    return _handed(op.axis, op.body[0].dtype.bytes, target)


def _rows(op: ComputeOp, own: Sequence[IterVar]) -> int:
    """For how many rows a term of these axes is the same: iterations of the others outside of the last."""
    loops = [*op.axis, *op.reduce_axis]
    last = max((d for d, a in enumerate(loops) if any(a is o for o in own)), default=0)
    return math.prod(typical(a.extent, OPEN) for a in loops[:last] if not any(a is o for o in own))


def _pays(body: tuple[Expr, ...], axes: Sequence[IterVar], again: int, target: Target) -> bool:
    """Whether elements had better be computed once, for ``again`` rows, and read."""
    each, kind = operations(body) + DIVISION * divisions(body), body[0].dtype
    elements = math.prod(typical(a.extent, OPEN) for a in axes)
    if again < 2 or each < LEAST_OPERATIONS or elements == 0:
        return False
    if elements * kind.bytes > target.l2_bytes and each < MANY_OPERATIONS:
        return False
    spared = elements * each * (again - 1) / target.vector_lanes(kind) / cost_of(target).per_cycle
    return spared > LEAST_CYCLES + _handed(axes, kind.bytes, target)


def _handed(axes: Sequence[IterVar], bytes_each: int, target: Target) -> float:
    elements = math.prod(typical(a.extent, OPEN) for a in axes)
    return elements * bytes_each * (target.num_cores - 1) / cost_of(target).remote_rate
