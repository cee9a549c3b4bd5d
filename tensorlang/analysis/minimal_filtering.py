"""Where a convolution by 3×3 kernels, of images or of the planes of volumes, takes less time by minimal
filtering (Lavin and Gray, CVPR 2016), and with tiles of how many outputs. Knows the table of costs; changes
nothing.

Larger tiles take fewer multiplications and a larger weight: of few pixels, whose weight comes from memory,
smaller ones are faster. An image of open height or width is taken for one of 64 × 64: measured (Zen 4), the
layers of a detector of 32 to 128 channels took 1.0 to 2.6 times as long by direct sums at 10 × 10 to 40 × 40.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..schedule.legality.filtering import Filter
from ..target import Target
from ..te.convolutions import Window
from ..te.patterns import SIDE, constant, typical
from ..te.products import Conv
from .cost_tables import cost_of

# cycles for a vector of elements of a weight's copy as it is, which a direct sum at the call takes
PACKED = 9
GAIN = 0.85  # of the time of a direct sum, at most
DIRECT = 1.15  # times the multiply-adds take with what is around them
TILES = (2, 4)  # of outputs, in each direction
DEPTH = 16  # planes of an open number
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

    @staticmethod
    def of_window(window: Window, conv: Conv) -> FilterSizes | None:
        """Those of a convolution with its channels first; None for any other than by 3×3 taps."""
        if window.groups != 1 or len(window.strides) not in (2, 3):
            return None
        *deep, high, wide = (constant(n) for n in window.weight.shape[2:])
        if (high, wide) != (3, 3) or None in deep or max(*window.strides, *window.dilation) != 1:
            return None
        *planes, height, width = conv.spatial
        sides = typical(height.extent, SIDE), typical(width.extent, SIDE)
        images, taps = conv.images or 1, math.prod(n or 1 for n in deep)
        many = images * math.prod(typical(z.extent, DEPTH) for z in planes)
        channels = constant(conv.channels.extent) or 1
        return FilterSizes(many, *sides, channels, conv.each, taps, images * (taps - 1))

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
    direct /= table.per_cycle * lanes * together
    direct += table.requested * 4 * weight / table.l3_rate if known else PACKED / lanes * weight
    times = {tile: _time(sizes, tile, known, target) for tile in (EXACT if exact else TILES)}
    best = min(times, key=lambda tile: times[tile])
    return best if times[best] < GAIN * direct else None


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
    if not known:  # what is transformed in the call lies in a cache
        each = table.transformed * (1 if 4 * elements <= target.l2_bytes else 2)
        return products + transforms + each / lanes * elements
    return products + transforms + table.requested * 4 * elements / table.l3_rate
