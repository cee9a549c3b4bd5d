"""How much memory a convolution reads, how far apart it lies, and in which cache it stays. Schedules
nothing; what follows from it is each recipe's own.
"""

from __future__ import annotations

import math

from ..analysis import Conv, constant, cost_of
from ..target import Target
from .common import LINE, PAGE, size

PAGES = 64  # of memory that a processor finds without a search
L3_PART = 8  # of the third cache, which others share, is as much as an image may count on
PLACES = 16  # of a set of the second cache
STREAM = 4  # bytes of a packed weight that come in the time of one of an image, whose channels are far apart


def far(conv: Conv) -> bool:
    """Whether a tile, which reads a few pixels of every channel, reads more pages than a processor finds
    without a search."""
    return (size(conv.channels) or 1) * _reach(conv) > PAGES * PAGE


def _reach(conv: Conv) -> int:
    """Bytes of a channel that lie in pages which a tile reads: at most its plane."""
    extents = [constant(n) or 1 for n in conv.data.shape[-len(conv.spatial) :]]
    rows = size(conv.taps[-2]) or 1 if len(conv.taps) > 1 else 1
    return min(math.prod(extents) * conv.data.dtype.bytes, PAGE + rows * extents[-1] * conv.data.dtype.bytes)


def read_in_place(conv: Conv, target: Target) -> bool:
    """Whether tiles of single pixels read them where they lie, a line or two of each channel, and what a tile
    reads stays in the second cache until it is read for the next outputs: lines a multiple of a large power
    of two apart have few places there. The sums hide it on some processors, and the copy with the channels
    of a pixel side by side, which threads hand over to each other, is saved.

    Measured (Zen 5, one thread and two): 1024 to 256 channels of 14 × 14 0.94 and 0.92 of the time, 512 to
    128 of 28 × 28 0.92 and 0.89, 2048 to 512 of 7 × 7 0.97 and 0.88, of 8 × 8 1.0 and 0.86; 1024 to 256 of
    16 × 16, which do not stay, 1.05 and 1.0, every second pixel of 512 channels of 28 × 28 1.09 and 1.04.
    """
    if not conv.pointwise or max(conv.strides) > 1 or image_of(conv) > cost_of(target).hidden_lines:
        return False
    way = target.l2_bytes // PLACES
    lines = PLACES * way // max(LINE, math.gcd(plane_of(conv), way))
    return 2 * (size(conv.channels) or 1) <= lines


def far_outputs(conv: Conv) -> bool:
    """Whether a few pixels of all outputs are in more pages than a processor finds without a search."""
    return conv.each * min(plane_of(conv), PAGE) > PAGES * PAGE


def plane_of(conv: Conv) -> int:
    """Bytes of an output of an image, as wide as the image."""
    return math.prod(conv.sizes) * conv.data.dtype.bytes


def image_of(conv: Conv) -> int:
    """Bytes of one image, with its margin."""
    return math.prod(constant(n) or 1 for n in conv.data.shape[len(conv.batch) :]) * conv.data.dtype.bytes


def weight_of(conv: Conv) -> int:
    """Bytes of the weight of a group."""
    return conv.each * depth(conv) * conv.weight.dtype.bytes


def passes(conv: Conv, target: Target) -> bool:
    """Whether the weight of a group passes through the second cache, and does not stay there."""
    return weight_of(conv) > target.l2_bytes // 2


def depth(conv: Conv) -> int:
    """Multiply-adds of an output."""
    return (size(conv.channels) or 1) * math.prod(size(t) or 1 for t in conv.taps)


def come_again(conv: Conv, pixels: int, block: int | None, width: int) -> tuple[int, int]:
    """Bytes of the image that come again for further panels of ``width`` outputs, where these are the outer
    loop, and of the weight for further blocks of so many ``pixels``, where those are."""
    panels, blocks = -(-conv.each // width), 1 if block is None else -(-pixels // block)
    return (panels - 1) * image_of(conv), (blocks - 1) * weight_of(conv)


def image_from_memory(conv: Conv, pixels: int, block: int | None, width: int, target: Target) -> bool:
    """Whether an image is better brought from memory once, and the weight for each block of so many pixels
    instead: one that does not stay in what a thread has of the third cache would come for each panel of
    ``width`` outputs, and a weight that is smaller does stay there.

    Measured (Zen 4, 1×3): 512 to 512 channels of 4799 pixels at stride 2 take 0.54 of the time, 1024 to 512
    of 3000 0.58, of 160 drawn shapes of 1 to 3 strides all 0.38 to 1.05; but 2048 to 512 of 600, whose weight
    is more than the image, 1.06, and 3×3 of 768 to 96 of 68 × 68, where it comes six times as much, 1.32.
    """
    image, weight = image_of(conv), weight_of(conv)
    if conv.groups > 1 or not weight < image > target.l3_bytes // L3_PART:
        return False
    image_again, weight_again = come_again(conv, pixels, block, width)
    return weight_again <= STREAM * image_again
