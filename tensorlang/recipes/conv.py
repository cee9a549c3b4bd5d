"""Convolutions, channels first: register tiles of pixels × vectors of output channels, summed straight from
the padded image.

The weight is packed so that a tile's channels stand together for each turn of the reduction, pixels of all
rows are counted as one axis, so that a tile runs over the end of a row, and a block of finished pixels is
turned back into the layout of the output while it is in the first cache. Where every tap is one pixel (1×1),
the image is turned too: each pixel's channels then stand side by side and are read as a stream, instead of
one cache line (and, in a large image, one page) for each channel. After Georganas et al. 2018, "Anatomy of
high-performance deep learning convolutions on SIMD architectures", section II, without its packed image. Uses
public primitives only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..analysis import Conv, conv_of, cost_of
from ..ops import tags
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import ComputeOp, IterVar, Tensor
from .common import share_out, size, work
from .gemm import tile_for

# that wait to be turned: 3 KiB for 16 channels. Measured: 48 and 96 are equal for 3×3, 48 is 1 to 3 % faster
# for 1×1
BLOCK_PIXELS = 48
MOST_VECTORS = 32  # of a padded row that are written out
MOST_TAPS = 9  # that are unrolled
# of pixels for each core: turned one at a time they stay in the second cache, 10 % faster than the whole at
# 1024 × 14 × 14
MIN_BLOCKS = 2
PACKED_PIXELS = 16  # from which packing a weight in the call pays
FEW = 4  # elements of 32 bits that are turned together
# of a 1×1 tap. Measured: 10 to 25 % faster than one at a time, where the loop costs as much as three
# multiply-adds
UNROLLED_CHANNELS = 4
UNROLLED_PIXELS = 8  # of the image that are turned side by side: half a cache line


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
    return (
        any(t is conv.weight for t in constants)
        or math.prod(conv.sizes) * (conv.images or 1) >= PACKED_PIXELS
    )


def apply(s: Schedule, out: Stage, inside: Stage, target: Target, constants: Sequence[Tensor]) -> None:
    """Compute the convolution ``inside`` in register tiles of ``out``, which has its shape and reads it at
    its own place."""
    conv = conv_of(inside.op)
    assert conv is not None
    pixels, lanes, cores = (
        math.prod(conv.sizes),
        target.vector_lanes(inside.op.body[0].dtype),
        target.num_cores,
    )
    registers = target.vector_registers if conv.pointwise else target.vector_registers * 15 // 16
    high, vectors = tile_for(
        pixels, conv.each, lanes, registers
    )  # the loads of the next tap want a few, or LLVM spills
    width = lanes * vectors
    turns = work(inside)
    fixed = any(t is conv.weight for t in constants)
    order = _order(conv, _taps_unrolled(conv, high))
    weight = _panels(s, conv, inside, width, order)
    rows = _by_pixel(s, conv, inside) if conv.pointwise else None

    def laid_out(*at: Any) -> list[Any]:
        n, o, places = at[: len(conv.batch)], at[len(conv.batch)], at[len(conv.batch) + 1 :]
        return [*n, *_by_group(conv, o, _counted(places, conv.sizes))]

    inside.transform_layout(laid_out)
    finished = s[s.cache_write(out.name, "local")]
    finished.transform_layout(laid_out)

    images, (o, *spatial) = list(out.op.axis[: len(conv.batch)]), out.op.axis[len(conv.batch) :]
    front = list(images)
    if conv.groups > 1:
        group, o = out.split(o, conv.each)
        front.append(group)
    oo, oi = out.split(o, width)
    p = spatial[0] if len(spatial) == 1 else out.fuse(*spatial)
    tiles = -(-pixels // high)
    blocks = -(-tiles // max(1, BLOCK_PIXELS // high))
    if rows is not None and blocks >= cores:
        blocks = -(-blocks // cores) * cores
    around, place = [*front, oo], None
    if pixels * 2 > BLOCK_PIXELS * 3:
        pc, p = out.split(p, _whole(-(-tiles // blocks) * high, high, lanes))
        around = [*front, pc, oo] if rows is not None else [*front, oo, pc]
    po, pi = out.split(p, lanes)
    ob, oi = out.split(oi, FEW)
    out.reorder(*around, po, ob, oi, pi)
    out.unroll(oi)
    out.vectorize(pi)
    # the image is turned by the block where there are blocks enough to share out, or else as a whole before
    # its products are shared out
    in_blocks = blocks >= MIN_BLOCKS * cores
    padded = padding_of(s, conv.data) if rows is None else None
    if rows is None and padded is None:
        shared, place = _fused(out, around), None
    elif rows is not None and in_blocks:
        shared = place = _fused(out, around[:-1])
    else:
        place, shared = images[-1] if images else None, _fused(out, around[len(images) :])
    if cost_of(target).shared(turns):
        out.parallel(shared)

    finished.compute_at(out, oo if rows is not None and in_blocks else shared)
    *_, fp, fo = finished.op.axis
    fp, fi = finished.split(fp, high)
    finished.unroll(fi)
    finished.vectorize(fo)
    inside.compute_at(finished, fp)
    if s.can("set_scope", inside.name, "local"):
        inside.set_scope("local")
    *front, ip, io = inside.op.axis
    inside.reorder(*front, *order, ip, io)
    inside.unroll(ip)
    inside.vectorize(io)
    if _taps_unrolled(conv, high):
        inside.unroll(conv.taps[-1])
    if conv.pointwise and (size(conv.channels) or 1) % UNROLLED_CHANNELS == 0:
        _, few = inside.split(conv.channels, UNROLLED_CHANNELS)
        inside.unroll(few)
    if not fixed:
        _pack_in_blocks(weight, conv, order, turns, target)
    if padded is not None:
        if place is not None:
            padded.compute_at(out, place)
        *front, _ = padded.op.axis
        rows_in_vectors(padded, lanes)
        share_out(padded, front[len(images) :], turns // PACKED_PIXELS, target)
    if rows is not None:
        if place is not None:
            rows.compute_at(out, place)
        _turn(rows, lanes, 0 if in_blocks else turns, target)


def _fused(stage: Stage, loops: Sequence[IterVar]) -> IterVar:
    return loops[0] if len(loops) == 1 else stage.fuse(*loops)


def _whole(pixels: int, high: int, lanes: int) -> int:
    """So many pixels or some more, in whole tiles and whole vectors: a block that is turned in vectors is
    computed to the end of the last one."""
    both = math.lcm(high, lanes)
    return pixels if both > BLOCK_PIXELS else -(-pixels // both) * both


def _counted(at: Sequence[Any], sizes: Sequence[int]) -> list[Any]:
    """Indices as one number, the last the fastest; those of a single value stand in front by themselves."""
    long = [d for d, n in enumerate(sizes) if n > 1] or [len(sizes) - 1]
    total = at[long[0]]
    for d in long[1:]:
        total = total * sizes[d] + at[d]
    return [*[i for d, i in enumerate(at) if d not in long], total]


def _by_group(conv: Conv, o: Any, between: Sequence[Any]) -> list[Any]:
    """The group in front, the output in its group behind."""
    return [*between, o] if conv.groups == 1 else [o // conv.each, *between, o % conv.each]


def _taps_unrolled(conv: Conv, high: int) -> bool:
    """Whether the taps of a row are written out. Not where tiles of ``high`` pixels never run over the end of
    a row: neighbouring taps then read the same pixels, LLVM keeps them all in registers, and the sums are
    spilled (measured: 43 instead of 94 GFLOP/s)."""
    return bool(conv.taps) and (size(conv.taps[-1]) or 1) <= MOST_TAPS and conv.sizes[-1] % high != 0


def _order(conv: Conv, unrolled: bool) -> list[IterVar]:
    """The reduction loops: unrolled taps of a row innermost, since they share a cache line, and around them
    the longest of the others. Measured at 3×3 with 64 to 512 channels: taps of a row inside of the channels
    are 1 to 4 % faster than all nine, in half the code."""
    if not unrolled:
        return [*conv.taps, conv.channels]
    *taps, last = conv.taps
    longer = max((size(t) or 1 for t in taps), default=1) > (size(conv.channels) or 1)
    return [conv.channels, *taps, last] if longer else [*taps, conv.channels, last]


def _panels(s: Schedule, conv: Conv, inside: Stage, width: int, order: Sequence[IterVar]) -> Stage:
    """The weight in panels of ``width`` outputs of a group, the rest in the order of the reduction."""
    copy = s[s.cache_read(conv.weight, "global", [inside.name])]

    def packed(*at: Any) -> list[Any]:
        o = at[conv.weight_axes[conv.outputs]]
        rest = [at[conv.weight_axes[a]] if a in conv.weight_axes else 0 for a in order]
        if conv.groups == 1:
            return [o // width, *rest, o % width]
        if conv.each == width or conv.each % width:
            return [o // conv.each, *rest, o % conv.each]
        return [o // conv.each, o // width % (conv.each // width), *rest, o % width]

    copy.transform_layout(packed)
    *_, lane = copy.op.axis
    copy.vectorize(lane)
    return copy


def _pack_in_blocks(weight: Stage, conv: Conv, order: Sequence[IterVar], turns: int, target: Target) -> None:
    """The copy of a weight that is packed in each call: as many of its neighbours side by side as can be
    turned."""
    *front, lane = weight.op.axis
    loops = dict(zip(order, front[-len(order) :], strict=True))
    front = front[: -len(order)]
    taps = [loops[a] for a in conv.taps]
    channel = loops[conv.channels]
    if conv.each % (size(lane) or 1):
        # the last panel reads lane by lane, each behind a test: written out, that alone took LLVM half a
        # second
        beside = []
        weight.reorder(*front, channel, *taps, lane)
    elif math.prod(size(a) or 1 for a in taps) <= MOST_TAPS:
        channel, few = weight.split(channel, FEW)
        beside = [few, *taps]
        weight.reorder(*front, channel, *beside, lane)
    else:
        beside = taps[-1:]
        weight.reorder(*front, channel, *taps, lane)
    for a in beside:
        weight.unroll(a)
    share_out(weight, front, turns // PACKED_PIXELS, target)


def _by_pixel(s: Schedule, conv: Conv, inside: Stage) -> Stage:
    """The image with the channels of each pixel side by side; pixels that a stride leaves out are not
    copied."""
    copy = s[s.cache_read(conv.data, "global", [inside.name])]

    def turned(*place: Any) -> list[Any]:
        n, c, at = place[: len(conv.batch)], place[len(conv.batch)], place[len(conv.batch) + 1 :]
        phases = [i % st for i, st in zip(at, conv.strides, strict=True) if st > 1]
        return [
            *n,
            *phases,
            *_counted([i // st for i, st in zip(at, conv.strides, strict=True)], conv.sizes),
            c,
        ]

    copy.transform_layout(turned)
    return copy


def _turn(rows: Stage, lanes: int, turns: int, target: Target) -> None:
    """Vectors of channels, a few pixels side by side; shared out when ``turns`` of the product are enough."""
    *front, p, c = rows.op.axis
    po, pi = rows.split(p, UNROLLED_PIXELS)
    co, ci = rows.split(c, lanes)
    rows.reorder(*front, po, co, pi, ci)
    rows.unroll(pi)
    rows.vectorize(ci)
    share_out(rows, [po], turns // PACKED_PIXELS, target)


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


def rows_in_vectors(padded: Stage, lanes: int) -> None:
    """The rows of a padded image in vectors, written out so that it is known which lanes are margin: masks
    cost as much as a depthwise convolution of 28 × 28."""
    last = padded.op.axis[-1]
    whole, lane = padded.split(last, lanes)
    if (size(last) or MOST_VECTORS * lanes + 1) <= MOST_VECTORS * lanes:
        padded.unroll(whole)
    padded.vectorize(lane)
