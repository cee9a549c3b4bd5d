"""Convolutions of single pixels (1×1) with a constant weight, of images whose height and width are one open
axis: register tiles of output channels × vectors of pixels, read from a copy of a few tiles, channel beside
channel.

A graph passes height and width as one axis wherever all operators of a kernel can be said so. Nothing is
transposed then, and a row's end costs nothing. Images of few pixels leave vectors empty and have no work for
threads but outputs: they are left to ``windows``, in loops of their own that a call chooses. Uses public
primitives only.

Measured in turns with ``windows`` (Zen 3, one thread and two): 240 and 480 channels of 240 to 960 pixels take
0.83 to 0.9 of the time, 64 to 128 of 800 to 3840 0.75 to 0.97, and half the time to compile; with 196 pixels
1.1 to 1.3, with 15 to 100 1.05 to 1.6, and 16 outputs of 6400 pixels 1.14.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..analysis import conv_of
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import IterVar, Tensor
from . import windows
from .choices import at_most
from .common import FEW_REGISTERS, in_registers, share_out, size, work
from .nests import fill, nest, pack

FEW = 200  # pixels, up to which tiles of pixels × vectors of outputs take less
PARTED = 10  # blocks of outputs for each thread, from which on they are shared out too
RUN = 16  # vectors of pixels that are copied together
FEW_OUTPUTS = 2  # vectors of outputs, up to which a copy of the image does not pay
# outputs of a tile, which divide a panel, and its vectors of pixels. Measured (Zen 3): 4 × 2 takes no longer
# than 6 × 2, 4 × 3 1.0 to 1.07 of the time, 8 × 1 1.1 to 1.3; with more registers (Emerald Rapids) 8 × 3 0.9
# to 0.98 of the time of 8 × 2, 4 × 4 and 16 × 1 1.0 to 1.3
TILE, TILE_OF_MANY = (4, 2), (8, 3)


def applies(s: Schedule, inside: Stage, target: Target, constants: Sequence[Tensor]) -> bool:
    """Whether ``inside`` is a convolution of single pixels with a constant weight, of an open number of
    pixels in one row, which is not short."""
    conv = conv_of(inside.op)
    if conv is None or not windows.applies(s, inside, target, constants):
        return False
    *rows, row = conv.spatial
    return (
        math.prod(size(a) or 0 for a in (*rows, *conv.taps)) == 1
        and max(conv.strides) == 1
        and conv.data.dtype.is_float
        and conv.each > FEW_OUTPUTS * target.vector_lanes(conv.data.dtype)
        and not at_most(row.extent, FEW)
    )


def apply(s: Schedule, out: Stage, inside: Stage, target: Target, constants: Sequence[Tensor]) -> None:
    """Compute the convolution ``inside`` in register tiles of ``out``, which has its shape and reads it at
    its own place."""
    conv = conv_of(inside.op)
    assert conv is not None
    lanes, iterations, cores = target.vector_lanes(conv.data.dtype), work(inside), target.num_cores
    # the panels of ``windows``, so that a weight is there once
    windows.packed(s, conv, inside, target)
    high, vectors = TILE if target.vector_registers <= FEW_REGISTERS else TILE_OF_MANY
    batch = len(conv.batch)
    images, o, (*rows, x) = list(out.op.axis[:batch]), out.op.axis[batch], out.op.axis[batch + 1 :]
    own = list(inside.op.axis)
    near = pack(
        s,
        inside,
        conv.data,
        {a: d for d, a in enumerate([*own[:batch], conv.channels, *own[batch + 1 :]])},
        own[-1],
        lanes * vectors,
        deep=[conv.channels],
    )
    block, oi = out.split(o, high)
    part: list[IterVar] = []
    if cores > 1 and -(-conv.each // high) >= PARTED * cores:
        first, block = out.split(block, nparts=cores)
        part = [first]
    # vectors are counted: a last tile of fewer has a body of its own, instead of lanes that are all masked
    pv, lane = out.split(x, lanes)
    loops = nest(
        out,
        {"n": images, "y": rows, "p": part, "o": block, "oi": oi, "x": pv, "l": lane},
        "n y p xoo o xoi | oi xi l",
        {"x": vectors, "xo": RUN // vectors},
    )
    inside.compute_at(out, loops.place)
    in_registers(s, inside)
    *front, p = inside.op.axis
    nest(inside, {"k": [*inside.op.reduce_axis], "f": front, "p": p}, "k | f po pi", {"p": lanes})
    run = loops.named["xoo"][0]
    near.compute_at(out, run)
    fill(near, 1)
    share_out(out, [*images, *rows, *part, run], iterations, target)
