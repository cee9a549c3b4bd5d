"""Which register tile of pixels × vectors of outputs a convolution gets, in which blocks its pixels wait to
be transposed, which of its taps are written out, and what all that takes by the table of costs. Schedules
nothing.
"""

from __future__ import annotations

import math

from ..analysis import Conv, cost_of
from ..target import Target
from .common import FEW_REGISTERS, size
from .reach import read_in_place
from .register_tile import in_whole_vectors, tile_for, time_of

# that wait to be transposed: 3 KiB for 16 channels. Measured: 48 and 96 are equal for 3×3, 48 is 1 to 3 %
# faster for 1×1
BLOCK_PIXELS = 48
# the same of pixels that are read where they lie, up to the end of a tile and of a vector. Measured (Zen 5,
# one thread): tiles of 14 that wait in 112, or 196, take 0.98 of the time of tiles of 12 that wait in 48
LONG_BLOCK = 112
MANY_PANELS = 4  # for each thread: they are shared out evenly enough without blocks
# of as many sums as hide the latency of one; and how much longer tiles of fewer take. Measured (Zen 3): 80 to
# 120 channels of 33 × 33 and 168 of 21 × 21 at stride 2, whose outputs fill panels of three vectors
ENOUGH, TIGHT = 1.25, 1.15
# the same of tiles of more pixels than half a block, whose addresses are in memory. Measured (Zen 4): of 26
# to 28 pixels, 64 to 16 channels of 27 × 27, 5×5, 1.15, 96 to 16 of 35 × 35 at stride 2 0.99 to 1.18
TALL = 1.15
# of the time of the thread with the most panels, at most, that narrower ones take which are chosen instead
EVENER = 0.95
LOWER = 4  # rows, at most, that a tile is lower than the one with the least time, for blocks that end well
SHORT_ROW = 3  # taps of which two neighbours share little
ROW_TAPS = 9  # of a row that are written out, where neighbours share what they read
# of a 1×1 tap. Measured: 10 to 25 % faster than one at a time, where the loop costs as much as three
# multiply-adds
UNROLLED_CHANNELS = 4


def pixel_tile(conv: Conv, pixels: int, lanes: int, target: Target) -> tuple[int, int]:
    """(pixels, vectors) of the register tile for so many pixels; the loads of the next tap want a few
    registers, or LLVM spills."""
    registers = target.vector_registers if conv.pointwise else target.vector_registers * 15 // 16
    high, vectors = tile_for(pixels, conv.each, lanes, registers, masks=vectors_end(conv, lanes))
    # the height whose blocks end with a vector, or nearly so, where that saves more than lower tiles cost
    tiles = [(h, vectors) for h in range(high, max(0, high - LOWER), -1)]
    # the one of which a block is two. Measured (Zen 4, 36 drawn shapes of 16 or 80 channels for the most
    # part): 0.89 of the time of higher tiles, whose blocks end with sums that nobody reads
    if high > BLOCK_PIXELS // 2 and not conv.pointwise:
        tiles.append((BLOCK_PIXELS // 2, vectors))
    chains = 0.0
    if target.vector_registers <= FEW_REGISTERS:
        chains = ENOUGH * cost_of(target).chains
        most = min(pixels, (registers - 3) // 2)
        tiles += [(h, 2) for h in range(most, max(0, most - LOWER), -1) if vectors > 2]

    def time(tile: tuple[int, int]) -> float:
        cycles = tiles_time(conv, pixels, *tile, lanes, target)
        tall = tile[0] > BLOCK_PIXELS // 2 and not conv.pointwise
        return cycles * (TIGHT if math.prod(tile) < chains else TALL if tall else 1.0)

    return min(tiles, key=lambda tile: (time(tile), -tile[0]))


def panel_tile(conv: Conv, pixels: int, lanes: int, target: Target) -> tuple[int, int]:
    """The same where each panel of outputs is made by one thread: what counts is the thread with the most of
    them. Of three panels of two vectors one has two; of six of a vector each has three.

    Measured (Zen 4, two threads, 9 drawn shapes): 0.84 of the time, 69 to 85 channels of 7 × 7, 5×5, 0.8, 133
    to 138, 7×7, 0.72; with 16 registers, in tiles of few sums, 1.01.
    """
    first = pixel_tile(conv, pixels, lanes, target)
    if target.vector_registers <= FEW_REGISTERS:
        return first

    def time(tile: tuple[int, int]) -> float:
        panels, threads = conv.groups * -(-conv.each // (lanes * tile[1])), target.num_cores
        return tiles_time(conv, pixels, *tile, lanes, target) / panels * -(-panels // threads)

    most = min(pixels, BLOCK_PIXELS // 2)
    heights = {v: min(most, target.vector_registers * 15 // 16 // v - 2) for v in range(first[1] - 1, 0, -1)}
    narrower = [(h, v) for v, high in heights.items() for h in range(high, max(0, high - 2 * LOWER), -1)]
    best = min(narrower, key=time, default=first)
    return best if time(best) < EVENER * time(first) else first


def tiles_time(conv: Conv, pixels: int, high: int, vectors: int, lanes: int, target: Target) -> float:
    """Cycles of an iteration of the reduction for so many pixels, with what blocks compute beyond their end:
    tiles up to the end of the last vector that is transposed."""
    _, block = blocks_of(conv, pixels, high, vectors, lanes, target)
    table = cost_of(target)
    unrolled = conv.pointwise or in_fours(conv) or taps_unrolled(conv, high)
    more = (table.spill if _spills(conv, high, target) else 0.0) if unrolled else table.rolled
    share = pixels < math.prod(conv.sizes)  # its last tile reaches into the next one, and is whole

    def time(rows: int) -> float:
        if not rows:
            return 0.0
        if share:
            rows = -(-rows // high) * high
        tiles = -(-rows // high) * -(-conv.each // (lanes * vectors))
        return time_of(rows, conv.each, high, vectors, lanes, table) + more * tiles

    if block is None:
        return time(pixels)
    if share:
        return -(-pixels // block) * time(block)
    to_the_end = -(-(-(-block // lanes) * lanes) // high) * high
    return pixels // block * time(to_the_end) + time(pixels % block)


def blocks_of(
    conv: Conv, pixels: int, high: int, vectors: int, lanes: int, target: Target
) -> tuple[int, int | None]:
    """In how many blocks so many pixels in tiles of this height wait to be transposed, one after the other,
    and the pixels of one; None for all of them at once."""
    tiles, cores = -(-pixels // high), target.num_cores
    if read_in_place(conv, target):
        panels = conv.groups * (conv.images or 1) * -(-conv.each // (lanes * vectors))
        even = panels % cores == 0 or panels > MANY_PANELS * cores
        if pixels * 2 <= BLOCK_PIXELS * 3 or (even and pixels <= 2 * LONG_BLOCK):
            return 1, None
        block = math.lcm(high, lanes)
        if block <= LONG_BLOCK:
            block *= max(1, BLOCK_PIXELS // block)
            return -(-pixels // block), block
    blocks = -(-tiles // max(1, BLOCK_PIXELS // high))
    if conv.pointwise and blocks >= cores:
        blocks = -(-blocks // cores) * cores
    # a share is smaller than the image whose blocks wait one behind the other; what it transposes stays near
    if pixels * 2 <= BLOCK_PIXELS * (3 if pixels == math.prod(conv.sizes) else 5):
        return blocks, None
    if pixels < math.prod(conv.sizes):
        # nothing tells a block where its share ends: the last one is computed whole, as few as it may hold.
        # Measured (Zen 4, one thread and two), against blocks of 48: 61 to 101 channels of 28 × 28, 7×7, in
        # shares of 196 pixels take 0.86 and 0.83 of the time, 64 to 112 0.87 and 0.83
        some = range(-(-BLOCK_PIXELS // (2 * high)), 2 * BLOCK_PIXELS // high + 1)
        few = min(some, key=lambda n: (-(-tiles // n) * n, abs(n * high - BLOCK_PIXELS)))
        return -(-tiles // few), few * high
    return blocks, _whole(-(-tiles // blocks) * high, high, lanes)


def _whole(pixels: int, high: int, lanes: int) -> int:
    """So many pixels or some more, in whole tiles and whole vectors: a block that is transposed in vectors is
    computed to the end of the last one."""
    both = math.lcm(high, lanes)
    return pixels if both > BLOCK_PIXELS else -(-pixels // both) * both


def vectors_end(conv: Conv, lanes: int) -> bool:
    """Whether the last outputs are summed in a whole vector."""
    return conv.groups == 1 and in_whole_vectors(conv.each, lanes)


def taps_unrolled(conv: Conv, high: int) -> bool:
    """Whether the taps of a row are written out. Not where tiles of ``high`` pixels never run over the end of
    a row: neighbouring taps then read the same pixels, LLVM keeps them all in registers, and the sums are
    spilled (measured: 43 instead of 94 GFLOP/s); of patches there are none."""
    if not conv.taps or (size(conv.taps[-1]) or 1) > ROW_TAPS:
        return False
    return conv.sizes[-1] % high != 0 or _apart(conv)


def by_lines(conv: Conv) -> bool:
    """Whether pixels of a patch, which nobody else reads, are summed line by line: where they are more than
    its channels, whose planes are far apart. Measured (Zen 3): patches of 16 × 16 of 3 channels 0.93 to 0.99
    of the time."""
    return _apart(conv) and (size(conv.taps[-1]) or 1) > max(ROW_TAPS, size(conv.channels) or 1)


def in_fours(conv: Conv) -> bool:
    """Whether a few pixels of a line are written out. Counted as loops of one, patches of 16 × 16 went in
    vectors of pixels. Measured against these (Zen 4): 192 to 1280 channels 0.83 to 0.98 of the time."""
    return by_lines(conv) and (size(conv.taps[-1]) or 1) % UNROLLED_CHANNELS == 0


def _apart(conv: Conv) -> bool:
    """Whether no pixel of a row is read by two outputs, as that of a patch."""
    return bool(conv.taps) and conv.strides[-1] >= (size(conv.taps[-1]) or 1) > 1


def _spills(conv: Conv, high: int, target: Target) -> bool:
    """Whether LLVM spills sums of taps that are written out: of pixels that are neighbours in every tile of
    ``high``, as three are in rows of 21 or 27 pixels, it keeps what taps share in registers, and 16 do not
    hold that.

    Measured (Zen 3): 48 to 128 channels of 27 × 27, 5×5, in tiles of 5 pixels 0.55 of the time of those of 6.
    """
    beside, taps = math.gcd(high, conv.sizes[-1]), 1 if conv.pointwise else size(conv.taps[-1]) or 1
    few = target.vector_registers <= FEW_REGISTERS and not _apart(conv)
    return few and taps > 1 and beside >= (3 if taps <= SHORT_ROW else 2)
