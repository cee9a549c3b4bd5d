"""Large pools, channels first, in two passes: down the columns of a strip of windows, in vectors of pixels
that lie side by side, then along the rows of what that gives, a vector of results at a time.

A window of k × k takes 2 k operations for each result and not k², and what a stride leaves out is picked out
of k vectors and not of k². The partial results of a strip stay in the first cache. Where hardly a row is read
twice the first pass takes the margin in itself, and the image is not copied. Uses public primitives only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..analysis import SIDE, constant, reads_of, reducer_kind, step, typical
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import IterVar, Tensor
from .common import in_registers, size, work
from .conv import padding_of, rows_in_vectors
from .depthwise import far, share_planes
from .register_tile import even

REDUCERS = ("add", "max", "min")
# of the operations of a single pass, which two may take. Measured (Zen 4, one thread, max and mean): 3 × 3 at
# stride 1 to 3, which save a fifth to a quarter, take 0.9 to 1.05 of the time, 5 × 5 0.5 to 0.7, 7 × 7 0.35
SAVES = 0.6
# the same of open images with a margin, whose rows are copied twice; where they have a stride nothing.
# Measured (Zen 4, one thread; of AVX2 the same processor): 5 × 5 of 5 × 5 to 40 × 40 0.9 to 1.3 and 1.1 to
# 1.7, 7 × 7 of 13 × 31 and more 0.6 to 0.7; 5 × 5 at stride 2 1.0 to 3 and 1.8 to 3.5. Without a margin,
# where it is as of known sizes: 5 × 5 at stride 3 0.45 to 0.7 and 0.3 to 0.6, 6 × 6 0.5 to 1.0
SAVES_OPEN = 0.4
# reads of a row by all windows, up to which the margin is no copy but part of the first pass; and
# what that may take of the operations of a single pass, for a copy costs as much as a third of them. Measured
# (Zen 4, one thread, against a single pass; images of 9 × 19 to 160 × 161, with a margin): 3 × 3 at stride 3
# 0.45 to 0.8 of the time, at stride 2 0.6 to 0.9, 4 × 4 at stride 3 0.7 to 1.2, 5 × 5 at stride 4 0.55 to
# 1.1; without one 0.7 to 1.1; of AVX2 0.4 to 0.9, once 1.3. Rows read 1.7 to 2.5 times gain as much in large
# images and lose as much, up to 1.4, in small ones
FEW_READS, SAVES_FEW = 1.5, 0.95
ROWS = 8  # of results in a strip
# of the first cache take the partial results of a plane that is one strip, at most. Measured (Zen 4, one
# thread, 3 × 3 at stride 2, with AVX2 in brackets): 18 × 18 0.7 of the time, 24 × 24 0.95 (0.97), 28 × 28
# 0.94 (0.91), 36 × 36 0.9 (1.0), 40 × 40 0.9; those of a quarter 0.99 (1.03), 112 × 112 1.17
NEAR = 1 / 8
FEW_SHARED = 0.1  # of the rows of a strip: so few are padded twice
WHOLE = 8  # elements of a row that are summed at once
WRITTEN_OUT = 16  # taps of a row or a column


def applies(s: Schedule, inside: Stage, target: Target, constants: Sequence[Tensor]) -> bool:
    """Whether ``inside`` reduces windows of one channel that two passes are much less work for: no weights,
    pixels side by side, of an image of open sizes when it is not small."""
    op = inside.op
    if reducer_kind(op) not in REDUCERS or len(op.reduce_axis) < 2 or len(op.axis) < len(op.reduce_axis):
        return False
    places = len(op.reduce_axis)
    if any(size(a) == 0 for a in op.axis[-places:]) or any(not size(a) for a in op.reduce_axis):
        return False
    if size(op.axis[-1]) == 1:
        return False
    reads = reads_of(op).plain
    if len(reads) != 1 or len(reads[0][1]) != len(op.axis):
        return False
    _, at = reads[0]
    steps = [
        (step(i, p), step(i, r))
        for i, p, r in zip(at[-places:], op.axis[-places:], op.reduce_axis, strict=True)
    ]
    if not all(p and r for p, r in steps) or not s.can("separate", inside.name, op.reduce_axis[-1].name):
        return False
    (stride, apart), wide = steps[-1], size(op.reduce_axis[-1]) or 1
    # means of whole vectors that nobody shares are summed along memory. Measured (8 × 8 of 56 × 56): 0.9
    if reducer_kind(op) == "add" and (stride or 1) >= wide and wide % WHOLE == 0:
        return False
    high = math.prod(size(a) or 1 for a in op.reduce_axis[:-1])
    lanes, results = target.vector_lanes(op.body[0].dtype), typical(op.axis[-1].extent, SIDE)
    columns = ((results - 1) * (stride or 1) + (wide - 1) * (apart or 1) + lanes) // lanes
    # a vector of every n-th element is one operation and n - 1 that put it together
    picked = -(-results // lanes) * wide * (stride or 1)
    saves = SAVES_FEW if _reads_few(s, inside, target) else SAVES
    if any(size(a) is None for a in op.axis[-places:]) and padding_of(s, reads[0][0]) is not None:
        saves = SAVES_OPEN if stride == 1 else 0
    return (high + 1) * columns + picked <= saves * high * picked


def apply(s: Schedule, out: Stage, inside: Stage, target: Target, constants: Sequence[Tensor]) -> None:
    """Compute ``inside`` in strips of rows of ``out``, which has its shape and reads it at its own place."""
    lanes = target.vector_lanes(inside.op.body[0].dtype)
    iterations, places = work(inside), len(inside.op.reduce_axis)
    high = _strip(inside, target)
    padded, shared = padding_of(s, reads_of(inside.op).plain[0][0]), _shared_rows(inside, high)
    few = _reads_few(s, inside, target)
    part = s[s.separate(inside.name, inside.op.reduce_axis[-1])]
    if few and padded is not None:
        padded.compute_inline()
        padded = None
    _in_whole_vectors(s, part, padded, lanes)
    front, (*around, x) = out.op.axis[:-places], out.op.axis[-places:]
    y = around.pop()
    y, yi = out.split(y, high)
    xo, xi = _vectors(out, x, lanes)
    out.reorder(*front, *around, y, yi, xo, xi)
    inside.compute_at(out, xo)
    _in_vector(s, inside)
    # the results of a row are written once
    sums = s[s.cache_write(part.name, "local")]
    *rows, z = part.op.axis
    zo, zi = _vectors(part, z, lanes)
    part.reorder(*rows, zo, zi)
    sums.compute_at(part, zo)
    _in_vector(s, sums)
    channel, y = share_planes(out, out, [*around, y], iterations, target)
    part.compute_at(out, y)
    if padded is not None:
        strip = not around and (shared <= FEW_SHARED or far(padded, places + 1, target))
        padded.compute_at(out, y if strip else channel)
        rows_in_vectors(padded, lanes)


def _reads_few(s: Schedule, inside: Stage, target: Target) -> bool:
    """Whether windows that a stride thins read few rows of a known image twice. Without masks, rows that do
    not fill a vector are better copied: all of their vectors would be in the margin."""
    op, (image, at) = inside.op, reads_of(inside.op).plain[0]
    places = len(op.reduce_axis)
    if any(size(a) is None for a in op.axis[-places:]) or (step(at[-1], op.axis[-1]) or 1) == 1:
        return False
    padded = padding_of(s, image)
    row = constant((image if padded is None else padded.op.input_tensors[0]).shape[-1]) or 0
    if not target.has_masks and row < target.vector_lanes(op.body[0].dtype):
        return False
    each = zip(at[-places:-1], op.axis[-places:-1], op.reduce_axis[:-1], strict=True)
    return math.prod((size(tap) or 1) / (step(i, place) or 1) for i, place, tap in each) <= FEW_READS


def _strip(inside: Stage, target: Target) -> int:
    """Rows of results of a strip: all of them, where the partial results are few."""
    op, (_, at) = inside.op, reads_of(inside.op).plain[0]
    rows, row = (size(a) for a in op.axis[-2:])
    if rows is None or row is None:
        return even(rows or ROWS, ROWS)
    columns = row * (step(at[-1], op.axis[-1]) or 1)
    few = rows * columns * op.body[0].dtype.bytes <= target.l1_bytes * NEAR
    return rows if few else even(rows, ROWS)


def _shared_rows(inside: Stage, strip: int) -> float:
    """The part of the rows of a strip that the next one reads again."""
    op, (_, at) = inside.op, reads_of(inside.op).plain[0]
    place, tap, index = op.axis[-2], op.reduce_axis[-2], at[-2]
    stride, high = step(index, place) or 1, ((size(tap) or 1) - 1) * (step(index, tap) or 1) + 1
    return max(0, high - stride) / (stride * strip)


def _in_whole_vectors(s: Schedule, part: Stage, padded: Stage | None, lanes: int) -> None:
    """Begin the rows of the partial results where a vector begins, and end those of a margin where one ends:
    no store of either has a mask, and no load crosses lines of the cache. Measured (Zen 4, one thread, 5 × 5
    at stride 3 of 56 × 56 and a margin) 0.75 of the time."""
    if padded is None or size(part.op.axis[-1]) is None:
        part.storage_align(part.op.axis[-2], lanes, 0)
        return
    long = -(-max(size(st.op.axis[-1]) or 1 for st in (part, padded)) // lanes) * lanes

    def in_rows(*at: Any) -> list[Any]:
        return [*at[:-1], at[-1] // long, at[-1] % long]

    padded.transform_layout(in_rows)
    free = s.can("transform_layout", part.name, in_rows, pad_value="any")
    part.transform_layout(in_rows, pad_value="any" if free else None)


def _vectors(stage: Stage, axis: IterVar, lanes: int) -> tuple[IterVar, IterVar]:
    """Vectors along a row; the last one of several begins earlier, where a mask would be needed."""
    n = size(axis)
    if n is None:
        outer, inner = stage.split(axis, lanes, tail="shift")
        stage.vectorize(inner)
        return outer, inner
    wide = min(lanes, 1 << (n - 1).bit_length())
    outer, inner = stage.split(axis, wide, tail="shift" if n > wide and n % wide else "auto")
    stage.vectorize(inner)
    return outer, inner


def _in_vector(s: Schedule, stage: Stage) -> None:
    """A vector of reductions in a register, the taps written out."""
    in_registers(s, stage)
    *front, lane = stage.op.axis
    stage.reorder(*front, *stage.op.reduce_axis, lane)
    stage.vectorize(lane)
    for a in stage.op.reduce_axis[::-1]:
        if (size(a) or 0) > WRITTEN_OUT:
            break
        stage.unroll(a)
