"""Elementwise stages that others read at several places, held a strip of rows at a time. So are an image
that is filtered along its rows and then along its columns, and chains of stencils: written into its reader, a
stage would be computed again for each place. Uses public primitives only.

Strips that overlap are what Halide's schedules are made of (Ragan-Kelley et al., PLDI 2013, section 3): a
whole stage before the next one sends an image through memory that no cache holds.

Measured (Zen 4, one thread; filters along rows and then columns, of 30 × 40 to 480 × 640): of 3 taps 0.75 of
the time of one written into the other, of 5 taps 0.4, of 7 taps 0.3; of 1500 × 2000, which no cache holds,
1.1, 0.7 and 0.5. Strips beside whole stages, of 1500 × 2000: 3 blurs of 3 × 3 0.55, on two threads 0.7.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ..analysis import SIDE, arithmetic, cost_of, own_index, reads_of, step, told_by_data, typical
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import ComputeOp, Expr
from .common import share_out, size, stream_stores, work
from .lanes import in_vectors

# of the operations and reads of a stage written into its readers, what may be left of them where it is held.
# Measured (Zen 4, one thread, in the caches): squares read at 3 × 3 places, which a multiply-add takes in,
# take 1.1 times as long by 1.25 times the time; a difference read at 3 places 0.83 and 0.85 to 1.1; sums of 3
# read at 3 places 0.65 and 0.75 to 0.8
SAVES = 0.75
# rows of a strip; its stages may be so many times the second cache, for what they lack comes from the third;
# and a strip has at least so many times the rows that it computes again. Measured (Zen 4, 1500 × 2000, 2 to 6
# stages, one thread): 8 rows take 1.1 to 1.35 times as long as 64, 128 rows 0.78 to 1.03
ROWS, SECOND, AGAIN = 128, 1.5, 4
OPEN = 32  # rows of a strip, at least, where nobody knows how many are computed again
GATHERED = 8  # operations in the time of a read at a place that data tell
PARTS = 2  # strips that each thread has at least
MOST = 16  # stages of a strip


def places(op: ComputeOp, producer: Stage) -> int:
    """At how many places of the producer one element of ``op`` reads it: as often would an inlined body be
    evaluated."""
    return len(_places(op, producer))


def keeps(s: Schedule, stage: Stage) -> bool:
    """Whether ``stage`` is read at several places by elementwise stages, and holding it saves much of what
    they would compute with it written into them."""
    readers = [r.compute for r in s.state.readers(stage.name)]
    if any(r.reduce_axis for r in readers) or all(places(r, stage) < 2 for r in readers):
        return False
    own, own_reads = _taken(stage.op)
    # of a smaller image fewer elements are held than read it. One that is larger than what reads it by steps
    # counts as one alike: it is made of vectors, and written into its reader it would be of elements apart
    held = min(_elements(stage.op), max(map(_elements, readers))) * (_sum(own) + own_reads + 1)
    written = 0
    for r in readers:
        (products, sums, others), reads = _taken(r)
        elements, at = _elements(r), _places(r, stage)
        n, there = len(at), sum(map(_read, at))
        held += elements * (_sum((products, sums, others)) + reads)
        each = _sum((products + n * own[0], sums + n * own[1], others + n * own[2]))
        written += elements * (each + reads - there + there * own_reads)
    return held <= SAVES * written


def apart(s: Schedule, stage: Stage) -> bool:
    """Whether a stage has fewer axes than what reads it in the end, within which it cannot be held then.
    Measured (Zen 4, two threads): a camera's pipeline, whose colours are made of one image, takes 1.5 times
    as long with two of its stages held."""
    return any(len(r.compute.axis) > len(stage.op.axis) for r in s.state.readers(stage.name))


class Strips(NamedTuple):
    """The stages that are held within strips of a stage, the last computed first, the axis that is cut, and
    how many rows of the result a strip computes again."""

    held: tuple[Stage, ...]
    axis: int
    again: int


def strips_of(s: Schedule, out: Stage) -> Strips | None:
    """What may be held within strips of ``out``: elementwise stages that only it and one another read, near
    the same place; None where none is read at several."""
    if out.op.reduce_axis or len(out.op.axis) < 2 or any(size(a) == 0 for a in out.op.axis):
        return None
    held = _behind(s, out)
    if not _again_read(s, held):
        return None
    last = len(out.op.axis) - 1
    moved = [d for p in held for op in _readers(s, p) for d in _moved(op, p)]
    axis = min([d for d in moved if d < last], default=last - 1)
    while True:  # a stage stays where one of its readers does
        names = {out.name, *(p.name for p in held)}
        near = [
            p
            for p in held
            if all(r.name in names for r in s.state.readers(p.name))
            and all(_follows(op, p, axis) for op in _readers(s, p))
        ]
        if len(near) == len(held):
            break
        held = near
    if not _again_read(s, held):
        return None
    return Strips(tuple(held), axis, math.ceil(sum(_again(out, p, axis) for p in held)))


def apply(s: Schedule, out: Stage, strips: Strips, target: Target) -> bool:
    """Compute the stages of a strip within ``out``. Whether it was done: not where one strip is all, which
    keeps nothing near that whole stages would not."""
    front, rows = list(out.op.axis[: strips.axis]), out.op.axis[strips.axis]
    iterations = work(out) + sum(work(p) for p in strips.held)
    height = _height(out, strips, target, cost_of(target).shared(iterations))
    whole = height >= typical(rows.extent, SIDE)
    if whole and all(size(a) == 1 for a in front):
        return False
    for stage in (out, *strips.held):
        in_vectors(stage, target)
    if not whole:
        front.append(out.split(rows, height)[0])
    place = front[-1] if len(front) == 1 else out.fuse(*front)
    for stage in strips.held:
        stage.compute_at(out, place)
    shared = share_out(out, [place], iterations, target)
    if shared is not None:
        stream_stores(out, shared, target, size(out.op.axis[-1]))
    return True


def _height(out: Stage, strips: Strips, target: Target, several: bool) -> int:
    """Rows of the result in a strip: what the second cache holds, and no fewer than pay for those that are
    computed again; of few images, so many that each thread has PARTS of them."""
    rows, least = typical(out.op.axis[strips.axis].extent, SIDE), max(1, AGAIN * strips.again)
    if size(out.op.axis[strips.axis]) is None:
        least = max(least, OPEN)
    fits = int(SECOND * target.l2_bytes / sum(_row(out, p, strips.axis) for p in strips.held))
    height = rows if fits >= rows else max(least, min(ROWS, fits))
    images = math.prod(typical(a.extent, 1) for a in out.op.axis[: strips.axis])
    if several and images < PARTS * target.num_cores:
        height = min(height, max(least, math.ceil(rows * images / (PARTS * target.num_cores))))
    if several and height < rows:  # as many for each thread
        each = target.num_cores // math.gcd(target.num_cores, images)
        height = math.ceil(rows / (each * math.ceil(rows / height / each)))
    return height


def _row(out: Stage, held: Stage, axis: int) -> float:
    """Bytes of a stage that one row of the result is made of."""
    elements = math.prod(typical(a.extent, SIDE) for a in held.op.axis[axis:])
    return elements * held.op.body[0].dtype.bytes / typical(out.op.axis[axis].extent, SIDE)


def _again(out: Stage, held: Stage, axis: int) -> float:
    """Rows of the result whose rows of a stage a strip computes again, all of which the stage has more than
    its readers take steps."""
    rows, own = (typical(stage.op.axis[axis].extent, SIDE) for stage in (out, held))
    each = max(1, own // rows)
    return max(0, own - each * rows) / each


def _behind(s: Schedule, out: Stage) -> list[Stage]:
    """The elementwise stages that only ``out`` and one another read, and that have no place yet: a reader
    before what it reads."""
    found: dict[str, Stage] = {out.name: out}
    todo = [out]
    while todo and len(found) <= MOST:
        for tensor in todo.pop().op.input_tensors:
            state = s.state.of(tensor)
            op = state.op
            if (
                state.name not in found
                and isinstance(op, ComputeOp)
                and not (op.reduce_axis or state.is_output or state.is_opaque or state.within)
                and state.attach is None
                and len(op.axis) == len(out.op.axis)
                and all(r.name in found for r in s.state.readers(state.name))
            ):
                found[state.name] = s[state.name]
                todo.append(found[state.name])
    return list(found.values())[1:]


def _again_read(s: Schedule, held: list[Stage]) -> bool:
    """Whether one of the stages is read at several places."""
    return any(places(op, p) > 1 for p in held for op in _readers(s, p))


def _readers(s: Schedule, stage: Stage) -> list[ComputeOp]:
    return [r.compute for r in s.state.readers(stage.name)]


def _places(op: ComputeOp, producer: Stage) -> list[tuple[Expr, ...]]:
    """The different places at which one element of ``op`` reads it."""
    return list({tuple(map(id, at)): at for at in reads_of(op).of(producer.op)}.values())


def _moved(op: ComputeOp, producer: Stage) -> set[int]:
    """The dimensions along which ``op`` reads it elsewhere than at its own place."""
    return {
        d
        for at in _places(op, producer)
        for d, (i, a) in enumerate(zip(at, op.axis, strict=False))
        if not own_index(i, a)
    }


def _follows(op: ComputeOp, producer: Stage, axis: int) -> bool:
    """Whether what ``op`` reads moves with its rows, and lies in the image that is its own."""
    return all(
        len(at) == len(op.axis)
        and all(own_index(i, a) for i, a in zip(at[:axis], op.axis, strict=False))
        and (step(at[axis], op.axis[axis]) or 0) > 0
        and all(step(at[axis], a) == 0 for a in op.axis if a is not op.axis[axis])
        for at in _places(op, producer)
    )


def _taken(op: ComputeOp) -> tuple[tuple[int, int, int], int]:
    """Products, sums and other operations of an element, and what its reads take."""
    return arithmetic(op.body), sum(_read(at) for _, at in reads_of(op).plain)


def _read(at: Sequence[Expr]) -> int:
    """What a read at these places takes, in operations."""
    return GATHERED if told_by_data(at) else 1


def _elements(op: ComputeOp) -> int:
    return math.prod(typical(a.extent, SIDE) for a in op.axis)


def _sum(counted: tuple[int, int, int]) -> int:
    """Operations, where a product is part of the sum behind it."""
    products, sums, others = counted
    return max(products, sums) + others
