"""Where a convolution by 3×3 kernels, of images or of the planes of volumes, takes less time by minimal
filtering (Lavin and Gray, CVPR 2016), and with tiles of how many outputs. Knows the table of costs; changes
nothing.

Larger tiles take fewer multiplications and a larger weight: of few pixels, whose weight comes from memory,
smaller ones are faster. An image of open height or width is taken for one of 64 × 64: measured (Zen 4), the
layers of a detector of 32 to 128 channels took 1.0 to 2.6 times as long by direct sums at 10 × 10 to 40 × 40.

Taps that lie apart are those of as many images as there are phases, of known sizes. Direct sums of them may
leave out what reads the margin alone (``recipes.within_image``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..schedule.legality.filtering import Filter
from ..target import Target
from ..te.convolutions import Margin, Window
from ..te.patterns import SIDE, constant, typical
from ..te.products import Conv
from .cost_tables import cost_of

# cycles for a vector of elements of a weight's copy as it is, which a direct sum at the call takes
PACKED = 9
GAIN = 0.85  # of the time of a direct sum, at most
DIRECT = 1.15  # times the multiply-adds take with what is around them
TILES = (2, 4)  # of outputs, in each direction
DEPTH = 16  # planes of an open number
# the same of phases of an image; cycles of a vector, or a part of one, of a row of a phase that is copied,
# and of an element that is put in order. Measured (Zen 5): the time that 22 drawn convolutions take beside
# their filtering is 0.3 to 2 times of these. Of 140 drawn ones, one thread and two, those that are taken take
# 0.41 to 0.85 of the time, 512 to 512 channels of 28 × 28 at dilation 2 0.37, 256 to 256 at dilation 4 0.43
GAIN_OF_PHASES, APART, IN_ORDER = 0.8, 7, 1.2
EXACT = (2,)  # those whose sums round like direct ones


@dataclass(frozen=True)
class FilterSizes:
    """The sizes of a convolution in one group by 3×3 taps beside each other, at every place; what is open is
    typical."""

    images: int  # or planes of volumes
    height: int
    width: int
    channels: int
    outputs: int
    taps: int = 1  # along the depth of a volume
    around: int = 0  # planes that are read besides
    seen: float = 1.0  # of the products of a direct sum, those that it has to make
    phases: int = 1  # of an image, each of which counts as one

    @staticmethod
    def of_window(window: Window, conv: Conv, margin: Margin) -> FilterSizes | None:
        """Those of a convolution with its channels first and this margin around its image; None for any other
        than by 3×3 taps."""
        if window.groups != 1 or len(window.strides) not in (2, 3):
            return None
        *deep, high, wide = (constant(n) for n in window.weight.shape[2:])
        apart = window.dilation
        if (high, wide) != (3, 3) or None in deep or max(window.strides) != 1:
            return None
        if max(apart) > 1 and 0 in conv.sizes:
            return None
        *planes, height, width = (
            -(-typical(a.extent, n) // d)
            for a, n, d in zip(conv.spatial, [*[DEPTH] * len(deep), SIDE, SIDE], apart, strict=True)
        )
        images, taps = (conv.images or 1) * math.prod(apart), math.prod(n or 1 for n in deep)
        many, channels = images * math.prod(planes), constant(conv.channels.extent) or 1
        seen = 1.0 if max(apart) == 1 else _seen(window, conv, margin)
        return FilterSizes(
            many, height, width, channels, conv.each, taps, images * (taps - 1), seen, math.prod(apart)
        )

    @staticmethod
    def of_filter(f: Filter) -> FilterSizes:
        """Those of what the primitive takes, whatever the order of its dimensions."""
        images = math.prod(typical(a.extent, 1) for a in f.batch)
        height, width = (typical(axis.extent, SIDE) for axis, _, _ in f.places)
        channels, outputs = (constant(a.extent) or 1 for a in (f.channels, f.outputs))
        if f.deep is None:
            return FilterSizes(images, height, width, channels, outputs)
        axis, tap, _ = f.deep
        planes, taps = typical(axis.extent, DEPTH), constant(tap.extent) or 1
        return FilterSizes(images * planes, height, width, channels, outputs, taps, images * (taps - 1))


def _seen(window: Window, conv: Conv, margin: Margin) -> float:
    """The part of all products that read the image, and not its margin."""
    found = 1.0
    taps, whole = (t.shape[2:] for t in (window.weight, window.data))
    for many, k, n, apart, around in zip(conv.sizes, taps, whole, window.dilation, margin, strict=True):
        begins, ends = around[0], (constant(n) or 1) - around[1]
        reads = [y + t * apart for y in range(many) for t in range(constant(k) or 1)]
        found *= sum(begins <= i < ends for i in reads) / len(reads)
    return found


def outputs_at_once(
    sizes: FilterSizes, known: bool, target: Target, *, exact: bool = False, together: int = 1
) -> int | None:
    """How many outputs a tile has in each direction where that takes the least time; None where the direct
    sum takes less, or little more. ``known``: the weight is known ahead of a call; ``exact``: only tiles
    whose sums round like direct ones; ``together``: products that an instruction of the direct sum adds up.

    Fewer outputs than lanes stay direct: their products are several shorter vectors, and a direct sum has
    pixels for lanes. Measured (Zen 5, 42 drawn 3×3 convolutions of 5 to 15 outputs): both tiles take 1.0 to
    3.6 times as long.
    """
    lanes, table = target.vector_lanes("float32"), cost_of(target).of_whole
    if sizes.outputs < lanes:
        return None
    weight = 9 * sizes.taps * sizes.channels * sizes.outputs
    direct = DIRECT * weight * sizes.images * sizes.height * sizes.width
    direct *= sizes.seen / (table.per_cycle * lanes * together)
    direct += table.requested * 4 * weight / table.l3_rate if known else PACKED / lanes * weight
    times = {tile: _time(sizes, tile, known, target) for tile in (EXACT if exact else TILES)}
    best = min(times, key=lambda tile: times[tile])
    return best if times[best] < (GAIN_OF_PHASES if sizes.phases > 1 else GAIN) * direct else None


def _time(sizes: FilterSizes, tile: int, known: bool, target: Target) -> float:
    """Cycles with tiles of so many outputs in each direction. The transformed weight, (tile + 2)² / 9 times
    as large, comes from memory; one that is not ``known`` is transformed in each call."""
    table, lanes = cost_of(target).of_whole, target.vector_lanes("float32")
    points = (tile + 2) ** 2
    elements = points * sizes.taps * sizes.channels * sizes.outputs
    plane = -(-sizes.height // tile) * -(-sizes.width // tile)
    tiles = sizes.images * plane
    wide, deep = (-(-n // lanes) * lanes for n in (sizes.outputs, sizes.channels))  # lanes are channels
    # a product for each point of a tile, where a direct sum has 9 for each output
    products = DIRECT * points * sizes.taps * sizes.channels * wide * tiles / (table.per_cycle * lanes)
    transforms = table.transform / lanes * points * ((deep + wide) * tiles + deep * sizes.around * plane)
    if sizes.phases > 1:
        wide = -(-sizes.width // tile) * tile + 2
        rows = sizes.channels * (sizes.images + sizes.around) * (-(-sizes.height // tile) * tile + 2)
        transforms += APART * rows * (wide // lanes + (wide % lanes).bit_count())
        transforms += IN_ORDER * sizes.outputs * sizes.images * sizes.height * sizes.width
    if not known:  # what is transformed in the call lies in a cache
        each = table.transformed * (1 if 4 * elements <= target.l2_bytes else 2)
        return products + transforms + each / lanes * elements
    return products + transforms + table.requested * 4 * elements / table.l3_rate
