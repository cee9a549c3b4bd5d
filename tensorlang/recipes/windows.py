"""Convolutions of open sizes with many outputs, channels first: register tiles of a few pixels of a row ×
vectors of output channels. However narrow a row is, and whatever the stride, lanes are full: what neighbours
read are single elements of the image, of which each serves a vector, and the last pixels of a row have a body
of their own number. A tile's pixels are transposed into the layout of the output where they are finished.

Beside ``direct``, whose lanes are the pixels of a row; measured (Zen 5, one thread, 32 to 128 channels): with
a stride of 2 rows of 8 pixels take 0.32 to 0.40 of its time, of 16 0.57 to 0.8, of 32 and 64 0.83 to 1.06;
without a stride 0.4, 0.8 and 1.02 to 1.12, the more the shallower sums are. Integers of which one instruction
sums four products come here whenever they can: their image is laid out in fours of channels. Uses public
primitives only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..analysis import Conv, conv_of
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import IterVar, Tensor
from .common import FEW_REGISTERS, is_known, share_out, size, work
from .conv import fill_margin, padding_of, together_in
from .direct import STRIP
from .narrow import made_wide
from .nests import Axes, Cut, nest, sums
from .pixels import FEW, pack_weight, strips, transposed_at_once

PIXELS, VECTORS = 8, 2  # of a register tile, where there are registers for it
SPARE = 4  # registers for what is read
PANELS = 4  # for each thread, from which on outputs are shared out, and not stretches of a row
# of the time that threads may wait whose strips are not as many for each: else they share stretches of rows.
# Measured (Zen 3, two threads): 3 rows of 80 to 320 pixels take 0.54 to 0.76 of the time, 12 of 320 0.66, 9
# and 17 of 90 and 100 0.96 and 1.06; where strips are as many for each 1.0 to 1.3
IDLE = 0.1
# multiply-adds for each element of a strip of an image of bytes, at least, where its panels are shared out
# too, each with a copy: of images of 7 and 14 rows strips alone leave a thread idle. Measured (Zen 4, two
# threads): 512 channels of 7 × 7 take 0.92 of the time, 256 of 14 × 14 0.90, 8 images of 512 of 4 × 4 1.06
COPIED = 768
# of a row that are written out; with 16 registers none, or LLVM keeps in them what taps share and spills sums
# (Zen 3: 64 to 64 channels of 56 × 56 took 2.1 times as long)
ROW_TAPS = 5
# multiply-adds of an output that pay for its transposition: with 27 rows of 64 pixels take 3 times as long as
# where they are lanes. Measured (Zen 3, without a stride): with 144 and 288 rows of 28 to 128 pixels take 0.6
# to 0.8 of the time
DEEP = 128
# the same without a stride where there are more than 16 registers, in which ``direct`` has larger tiles.
# Measured (Emerald Rapids): with 288 rows of 28 pixels take 0.67 of the time
DEEP_OF_MANY = 256
# the same of one tap, where no neighbours share what they read. Measured in turns with ``direct`` (Zen 4; of
# AVX2 the same processor): 384 channels take 0.2 to 0.4 of the time in rows of 3 to 7 pixels and 0.8 to 0.9
# in rows of 14 to 80, 32 channels 0.35 to 0.5, 0.95 and 1.07; with 16 registers 0.4 to 0.9, 0.8 and 0.9, and
# 48 to 96 channels 0.85 in rows of 14 and 1.1 in rows of 80
DEEP_POINT, DEEP_POINT_OF_MANY = 64, 32
# of the lanes of all outputs, at most. Measured: with a tenth of them rows of 3 to 7 pixels take 0.3 to 0.6
# of the time, of 14 to 56 0.9 to 1.15; with a quarter 0.35 to 0.7 and 1.05 to 1.4
EMPTY = 1 / 8
# pixels of rows, of which several that lie one behind the other fill the lanes better. Measured (Zen 5, one
# thread, 64 channels and an open number of rows, against these): rows of 2 pixels take 1.31 to 1.49 of the
# time, of 3 0.87 to 1.38, of 4 0.57 to 0.87, of 1 0.04 to 0.2; with a stride of 2 all but a half at most
ROWS_IN_A_VECTOR = (2, 3)


def applies(s: Schedule, inside: Stage, target: Target, constants: Sequence[Tensor]) -> bool:
    """Whether ``inside`` is a convolution with a known weight, of an image of open height or width, whose
    outputs nearly fill vectors, those of a group of several whole ones; products of four want one vector of
    outputs, and may leave any rest."""
    conv = conv_of(inside.op)
    if conv is None or len(conv.spatial) < 2 or 0 not in conv.sizes:
        return False
    if size(conv.spatial[-1]) in ROWS_IN_A_VECTOR and max(conv.strides) == 1:
        return False
    grouped = conv.groups != 1
    if grouped and not _in_panels(conv, inside, target):
        return False
    if not is_known(conv.weight, constants) or any(size(a) == 0 for a in inside.op.axis):
        return False
    kind = inside.op.body[0].dtype
    if together_in(conv, target) > 1:
        return conv.each >= target.vector_lanes(kind)
    taps = math.prod(size(t) or 1 for t in conv.taps)
    many = target.vector_registers > FEW_REGISTERS
    if taps == 1:
        deep = DEEP_POINT_OF_MANY if many else DEEP_POINT
    else:
        deep = DEEP_OF_MANY if many and max(conv.strides) == 1 and not grouped else DEEP
    return (
        kind.is_float
        and (conv.data.dtype == kind or made_wide(inside, conv.data, conv.weight, 1) != "")
        and (grouped or conv.each >= VECTORS * target.vector_lanes(kind))
        and -conv.each % target.vector_lanes(kind) <= EMPTY * conv.each
        and (size(conv.channels) or 0) * taps >= deep
    )


def _in_panels(conv: Conv, inside: Stage, target: Target) -> bool:
    """Whether each panel of the weight of a grouped convolution is of one group.

    Measured in turns with ``direct`` (Zen 4; of AVX2 the same processor), 64 to 128 channels in 2 to 8
    groups: with a stride of 2 images of 3 × 3 and 7 × 9 take 0.26 to 0.42 of the time, 13 × 31 0.84 and 0.9,
    56 × 56 to 113 × 97 0.7 to 0.84 and 0.62 to 0.7; without one 0.22 to 0.69, 0.92 to 1.03 and 0.86 to 1.02,
    of single pixels 0.45, 1.06 and 1.1.
    """
    kind = inside.op.body[0].dtype
    lanes = target.vector_lanes(kind)
    several = math.prod(size(t) or 1 for t in conv.taps) > 1
    return kind.is_float and several and conv.each >= lanes and conv.each % lanes == 0


def _width(conv: Conv, lanes: int) -> int:
    """Outputs of a panel."""
    if conv.groups != 1 and conv.each % (VECTORS * lanes):
        return lanes
    return lanes * min(VECTORS, conv.each // lanes)


def apply(
    s: Schedule,
    out: Stage,
    inside: Stage,
    target: Target,
    constants: Sequence[Tensor],
    between: Stage | None = None,
) -> None:
    """Compute the convolution ``inside`` in register tiles of ``out``, which has its shape and reads it at
    its own place; with ``between``, a stage of that shape that ``out`` reads, which reads it."""
    conv = conv_of(inside.op)
    assert conv is not None
    lanes, iterations, batch = target.vector_lanes(inside.op.body[0].dtype), work(inside), len(conv.batch)
    together = together_in(conv, target)
    pixels = min(PIXELS, (target.vector_registers - SPARE) // VECTORS)
    width, deep = packed(s, conv, inside, target)
    finished = strips(
        s,
        out,
        inside,
        lambda *at: [*at[:batch], *at[batch + 1 :], at[batch]],
        width if together > 1 and conv.each % width else None,
        between,
    )
    images, (o, *rows, x) = list(out.op.axis[:batch]), out.op.axis[batch:]
    padded, cores = padding_of(s, conv.data), target.num_cores
    wide = made_wide(inside, conv.data, conv.weight, together) if together == 1 else ""
    if wide:  # halves: each element of an image is read alone, and converted with its margin
        copy = s[s.cache_read(conv.data, "global", [inside.name], wide)]
        if padded is not None:
            padded.compute_inline()
        padded = copy
    # an image of a few rows has work for all threads: outputs, or stretches of its rows, with a margin each
    alone = padded is None and together == 1 and cores > 1
    few = -(-conv.each // width) < PANELS * cores
    # a known row of few pixels has no stretches: tiles of each would be lower. Measured (Zen 5, two threads):
    # 64 to 80 channels in rows of 6 pixels, 5×2, take half of the time in strips of rows
    short = (size(x) or cores * pixels) < cores * pixels
    apart = not short and (few if alone else together == 1 and _idle(images, rows, cores) > IDLE)
    stretch, x = out.split(x, nparts=cores) if apart else (None, x)
    stretches = [] if stretch is None else [stretch]
    by_share = together > 1 and cores > 1 and conv.groups == 1
    several = -(-_outputs_of_a_copy(conv) // width) * width
    part, o = out.split(o, several) if by_share and several < conv.each else (None, o)
    parts = [] if part is None else [part]
    axes: Axes = {"n": images, "z": rows[:-1], "y": rows[-1], "s": stretches, "o": o, "x": x, "q": parts}
    # a panel of bytes serves all rows of a strip
    panel_first = alone or together > 1
    order = "n z q yo s oo yi xo oio | oii xi" if panel_first else "n z yo s yi oo xo oio | oii xi"
    written = transposed_at_once(out) if together > 1 else FEW
    # outputs that are written together, of as many pixels
    wide_strip = max(pixels, written)
    at_once: Cut = (written, "shift") if conv.each % written else written
    loops = nest(out, axes, order, {"y": STRIP, "o": width, "oi": at_once, "x": wide_strip})
    strip, place = loops.named["yo"][0], loops.named["xo"][0]
    shared = [
        *images,
        *rows[:-1],
        *parts,
        strip,
        *stretches,
        *(loops.named["oo"][:1] if alone and not apart else []),
    ]
    finished.compute_at(out, place)
    *front, p, c = finished.op.axis
    if wide_strip > pixels:
        tiles = nest(finished, {"f": front, "p": p, "c": c}, "f po | pi co ci", {"p": pixels, "c": lanes})
        reader, place = finished, tiles.place
    else:
        nest(finished, {"f": front, "p": p, "c": c}, "f | p co ci", {"c": lanes})
        reader = out
    *front, p, c = inside.op.axis
    last = conv.taps[-1]
    unrolled = target.vector_registers > FEW_REGISTERS and (size(last) or ROW_TAPS + 1) <= ROW_TAPS
    if together > 1:
        # one vector of the loop IR, so that the products of a group are neighbours
        named: Axes = {"f": front, "k": deep[:-1], "r": deep[-1], "p": p, "c": c}
        sums(s, inside, reader, place, named, "f k ro | p ri c", {"r": (together, "zeros")})
        padded = padded or s[s.cache_read(conv.data, "global", [inside.name])]
    else:
        named = {"f": front, "k": deep, "p": p, "c": c}
        sums(s, inside, out, place, named, "f k | p co ci", {"c": lanes})
        if unrolled:
            inside.unroll(last)
    if padded is not None:
        padded.compute_at(out, strip if stretch is None else stretch)
        fill_margin(padded, lanes, together, len(images))
    share_out(out, shared, iterations, target)


def _outputs_of_a_copy(conv: Conv) -> int:
    """Outputs for which copying a strip of the image is little work."""
    taps = [size(t) or 1 for t in conv.taps]
    rows = (STRIP - 1) * conv.strides[-2] + taps[-2]
    return -(-COPIED * rows * conv.strides[-1] // (STRIP * math.prod(taps)))


def packed(s: Schedule, conv: Conv, inside: Stage, target: Target) -> tuple[int, list[IterVar]]:
    """Let ``inside`` read its weight in panels. The outputs of one, and the order of the reduction."""
    together = together_in(conv, target)
    lanes = target.vector_lanes(inside.op.body[0].dtype)
    *taps, last = conv.taps
    deep = [*conv.taps, conv.channels] if together > 1 else [*taps, conv.channels, last]
    width = _width(conv, lanes)
    pack_weight(s, conv, inside, width, deep, together)
    return width, deep


def _idle(images: Sequence[IterVar], rows: Sequence[IterVar], cores: int) -> float:
    """The part of the time in which threads wait that share out strips of rows; none where nobody knows how
    many there are."""
    *planes, last = (size(a) or 0 for a in (*images, *rows))
    strips = math.prod(planes) * -(-last // STRIP)
    return 1 - strips / (-(-strips // cores) * cores) if strips else 0.0
