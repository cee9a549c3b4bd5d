"""Convolutions along one axis of open length, with a constant weight that lies in panels of outputs:
register tiles of a few pixels × vectors of outputs, or of a few outputs × vectors of pixels. These are
mostly empty where a line is short, and a rest costs a whole one; those write sums of a long line far
apart, and what lies a power of two apart wants one set of the first cache. Without a stride a call
chooses by the length; both read the same panels, for a kernel has a weight once. Uses public primitives
only.

Measured in turns, tiles of a few pixels against vectors of pixels (Zen 4, one thread and two; 32 to 256
channels of 1 to 15 taps, without a stride): of 4 to 9 pixels 0.3 to 0.8 of the time, of 33 0.75 to 0.95, of
64 1.0 to 1.25, of 100 and 130 0.9 to 1.15, of 200 and 400 1.0 to 1.3, of 1024 1.2 to 3.2; AVX2 on the same
processor likewise. With a stride of 2 or 4, where pixels of a vector are picked, 0.4 to 1.05 but of 1024 up
to 2.6. Images are left to ``direct``: of a wide one it has a few rows at a time in the second cache.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis import conv_of, cost_of
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import Tensor
from .choices import at_most
from .common import FEW_REGISTERS, is_known, share_out, size, work
from .direct import in_tiles
from .nests import nest, sums
from .pixels import pack_weight
from .reach import depth
from .register_tile import tile_for

PIXELS = 4  # of a tile; a rest of fewer has one of its own
EMPTY = 1 / 4  # of the lanes of all outputs, at most: more, and vectors of pixels waste less
LONG_TILE, LONG_TILE_OF_MANY = (6, 2), (8, 3)  # outputs, at most, and vectors of pixels of long lines
SHORT = 64  # pixels, up to which lines without a stride take less
PANELS = 4  # for each thread, from which on they alone are shared out, and not also stretches of the line


def applies(s: Schedule, inside: Stage, target: Target, constants: Sequence[Tensor]) -> bool:
    """Whether ``inside`` is a convolution for ``apply``: with outputs that fill vectors, and sums long enough
    to be worth a tile."""
    conv = conv_of(inside.op)
    lanes = target.vector_lanes(inside.op.body[0].dtype)
    return (
        conv is not None
        and conv.groups == 1
        and len(conv.spatial) == 1
        and size(conv.spatial[0]) is None
        and not any(size(a) == 0 for a in inside.op.axis)
        and conv.each >= lanes
        and -conv.each % lanes <= EMPTY * conv.each
        and depth(conv) >= lanes
        and is_known(conv.weight, constants)
        and conv.weight.dtype == inside.op.body[0].dtype
    )


def apply(s: Schedule, out: Stage, inside: Stage, target: Target, constants: Sequence[Tensor]) -> None:
    """Compute the convolution ``inside`` in register tiles of ``out``, which has its shape and reads it at
    its own place."""
    conv = conv_of(inside.op)
    assert conv is not None
    lanes, batch, cores = target.vector_lanes(inside.op.body[0].dtype), len(conv.batch), target.num_cores
    iterations = work(inside)
    high, vectors = tile_for(PIXELS, conv.each, lanes, target.vector_registers)
    deep = [conv.channels, *conv.taps]
    pack_weight(s, conv, inside, lanes * vectors, deep)
    if max(conv.strides) == 1 and not at_most(conv.spatial[0].extent, SHORT):
        # from the same panels, which a weight has once: as many outputs at a time as divide one
        most, wide = LONG_TILE if target.vector_registers <= FEW_REGISTERS else LONG_TILE_OF_MANY
        tall = max(n for n in range(1, most + 1) if lanes * vectors % n == 0)
        share_out(out, in_tiles(s, out, inside, conv, (tall, wide), target), iterations, target)
        return
    inside.transform_layout(lambda *at: [*at[:batch], at[-1], at[batch]])  # outputs are neighbours
    *images, o, x = out.op.axis
    few = -(-conv.each // (lanes * vectors)) < PANELS * cores
    stretch, x = out.split(x, nparts=cores) if few and cores > 1 else (None, x)
    loops = nest(
        out,
        {"n": images, "s": [] if stretch is None else stretch, "o": o, "x": x},
        "(n s oo) xo | xi oi",
        {"o": lanes * vectors, "x": high},
        parallel=cost_of(target).shared(iterations),
    )
    *front, along, across = inside.op.axis
    sums(s, inside, out, loops.place, {"f": front, "k": deep, "x": along, "o": across}, "f k | x o")
