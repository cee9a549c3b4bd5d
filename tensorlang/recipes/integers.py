"""Sums of products of 8- and 16-bit integers, before anything else is scheduled: zero points are taken apart,
and where a processor sums products of uint8 and int8 in fours, one of two operands of one sign is turned to
the other. Uses public primitives only.
"""

from __future__ import annotations

import math

from ..analysis import Product, parts_of, product_of, typical, windows_of
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import ComputeOp, IterVar, Operation, Tensor
from .common import size
from .lanes import vector_width

# products that read the same element of one operand and of the other, and terms of a sum, from which on it
# pays: sums of the one and a copy of the other cost as much as so few gain. Measured (Zen 4, one thread):
# int8, 512 × 512 × 512 0.51 of the time, 64 × 64 × 64 0.57, 768 × 768 × 16 0.55, 16 × 768 × 768 0.65 (a
# constant on the right 0.51), 4 × 768 × 768 0.77; convolutions 0.50 to 0.65, of three channels, these last,
# 0.77 to 1.03
ROWS, COLUMNS, TERMS = 4, 16, 16
OPEN = 64  # what an open size counts as
LITTLE = 16  # times the terms of a sum that another one beside it has, which alone is worth much code


def begin_integers(s: Schedule, target: Target) -> None:
    """Zero points apart, and an operand of each product of one sign turned, where that takes less time."""
    for stage in s.stages:
        if splits(s, stage):
            s.split_sum(stage.name)
    for stage in s.stages:
        operand = operand_to_turn(s, stage, target)
        if operand is not None:
            s.turn_sign(stage.name, operand)


def splits(s: Schedule, stage: Stage) -> bool:
    """Whether a stage sums differences of narrow integers that are better taken apart."""
    parts = parts_of(stage.op) if isinstance(stage.op, ComputeOp) else None
    if parts is None or not parts[0].is_narrow:
        return False
    main, others = parts
    return all(ROWS * p.results <= main.results for p in others) and bool(s.can("split_sum", stage.name))


def is_little(s: Schedule, stage: Stage) -> bool:
    """Whether what reads a sum reads another of many more terms too, as that of a product is beside the sums
    of its columns, which its zero point is multiplied with."""
    beside = [_terms(t.op) for r in s.state.readers(stage.name) for t in r.op.input_tensors]
    return LITTLE * _terms(stage.op) <= max(beside, default=0)


def _terms(op: Operation) -> int:
    """How many terms are summed up, for all results."""
    if not isinstance(op, ComputeOp) or not op.reduce_axis:
        return 0
    return math.prod(typical(a.extent, OPEN) for a in (*op.axis, *op.reduce_axis))


def operand_to_turn(s: Schedule, stage: Stage, target: Target) -> str | None:
    """Of a product of one sign the left operand, of a convolution the image, where it takes less time by the
    other sign; None for all else."""
    op = stage.op
    if not target.summed(4) or target.has_tiles or not isinstance(op, ComputeOp) or not op.reduce_axis:
        return None
    operand = _read_again(op)
    return operand.name if operand is not None and s.can("turn_sign", stage.name, operand.name) else None


def _read_again(op: ComputeOp) -> Tensor | None:
    """The left operand or the image, if each element is read often enough and has the sign of the other."""
    product, window = product_of(op), windows_of(op)
    if product is not None:
        left, right, axes = product.left, product.right, set(product.right_axes)
    elif window is not None:
        left, right, axes = window.data, window.weight, {window.outputs}
    else:
        return None
    count = lambda of: math.prod(typical(a.extent, OPEN) for a in of)
    rows, columns = count(a for a in op.axis if a not in axes), count(a for a in op.axis if a in axes)
    if rows < ROWS or columns < COLUMNS or count(op.reduce_axis) < TERMS:
        return None
    return left if left.dtype == right.dtype and left.dtype.name in ("int8", "uint8") else None


def turn_in(s: Schedule, out: Stage, inside: Stage, product: Product, place: IterVar, target: Target) -> None:
    """Let each thread turn the left operand for itself, in ``place``, the loop that threads share, which has
    an iteration for each, where the operand stays near. One that all of them turn together waits for the
    last, and half of it comes out of the cache of another core.

    Measured (Zen 4, two threads), 256 × 256 × 256: 0.78 of the time, with what ``slabs`` leaves alone.
    """
    made = s.state.of(product.left)
    op = made.op
    if not isinstance(op, ComputeOp) or not op.axis:
        return
    sizes = [size(a) for a in op.axis]
    alone = made.attach is None and not made.is_output and not op.reduce_axis
    alone = alone and [r.name for r in s.state.readers(made.name)] == [inside.name]
    near = None not in sizes and math.prod(n or 0 for n in sizes) <= target.l2_bytes // 4
    if not alone or not near or op.body[0].dtype.bytes > 1:
        return
    stage = s[made.name]
    last = op.axis[-1]
    stage.compute_at(out, place)
    stage.vectorize(stage.split(last, vector_width(stage, sizes[-1], target))[1])
