"""Transposed convolutions: the outputs of each phase of a stride are a convolution of their own.

Output ``y`` reads the image at ``y // stride`` and the weight at ``y % stride``. Vectors of neighbouring
outputs would read the image twice and the weight in turns; here a vector holds the outputs of one phase, the
phases and some output channels are a register tile, and every load of the image serves all of it. The result
is put together when it is written. Uses public primitives only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..analysis import constant, phases_of, reads_of, step
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import IterVar, Tensor
from .common import FEW_REGISTERS, in_registers, share_out, size, work
from .conv import padding_of
from .narrow import wide_copies
from .register_tile import even

MOST_PHASES = 9  # of the last axis in a tile
SPARE = 4  # registers for what is read
AHEAD = 8  # channels ahead of which a weight is asked for that no cache near holds
MOST_VECTORS = 4  # of rows that are counted as one axis
MOST_HIGH = 8  # output channels of a tile, or phases of another axis
# of a phase that are written out: neighbours read the same pixels, and a loop of two iterations costs as much
# as the multiply-adds within. Measured (Emerald Rapids, 4 × 4 with stride 2): 1.5 to 1.9 times as fast. Of
# tiles of several vectors two: what more of them read in common fills the registers, and sums are spilled
MOST_TAPS, MOST_WIDE_TAPS = 4, 2
# vectors' worth of time takes one of a row that does not end with a vector, where phases lack taps: all are
# masked. Measured (Emerald Rapids): 1.8 to 2.4
MASKED = 2
# channels of an image, and tiles that read what there is of a weight for each, from which on the weight is
# copied so that what a tile reads of all channels lies together: in [C, O, KH, KW] each takes lines of its
# own, in few sets of a cache where they are a power of two. Measured (Zen 3, 64 to 512 channels): 1.05 to 1.5
# times as fast; tiles of rows that are counted as one axis gain nothing, nor do the few channels of a group
MANY_CHANNELS, MANY_TILES = 32, 16


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
    if strides[last] == 1 and all(step(at[-1], last) == 1 for _, at in reads_of(op).plain):
        return False  # two images, shifted against each other: no weight of which a phase would read its own
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
    wide_copies(s, inside, constants, target)
    phases = _strides(inside)
    strides = [phases.get(a) for a in inside.op.axis]
    lanes, iterations = target.vector_lanes(inside.op.body[0].dtype), work(inside)
    cuts, high = _tile(strides, target.vector_registers - SPARE)
    image = rows_as_one(s, inside, target)
    if image is not None:
        _rows_together(s, out, inside, image, strides, high, target)
        return
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
            outer, inner = out.split(axis, even(m, high))
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

    if target.vector_registers <= FEW_REGISTERS:  # where it has been measured
        _channels_together(s, out, inside, high, lanes, target)
    lacking = _lacks_outputs(inside, phases, lanes) and s.can(
        "transform_layout", inside.name, by_phase, pad_value="any"
    )
    inside.transform_layout(by_phase, pad_value="any" if lacking else None)
    inside.compute_at(out, around[-1])
    in_registers(s, inside)
    own = list(inside.op.axis)
    inside.reorder(*inside.op.reduce_axis, *own)
    inside.vectorize(own[-1])
    _write_out(inside)
    at = 0
    for d, stride in enumerate(strides):
        if stride not in (None, 1) or d == row:
            inside.unroll(own[at])
        at += 1 if stride in (None, 1) else 2
    share_out(out, around[:-1] or around, iterations, target)


def rows_as_one(s: Schedule, inside: Stage, target: Target) -> Tensor | None:
    """The image whose rows are counted as one axis: short ones, of which a tile has all phases, the outputs
    of a group among them."""
    phases = _strides(inside)
    strides = [phases.get(a) for a in inside.op.axis]
    cuts, _ = _tile(strides, target.vector_registers - SPARE)
    if any(n not in (None, cut) for n, cut in zip(strides, cuts, strict=True)):
        return None
    return short_rows(s, inside, strides, target.vector_lanes(inside.op.body[0].dtype))


def _channels_together(s: Schedule, out: Stage, inside: Stage, high: int, lanes: int, target: Target) -> None:
    """Let tiles of ``high`` output channels read a copy of the weight, blocks of these in front, in which
    what a tile takes of a channel of the image lies behind what it takes of the one before; where it is
    worth it."""
    row = _row(inside)
    if row is None or not inside.op.reduce_axis:
        return
    outputs, channels = inside.op.axis[row], inside.op.reduce_axis[0]
    pixels = math.prod(size(a) or 1 for a in out.op.axis[row + 1 :])
    phases = math.prod(_strides(inside).values())
    if (size(channels) or 0) < MANY_CHANNELS or pixels < MANY_TILES * lanes * phases:
        return
    reads = [(t, at[:2]) for t, at in reads_of(inside.op).plain if len(at) > 2]
    weight = next((t for t, (c, o) in reads if c is channels.var and o is outputs.var), None)
    if weight is None:
        return
    together = even(size(outputs) or 1, high)

    def blocks(c: Any, o: Any, *taps: Any) -> list[Any]:
        return [o // together, c, *([o % together] if together > 1 else []), *taps]

    copy = s[s.cache_read(weight, "global", [inside.name])]
    copy.transform_layout(blocks)
    share_out(copy, list(copy.op.axis[:1]), work(copy), target)


def _write_out(inside: Stage, most: int = MOST_TAPS) -> None:
    """The taps of a phase one after the other, from the innermost on: at ``most`` so many, or all where
    phases lack some, for which they lack is known there."""
    many = 1
    for tap in reversed(inside.op.reduce_axis[1:]):
        taps = size(tap)
        if taps is None:  # a loop, as all around it
            return
        many *= taps
        if many <= most or inside.op.body[0].condition is not None:
            inside.unroll(tap)


def short_rows(s: Schedule, inside: Stage, strides: Sequence[int | None], lanes: int) -> Tensor | None:
    """The image whose rows do not fill vectors, and lie one behind the other with the margin between them or
    without one: counted as one axis they take fewer. None for any other. Measured: rows of 7 and 14 take a
    half and a quarter of the time on Zen 5, of 20 and 28 1.4 times; where phases lack taps, on Emerald
    Rapids, rows of 7, 14 and 28 take 0.2, 0.3 and 0.6, of 56 0.7; without a margin, on Zen 4, of 5 and 7 0.36
    and 0.49, of 20 and 28 0.68 and 0.89."""
    last = list(zip(inside.op.axis, strides, strict=True))[-2:]
    sizes = [(size(a), stride) for a, stride in last]
    over = [stride for _, stride in sizes]
    if len(strides) < 4 or over == [1, 1]:
        return None
    if not all(n is not None and stride is not None for n, stride in sizes):
        return None
    rows, row = (-(-(n or 0) // (stride or 1)) for n, stride in sizes)
    margin = next((t for t in inside.op.input_tensors if padding_of(s, t) is not None), None)
    image = _of_one_tap(inside, (rows, row)) if margin is None else margin
    if image is None or len(image.shape) != len(strides):
        return None
    places = constant(image.shape[-1]) or 0
    together = (rows - 1) * places + row
    lacks, whole = inside.op.body[0].condition is not None, row * (over[-1] or 1) == sizes[-1][0]
    if row >= lanes and not lacks and margin is not None:
        return None
    if row < lanes and whole:
        apart = rows * row.bit_count()
    else:
        apart = rows * -(-row // lanes) * (1 if row == lanes or (whole and row % lanes == 0) else MASKED)
    if row > places or together < lanes or -(-together // lanes) >= apart:
        return None
    # what is between the rows, and behind the last phase, is read as any other sum
    return image if s.can("transform_layout", inside.name, _phases_apart(strides), pad_value="any") else None


def _of_one_tap(inside: Stage, sides: tuple[int, int]) -> Tensor | None:
    """The image of so many rows and pixels of which each phase reads all, each element for one tap."""
    if any(size(tap) != 1 for tap in inside.op.reduce_axis[1:]):
        return None
    found = [t for t in inside.op.input_tensors if tuple(map(constant, t.shape[-2:])) == sides]
    return found[0] if len(found) == 1 else None


def _lacks_outputs(inside: Stage, phases: dict[IterVar, int], lanes: int) -> bool:
    """Whether a row is one vector of each phase, but for the last element of some. The margin reaches as far
    as all whole vectors read: computed with the others that element costs nothing, without it the phase is
    masked. Measured (Zen 4, rows of 31, 46 and 61 outputs): 0.82 to 0.9 of the time of rows that are counted
    as one axis; rows of several vectors, 63 to 127, are not faster, 0.96 to 1.16."""
    last = inside.op.axis[-1]
    n, stride = size(last), phases[last]
    return n is not None and n % stride > 0 and -(-n // stride) == lanes


def _phases_apart(strides: Sequence[int | None]) -> Callable[..., list[Any]]:
    """The layout of sums with the phases of rows and pixels in front of both."""

    def apart(*at: Any) -> list[Any]:
        front = zip(at[:-2], strides[:-2], strict=True)
        ahead = [p for i, n in front for p in ([i % n, i // n] if n is not None and n > 1 else [i])]
        rest = [(i, n or 1) for i, n in zip(at[-2:], strides[-2:], strict=True)]
        return [*ahead, *[i % n for i, n in rest], *[i // n for i, n in rest]]

    return apart


def _rows_together(
    s: Schedule,
    out: Stage,
    inside: Stage,
    image: Tensor,
    strides: Sequence[int | None],
    room: int,
    target: Target,
) -> None:
    """Compute ``inside`` with the rows of an image, its margin between them, as one axis: a vector runs over
    the ends of rows, and a few sums are nobody's where there is one. There is ``room`` for so many sums of
    all phases."""
    lanes, iterations = target.vector_lanes(inside.op.body[0].dtype), work(inside)
    places = constant(image.shape[-1]) or 1
    over = [n or 1 for n in strides[-2:]]
    rows, row = (-(-(size(a) or 1) // n) for a, n in zip(inside.op.axis[-2:], over, strict=True))
    sums = (rows - 1) * places + row
    outputs = _row(inside)

    def behind(*at: Any) -> list[Any]:
        return [*at[:-2], at[-2] * places + at[-1]]

    margin = padding_of(s, image)
    if margin is not None:  # without one they already lie so
        margin.transform_layout(behind)
    held = s[s.cache_write(inside.name, "local")]
    for stage in (held, inside):
        stage.transform_layout(_phases_apart(strides), pad_value="any")
        stage.transform_layout(behind, pad_value="any")
    most = min(room, MOST_VECTORS, sums // lanes)
    vectors = min(range(1, most + 1), key=lambda v: (-(-sums // (v * lanes)) * v, -v))
    high = max(1, room // vectors)
    around, tile = list[IterVar](), list[IterVar]()
    for d, (axis, stride) in enumerate(zip(list(out.op.axis), strides, strict=True)):
        n = size(axis)
        if d == outputs and n is not None and n > 1:
            outer, inner = out.split(axis, even(n, high))
            around, tile = [*around, outer], [*tile, inner]
        elif d < len(strides) - 2 and stride is not None and stride > 1:
            outer, inner = out.split(axis, stride)
            around, tile = [*around, outer], [*tile, inner]
        elif d < len(strides) - 1:
            (around if d < len(strides) - 2 else tile).append(axis)
        else:
            width = over[-1] * min(lanes, 1 << row.bit_length() - 1)
            overlaps = n is not None and n > width and n % width > 0
            outer, inner = out.split(axis, width, tail="shift") if overlaps else out.split(axis, width)
            if overlaps:  # the first phase of a vector is known where it is written out
                out.unroll(outer)
            vector, phase = out.split(inner, over[-1])
            tile += [outer, phase, vector]
    out.reorder(*around, *tile)
    out.unroll(tile[-2])
    out.vectorize(tile[-1])
    inside.compute_at(out, around[-1])
    *own, q = inside.op.axis
    block, part = inside.split(q, lanes * vectors, tail="shift")  # masked sums are no registers
    vector, lane = inside.split(part, lanes)
    inside.reorder(block, *own, vector, lane)
    for loop in (*own, vector):
        inside.unroll(loop)
    inside.vectorize(lane)
    held.compute_at(inside, block)
    in_registers(s, held)
    for t, _ in reads_of(held.op).plain:
        if t is not image and _bytes(t) > target.l2_bytes:
            held.prefetch(t, held.op.reduce_axis[0], AHEAD)
    *own, q = held.op.axis
    held.reorder(*held.op.reduce_axis, *own, q)
    _write_out(held, MOST_TAPS if vectors == 1 else MOST_WIDE_TAPS)
    whole, lane = held.split(q, lanes)
    for loop in (*own, whole):
        held.unroll(loop)
    held.vectorize(lane)
    share_out(out, around, iterations, target)


def _bytes(tensor: Tensor) -> int:
    return math.prod(constant(n) or 1 for n in tensor.shape) * tensor.dtype.bytes


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
