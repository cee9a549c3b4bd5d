"""Which elementwise stages are written into what reads them. Uses public primitives only; schedules nothing
else.

A stage costs a pass over memory, and written into its readers it is computed wherever they read it: so it is
where that is little work, or work that a reduction's sums hide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..analysis import (
    arithmetic,
    cost_of,
    divides,
    few_operations,
    operations,
    own_place,
    reads_of,
    reducer_kind,
    reduces_rows,
    step,
)
from ..ops import tags
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import ComputeOp, Tensor
from . import enlarged, stencils, terms, winograd
from .as_one import elements_of, one_stretch
from .common import is_known, size

# choices among the rows of a transform: one for a whole vector in a stage of its own, one for each lane in a
# reader; rows of a product, which is known by what it reads; and tables
KEPT = (tags.WINOGRAD_WEIGHT, tags.WINOGRAD_DATA, tags.WINOGRAD_INVERSE, tags.LINES, tags.TABLE, tags.FOURIER)
# of a body that others were written into: beyond, a pass over memory costs less than it does, and code grows
MAX_CHAIN_COST = 100
# operations a body may have to be written into a reduction, where it is evaluated again and again
MAX_INLINE_COST = 8
# of these, where several of its results read the same element. Measured (Zen 4, operands of products of 113 ×
# 113 × 53 to 1000 × 64 × 64, one thread and two), written into the product beside held: one or two operations
# 0.6 to 1.1 of the time, a sigmoid in parts 0.8 to 1.4, a division 1.0 to 1.5, by the sum of a row 1.7 to 2.5
MAX_HIDDEN_COST = 4
# operations that other reductions have to spare for an element before it is held for them: it is written and
# read once more
LEAST_SPARED = 8
# vectors of a row that a reduction computes as it reads it, from which on its rest counts for little
LONG = 16


def inline(
    s: Schedule, done: set[str], constants: Sequence[Tensor], hides: Callable[[Stage], bool], target: Target
) -> None:
    """Write stages into their readers, all but those that are ``done`` and those of which ``hides`` says that
    no recipe would know the reader then."""
    held = [stage for stage in s.stages if not _written(s, stage, done, constants, hides, target, held=True)]
    for stage in held:
        if stencils.apart(s, stage):
            _written(s, stage, done, constants, hides, target, held=False)


def _written(
    s: Schedule,
    stage: Stage,
    done: set[str],
    constants: Sequence[Tensor],
    hides: Callable[[Stage], bool],
    target: Target,
    held: bool,
) -> bool:
    """Write a stage into its readers where that is a gain. False where it is not because it is better
    ``held`` beside them."""
    if (
        stage.name in done
        or not isinstance(stage.op, ComputeOp)
        or stage.state.is_output
        or stage.op.reduce_axis
        or stage.op.tag in KEPT
        or winograd.keeps(s, stage)
        or enlarged.keeps(s, stage)
        or _is_number(stage.op, constants)
        or not s.can("compute_inline", stage.name)
    ):
        return True
    if held and stencils.keeps(s, stage):
        return False
    readers = s.state.readers(stage.name)
    again = (
        any(r.compute.reduce_axis and not _once(s, r.compute, stage, target) for r in readers)
        or len(readers) > 1
        or any(stencils.places(r.compute, stage) > 1 for r in readers)
    )
    if (
        few_operations(stage.op, MAX_INLINE_COST if again else MAX_CHAIN_COST)
        and not (_dear(stage.op) and any(_read_again(r.compute, stage) for r in readers))
        and not any(
            _spares(r.compute, stage, target) or terms.same_in_rows(r.compute, stage, target) for r in readers
        )
        and not (_ends(s, stage) or winograd.ends(s, stage))
        and not hides(stage)
    ):
        stage.compute_inline()
    return True


def _once(s: Schedule, op: ComputeOp, producer: Stage, target: Target) -> bool:
    """Whether a reduction along memory reads each element of the producer once, in long rows: held, all of
    them would be written to memory and read again. Not where another reduction has to be known first: then
    both are those of a row, which is held near.

    Measured (Zen 4, one thread and two): sums of a tanh of 2000 × 3000 take 0.66 and 0.44 of the time, along
    the last axis 0.63 and 0.52, of 300 × 500 0.87 and 0.53, its log sum exp 0.67 and 0.51; along rows of 17
    and 50 a tanh would take 1.8 and 1.4 times as long, whose rests are vectors of their own.
    """
    if not reduces_rows(op) or reducer_kind(op) in (None, "custom"):
        return False
    if elements_of(op.axis) != 1 and any(
        isinstance(st.op, ComputeOp) and st.op.reduce_axis
        for st in (s.state.of(t) for t in producer.op.input_tensors)
    ):
        return False
    found = reads_of(op).of(producer.op)
    n = elements_of(one_stretch(op, op.reduce_axis) or op.reduce_axis[-1:])
    lanes = target.vector_lanes(op.body[0].dtype)
    return len(found) == 1 and not _stands_still(op, found[0]) and n is not None and n >= LONG * lanes


def _dear(op: ComputeOp) -> bool:
    """Whether an element takes more than what a product's sums hide: a division, or several operations."""
    return not few_operations(op, MAX_HIDDEN_COST) or divides(op)


def _spares(op: ComputeOp, producer: Stage, target: Target) -> bool:
    """Whether a reduction that multiplies nothing, whose sums hide nothing, had better read the producer's
    elements than compute each for several of its results; and they are more work than what other threads
    have written takes to come.

    Measured (Zen 4, one thread and two): shades of 384 × 256 pixels counted for 64 of them take 0.34 and 0.78
    of the time, distances of 200 × 200 rows of 100 by a difference with one operation 0.88 and 0.84 to 0.96,
    with three 0.7; on two threads 8 shades of 512 × 512 pixels would take 2.8 times as long.
    """
    if not op.reduce_axis or arithmetic(op.body)[0] > 0:
        return False
    elements = math.prod(size(a) or 0 for a in producer.op.axis)
    again = max(
        (
            math.prod(size(a) or 0 for a in op.axis if all(step(i, a) == 0 for i in at))
            for at in reads_of(op).of(producer.op)
        ),
        default=1,
    )
    each = operations(producer.op.body)
    spared = each * elements * again / target.vector_lanes(op.body[0].dtype) / cost_of(target).per_cycle
    return each * (again - 1) >= LEAST_SPARED and spared > terms.handed(producer.op, target)


def _is_number(op: ComputeOp, constants: Sequence[Tensor]) -> bool:
    """Whether ``op`` is one number made of constants: it is computed when they are packed."""
    return not op.axis and is_known(op.output(0), constants)


def _ends(s: Schedule, stage: Stage) -> bool:
    """Whether ``stage`` is the end of a reduction, and each of its elements is read again by the reductions
    behind it, as a layer's activation is by the next product: written into them it would be evaluated for
    each sum, and hide the product that they are."""
    if reduction_to_fuse(s, stage) is None:
        return False
    return all(
        _stands_still(r.compute, at)
        for r in s.state.readers(stage.name)
        for at in reads_of(r.compute).of(stage.op)
    )


def _read_again(op: ComputeOp, producer: Stage) -> bool:
    """Whether a reduction reads an element of the producer for several of its results, as a product does."""
    return any(_stands_still(op, at) for at in reads_of(op).of(producer.op))


def _stands_still(op: ComputeOp, at: Sequence[Any]) -> bool:
    """Whether what a reduction reads at these indices is the same for several of its results."""
    return bool(op.reduce_axis) and any(size(a) != 1 and all(step(i, a) == 0 for i in at) for a in op.axis)


def reduction_to_fuse(s: Schedule, stage: Stage) -> Stage | None:
    """The one reduction of the same shape that an elementwise output reads at its own place."""
    if stage.op.reduce_axis or not stage.op.axis:
        return None
    found = []
    for t in stage.op.input_tensors:
        producer = s.state.of(t)
        if (
            isinstance(producer.op, ComputeOp)
            and producer.compute.reduce_axis
            and not producer.is_output
            and producer.attach is None
        ):
            same = len(t.shape) == len(stage.op.axis) and all(
                a is b.extent for a, b in zip(t.shape, stage.op.axis, strict=True)
            )
            # a stencil, or the transpose, would have the sums of whole rows computed again for each element
            beside = [at for read, at in reads_of(stage.op).plain if read is t]
            alone = len(s.state.readers(producer.name)) == 1
            if same and alone and all(own_place(stage.op, at) for at in beside):
                found.append(s[producer.name])
    return found[0] if len(found) == 1 else None
