"""Convolutions of known sizes, channels first: register tiles of outputs × vectors of pixels of several rows.

The rows of an image with its margin are counted as one axis, each phase of a stride by itself, so that what a
tap of neighbouring outputs reads is a vector that lies together. Between the end of a row and the next one a
few sums are computed that nobody reads, as many as the margin is wide: fewer than the rests of vectors in
every row. A strip of rows is summed for some outputs before it is put in its place. Uses public primitives
only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..analysis import Conv, constant, conv_of, cost_of, made_of_place
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import Tensor
from .common import FEW_REGISTERS, in_registers, is_known, share_out, size, work
from .conv import by_phase, copying, packing, packs_weight, padding_of, rows_in_vectors, time_by_pixel
from .pointwise import pack_outputs, wide_or_packed
from .reach import depth
from .register_tile import MANY, group_tile, rows_that_stay, tile_for, time_of

# of each element of the image: with its margin, and row behind row; the same where a stride picks elements
COPIES, PICKED = 2, 4
# of the time of vectors of outputs, at most, that of vectors of pixels is where they are chosen. Measured
# (Zen 4, drawn shapes for which it decides): by it what is chosen takes 1.049 and 1.015 times as long as the
# better one on two threads, at the call and packed, and 1.005 and 1.000 on one; by 1 1.056, 1.025, 1.007 and
# 1.001; by 0.8 less on two, but 12 to 22 channels of 40 × 40, 5×5, 1.3. With AVX2 the same by all
SURE = 0.93
ROW_TAPS = 7  # of a row that are written out where a stride makes each read another phase


@dataclass(frozen=True)
class Plan:
    """The numbers of a schedule: the places of a row and those of them that are pixels, the register tile,
    the rows of a strip."""

    row: int
    places: int
    high: int
    vectors: int
    strip: int
    time: float  # cycles for one image, of all threads together


def applies(s: Schedule, inside: Stage, target: Target, constants: Sequence[Tensor]) -> bool:
    """Whether ``inside`` is a convolution over rows, and vectors of pixels take less time for it than vectors
    of outputs."""
    conv = conv_of(inside.op)
    if conv is None or not conv.batch or conv.images == 0 or len(conv.sizes) < 2 or 0 in conv.sizes:
        return False
    if made_of_place(inside.op) or not wide_or_packed(conv, inside, target, constants):
        return False  # places outside of the image would be asked for between its rows, too
    if one_by_one(conv, target):
        return False
    if conv.groups > 1 and all(size(t) == 1 for t in conv.taps) and _read_well(conv, target):
        return False
    fixed = is_known(conv.weight, constants)
    found = plan(conv, target, fixed)
    margin = padding_of(s, conv.data) is not None
    # tiles of outputs want a packed weight. Measured without one (Zen 4, 100 drawn shapes of 2 to 15 pixels):
    # 0.55 of the time of what else there is, of a single row 1.2
    alone = conv.sizes[-2] > 1 and not packs_weight(conv, constants)
    packed = 0.0 if fixed else packing(conv, target)
    return found.places > 1 and (alone or found.time <= SURE * (time_by_pixel(conv, target, margin) + packed))


def one_by_one(conv: Conv, target: Target) -> bool:
    """Whether a group has one output, so that nothing that is read is read for another, and rows are long
    enough for vectors: plain tiles of rows × vectors, whose taps are written out, need no copy.

    Measured (Zen 5, one thread, 50 drawn shapes): 3×3 take 0.7 to 0.9 of the time of strips, 5×5 and 7×7 0.5
    to 0.8; rows of 7 to 15 pixels 0.7 to 2.3, every second pixel 0.4 to 6.
    """
    lanes, wide = target.vector_lanes(conv.data.dtype), target.vector_registers > FEW_REGISTERS
    return conv.each == 1 and wide and conv.sizes[-1] >= lanes and max(conv.strides) == 1


def _read_well(conv: Conv, target: Target) -> bool:
    """Whether the pixels of a group, each of which is read for the outputs of that group alone, are vectors
    where they lie, or elements for vectors of outputs: a copy of them would take longer than the sums.

    Measured (Zen 5, one thread): 64 to 16 channels of 40 × 40 in 8 groups 0.44 of the time, 4096 to 128 of
    28 × 28 in 32 0.54, 64 to 1024 of 40 × 7 in 16 0.66; in rows of 3 to 14 pixels of groups of up to 12
    outputs it would take 1.2 to 9 times as long.
    """
    lanes = target.vector_lanes(conv.data.dtype)
    return conv.sizes[-1] >= lanes or conv.each >= lanes


def plan(conv: Conv, target: Target, fixed: bool = True) -> Plan:
    """The strip and the tile with the least time, of a weight that is not ``fixed`` as it came; of the
    threads the one with the most to do counts."""
    rows, row = conv.sizes[-2:]
    places = max(row, -(-(constant(conv.data.shape[-1]) or row) // conv.strides[-1]))
    lanes, threads = target.vector_lanes(conv.data.dtype), target.num_cores
    channels, high_taps = size(conv.channels) or 1, (size(conv.taps[-2]) or 1) if len(conv.taps) > 1 else 1
    front, table = math.prod(conv.sizes[:-2]), cost_of(target)
    copied = (PICKED if max(conv.strides) > 1 else COPIES) * copying(conv, target) * places * channels
    whole = _tile(conv, conv.each, rows * places, lanes, target, fixed)
    # where threads share out the outputs of a strip
    outputs = -(-conv.each // threads)
    part = _tile(conv, outputs, rows * places, lanes, target, fixed)

    def cycles(high: int, outputs: int, tile: tuple[int, int]) -> float:
        pixels = (high - 1) * places + row
        tiles = -(-pixels // (lanes * tile[1])) * lanes * tile[1]
        sums = depth(conv) * table.crossing * time_of(outputs, tiles, *tile, lanes, table)
        return sums + copied * ((high - 1) * conv.strides[-2] + high_taps) * conv.strides[-1]

    def option(strip: int) -> Plan:
        strips = -(-rows // strip)
        shares = front * strips * (conv.images or 1)
        tile = part if shares < threads else whole
        if shares < threads:
            time = threads * strips * cycles(strip, -(-outputs // tile[0]) * tile[0], tile)
        else:
            full, last = (cycles(n, conv.each, tile) for n in (strip, rows - (strips - 1) * strip))
            most = -(-shares // threads) * full * threads / (conv.images or 1) / front
            time = max((strips - 1) * full + last, most)
        return Plan(row, places, *tile, strip, conv.groups * front * time)

    near = max(1, min(rows, target.l1_bytes // (whole[0] * places * conv.data.dtype.bytes)))
    return min((option(strip) for strip in range(1, near + 1)), key=lambda plan: plan.time)


def _tile(conv: Conv, outputs: int, pixels: int, lanes: int, target: Target, fixed: bool) -> tuple[int, int]:
    """(outputs, vectors) of the register tile for so many outputs; one that does not reach beyond a group,
    and of no more rows of a weight that lies as it came than stay in the first cache.

    Measured (Zen 5, one thread and two, 15 drawn 3×3 of 512 and 1024 channels whose tile changes): 0.47 and
    0.60 of the time, 1024 to 512 channels of 5 × 5 at stride 2 0.32 and 0.32, to 96 of 2 × 2 0.35.
    """
    table, registers = cost_of(target), target.vector_registers
    if conv.groups == 1:
        most = MANY if fixed else rows_that_stay(conv.weight, conv.weight_axes.get(conv.outputs), target)
        masks = _whole(pixels, lanes, target)
        return tile_for(outputs, pixels, lanes, registers, table, masks=masks, most=most)
    # half of the registers: with more LLVM spills sums for NEON, and these are chains enough
    return group_tile(conv.each, range(4, 0, -1), registers // 2, table, whole=True)


def _whole(pixels: int, lanes: int, target: Target) -> bool:
    """Whether the last pixels of a strip are summed in a whole vector, some of whose lanes are masked: where
    they would be several shorter ones otherwise, each with registers and multiply-adds of its own.

    Measured (Zen 5, one thread and two): 28 drawn 3×3 and 5×5 convolutions of images of 2 to 14 pixels a
    side 0.63 and 0.57 of the time, 512 to 512 channels of 3 × 3 0.51, 256 to 512 of 2 × 2 0.39; 8 to 256 of
    9 × 9 at stride 2 1.14.
    """
    return target.vector_registers > FEW_REGISTERS and (pixels % lanes).bit_count() > 1


def apply(s: Schedule, out: Stage, inside: Stage, target: Target, constants: Sequence[Tensor]) -> None:
    """Compute the convolution ``inside`` in register tiles for strips of ``out``, which has its shape and
    reads it at its own place."""
    conv = conv_of(inside.op)
    assert conv is not None
    lanes, iterations = target.vector_lanes(conv.data.dtype), work(inside)
    p = plan(conv, target, is_known(conv.weight, constants))
    weight = pack_outputs(s, inside, conv, p.high, lanes, constants)
    image, margin = _image(s, conv, inside, p)

    def behind_each_other(*at: Any) -> list[Any]:
        return [*at[:-2], at[-2] * p.places + at[-1]]

    held = s[s.cache_write(inside.name, "local")]
    for stage in (held, inside):
        stage.transform_layout(behind_each_other, pad_value="any")
    batch = len(conv.batch)
    images, o, (*front, y, x) = list(out.op.axis[:batch]), out.op.axis[batch], out.op.axis[batch + 1 :]
    block, oi = out.split(o, p.high)
    strip, yi = out.split(y, p.strip)
    overlaps = p.row > lanes and p.row % lanes > 0
    xo, xi = out.split(x, min(lanes, p.row), tail="shift" if overlaps else "auto")
    shared = [*images, *front, strip]
    if math.prod(conv.sizes[:-2]) * -(-conv.sizes[-2] // p.strip) * (conv.images or 1) < target.num_cores:
        part, block = out.split(block, nparts=target.num_cores)
        shared.append(part)
    out.reorder(*shared, block, oi, yi, xo, xi)
    out.vectorize(xi)
    inside.compute_at(out, block)
    if weight is not None:
        weight.compute_at(out, block)
    *around, sp = inside.op.axis
    so = around.pop(batch)
    sv, lane = inside.split(sp, lanes)
    tile, vector = inside.split(sv, p.vectors)
    inside.reorder(*around, tile, so, vector, lane)
    inside.unroll(so)
    inside.unroll(vector)
    inside.vectorize(lane)
    held.compute_at(inside, tile)
    in_registers(s, held)
    *around, q = held.op.axis
    own = around.pop(batch)
    held.reorder(*around, conv.channels, *conv.taps, own, q)
    if max(conv.strides) > 1 and (size(conv.taps[-1]) or 1) <= ROW_TAPS:
        held.unroll(conv.taps[-1])
    vector, lane = held.split(q, lanes)
    held.unroll(own)
    held.unroll(vector)
    held.vectorize(lane)
    if conv.groups == 1 and _whole((p.strip - 1) * p.places + p.row, lanes, target):
        held.pragma(lane, "whole_vectors", lanes)
    share_out(out, shared, iterations, target)
    image.compute_at(out, out.leaf_iter_vars[0])
    if margin:
        rows_in_vectors(image, lanes, p.places)
    else:
        _, lane = image.split(image.op.axis[-1], lanes)
        image.vectorize(lane)


def _image(s: Schedule, conv: Conv, inside: Stage, p: Plan) -> tuple[Stage, bool]:
    """The image with row behind row, and whether that is its margin or its phases apart."""
    margin = padding_of(s, conv.data)
    copy = margin or s[s.cache_read(conv.data, "global", [inside.name])]
    apart = margin is not None or max(conv.strides) > 1
    if apart:
        copy.transform_layout(by_phase(conv))
    copy.transform_layout(lambda *at: [*at[:-2], at[-2] * p.places + at[-1]])
    return copy, apart
