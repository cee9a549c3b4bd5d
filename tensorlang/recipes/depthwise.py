"""Depthwise convolutions and pools, channels first: a few rows of vectors of pixels in registers, the taps
written out, one padded plane at a time.

Each row that is loaded serves all taps of its column, so a tile of several rows loads little more than its
taps; and the margin is put around one channel at a time, or around a strip of its rows, which stays in the
first caches. The phases of a stride are picked apart as they are loaded: through a copy in which they lie
apart an open image takes 1.1 to 3 times as long (measured, Zen 5, 128 channels of 2 × 3 to 56 × 56). Uses
public primitives only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..analysis import Windows, constant, cost_of, has_calls, reads_of, reducer_kind, step
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import IterVar, Tensor
from .as_one import elements_of
from .choices import at_most
from .common import FEW_REGISTERS, in_registers, size, work
from .conv import padding_of, rows_in_vectors
from .narrow import wide_copies
from .register_tile import even
from .taps import FOUR, fours_of, rows_of_bytes, taps_in_fours, weight_in_fours

REDUCERS = ("add", "max", "min")  # of convolutions and mean pools, and of the other pools
# that are written out, where a stride leaves out no more than every second pixel. Measured, 7 × 7 of 56 × 56:
# 2.4 times as fast as sums of one vector, and 1.35 times as fast as the taps of one row at a time
MOST_TAPS = 49
# the same with many registers of windows that a stride thins. Measured (Zen 4, one thread) of 5 × 5 and 7 × 7
# at stride 2: the taps of a column at a time take 0.79 to 0.93 of the time, and a third of it to compile; at
# stride 1, 7 × 7, 1.02 to 1.07
THINNED_TAPS = 16
# of sums that are rounded to 16 bits by many instructions: 4 × 7 taps of float16, on processors that do not
# know it, were 52,000 lines of assembly and took 3.7 s to compile. Measured (Zen 4 as x86-64), the taps of a
# column at a time: 3 × 3 would take 1.3 (max) and 2.8 (sum) of the time, 5 × 5 1.0
ROUNDED_TAPS = 9
# that are written out whatever the stride is; larger windows are taken where they overlap. Those of one plane
# count: measured (Zen 5, one thread, with AVX2 in brackets), 3 × 3 × 3 of volumes of 7 × 7 to 56 × 56 at
# stride 2 0.41 to 0.82 (0.53 to 0.80) of the time of sums that no recipe takes, at stride 3 0.54 (0.94)
FEW_TAPS = 25
TILE = 4  # vectors of sums of an image of any size
# of the registers hold sums of a known one: the higher a tile, the fewer rows are loaded twice. Measured with
# 32 registers (Granite Rapids), tiles of 8 beside those of 4: 3 × 3 of 14 × 14 and 28 × 28 0.93, with a
# stride of 2 0.88 to 0.94, 5 × 5 0.86 to 0.9, 7 × 7 0.82; tiles of 10 of 56 × 56 1.05, the last is another
SUMS = 1 / 4
# vectors of a row that is one tile, one fewer where a stride makes each sum load two, and the part of the
# registers that holds its sums. Measured (Zen 4, one thread and two, 40 drawn shapes): 0.82 to 0.87 of the
# time, 7 × 7 of 17 × 17 0.80, 3 × 3 of 20 × 20 0.79, 5 × 5 of 37 × 37 0.85, 3 × 3 of 36 × 36 at stride 2
# 0.75, of 54 × 54 at stride 3 0.91; of 52 × 52, four vectors, 0.91
ROW, SUMS_OF_ROW = 4, 1 / 2
FEW_PLANES = 4  # for each thread, from which on it matters little when one has a plane more
PADDED_ROWS = 8  # that share the masks of a column of vectors
# elements of a plane of sums that waits for what is done to it: it lies in the second cache at most. Measured
# (Zen 4, silu behind): 3 × 3 of 14 × 14 to 112 × 112 0.63 to 0.8, 5 × 5 of 7 × 7 to 28 × 28 0.49 to 0.7
MOST_OF_PLANE = 1 << 16
HIGH = 24  # taps of a column that are written out
TALL = 8  # rows of short, thinned vectors


def applies(s: Schedule, inside: Stage, target: Target, constants: Sequence[Tensor]) -> bool:
    """Whether ``inside`` reduces taps of one channel: channels first (and a batch before them, or none, or
    one image alone), no channel reduced, pixels side by side."""
    op = inside.op
    places = len(op.reduce_axis)
    alone = places == len(op.axis) and places > 1
    if reducer_kind(op) not in REDUCERS or len(op.body) != 1 or not (alone or 0 < places < len(op.axis)):
        return False
    if any(size(a) is None for a in op.reduce_axis) or any(size(a) == 0 for a in (*op.axis, *op.reduce_axis)):
        return False
    if size(op.axis[-1]) == 1 or _image(inside) is None:
        return False
    row, plane = size(op.reduce_axis[-1]) or 1, math.prod(size(a) or 1 for a in op.reduce_axis[-2:])
    return plane <= FEW_TAPS or 2 * _stride(inside) <= row <= MOST_TAPS


def _taps(inside: Stage) -> int:
    return math.prod(size(a) or 1 for a in inside.op.reduce_axis)


def _image(inside: Stage) -> Tensor | None:
    """What the window slides over: the tensor whose last indices each move with a place and a tap."""
    taps = inside.op.reduce_axis
    places = inside.op.axis[-len(taps) :]
    reads = [(t, at) for t, at in reads_of(inside.op).plain if len(at) == len(inside.op.axis)]
    found = [
        t
        for t, at in reads
        if all(step(i, p) and step(i, r) for i, p, r in zip(at[-len(taps) :], places, taps, strict=True))
    ]
    return found[0] if len(found) == 1 else None


def apply(s: Schedule, out: Stage, inside: Stage, target: Target, constants: Sequence[Tensor]) -> None:
    """Compute ``inside`` in tiles of rows × a vector of ``out``, which has its shape and reads it at its own
    place."""
    fours = fours_of(inside, target, constants)
    if fours is None:
        wide_copies(s, inside, constants, target, but=_image(inside))
    else:
        weight_in_fours(s, inside, fours)
    lanes = target.vector_lanes(inside.op.body[0].dtype)
    iterations = work(inside)
    places = len(inside.op.reduce_axis)
    tiled = out
    if _functions_behind(out, places):
        tiled, inside = inside, _behind(s, out, inside, lanes)
    own = inside.op.axis
    front, (*around, x) = tiled.op.axis[:-places], tiled.op.axis[-places:]
    stride = _stride(inside)
    # a row of half a vector or less: what is padded and summed is half as wide. The call tells. With AVX2 as
    # many instructions would do half of the work
    short = size(x) is None and target.has_masks and at_most(x.extent, lanes // 2)
    if short:
        lanes //= 2
    padded = _pad(s, inside, lanes, fours)
    long = size(x) or lanes
    highest = TILE if size(x) is None else int(target.vector_registers * SUMS)
    if padded is None and _rows_apart(inside):
        highest = 1
    elif has_calls(inside.op):
        highest = 1  # each sum has functions of its own, beside which rows that are loaded again are little
    wide = lanes if padded is not None else min(lanes, long)
    # the rest of a row is one vector where masks are free, be it the whole row: 7 pixels are no 4 and 2 and
    # 1. Measured (Granite Rapids): 3 × 3 of 7 × 7 and 14 × 14 0.62, with stride 2 0.8, 5 × 5 of 7 × 7 0.85
    whole = target.has_masks and padded is not None and size(x) is not None
    if whole:
        wide = min(lanes, 1 << (long - 1).bit_length())
    elif stride > 1 and padded is not None and lanes // 2 < long < lanes:
        # a row would be a piece of 4, of 2 and of 1; and every second element of 8 is gathered without
        # crossing the halves of a register. Measured on 7 × 7 of stride 2: 1.6 times as fast, compiled in
        # half the time; no gain at stride 1
        wide, highest = lanes // 2, TALL
    tail, unit = "auto", wide
    if padded is not None and size(x) is not None and long > wide and long % wide > 0:
        row = size(inside.op.reduce_axis[-1]) or 1
        if fours is not None:
            tail = "shift"
        elif _row_at_once(long, wide, stride, row, target):
            highest = int(target.vector_registers * SUMS_OF_ROW) // -(-long // wide)
            wide, unit = long, wide // 2
        else:
            tail = _rest(long, wide, stride, row, target)
    xo, xi = tiled.split(x, wide, tail=tail) if tail == "shift" else _cut(tiled, x, wide)
    tile: list[IterVar] = []
    if around:
        y = around.pop()
        high = size(y) or highest
        apart = shares_strips(out, tiled, places, iterations, target)
        y, yi = _cut(tiled, y, even(high, highest), "peel" if apart else "shift")
        around.append(y)
        tile = [yi]
    tiled.reorder(*front, *around, xo, *tile, xi)
    for a in tile:
        tiled.unroll(a)
    tiled.vectorize(xi)
    channel, strip = share_planes(out, tiled, around, iterations, target)
    if tiled is not out:
        tiled.compute_at(out, channel)
    inside.compute_at(tiled, xo)
    in_registers(s, inside)
    written = list(inside.op.reduce_axis)
    if fours is not None:
        written = taps_in_fours(inside, bool(tile), MOST_TAPS, HIGH)
    elif _taps(inside) > _written_out(inside, stride, target):
        # in a tile of several rows the taps of a column, which read the same ones; else those of a row
        *loops, last = inside.op.reduce_axis
        if tile and loops and (size(loops[-1]) or 1) <= HIGH:
            loops[-1], last = last, loops[-1]
        written = [last]
        inside.reorder(*own[:-2], *loops, last, *own[-2:])
    elif tile:
        # the taps of a column one after the other: a row that is loaded stays for as many taps as the window
        # is high, not for as many of its rows. Measured at 5 × 5: a quarter faster, the loads are not spilled
        inside.reorder(*own[:-2], *inside.op.reduce_axis[::-1], *own[-2:])
    else:
        inside.reorder(*own[:-1], *inside.op.reduce_axis, own[-1])
    inside.vectorize(own[-1])
    for a in (*written, *([own[-2]] if tile else [])):
        inside.unroll(a)
    if whole and wide > 1 and tail == "auto":
        tiled.pragma(xi, "whole_vectors", unit)
        inside.pragma(own[-1], "whole_vectors", unit)
    if padded is not None:
        # rows lie in pieces, of which there is one
        if strip is not channel and len(around) == 1 and far(padded, places + 1, target):
            padded.compute_at(tiled, strip)
        else:
            padded.compute_at(out, channel)
        if fours is None:
            rows_in_vectors(padded, lanes)
        else:
            rows_of_bytes(padded, target)
        *_, rows, block, _ = padded.op.axis
        if size(block) is None and not short:
            _, some = padded.split(rows, PADDED_ROWS)
            padded.reorder(block, some)


def _written_out(inside: Stage, stride: int, target: Target) -> int:
    """Taps of a window up to which all of them are written out."""
    kind = inside.op.body[0].dtype.name
    if (kind == "float16" and not target.has_half) or (
        kind == "bfloat16" and reducer_kind(inside.op) == "add"
    ):
        return ROUNDED_TAPS
    if stride > 1 and target.vector_registers > FEW_REGISTERS:
        return THINNED_TAPS
    return MOST_TAPS if stride <= 2 else FEW_TAPS


def share_planes(
    out: Stage, tiled: Stage, strips: Sequence[IterVar], iterations: int, target: Target
) -> tuple[IterVar, IterVar]:
    """Let threads share the planes of ``out``, where there is work for them: the loop of the planes and that
    of the strips of one, which are the ``strips`` of ``tiled``. Of few planes they share the strips, and the
    two loops are one.

    Measured (Zen 4, two threads): filters of 3 × 3 over one plane of 300 × 500 0.56 of the time, windows of 5
    × 5 over 250 × 333 0.54.
    """
    places = len(strips) + 1
    front = list(out.op.axis[:-places])
    if not front or shares_strips(out, tiled, places, iterations, target):
        front = [*front, *strips]
        strips = []
    channel = front[0] if len(front) == 1 else out.fuse(*front)
    if cost_of(target).shared(iterations):
        out.parallel(channel)
    return channel, strips[-1] if strips else channel


def shares_strips(out: Stage, tiled: Stage, places: int, iterations: int, target: Target) -> bool:
    """Whether threads share the strips of planes, whose last ``places`` axes are the ``out``'s: there is one
    plane, or a few that leave threads without one."""
    front, cores = out.op.axis[:-places], target.num_cores
    planes = elements_of(front)
    uneven = planes is not None and planes < FEW_PLANES * cores and planes % cores > 0
    return cost_of(target).shared(iterations) and (not front or (uneven and tiled is out))


def _row_at_once(long: int, wide: int, stride: int, row: int, target: Target) -> bool:
    """Whether a row of so few vectors is one tile: where the last one is half or less, which takes half as
    long where a processor does halves of wide vectors, and is loaded beside the others. Without masks it has
    to be a vector by itself."""
    rest = long % wide
    free = target.has_masks or (rest.bit_count() == 1 and row > 2 * stride)
    return free and 2 * rest <= wide and -(-long // wide) <= (ROW if stride == 1 else ROW - 1)


def _rest(long: int, wide: int, stride: int, row: int, target: Target) -> str:
    """The tail of a longer row of a known plane with a margin.

    Its last vector begins earlier: less of a margin is copied, and no store has a mask. Measured (Zen 4, one
    thread): 3 × 3 and 5 × 5 of 28 × 28 to 224 × 224 0.91 to 1.0 of the time, at stride 3 up to 1.05. Without
    masks it would be several short vectors, each with all taps written out. Measured (AVX2 on Zen 4, one
    thread and two): 30 drawn shapes 0.67 of the time, 3 × 3 of 14 × 14 0.4 and of 23 × 23 0.55; at stride 2
    and 3 those of 3 × 3 would take 1.0 to 1.2.

    A rest of half a vector is one: it takes half as long where a processor does halves of wide vectors.
    Measured (Zen 4, one thread): 5 × 5 of 24 × 24 0.86 of the time, 3 × 3 of 56 × 56 0.92, of 40 × 40 0.91,
    of 72 × 72 0.95.
    """
    earlier = stride <= 2 if target.has_masks else row > 2 * stride
    return "shift" if earlier and 2 * (long % wide) != wide else "auto"


def _rows_apart(inside: Stage) -> bool:
    """Whether no two windows of a pool read the same row, so that a tile of several rows spares no loads and
    walks through as many places of memory. Measured (Zen 4, one thread, tiles of one row against eight, with
    AVX2 four): 2 × 2 of 28 × 28 to 112 × 112 0.78 to 0.95 of the time, 3 × 3 0.78 to 0.87, 4 × 4 0.82 to
    1.02."""
    reads, op = reads_of(inside.op).plain, inside.op
    if len(reads) != 1 or len(op.reduce_axis) < 2:
        return False
    row, (place, tap) = reads[0][1][-2], (op.axis[-2], op.reduce_axis[-2])
    return ((size(tap) or 1) - 1) * (step(row, tap) or 1) < (step(row, place) or 1)


def far(padded: Stage, dimensions: int, target: Target) -> bool:
    """Whether a padded plane, which has so many dimensions, does not stay in the first cache, so that one
    strip of its rows is copied at a time, those that two strips read twice. Measured (Zen 4, one thread):
    pools and convolutions of 3 × 3 and 5 × 5 over 112 × 112 and 224 × 224 take 0.78 to 0.95 of the time, over
    28 × 28 and 56 × 56, whose planes stay, 0.94 to 1.14."""
    elements = elements_of(padded.op.axis[-dimensions:])
    return elements is not None and elements * padded.op.body[0].dtype.bytes > target.l1_bytes


def _functions_behind(out: Stage, places: int) -> bool:
    """Whether functions such as exp are computed of each sum of a plane: between the taps they take registers
    from the sums, and at the end of a row they are computed of lanes that nobody needs. What else they are
    computed of lies as the plane does, or is the same for all of it."""
    op, own = out.op, out.op.axis[-places:]
    if places == len(op.axis) or not has_calls(op):
        return False
    if math.prod(size(a) or MOST_OF_PLANE + 1 for a in own) > MOST_OF_PLANE:
        return False
    reads = reads_of(op)
    return all(
        used.isdisjoint(a.var for a in own)
        or (
            len(at) >= places
            and all(
                i is a.var and constant(n) == size(a)
                for i, n, a in zip(at[-places:], t.shape[-places:], own, strict=True)
            )
        )
        for (t, at), used in zip(reads.plain, reads.everywhere, strict=True)
    )


def _behind(s: Schedule, out: Stage, plane: Stage, lanes: int) -> Stage:
    """The sums of a tile of a ``plane`` of sums, of one channel; what is done to them is done to whole
    vectors of the plane, wherever its rows end."""
    sums = s[s.cache_write(plane.name, "local")]
    flat = out.fuse(*out.op.axis[-len(sums.op.reduce_axis) :])
    _, fi = out.split(flat, lanes)
    out.vectorize(fi)
    return sums


def _cut(out: Stage, axis: IterVar, tile: int, tail: str = "shift") -> tuple[IterVar, IterVar]:
    """Tiles of an axis. The last one of an open size begins earlier: it needs no masks, with which every
    second element would be picked out of two masked vectors. Of those that threads share it is apart: no two
    of them write the same rows."""
    return out.split(axis, tile, tail=tail if size(axis) is None else "auto")


def _stride(inside: Stage) -> int:
    """From what a sum reads to what its neighbour along memory reads."""
    image, x = _image(inside), inside.op.axis[-1]
    return max(step(at[-1], x) or 1 for t, at in reads_of(inside.op).plain if t is image)


def _pad(s: Schedule, inside: Stage, lanes: int, fours: Windows | None) -> Stage | None:
    """The stage that pads, its rows made long enough for whole vectors, when nothing else reads it; no lane
    of a sum then needs a mask. Taps in ``fours`` read a copy where there is no margin, for the last of them
    may lie behind the end of a row."""
    image = _image(inside)
    assert image is not None
    padded = padding_of(s, image)
    if padded is None and fours is not None:
        padded = s[s.cache_read(image, "global", [inside.name])]
        image = _image(inside)
    if padded is None:
        return None
    at = next(at for t, at in reads_of(inside.op).plain if t is image)
    x, tap = inside.op.axis[-1], inside.op.reduce_axis[-1]
    last = -(-(size(x) or 1) // lanes) * lanes - 1
    taps = size(tap) or 1
    if fours is not None:
        taps = -(-taps // FOUR) * FOUR
    reach = last * (step(at[-1], x) or 1) + (taps - 1) * (step(at[-1], tap) or 1) + 1
    long = -(-max(reach, size(padded.op.axis[-1]) or 1) // lanes) * lanes

    def in_rows(*at: Any) -> list[Any]:
        return [*at[:-1], at[-1] // long, at[-1] % long]

    # what lies behind an open row is more of its margin, where it has one: no test for it in each vector that
    # is copied
    of_margin = size(padded.op.axis[-1]) is None and s.can(
        "transform_layout", padded.name, in_rows, pad_value="any"
    )
    padded.transform_layout(in_rows, pad_value="any" if of_margin else None)
    return padded
