"""Transposed convolutions: the outputs of each phase of a stride are a convolution of their own.

Output ``y`` reads the image at ``y // stride`` and the weight at ``y % stride``. Vectors of neighbouring
outputs would read the image twice and the weight in turns; here a vector holds the outputs of one phase, the
phases and some output channels are a register tile, and every load of the image serves all of it. The result
is put together when it is written. Uses public primitives only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..analysis import phases_of, reads_of
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import IterVar, Tensor
from .common import in_registers, share_out, size, work
from .nests import wide_ahead

MOST_PHASES = 9  # of the last axis in a tile
SPARE = 4  # registers for what is read
MOST_HIGH = 8  # output channels of a tile, or phases of another axis


def applies(s: Schedule, inside: Stage, target: Target, constants: Sequence[Tensor]) -> bool:
    """Whether ``inside`` reads an image at an axis divided by a stride, the last one or the channels of a
    group with neighbours along the last, and has work for a vector."""
    op = inside.op
    strides = _strides(inside)
    if not strides:
        return False
    last = op.axis[-1]
    if any(size(a) == 0 for a in (*op.axis, *op.reduce_axis)) or in_whole_groups(inside, target):
        return False
    n = size(last)
    return n is None or n > strides[last]


def in_whole_groups(inside: Stage, target: Target) -> bool:
    """Whether vectors along the last axis read neighbours in one operand and one element in the other: those
    of the channels of a group, which fill them."""
    last = inside.op.axis[-1]
    each = phases_of(inside.op).get(last, 0)
    lanes = target.vector_lanes(inside.op.body[0].dtype)
    return each >= lanes and each % lanes == 0 and reads_of(inside.op).along(last)


def apply(s: Schedule, out: Stage, inside: Stage, target: Target, constants: Sequence[Tensor]) -> None:
    """Compute ``inside`` in tiles of channels × phases × a vector of ``out``, which has its shape and reads
    it at its own place."""
    wide_ahead(s, inside, constants)
    phases = _strides(inside)
    strides = [phases.get(a) for a in inside.op.axis]
    lanes, iterations = target.vector_lanes(inside.op.body[0].dtype), work(inside)
    cuts, high = _tile(strides, target.vector_registers - SPARE)
    row = _row(inside)
    around: list[IterVar] = []
    tile: list[IterVar] = []
    for d, (axis, stride, cut) in enumerate(zip(list(out.op.axis), strides, cuts, strict=True)):
        if stride is not None:
            last, n = d == len(strides) - 1, size(axis)
            # one register a vector: 14 elements would be three, 8 + 4 + 2
            count = lanes if n is None else min(lanes, 1 << (-(-n // stride)).bit_length() - 1)
            outer, inner = out.split(axis, stride * count if last else stride)
            around.append(outer)
            if stride == 1:
                tile.append(inner)
                continue
            if last:
                vector, inner = out.split(inner, stride)
            if cut < stride:
                other, inner = out.split(inner, cut)
                around.append(other)
            tile += [inner, vector] if last else [inner]
        elif d == row and (m := size(axis)) is not None and m > 1:
            outer, inner = out.split(axis, -(-m // -(-m // high)))
            around, tile = [*around, outer], [*tile, inner]
        else:
            around.append(axis)
    out.reorder(*around, *tile)
    for a in tile[:-1]:
        out.unroll(a)
    out.vectorize(tile[-1])

    def by_phase(*at: Any) -> list[Any]:
        return [
            p
            for i, n in zip(at, strides, strict=True)
            for p in ([i % n, i // n] if n is not None and n > 1 else [i])
        ]

    inside.transform_layout(by_phase)
    inside.compute_at(out, around[-1])
    in_registers(s, inside)
    own = list(inside.op.axis)
    inside.reorder(*inside.op.reduce_axis, *own)
    inside.vectorize(own[-1])
    if inside.op.body[0].condition is not None:  # which taps a phase has is known where they are written out
        for tap in inside.op.reduce_axis[1:]:
            inside.unroll(tap)
    at = 0
    for d, stride in enumerate(strides):
        if stride not in (None, 1) or d == row:
            inside.unroll(own[at])
        at += 1 if stride in (None, 1) else 2
    share_out(out, around[:-1] or around, iterations, target)


def _strides(inside: Stage) -> dict[IterVar, int]:
    """``phases_of``, the last axis among them: with one phase where vectors along it read neighbours."""
    op = inside.op
    found = phases_of(op)
    if not found or op.axis[-1] in found:
        return found
    return {**found, op.axis[-1]: 1} if reads_of(op).along(op.axis[-1]) else {}


def _tile(strides: Sequence[int | None], registers: int) -> tuple[list[int], int]:
    """How many phases of each axis are in a tile, divisors of its stride (the groups of channels are phases
    too: all outputs of one read the same image), and how many output channels there is room for."""
    room, cuts = registers, [1] * len(strides)
    for d, stride in reversed(list(enumerate(strides))):
        if stride is not None:
            most = min(room, MOST_PHASES if d == len(strides) - 1 else MOST_HIGH)
            cuts[d] = max(n for n in range(1, max(most, 1) + 1) if stride % n == 0)
            room //= cuts[d]
    return cuts, max(1, min(MOST_HIGH, room))


def _row(inside: Stage) -> int | None:
    """The axis whose elements share what is read of the image: the output channels."""
    reads, own = reads_of(inside.op), inside.op.axis
    return next((d for d in range(len(own) - 2, -1, -1) if reads.reused_over(own[d], own[-1])), None)
