"""Transposed convolutions of known sizes whose outputs fill vectors: each phase of the stride is a
convolution of its own (the sub-pixel convolution of Shi et al. 2016), in register tiles of pixels × vectors
of output channels, summed from packed weights and a copy of the image. A strip of finished pixels of all
phases is put in the layout of the output while it is in the first cache. Uses public primitives only.

Beside ``phases``, whose lanes are pixels of one phase: there an element of the weight serves one vector of
pixels, and lies far from the one before. Measured (Zen 3, weights at the call, one thread and two): 3 × 3
with stride 2, 256 to 128 channels of 16 × 16, takes 0.66 and 0.5 of its time, 4 × 4 with stride 2, 128 to 64
of 32 × 32, 0.69 and 0.6, in 8 groups of 28 × 28 0.51 and 0.44, 2 × 2 with stride 2, 64 to 32 of 56 × 56, 0.88
and 0.57; shapes drawn 0.26 to 1.09.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..analysis import bytes_of, constant, cost_of, phases_of, reads_of
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import IterVar, Tensor
from .common import FEW_REGISTERS, evenly, is_known, share_out, size, work
from .conv import by_row, padding_of, rows_in_vectors
from .nests import Axes, nest, sums
from .phases import rows_as_one
from .pixels import FEW, WINDOW_TAPS, counted
from .register_tile import even, tile_for, time_of

STRIP_BYTES = 16 << 10  # of finished pixels that wait to be put in their places
EMPTY = 1 / 4  # of the lanes of all outputs of a group, at most
# multiply-adds of an output that pay for its transposition. Measured (Zen 3): with 8, 20 and 24 it takes 1.2
# to 2, 1.3 and 0.95 to 1.2 of the time in ``phases``, with 32 and more 0.98 and less; but each tap is a loop
# over the channels: 8 of them take 0.8 to 2.4 of the time whatever the taps, 16 0.72; of groups, whose few
# outputs leave tiles of pixels small, 8 take 0.53 and 0.34
DEEP, CHANNELS = 32, 16
# the same with many registers, where it is known how full both vectors are; outputs fill half of one at
# least. Measured (Zen 5, one thread): 24 to 96 channels of 3 × 3, 2 × 2, take 0.25 of the time, 16 to 32 of
# 8 × 8 0.35, 160 to 12 of 8 × 3 × 3, 4 × 4 × 4, 0.40, 8 to 96 of 4 × 3, 5 × 5, 0.5, 8 to 205 of 4 × 4 1.01
FEW_CHANNELS = 8
# so much of the fullness of vectors of outputs is, at most, that of vectors of pixels; and times it, where
# phases lack taps, which are masked. Measured (Zen 4, one thread and two, known weights): of 90 drawn shapes
# the 45 that are chosen take 0.05 to 1.1 of the time, 0.73 on the average, others up to 1.8
FULLER, LACKING = 0.85, 0.8
# cycles of an element of a weight that is packed in the call, and at least of one that vectors of pixels take
# as it lies, for each image. Measured (Zen 5): 0.5 to 1.1, the most where it comes from memory, and 1.0 to 2
# where the pixels of a phase are one vector. Of 127 drawn shapes, most at the call, the 68 that are chosen
# take 0.07 to 1.1 of the time on one thread, 0.42 on the average; on two threads 62 take 0.55, some of
# several small images 1.3 and 1.45
PACKED, ONE_BY_ONE = 0.5, 1.1
# vectors of a group whose outputs are no whole ones, and how full they are at least. Measured (Zen 5, one
# thread): 96 to 96 channels of 7 × 7 in four groups, 3 × 3 with stride 4, take 0.42 of the time, 48 to 48 of
# 13 × 12 × 7 in two, 4 × 4 × 4 with stride 2, 0.34; without a stride, whole vectors, 64 to 64 of 56 × 7 in
# two, 3 × 5, 0.19. Of 72 drawn shapes in groups, with what leaving out empty phases gains, all take 0.74 on
# the average, at most 1.2; with AVX2 30 take 0.85
WHOLE_GROUP, FULL = 4, 0.7
# vectors of a row that are written out where a last one overlaps the one before and begins with another phase
MOST_VECTORS = 8


@dataclass(frozen=True)
class Spread:
    """A transposed convolution: the image and the weight [C, O / groups, taps …], the stride of each spatial
    axis and how many outputs of a phase lie along it, the outputs and the channels of a group."""

    image: Tensor
    weight: Tensor
    strides: tuple[int, ...]
    places: tuple[int, ...]
    groups: int
    each: int
    channels: int


def spread_of(inside: Stage) -> Spread | None:
    """``inside`` as a transposed convolution of known sizes with a stride, or in groups, which are found
    alike; None for any other stage."""
    op, phases = inside.op, phases_of(inside.op)
    if not phases or len(op.axis) < 3 or any(size(a) in (None, 0) for a in (*op.axis, *op.reduce_axis)):
        return None
    n, o, *at = op.axis
    reads = reads_of(op).plain
    images = [t for t, i in reads if i[0] is n.var]
    weights = [t for t, i in reads if i[0] is not n.var and len(i) == len(op.axis)]
    if n in phases or len(images) != 1 or len(weights) != 1:
        return None
    strides = tuple(phases.get(a, 1) for a in at)
    places = tuple(-(-(size(a) or 1) // k) for a, k in zip(at, strides, strict=True))
    outputs = size(o) or 1
    each = phases.get(o, outputs)
    channels = size(op.reduce_axis[0]) or 1
    return Spread(images[0], weights[0], strides, places, outputs // each, each, channels)


def applies(s: Schedule, inside: Stage, target: Target, constants: Sequence[Tensor]) -> bool:
    """Whether ``inside`` is a transposed convolution for ``apply``: of outputs that nearly fill vectors, and
    sums long enough to pay for their transposition. With many registers, of which ``phases`` makes more:
    where vectors of pixels are rather empty."""
    found = spread_of(inside)
    if found is None:
        return False
    kind = inside.op.body[0].dtype
    lanes = target.vector_lanes(kind)
    many = target.vector_registers > FEW_REGISTERS
    fixed = is_known(found.weight, constants)
    if many and not _takes_less(s, found, inside, lanes, target, fixed):
        return False
    deep = math.prod(size(a) or 1 for a in inside.op.reduce_axis)
    if found.groups > 1:
        whole = -(-found.each // lanes) * lanes
        fits = found.each == whole or (many and FULL * whole <= found.each <= WHOLE_GROUP * lanes)
        worth = fits and (many or deep >= DEEP)
    elif many:  # how full the vectors are has been weighed
        worth = 2 * found.each >= lanes and found.channels >= FEW_CHANNELS
    else:
        enough = found.each >= lanes and found.channels >= CHANNELS and deep >= DEEP
        worth = enough and -found.each % lanes <= EMPTY * found.each
    return worth and found.image.dtype == kind == found.weight.dtype


def _takes_less(s: Schedule, c: Spread, inside: Stage, lanes: int, target: Target, fixed: bool) -> bool:
    """Whether vectors of outputs are fuller than those of the pixels of a phase, by what they take beside; of
    a weight that is not ``fixed`` and must be packed, whether they take less in spite of that."""
    *_, row = c.places
    rows = c.places[-2] if len(c.places) > 1 else 1
    if rows_as_one(s, inside, target) is not None:
        # one behind the other with the margin between them
        vectors = -(-((rows - 1) * (constant(c.image.shape[-1]) or row) + row) // lanes)
    else:  # 14 elements are 8 + 4 + 2
        vectors = rows * (row.bit_count() if row < lanes else -(-row // lanes))
    pixels = rows * row / (lanes * vectors)
    if inside.op.body[0].condition is not None:
        pixels *= LACKING
    high, stretch, _, vectors = _strip(c, lanes, target)
    width = lanes * vectors
    panels, stretches = -(-c.each // width), -(-row // stretch)
    # a row of a few places more than a stretch is computed as two
    outputs = c.each / (panels * width) * row / (stretches * stretch)
    if fixed:
        return pixels < FULLER * outputs
    elements, images = math.prod(constant(n) or 1 for n in c.weight.shape), size(inside.op.axis[0]) or 1
    sums = images * elements * math.prod(c.places) / (lanes * cost_of(target).whole_per_cycle)
    parts = c.groups * panels * stretches * math.prod(c.places[:-2]) * -(-rows // high)
    idle = -(-parts // target.num_cores) * target.num_cores / parts
    by_pixel = max(sums / pixels, ONE_BY_ONE * images * elements)
    return PACKED * elements + sums / outputs * idle < FULLER * by_pixel


def apply(s: Schedule, out: Stage, inside: Stage, target: Target, constants: Sequence[Tensor]) -> None:
    """Compute the transposed convolution ``inside`` in register tiles of ``out``, which has its shape and
    reads it at its own place."""
    c = spread_of(inside)
    assert c is not None
    lanes, iterations = target.vector_lanes(inside.op.body[0].dtype), work(inside)
    rows, row, high, vectors = _strip(c, lanes, target)
    width = _width(c, lanes, vectors)

    def panel(o: Any) -> list[Any]:
        """Which panel, and of which group: none reaches from one into the next."""
        several = c.groups > 1 and c.each > width
        return [o // c.each, o // width % (c.each // width)] if several else [o // width]

    def laid_out(n: Any, o: Any, *at: Any) -> list[Any]:
        pairs = list(zip(at, c.strides, strict=True))
        pixel = counted([i // k if k > 1 else i for i, k in pairs], c.places)
        return [n, *panel(o), *[i % k for i, k in pairs if k > 1], *pixel, o % width]

    packed = _packed(s, inside, c, width)
    image = padding_of(s, c.image) or s[s.cache_read(c.image, "global", [inside.name])]
    if c.groups == 1:
        image.transform_layout(by_row(1))
    # windows as wide as the stride, behind a margin that is cut off, end with the image: none of it lies
    # behind the last outputs of other phases
    beyond = s.can("transform_layout", inside.name, laid_out, pad_value="any")
    inside.transform_layout(laid_out, pad_value="any" if beyond else None)
    finished = s[s.cache_write(out.name, "local")]
    # what is behind the outputs may be no part of what they read, as of a bias
    anything = s.can("transform_layout", finished.name, laid_out, pad_value="any")
    finished.transform_layout(laid_out, pad_value="any" if anything else None)
    n, o, *at = out.op.axis
    block, oi = out.split(o, width)
    oio, oii = out.split(oi, FEW)
    strips, within, stretches = list[IterVar](), list[IterVar](), list[IterVar]()
    for d, (axis, k) in enumerate(zip(at[:-1], c.strides[:-1], strict=True)):
        outer, inner = out.split(axis, k * (rows if d == len(at) - 2 else 1))
        strips, within = [*strips, outer], [*within, inner]
    x, k = at[-1], c.strides[-1]
    long = size(x) or 1
    if row < c.places[-1]:
        long = k * row
        outer, x = out.split(x, long)
        stretches.append(outer)
    xo, xp, xv = _by_phase(out, x, long, k, lanes)
    by_strip = bool(strips) and _by_strip(c, target)
    around = [*strips, block, *stretches] if by_strip else [block, *strips, *stretches]
    out.reorder(n, *around, *within, oio, xo, oii, xp, xv)
    out.unroll(oii)
    out.unroll(xp)
    out.vectorize(xv)
    finished.compute_at(out, around[-1])
    *front, p, lane = finished.op.axis
    tiles = nest(finished, {"f": front, "p": p, "o": lane}, "f po | pi o", {"p": high})
    *front, p, lane = inside.op.axis
    channel, *taps = inside.op.reduce_axis
    axes: Axes = {"f": front, "k": [*taps, channel], "p": p, "o": lane}
    sums(s, inside, finished, tiles.place, axes, "f k | p o")
    for t in taps:
        inside.unroll(t)
    fixed = is_known(c.weight, constants)
    # each panel by the thread that uses it, just before: what does not stay in the second cache is then read
    # once, instead of read, written and read again, and no thread waits for another
    parts = c.groups * -(-c.each // width)
    here = not fixed and not by_strip and size(n) == 1 and evenly(parts, target.num_cores)
    if not fixed:
        *panels, lane = packed.op.axis
        ci = [] if _one_channel(c) else [panels.pop()]
        window = panels[-len(c.strides) :]
        del panels[-len(c.strides) :]
        few = math.prod(size(t) or 1 for t in window) <= WINDOW_TAPS
        named: Axes = {"f": panels, "c": ci, "t": window[:-1], "l": window[-1], "o": lane}
        nest(packed, named, "f c | t l o" if few else "f c t | l o")
        if here:
            packed.compute_at(out, block)
        else:  # channels too: panels may be fewer than threads
            share_out(packed, [*panels, *ci], iterations // 16, target)
    image.compute_at(out, strips[-1] if by_strip else n)
    rows_in_vectors(image, lanes)
    if by_strip:
        share_out(out, strips, iterations, target)
    else:
        share_out(image, list(image.op.axis[1:-1]), iterations // 16, target)
        share_out(out, [block] if here else around, iterations, target)


def _width(c: Spread, lanes: int, vectors: int) -> int:
    """The outputs of a panel: none reaches from a group into the next."""
    return min(c.each, lanes * vectors) if c.groups > 1 else lanes * vectors


def _by_strip(c: Spread, target: Target) -> bool:
    """Whether a strip of the image is copied before all that is made of it: an image that does not stay in
    the second cache, beside a weight that does."""
    image, weight = bytes_of(c.image), bytes_of(c.weight)
    return (image or 0) > target.l2_bytes // 2 and (weight or 0) <= target.l2_bytes // 2


def _strip(c: Spread, lanes: int, target: Target) -> tuple[int, int, int, int]:
    """The rows of a strip and the places of one, or some places of a single row; its register tile, of
    pixels and vectors."""
    registers = target.vector_registers * 15 // 16  # the loads of the next channel want some
    *_, place = c.places
    depth = c.places[-2] if len(c.places) > 1 else 1

    def tile(pixels: int) -> tuple[int, int]:
        high, vectors = tile_for(pixels, c.each, lanes, registers)
        if c.groups > 1 and c.each % _width(c, lanes, vectors):
            vectors = 1 if c.each % lanes == 0 else -(-c.each // lanes)
            high = even(pixels, max(1, (registers - 1) // vectors - 1))
        return high, vectors

    width = _width(c, lanes, tile(math.prod(c.places))[1])
    fit = STRIP_BYTES // (math.prod(c.strides) * width * c.image.dtype.bytes)
    if place > max(fit, lanes):
        row = -(-even(place, max(fit, lanes)) // lanes) * lanes
        return (1, min(row, place), *tile(row))

    def time(rows: int) -> float:
        pixels = rows * place
        return -(-depth // rows) * time_of(pixels, c.each, *tile(pixels), lanes, cost_of(target))

    rows = min(range(1, max(1, min(depth, fit // place)) + 1), key=lambda n: (time(n), -n))
    return (rows, place, *tile(rows * place))


def _packed(s: Schedule, inside: Stage, c: Spread, width: int) -> Stage:
    """The weight in panels of ``width`` outputs of a group, the channels of each tap one behind the other."""

    def panels(channel: Any, o: Any, *taps: Any) -> list[Any]:
        if c.groups == 1:
            front, own = [], [channel]
        else:
            front, own = [channel // c.channels], [] if _one_channel(c) else [channel % c.channels]
        return [*front, o // width, *taps, *own, o % width]

    packed = s[s.cache_read(c.weight, "global", [inside.name])]
    packed.transform_layout(panels)
    return packed


def _one_channel(c: Spread) -> bool:
    """Whether groups have one channel each, which is the group: the weight has no axis within it."""
    return c.groups > 1 and c.channels == 1


def _by_phase(out: Stage, x: IterVar, n: int, stride: int, lanes: int) -> tuple[IterVar, IterVar, IterVar]:
    """Loops of ``n`` outputs of a row: vectors, the phases of a vector's places, its places."""
    whole = stride * min(lanes, 1 << (-(-n // stride)).bit_length() - 1)
    # a last vector overlaps the one before; whose phase it begins with is known where it is written out
    overlaps = n > whole and n % whole > 0 and (n % stride == 0 or n <= MOST_VECTORS * whole)
    xo, xi = out.split(x, whole, tail="shift") if overlaps else out.split(x, whole)
    if overlaps and n % stride:
        out.unroll(xo)
    places, phase = out.split(xi, stride)
    return xo, phase, places
