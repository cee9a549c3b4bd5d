"""Convolutions, channels first: register tiles of pixels × vectors of output channels, summed straight from
the padded image.

The weight is packed so that a tile's channels stand together for each iteration of the reduction, pixels of
all rows are counted as one axis, so that a tile runs over the end of a row, and a block of finished pixels is
transposed back into the layout of the output while it is in the first cache. Where every tap is one pixel
(1×1), the image is transposed too: each pixel's channels then stand side by side and are read as a stream,
instead of one cache line (and, in a large image, one page) for each channel. After Georganas et al. 2018,
"Anatomy of high-performance deep learning convolutions on SIMD architectures", section II, without its packed
image. Uses public primitives only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..analysis import Conv, constant, conv_of, cost_of, made_of_place
from ..ops import tags
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import ComputeOp, IterVar, Tensor
from .common import FEW_REGISTERS, LINE, evenly, is_known, share_out, size, together_of, work
from .narrow import made_wide
from .nests import Cut, fuse
from .pixel_tiles import (
    UNROLLED_CHANNELS,
    blocks_of,
    by_lines,
    in_fours,
    panel_tile,
    pixel_tile,
    taps_unrolled,
    tiles_time,
    vectors_end,
)
from .pixels import (
    by_pixel,
    convolve,
    counted,
    fill_quads,
    fill_weight,
    made_in,
    pack_weight,
    quads,
    strips,
    transpose_pixels,
    transposed_at_once,
)
from .reach import (
    come_again,
    depth,
    far,
    far_outputs,
    image_from_memory,
    image_of,
    passes,
    read_in_place,
    weight_of,
)

MOST_VECTORS = 32  # of a padded row that are written out
# of pixels for each core: transposed one at a time they stay in the second cache, 10 % faster than the whole
# at 1024 × 14 × 14
MIN_BLOCKS = 2
# panels' worth of time takes a pixel that is transposed, as its channels are planes apart: measured (Zen 5),
# 0.6 to 1.1 cycles for each element at 56 × 56 and 28 × 28
TRANSPOSED = 3
MOST_ASKED = 4  # lines of memory that are asked for at once
PACKED_PIXELS = 16  # from which packing a weight in the call pays
# the loops around a block of pixels and a panel of outputs, or a group of them that is finished whole, by
# when the image is copied
PANELS = {
    "never": "(n oo oio po)",
    "never, pixels first": "(n po oo oio)",
    "once": "n (oo oio po)",
    "pixels first": "n (oo po oio)",  # once, and what a block of it makes stays near the weights
    "by block": "(n oo po) oio",
}
PACKED = 2.0  # cycles of an element of a weight that is packed in the call
DOUBT = 0.95  # of the time of sums that are shared out otherwise, at most: what prediction misses by
SHARES = "(n r) oo oio po"  # of rows, each with a margin of its own
HERE = "n (oo oio) po"  # each panel by who packs it
GROUPS = {"never": "(n oo po)", "once": "n (oo po)", "pixels first": "n (oo po)", "by block": "(n oo po)"}


def applies(s: Schedule, inside: Stage, target: Target, constants: Sequence[Tensor]) -> bool:
    """Whether ``inside`` is a convolution for ``apply``: one whose groups fill a vector, and with pixels
    enough to pack a weight for."""
    conv = conv_of(inside.op)
    if (
        conv is None
        or conv.images == 0
        or 0 in conv.sizes
        or conv.each < target.vector_lanes(inside.op.body[0].dtype)
    ):
        return False
    return packs_weight(conv, constants)


def packs_weight(conv: Conv, constants: Sequence[Tensor]) -> bool:
    """Whether the weight is packed: a constant, or one for which there are pixels enough in the call."""
    pixels = math.prod(conv.sizes) * (conv.images or 1)
    return is_known(conv.weight, constants) or pixels >= PACKED_PIXELS


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
    lanes, cores = target.vector_lanes(inside.op.body[0].dtype), target.num_cores
    together = together_in(conv, target)
    fixed = is_known(conv.weight, constants)
    here = together == 1 and not fixed and _packed_where_used(conv, target)
    margin = padding_of(s, conv.data) is not None
    rows = _share(conv, target) if together == 1 and margin and not here else None
    pixels = math.prod(conv.sizes) if rows is None else rows * math.prod(conv.sizes[1:])
    high, vectors = (panel_tile if here else pixel_tile)(conv, pixels, lanes, target)
    if together > 1:
        # one vector of the loop IR, so that the products of a group are neighbours
        vectors = 1 << (min(vectors, conv.each // lanes)).bit_length() - 1
    width = lanes * vectors
    iterations = work(inside)
    order = [*conv.taps, conv.channels] if together > 1 else _order(conv, taps_unrolled(conv, high))
    wide = made_wide(inside, conv.data, conv.weight, together)
    # vectors of a constant are converted as they are read
    panels_of = wide if together > 1 or not fixed else ""
    weight = pack_weight(s, conv, inside, width, order, together, filled=not fixed, dtype=panels_of)
    in_place = together == 1 and not wide and not margin and read_in_place(conv, target)
    turned = by_pixel(s, conv, inside, together, wide) if conv.pointwise and not in_place else None

    def laid_out(*at: Any) -> list[Any]:
        n, o, places = at[: len(conv.batch)], at[len(conv.batch)], at[len(conv.batch) + 1 :]
        return [*n, *_by_group(conv, o, counted(places, conv.sizes))]

    # in whole vectors a last panel of fewer is known to be that. Measured (Zen 4): 64 to 112 channels of 28 ×
    # 28, 7×7, take 0.90 of the time, to 112 of 29 × 29 at stride 2, 5×5, and to 104 of 20 × 20 0.88
    rest = conv.groups == 1 and conv.each > width and 0 < conv.each % width <= width - lanes
    whole_vectors = together == 1 and (rest or vectors_end(conv, lanes)) and not made_of_place(inside.op)
    in_panels = together > 1 and conv.groups == 1 and conv.each % width > 0
    whole = lanes if whole_vectors else width if in_panels else None
    finished = strips(s, out, inside, laid_out, whole, between)
    images, (o, *spatial) = list(out.op.axis[: len(conv.batch)]), out.op.axis[len(conv.batch) :]
    blocks, block = blocks_of(conv, pixels, high, vectors, lanes, target)
    # the image is transposed by the block where there are blocks enough to share out, or else as a whole
    # before its products are shared out
    in_blocks = turned is not None and blocks >= MIN_BLOCKS * cores
    padded = padding_of(s, conv.data) if turned is None else None
    scarce = target.vector_registers <= FEW_REGISTERS
    if padded is not None and together == 1 and conv.groups == 1 and scarce:
        padded.transform_layout(by_row(len(conv.batch)))
    if turned is None and (wide or (together > 1 and padded is None)):
        copy = s[s.cache_read(conv.data, "global", [inside.name], wide)]
        if padded is not None:
            padded.compute_inline()
        padded = copy
    # a tile of outputs that ran over the end of a group would reach into the next one: such groups are
    # finished whole, their last tile overlapping the one before
    by_groups = conv.groups > 1 and together == 1 and conv.each % width > 0
    once = together == 1 and image_from_memory(conv, pixels, block, width, target)
    if turned is None and padded is None:
        comes = once or (fixed and together == 1 and _patches_come(conv, pixels, block, width, target))
        copied = "never, pixels first" if comes else "never"
    elif in_blocks:
        copied = "by block"
    else:
        copied = "pixels first" if once or turned is not None or _weights_stay(conv, target) else "once"
    image = turned if turned is not None else padded
    if together > 1 and image is not None:
        made_in(s, image)
    share: list[IterVar] = []
    if rows is not None:
        first, spatial[0] = out.split(spatial[0], rows)
        share = [first]
    # a last vector that began in place would be computed to its end, in the share of another
    long = pixels if block is None else block
    overlaps = rows is not None and long > lanes and long % lanes > 0
    vectors_of: Cut = (lanes, "shift") if overlaps else lanes
    here = here and not (by_groups or in_blocks or once)
    image = turned if turned is not None else padded
    alone = image is not None and not in_blocks and not here and by_image(conv, target)
    written = transposed_at_once(out)
    # the last outputs that are written together would also reach beyond, and the next group be summed twice.
    # Measured (Zen 4): 17 to 46 outputs of a group take 0.55 to 0.68 of the time
    at_once: Cut = (written, "shift") if by_groups and conv.each % written else written
    around = SHARES if share else HERE if here else (GROUPS if by_groups else PANELS)[copied]
    if alone:
        around = f"(n) {around[3:-1]}"
    loops = convolve(
        s,
        out,
        finished,
        inside,
        {"n": images, "r": share, "o": o, "p": fuse(out, spatial)},
        f"{around} pio oio | oii pii" if by_groups else f"{around} pio oiio | oiii pii",
        {"o": conv.each if conv.groups > 1 else None, "p": block, "pi": vectors_of}
        | ({"oi": at_once} if by_groups else {"oi": width, "oii": at_once}),
        high,
        order,
        wide=width if by_groups and conv.each > width else None,
        together=together,
        vector=lanes if whole_vectors else None,
        parallel=cost_of(target).shared(iterations),
    )
    if fixed and together == 1:
        # a layer meets its weights in memory. Measured (Emerald Rapids) with 48 MB of them in turn: 1×1 of
        # 7 × 7 0.7 of the time, 3×3 of 7 × 7 0.66; near ones 0.9 to 1.02
        tiles = -(-(pixels if block is None or copied in ("once", "never") else block) // high)
        asking = _asking(order, tiles, width * conv.weight.dtype.bytes) if scarce else order[-1]
        inside.prefetch(weight.name, asking, share=True)
    if together == 1 and taps_unrolled(conv, high):
        inside.unroll(conv.taps[-1])
    if together == 1 and in_fours(conv):
        _, few = inside.split(conv.taps[-1], UNROLLED_CHANNELS)
        inside.unroll(few)
    if together == 1 and conv.pointwise and (size(conv.channels) or 1) % UNROLLED_CHANNELS == 0:
        _, few = inside.split(conv.channels, UNROLLED_CHANNELS)
        inside.unroll(few)
    panels = [] if fixed else fill_weight(weight, conv, order, lanes, together)
    if here:
        weight.compute_at(out, loops.around[len(images)])
    elif not fixed:
        share_out(weight, list(panels), iterations // PACKED_PIXELS, target)
    if padded is not None and share:
        padded.compute_at(out, loops.around[0])
        rows_in_vectors(padded, lanes)
    elif padded is not None:
        if images:
            padded.compute_at(out, images[-1])
        front = fill_margin(padded, lanes, together, len(images))
        if not alone:
            share_out(padded, front, iterations // PACKED_PIXELS, target)
    if turned is not None:
        if in_blocks or images:
            turned.compute_at(out, loops.around[0] if in_blocks else images[-1])
        filled = fill_quads(turned, lanes) if together > 1 else transpose_pixels(turned, lanes)
        if not (in_blocks or alone):
            share_out(turned, list(filled.named["po"]), iterations // PACKED_PIXELS, target)


def by_image(conv: Conv, target: Target) -> bool:
    """Whether each of several images is one thread's, with its copy: two parallel loops for each would hand
    over what is copied, and wait twice.

    Measured (Zen 5, two threads, 42 drawn shapes of 2 to 8 images): 0.42 to 1.02 of the time, of 384 to 160
    channels of 3 × 3 0.81, 512 to 48 of 7 × 7, 5×5, 0.5, but 96 to 320 of 5 × 5 1.1; 19 that are taken from
    other recipes because of it 0.25 to 1.01.
    """
    return target.num_cores > 1 and len(conv.batch) == 1 and evenly(conv.images or 0, target.num_cores)


def _asking(order: Sequence[IterVar], tiles: int, line: int) -> IterVar:
    """The loop of a reduction in which the next panel of a weight, ``line`` bytes for each of its iterations,
    is asked for: the outermost one in which that is a few lines of memory each time for so many tiles. In the
    innermost, elements are asked for that share a line, and those of panels behind the next one.

    Measured (Zen 3, 3×3): 128 to 128 channels of 28 × 28 take 0.86 of the time, 64 to 64 of 56 × 56 0.96, 200
    to 200 of 75 × 75 at stride 2 0.93.
    """
    lines = line * math.prod(size(a) or 1 for a in order) // LINE
    times = tiles
    for loop in order[:-1]:
        times *= size(loop) or 1
        if lines <= times * MOST_ASKED:
            return loop
    return order[-1]


def _patches_come(conv: Conv, pixels: int, block: int | None, width: int, target: Target) -> bool:
    """Whether an image of patches is more to bring from behind the second cache for each panel of outputs
    than the weight is for each block of pixels.

    Measured (Zen 3): 3 to 768 channels of 224 × 224 in patches of 16 take 0.92 of the time, to 192 0.75, to
    1024 in patches of 14 0.83.
    """
    image, weight = come_again(conv, pixels, block, width)
    far_off = by_lines(conv) and conv.groups == 1 and image_of(conv) > target.l2_bytes // 2
    return far_off and image > weight


def _packed_where_used(conv: Conv, target: Target) -> bool:
    """Whether each panel of a weight that comes with the call is packed by the thread that uses it, just
    before: what does not stay in the second cache is then read once, instead of read, written and read
    again, and no thread waits for what another has just written; but threads share out nothing smaller than
    a panel, neither its sums nor its packing, and with fewer panels than threads some would have nothing to
    do. Measured (Zen 4): 52 to 28 channels of 8 × 8, 5×5, one panel, take half of the time when shared."""
    weight, table = conv.groups * weight_of(conv), cost_of(target)
    if conv.batch and conv.images != 1:
        return False
    lanes, pixels, threads = target.vector_lanes(conv.data.dtype), math.prod(conv.sizes), target.num_cores
    high, vectors = pixel_tile(conv, pixels, lanes, target)
    panels = conv.groups * -(-conv.each // (lanes * vectors))
    if panels < threads:
        return False
    sums = conv.groups * depth(conv) * tiles_time(conv, pixels, high, vectors, lanes, target)
    packed = PACKED * conv.groups * conv.each * depth(conv)
    idle = (-(-panels // threads) * threads / panels - 1) * (sums + packed)
    if weight > target.l2_bytes // 2:
        return idle < 2 * weight / table.l3_rate + _from_others(weight, target)
    # shares of rows have their part of an image, and wait for the weight alone
    return idle < _from_others(weight - image_of(conv), target)


def handed_over(conv: Conv, target: Target) -> float:
    """Cycles in which threads wait for what others have packed of a weight that comes with the call."""
    if _packed_where_used(conv, target):
        return 0.0
    return _from_others(conv.groups * weight_of(conv), target)


def _from_others(nbytes: int, target: Target) -> float:
    """Cycles in which threads wait for so many bytes that all of them have written, and read together."""
    return nbytes * (target.num_cores - 1) / cost_of(target).remote_rate


def _share(conv: Conv, target: Target) -> int | None:
    """The rows of a share; None where outputs or pixels are better shared out, of an image that all threads
    have made together and of which each reads what the others wrote."""
    high, time = _shares(conv, target)
    return high if high and time < DOUBT * _together(conv, target) else None


def _together(conv: Conv, target: Target) -> float:
    """Cycles of a thread where all have made the image with its margin together."""
    table, threads, image = cost_of(target), target.num_cores, image_of(conv)
    made = image * table.copied + _from_others(image, target)
    sums = _products(conv, math.prod(conv.sizes), target) * _waits(conv, image, target)
    return (sums + _behind(conv, target) + made) / threads


def _shares(conv: Conv, target: Target) -> tuple[int, float]:
    """The rows of the shares that take the least time, and the cycles of the thread with the most of them; no
    rows where there are none."""
    table, threads, image = cost_of(target), target.num_cores, image_of(conv)
    sums = math.prod(conv.sizes) * conv.each * depth(conv)
    alone = conv.groups == 1 and (conv.images == 1 or not conv.batch)
    spread = _waits(conv, image, target) > 1
    if len(conv.sizes) != 2 or not alone or not (table.shared(sums) if threads > 1 else spread):
        return 0, math.inf
    rows, wide = conv.sizes
    of_image = constant(conv.data.shape[-2]) or 1

    def read(high: int) -> float:
        """Bytes that a share reads of the image with its margin."""
        return image * min(1.0, (of_image - (rows - high) * conv.strides[0]) / of_image)

    def time(high: int) -> float:
        sums = _products(conv, high * wide, target) * _waits(conv, read(high), target)
        each = sums + _behind(conv, target)
        return math.ceil(math.ceil(rows / high) / threads) * (each + table.copied * read(high))

    parts = set(range(max(2, threads), min(rows, 4 * threads) + 1))
    if spread:
        near = max((n for n in range(1, rows + 1) if _waits(conv, read(n), target) == 1), default=0)
        # as many for each thread
        parts |= {math.ceil(math.ceil(rows / near) / threads) * threads} if near else set()
    high = min({-(-rows // n) for n in parts}, key=time, default=0)
    return (high, time(high)) if high else (0, math.inf)


def _products(conv: Conv, pixels: int, target: Target) -> float:
    """Cycles of the sums of so many pixels."""
    lanes = target.vector_lanes(conv.data.dtype)
    return depth(conv) * tiles_time(conv, pixels, *pixel_tile(conv, pixels, lanes, target), lanes, target)


def _waits(conv: Conv, image: float, target: Target) -> float:
    """How much longer tiles take that read so many bytes of an image: a few pixels of every channel, in pages
    far apart or from behind the second cache.

    A weight that does not stay there passes through it beside the image. Measured (Granite Rapids, shares of
    at most a quarter of the cache beside those of a half): 200 to 200 channels of 75 × 75 at stride 2 0.89
    and, on two threads, 1.11 of the time, 256 to 512 of 33 × 33 at stride 2 0.99 and 0.73.
    """
    room = target.l2_bytes // (4 if passes(conv, target) else 2)
    spread = far(conv) and image > cost_of(target).hidden_pages
    return 1.0 if conv.pointwise or not (spread or image > room) else cost_of(target).spread


def _behind(conv: Conv, target: Target) -> float:
    """Cycles in which a weight comes from behind the second cache that the sums do not hide. It comes for
    each share."""
    table = cost_of(target)
    return table.exposed * weight_of(conv) / table.l3_rate if passes(conv, target) else 0.0


def fill_margin(padded: Stage, lanes: int, together: int, images: int) -> list[IterVar]:
    """The loops of the image with its margin, in vectors of pixels or of quads of channels. Those around."""
    if together > 1:
        quads(padded, images, lanes, together)
        *front, _, _ = padded.op.axis
    else:
        *front, _ = padded.op.axis
        rows_in_vectors(padded, lanes)
    return front[images:]


def together_in(conv: Conv, target: Target) -> int:
    """How many channels are multiplied at once: those of a group come in fours or pairs where any do. The
    last of a single group may be fewer, and zeros, which nothing makes of an infinity."""
    together, channels = together_of(conv.data, conv.weight, target), size(conv.channels)
    rest = conv.groups == 1 and not conv.weight.dtype.is_float
    return together if channels is not None and (rest or channels % together == 0) else 1


def by_row(batch: int) -> Callable[..., list[Any]]:
    """The layout of an image with a row of every channel side by side: images, rows, channel, pixels. A tile,
    which reads a few pixels of every channel, then reads a few pages, and lines that are not all of the same
    sets of a cache, as those of planes of 58 × 58 to 258 × 258 often are.

    Measured (Zen 3, one thread): 64 to 64 channels of 56 × 56 take 0.83 of the time, 128 to 128 of 56 × 56 at
    stride 2 0.80, 96 of 62 × 62 0.93, 256 to 512 of 33 × 33 at stride 2 0.96, 128 of 28 × 28 1.03.
    """
    return lambda *at: [*at[:batch], *at[batch + 1 : -1], at[batch], at[-1]]


def by_phase(conv: Conv) -> Callable[..., list[Any]]:
    """The layout of an image whose pixels of each phase of a stride lie together: images, phases, channel,
    places."""
    batch = len(conv.batch)

    def laid_out(*at: Any) -> list[Any]:
        places = list(zip(at[batch + 1 :], conv.strides, strict=True))
        phases = [i % st for i, st in places if st > 1]
        return [*at[:batch], *phases, at[batch], *[i // st for i, st in places]]

    return laid_out


def time_by_pixel(conv: Conv, target: Target, margin: bool = False) -> float:
    """Cycles for one image: the tiles, and what is transposed before and after. With a ``margin``, which
    shares of rows may have for themselves."""
    pixels, channels = math.prod(conv.sizes), size(conv.channels) or 1
    if conv.each < target.vector_lanes(conv.data.dtype):
        return math.inf
    tiles, threads = _products(conv, pixels, target), target.num_cores
    high = _share(conv, target) if margin and not conv.pointwise else None
    if high is not None:
        shares = -(-conv.sizes[0] // high)
        tiles = -(-shares // threads) * threads * _products(conv, high * conv.sizes[-1], target)
    elif not conv.pointwise or read_in_place(conv, target):
        if not conv.pointwise and far(conv) and image_of(conv) > cost_of(target).hidden_pages:
            tiles *= cost_of(target).spread
        if not by_image(conv, target):
            parts = _parts(conv, pixels, target)
            if conv.images is not None:
                tiles *= -(-parts // threads) * threads / parts
            tiles += _from_others(image_of(conv), target) if margin and not conv.pointwise else 0
    if read_in_place(conv, target):
        return conv.groups * (tiles + copying(conv, target) * pixels * conv.each)
    transposed = conv.each + (channels if conv.pointwise else 0)
    copies = TRANSPOSED * copying(conv, target) * pixels * transposed
    return conv.groups * (tiles + copies)


def copying(conv: Conv, target: Target) -> float:
    """Cycles of an element that is copied before the sums of a convolution, or behind them."""
    table = cost_of(target)
    return table.transposition if conv.pointwise else table.beside


def packing(conv: Conv, target: Target) -> float:
    """Cycles for one image in which tiles of outputs pack a weight that comes with the call.

    Measured (Zen 4, 320 drawn shapes at the call for which it decides, one thread and two): by it the recipe
    that is chosen takes 1.016 times as long as the better one; by five times as much, 1.09.
    """
    elements = conv.groups * weight_of(conv) // conv.weight.dtype.bytes
    return (copying(conv, target) * elements + handed_over(conv, target)) / (conv.images or 1)


def _parts(conv: Conv, pixels: int, target: Target) -> int:
    """Panels of outputs by blocks of pixels, which threads share out."""
    lanes = target.vector_lanes(conv.data.dtype)
    high, vectors = pixel_tile(conv, pixels, lanes, target)
    blocks, _ = blocks_of(conv, pixels, high, vectors, lanes, target)
    return conv.groups * (conv.images or 1) * blocks * -(-conv.each // (lanes * vectors))


def _by_group(conv: Conv, o: Any, between: Sequence[Any]) -> list[Any]:
    """The group in front, the output in its group behind."""
    return [*between, o] if conv.groups == 1 else [o // conv.each, *between, o % conv.each]


def _order(conv: Conv, unrolled: bool) -> list[IterVar]:
    """The reduction loops: unrolled taps of a row innermost, since they share a cache line, and around them
    the longest of the others. Measured at 3×3 with 64 to 512 channels: taps of a row inside the channels
    are 1 to 4 % faster than all nine, in half the code."""
    if not unrolled and by_lines(conv):
        return [conv.channels, *conv.taps]
    if not unrolled:
        return [*conv.taps, conv.channels]
    *taps, last = conv.taps
    longer = max((size(t) or 1 for t in taps), default=1) > (size(conv.channels) or 1)
    return [conv.channels, *taps, last] if longer else [*taps, conv.channels, last]


def _weights_stay(conv: Conv, target: Target) -> bool:
    """Whether a group's weights stay in the second cache, so that the image is better read once, by blocks
    of pixels, each of them by one thread, than once for each tile of outputs.

    Measured (Emerald Rapids, 3×3): 128 to 128 channels of 56 × 56 at stride 2 1.25 and 1.65 times as fast on
    one and two threads, 64 to 64 of 56 × 56 equal, 128 to 128 of 28 × 28 1.08; 256 to 256 of 14 × 14, whose
    weights do not stay, 0.85. But where outputs are far apart and the image stays there too: 15 to 191 of
    77 × 77 at stride 2 0.47, 24 to 160 of 60 × 60, 5×5, 0.79, 64 to 80 of 56 × 56, which does not, 1.02.
    """
    if far_outputs(conv) and image_of(conv) <= target.l2_bytes // 4:
        return False
    return not passes(conv, target)


def padding_of(s: Schedule, image: Tensor) -> Stage | None:
    """The stage that puts a margin around ``image``, when it has one reader."""
    producer = s.state.of(image)
    if (
        not isinstance(producer.op, ComputeOp)
        or producer.op.tag != tags.PAD
        or producer.is_output
        or len(s.state.readers(producer.name)) != 1
    ):
        return None
    return s[producer.name]


def rows_in_vectors(padded: Stage, lanes: int, wide: int | None = None) -> None:
    """The rows of a padded image, its last axis or, in an axis of rows one behind the other, ``wide``
    elements each, in vectors, written out so that it is known which lanes are margin: masks cost as much as a
    depthwise convolution of 28 × 28.

    The last vector of a row among others begins earlier: across their ends its lanes are gathered one by one.
    Measured (Zen 4): the phases of 151 channels of 7 × 48 take 0.26 of the time.
    """
    last = padded.op.axis[-1]
    overlaps = wide is not None and wide > lanes and wide % lanes > 0
    if wide is None:
        wide = size(last)
    else:
        _, last = padded.split(last, wide)
    whole, lane = padded.split(last, lanes, tail="shift" if overlaps else "auto")
    short = (wide or MOST_VECTORS * lanes + 1) <= MOST_VECTORS * lanes
    # an open row that is never longer than one of these has as many vectors as it needs
    if short and padded.schedule.can("unroll", padded.name, whole):
        padded.unroll(whole)
    padded.vectorize(lane)
