"""Convolutions of open sizes, channels first: register tiles of output channels × vectors of pixels, read
where they lie. A few rows of all channels get their margin at a time, just before they are read, so that
they are in the second cache, however large the image is. Uses public primitives only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..analysis import Conv, conv_of, cost_of
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import IterVar, Tensor
from .common import FEW_REGISTERS, LINE, in_registers, is_known, share_out, size, work
from .conv import padding_of, rows_in_vectors
from .pointwise import pack_outputs
from .register_tile import group_tile

# output rows that get their margin together: more want a larger cache, fewer copy more rows twice. Measured
# at 96 channels of 160 × 160: twice as fast as with a margin around the whole image
STRIP = 4
SUMS = 3 / 4  # of the registers hold sums. With 26 of 32 LLVM spills them where lanes are masked
# of a row that are written out where neighbours pick from the same vectors: stems of a stride are a third
# faster. Without a stride LLVM keeps what taps share in registers and spills sums
ROW_TAPS = 3
# outputs of a group from which on the phases of a stride are put apart with the margin: each is read so often
# that picking every second element again costs more. Measured (Zen 5): 64 to 128 outputs of 28 × 28 take 0.57
# of the time, 48 to 64 of 9 × 22 0.77, 32 to 32 of 25 × 42 1.1
MANY = 48
# the same with more than 16 registers. Measured (Zen 4, 16 to 40 outputs): 56 × 56 and more take 0.84 to 0.96
# of the time, 13 × 31 1.0 to 1.08; with AVX2 the same processor 0.95 to 1.05
MANY_OF_MANY = 16
MOST_STRIDE = 4  # between elements that a vector reads
SEVERAL = 4  # outputs, for which pixels that lie far apart are worth to be picked one by one
REST = 1.05  # times as long takes a block of fewer outputs: its code is another


def applies(s: Schedule, inside: Stage, target: Target, constants: Sequence[Tensor]) -> bool:
    """Whether ``inside`` is a convolution over channels, of an image of open width, or of one whose width is
    known and its height open, where the tiles of any reduction make one sum or two at a time: of rows of one
    pixel, or of groups.

    Measured (Zen 5, one thread, rows of 3 to 40 pixels): two to eight groups 0.86 to 0.92 of their time, at
    stride 2 0.17 to 0.43; rows of one pixel, 17 to 24 channels, 0.1 to 0.8.
    """
    conv = conv_of(inside.op)
    return (
        conv is not None
        and (conv.groups == 1 or (size(conv.channels) or 0) > 1)
        and 0 in conv.sizes
        and (size(conv.spatial[-1]) in (None, 1) or conv.groups > 1)
        and (conv.strides[-1] <= MOST_STRIDE or _few_beside(conv, inside))
        and not any(size(a) == 0 for a in inside.op.axis)
    )


def _few_beside(conv: Conv, inside: Stage) -> bool:
    """Whether the taps of a row are so few that vectors along them would be mostly empty: pixels that lie
    far apart are then better picked one by one, for each vector of them once for a tile of outputs.

    Measured (Zen 4, 150 drawn shapes at strides of 5 to 16, against sums along memory): 0.06 to 0.9 of the
    time, with 4 to 8 pixels in a row up to 1.1; rows of 16 taps and few pixels 1.0 to 2.6, windows of 8 × 8
    and more up to 4, of a single output 0.9 to 2.2.
    """
    kind, taps = inside.op.body[0].dtype, (size(t) for t in conv.taps[-1:])
    most = LINE // kind.bytes // len(conv.spatial)
    several = kind.is_float and conv.groups == 1 and conv.each >= SEVERAL
    return several and all(n is not None and n < most for n in taps)


def apply(s: Schedule, out: Stage, inside: Stage, target: Target, constants: Sequence[Tensor]) -> None:
    """Compute the convolution ``inside`` in register tiles of ``out``, which has its shape and reads it at
    its own place."""
    conv = conv_of(inside.op)
    assert conv is not None
    rows = conv.spatial[:-1]
    padded = padding_of(s, conv.data) if rows else None
    stride = conv.strides[-1]
    many = MANY if target.vector_registers <= FEW_REGISTERS else MANY_OF_MANY
    if padded is not None and stride > 1 and conv.each >= many:
        padded.transform_layout(lambda *at: [*at[:-1], at[-1] % stride, at[-1] // stride])
        apart = 1
    else:
        apart = stride
    tile = _tile(conv, apart, target)
    lanes, iterations = target.vector_lanes(inside.op.body[0].dtype), work(inside)
    weight = _widened(s, inside, conv, tile[0], lanes, constants)
    shared = in_tiles(s, out, inside, conv, tile, target, apart, padded)
    if weight is not None:
        weight.compute_at(out, shared[-1])
    if padded is not None:
        padded.compute_at(out, shared[-1])
        rows_in_vectors(padded, lanes)
    share_out(out, shared, iterations, target)


def in_tiles(
    s: Schedule,
    out: Stage,
    inside: Stage,
    conv: Conv,
    tile: tuple[int, int],
    target: Target,
    apart: int = 1,
    padded: Stage | None = None,
) -> list[IterVar]:
    """The loops of ``out`` around tiles of (outputs, vectors of pixels), and their sums, of which neighbours
    read pixels that are so far ``apart``; in strips of rows, each of which gets its margin, where one is
    ``padded``. Those that are to be shared out."""
    high, vectors = tile
    lanes, batch = target.vector_lanes(inside.op.body[0].dtype), len(conv.batch)
    images, (o, *rows, x) = list(out.op.axis[:batch]), out.op.axis[batch:]
    # vectors are counted: a last tile of fewer has a body of its own, instead of lanes that are all masked
    block, oi = out.split(o, high)
    xq, lane = out.split(x, lanes)
    xo, vector = out.split(xq, vectors)
    if padded is not None:
        strip, row = out.split(rows.pop(), STRIP)
        shared, around = [*images, *rows, strip], [row, xo, block]
    else:
        # outputs for each thread, so that an image of few pixels has work for all, and stretches of pixels
        part, block = out.split(block, nparts=math.gcd(-(-conv.each // high), target.num_cores))
        stretch, xo = out.split(xo, nparts=target.num_cores)
        shared, around = [*images, *rows, part, stretch], [xo, block]
    out.reorder(*shared, *around, oi, vector, lane)
    out.unroll(oi)
    out.unroll(vector)
    out.vectorize(lane)
    _sum(s, inside, conv, out, block, lanes, apart)
    return shared


def _widened(
    s: Schedule, inside: Stage, conv: Conv, high: int, lanes: int, constants: Sequence[Tensor]
) -> Stage | None:
    """A copy of a narrower weight in the type of the sums, whose elements are used one by one; None where
    it has that type."""
    if conv.weight.dtype == inside.op.body[0].dtype or not is_known(conv.weight, constants):
        return None
    return pack_outputs(s, inside, conv, high, lanes, constants)


def _sum(s: Schedule, inside: Stage, conv: Conv, out: Stage, place: IterVar, lanes: int, apart: int) -> None:
    """The sums of a tile, in registers; neighbours read pixels that are so far ``apart``."""
    own = list(inside.op.axis)
    inside.compute_at(out, place)
    in_registers(s, inside)
    inside.reorder(*inside.op.reduce_axis, *own)
    if apart > 1 and (size(conv.taps[-1]) or ROW_TAPS + 1) <= ROW_TAPS:
        inside.unroll(conv.taps[-1])
    inside.unroll(own[len(conv.batch)])
    vector, lane = inside.split(own[-1], lanes)
    inside.unroll(vector)
    inside.vectorize(lane)


def _tile(conv: Conv, apart: int, target: Target) -> tuple[int, int]:
    """(outputs, vectors) of the register tile; of equals the narrowest, since nobody knows how wide the image
    is."""
    table = cost_of(target)
    # one vector where elements are picked out of two: half the code; more where outputs are few
    widths = (1, 2) if apart > 1 else (2,) if conv.each * 2 >= table.chains else (2, 4)
    most = int(target.vector_registers * SUMS)
    return group_tile(conv.each, widths, most, table, whole=conv.groups > 1, rest=REST)
