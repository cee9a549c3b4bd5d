"""Convolutions of known sizes, channels first: register tiles of outputs × rows × vectors of a row.

Beside ``flat``, which counts the rows of an image with its margin as one axis and sums what stands between
the end of a row and the next one: where a margin is wide beside rows that fill their vectors, as that of a
dilation or of a large window is, those are many sums that nobody reads. What a tile has summed is written
where it belongs, and threads share rows or outputs out, whichever are even. Uses public primitives only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..analysis import Conv, conv_of, cost_of
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import Tensor
from . import flat
from .common import in_halves, in_registers, is_known, share_out, size, work
from .conv import by_phase, copying, padding_of, rows_in_vectors, time_by_pixel
from .pointwise import pack_outputs, wide_or_packed
from .reach import L3_PART, depth, image_of
from .register_tile import even

VECTORS = 4  # of a row in a tile
# of a vector's time is saved where half of it is used: it is loaded as a whole one is. Measured (Zen 4): with
# a half saved 5 to 13 channels of 20 × 20, 7×7, for which 0.96 of the time was promised, took 1.07
HALF = 1 / 3
# of the time that is promised of tiles of one vector. Measured (Zen 4): 144 to 216 channels of 10 × 10, 3×3,
# dilated, in 4 to 8 groups took 1.07 to 1.25 of it in these
LOADED = 0.75
# cycles of a vector of results that ``flat`` puts in its place, which counts where sums are short. Measured
# (Zen 4, one thread and two, 16 and 9 drawn shapes of 3 to 9 channels that are taken since): 0.90 and 0.85
WRITTEN = 1.5
# of the time of other recipes, at most, that these tiles take where they are chosen. Measured (Zen 4, one
# thread and two, drawn shapes of 10 × 10 to 140 × 140 for which at most 1.01 of the time is promised): 65
# without a stride 0.91 and 0.89, 20 to 24 channels of 15 × 15, 5×5, dilated, 0.8 and 0.7, 32 to 70 of
# 16 × 16 0.8 and 0.8, 8 to 19 of 52 × 52, 7×7, dilated, 0.84 and 0.78; 17 at strides of 2 and 3 0.9 and 0.83;
# with a known weight 0.91; of AVX2 on the same processor 0.79 and 0.64; 23 of 2 to 8 groups 0.89 and 0.80, of
# AVX2 0.80 and 0.64. Where more than that is promised they took up to 1.3
SURE = 0.98


class Box(NamedTuple):
    """Outputs, rows and columns of a tile; the parts of the outputs and the strips of rows that threads
    share; cycles for one image, of all threads together."""

    high: int
    rows: int
    wide: int
    parts: int
    strips: int
    time: float


def applies(s: Schedule, inside: Stage, target: Target, constants: Sequence[Tensor]) -> bool:
    """Whether ``inside`` is a convolution for ``apply`` that takes less time so than by the other recipes, of
    an image that is not far: it is read once for each block of outputs."""
    conv = conv_of(inside.op)
    if conv is None or not conv.batch or conv.images == 0 or len(conv.sizes) != 2 or 0 in conv.sizes:
        return False
    if conv.pointwise or flat.one_by_one(conv, target) or image_of(conv) > target.l3_bytes // L3_PART:
        return False
    if not wide_or_packed(conv, inside, target, constants):
        return False
    margin, known = padding_of(s, conv.data) is not None, is_known(conv.weight, constants)
    by_pixel = time_by_pixel(conv, target, margin) + (0 if known else flat.packing(conv, target))
    return box(conv, work(inside), target).time < SURE * min(_over_rows(conv, target), by_pixel)


def _over_rows(conv: Conv, target: Target) -> float:
    """Cycles of ``flat``, which puts sums in their place behind a strip, and whose tiles of one vector count
    as bound by loads."""
    p = flat.plan(conv, target)
    vectors = -(-conv.sizes[-1] // target.vector_lanes(conv.data.dtype))
    written = WRITTEN * conv.groups * conv.each * conv.sizes[0] * vectors
    return p.time * (LOADED if p.vectors == 1 and in_halves(target) else 1) + written


def box(conv: Conv, iterations: int, target: Target) -> Box:
    """The tile with the least time; of the threads the one with the most to do counts."""
    table, lanes, (rows, row) = cost_of(target), target.vector_lanes(conv.data.dtype), conv.sizes
    threads, images = target.num_cores if table.shared(iterations) else 1, conv.images or 1
    taps, outputs = size(conv.taps[0]) or 1, conv.groups * conv.each
    each = flat.PICKED if max(conv.strides) > 1 else flat.COPIES
    copied = each * copying(conv, target) * row * conv.strides[-1] * conv.groups * (size(conv.channels) or 1)
    shares = [(1, 1)] if images % threads == 0 else [(min(threads, outputs), 1), (1, min(threads, rows))]

    def time(high: int, many: int, wide: int, held: float, parts: int, strips: int) -> float:
        blocks, bands = (
            -(-n // shares) for n, shares in ((-(-outputs // high), parts), (-(-rows // many), strips))
        )
        tiles = blocks * bands * -(-row // wide)
        sums = depth(conv) * table.crossing * table.tile(high, many * held) * tiles
        busiest = -(-images * parts * strips // threads) * (
            sums + copied * (bands * many * conv.strides[0] + taps - 1)
        )
        return busiest * target.num_cores / images

    options = [
        Box(high, many, wide, parts, strips, time(high, many, wide, held, parts, strips))
        for wide, registers, held in _widths(row, lanes, target)
        for many in _heights(rows, target.vector_registers // registers)
        for high in _heights(conv.each, (target.vector_registers - 1) // (many * registers) - 1)
        if conv.groups == 1 or conv.each % high == 0  # within a group, which reads the same channels
        for parts, strips in shares
    ]
    return min(options, key=lambda b: b.time)


def _heights(n: int, most: int) -> list[int]:
    """The heights of at most so many, blocks of ``n`` of nearly equal height."""
    return sorted({even(n, high) for high in range(1, most + 1)}, reverse=True)


def _widths(row: int, lanes: int, target: Target) -> Iterator[tuple[int, int, float]]:
    """The columns of a tile, the registers of a row of them, and the vectors that those are as work: half a
    vector may be half of it. The last tile of a row begins earlier; a whole row may end in shorter vectors,
    of which one with ``whole_vectors`` takes the place of several."""
    for vectors in range(1, min(VECTORS, row // lanes) + 1):
        yield vectors * lanes, vectors, vectors
    rest = row % lanes
    if rest and row < VECTORS * lanes:
        free = target.has_masks and row > lanes // 2
        registers = row // lanes + (1 if free else rest.bit_count())
        half = free and 2 * rest <= lanes and in_halves(target)
        yield row, registers, registers - half * HALF


def apply(s: Schedule, out: Stage, inside: Stage, target: Target, constants: Sequence[Tensor]) -> None:
    """Compute the convolution ``inside`` in register tiles of ``out``, which has its shape and reads it at
    its own place."""
    conv = conv_of(inside.op)
    assert conv is not None
    iterations, lanes, row = work(inside), target.vector_lanes(conv.data.dtype), conv.sizes[-1]
    b, batch = box(conv, iterations, target), len(conv.batch)
    weight, padded = pack_outputs(s, inside, conv, b.high, lanes, constants), padding_of(s, conv.data)
    if padded is None and max(conv.strides) > 1:
        padded = s[s.cache_read(conv.data, "global", [inside.name])]
    if padded is not None and max(conv.strides) > 1:
        padded.transform_layout(by_phase(conv))
    shared, (o, y, x) = list(out.op.axis[:batch]), out.op.axis[batch:]
    block, oi = out.split(o, b.high)
    band, yi = out.split(y, b.rows)
    if b.parts > 1:
        part, block = out.split(block, nparts=b.parts)
        shared.append(part)
    if b.strips > 1:
        strip, band = out.split(band, nparts=b.strips)
        shared.append(strip)
    xo, xi = out.split(x, b.wide, tail="shift" if row % b.wide else "auto")
    out.reorder(*shared, block, band, xo, oi, yi, xi)
    inside.compute_at(out, xo)
    in_registers(s, inside)
    *_, so, sy, sx = inside.op.axis
    inside.reorder(conv.channels, *conv.taps, so, sy, sx)
    if max(conv.strides) > 1 and (size(conv.taps[-1]) or 1) <= flat.ROW_TAPS:
        inside.unroll(conv.taps[-1])
    for stage, loops in ((out, (oi, yi, xi)), (inside, (so, sy, sx))):
        for loop in loops[:-1]:
            stage.unroll(loop)
        stage.vectorize(loops[-1])
        if target.has_masks and b.wide % lanes and b.wide > lanes // 2:
            half = b.wide > lanes and 2 * (b.wide % lanes) <= lanes
            stage.pragma(loops[-1], "whole_vectors", lanes // 2 if half else lanes)
    if weight is not None:
        weight.compute_at(out, block)
    place = share_out(out, shared, iterations, target)
    if padded is not None:
        padded.compute_at(out, shared[-1] if place is None else place)
        rows_in_vectors(padded, lanes)
