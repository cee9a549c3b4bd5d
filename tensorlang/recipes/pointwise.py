"""Convolutions of single pixels (1×1) and of one dimension, of known sizes, channels first: register tiles of
output channels × vectors of neighbouring pixels, which run over the ends of rows.

Image and result are read and written where they lie, and nothing is transposed; a weight that is known ahead
lies in panels of a tile's outputs. Channels that lie far apart are copied side by side, for a few tiles at a
time; outputs that do are written by a run of tiles each. Where the pixels of an image leave much of a last
vector empty, tiles of pixels × vectors of outputs (``conv``) take less, in spite of their transpositions: the
table of costs says which. Uses public primitives only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..analysis import Conv, conv_of, cost_of
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import Tensor
from .common import LINE, PAGE, converts, evenly, in_registers, is_known, share_out, size, work
from .conv import by_phase, copying, handed_over, packing, padding_of, time_by_pixel
from .nests import fuse, pack, widen
from .pixels import counted
from .reach import depth, far, far_outputs, passes, plane_of, read_in_place, weight_of
from .register_tile import MANY, column, rows_that_stay, tile_for, time_of

# tiles of pixels for which a panel of a narrower weight is made wide. Measured (Zen 5): 12 to 19 % of the
# time is lost where that is done for each tile, 1 to 3 % for 8 of them
RUN = 8
FEW_TILES = 8  # of an image for each thread: more are shared out evenly enough
# tiles of pixels that are computed for a block of outputs before the next, where outputs are in more pages
# than a processor finds without a search: each is written in longer pieces. Measured (Emerald Rapids, images
# and results in turn): 16 to 96 channels of 112 × 112 take 0.36 of the time, 64 to 256 of 56 × 56 0.58, 24 to
# 144 0.66
WRITTEN = 16
FAR = 1.2  # times as long takes a tile that reads more pages than a processor finds without a search
EVEN = 4 / 3  # times as long as evenly shared out, at most, takes the thread with the most tiles
COPIED = 1 / 8  # cycles for an element whose neighbours are copied with it
COLD = 1 / 4  # the same where tiles of outputs would copy none. Measured (Zen 5): 384 to 48 of 40 × 40 1.12
# the same where they are a few vectors that cross lines, of channels that are many to a page. Measured
# (Emerald Rapids): 1024 channels of 14 × 14 0.65, 2048 of 7 × 7 0.55
LINED = 1 / 2
# of the time of threads that share tiles of pixels out, at most, that they take which share outputs out and
# copy the whole image each, ``TWICE`` as long for each element as what is copied with its neighbours; and
# iterations from which on one or the other is asked for. Measured (Zen 4, two threads, 90 drawn lines and
# single pixels at stride 2, of which 25 change): tiles for threads 0.93 of the time, both 0.91, 43 to 69
# channels of 321, 5 taps, 0.9, 23 to 67 of 143, 9 taps, 0.82, 197 to 41 of 12 × 12 at stride 2 0.67
OUTPUTS, TWICE, WORTH = 0.95, 2, 1 << 16


def applies(s: Schedule, inside: Stage, target: Target, constants: Sequence[Tensor]) -> bool:
    """Whether ``inside`` reduces the channels of single pixels, or of windows in one row, and vectors of
    pixels take less time for it than vectors of outputs."""
    conv = conv_of(inside.op)
    if conv is None or 0 in conv.sizes or conv.images == 0:
        return False
    if not conv.pointwise and (len(conv.sizes) > 1 or conv.groups > 1 or not conv.batch):
        return False
    if not wide_or_packed(conv, inside, target, constants):
        return False
    if _strided(conv) and not conv.batch:
        return False  # of what is copied, each image takes the pixels it reads
    if not _in_call(conv, target, constants):
        fixed = is_known(conv.weight, constants)
        # tiles of outputs want a packed weight. Measured (Zen 5, one thread, 41 drawn rows, of which 12
        # change): 0.87 of the time, 96 to 582 channels of 16 pixels, 7 taps, 0.65, 128 to 256 of 20 1.11
        packed = 0.0 if fixed or conv.pointwise else packing(conv, target)
        return _time(conv, target, fixed) <= time_by_pixel(conv, target) + packed
    turned = _turned(conv, target) / (conv.images or 1)
    return _time_in_call(conv, target) <= time_by_pixel(conv, target) + turned


def least_time(conv: Conv, target: Target) -> float:
    """Cycles of single pixels by a constant weight, of all images: in whichever tiles take less."""
    return min(_time(conv, target, True), time_by_pixel(conv, target)) * (conv.images or 1)


def _in_call(conv: Conv, target: Target, constants: Sequence[Tensor]) -> bool:
    """Whether the weight of single pixels comes with the call, and a vector is a line of memory, so that each
    one that does not begin a line crosses two. Shorter ones cross half as often: by the rules for long ones
    1224 to 36 channels of 14 × 4 took 1.27 of the time, 560 to 64 of 4 × 22 1.11 (Emerald Rapids, AVX2)."""
    fixed = is_known(conv.weight, constants)
    return conv.pointwise and not fixed and target.vector_bits // 8 >= LINE


def _turned(conv: Conv, target: Target) -> float:
    """Cycles in which a weight that comes with the call is transposed for vectors of outputs; nothing hides
    that it comes from behind the second cache, where a thread's part of it does not stay there.

    Measured (Emerald Rapids, one thread): 2048 to 512 channels of 7 × 7 0.37 ns for each element, a third of
    the whole time; 1024 to 256 of 14 × 14 0.27, a tenth.
    """
    table, weight = cost_of(target), conv.groups * weight_of(conv)
    behind = weight / table.l3_rate if weight // target.num_cores > target.l2_bytes else 0
    return table.transposition * weight / conv.weight.dtype.bytes + behind + handed_over(conv, target)


def _time_in_call(conv: Conv, target: Target) -> float:
    """Cycles for one image of a weight that comes with the call, on all threads."""
    picked = cost_of(target).transposition if _strided(conv) else 0.0
    if _in_whole_vectors(conv, target):
        return _sums(conv, target, False) + (LINED * target.num_cores + picked) * _elements(conv)
    if _copied(conv, _tile(conv, target, False)[1], target):
        return _time(conv, target, False)
    return _sums(conv, target, False) * _in_place(conv, target) + picked * _elements(conv)


def _in_place(conv: Conv, target: Target) -> float:
    """How many times as long tiles take that read pixels where they lie: channels are planes apart, vectors
    cross lines, and the last tile, where it ends within a vector, is computed whole, its lanes behind
    masks."""
    pixels, lanes = math.prod(conv.sizes), _lanes(conv, target)
    _, vectors = _tile(conv, target, False)
    longer = cost_of(target).crossing if plane_of(conv) % LINE else 1.0
    longer *= _apart(conv, vectors, target)
    if pixels % lanes:
        longer *= -(-pixels // (lanes * vectors)) * vectors / -(-pixels // lanes)
    return longer


def _sums(conv: Conv, target: Target, fixed: bool) -> float:
    """Cycles of the sums of one image; ``fixed``: of a weight that is a constant."""
    pixels, lanes = math.prod(conv.sizes), _lanes(conv, target)
    high, vectors = _tile(conv, target, fixed)
    tiles = depth(conv) * time_of(conv.each, pixels, high, vectors, lanes, cost_of(target))
    if passes(conv, target):  # it comes for each tile of pixels
        again = -(-pixels // (lanes * vectors)) - 1
        tiles += again * weight_of(conv) / cost_of(target).element_rate
    return tiles


def _elements(conv: Conv) -> int:
    """Pixels of all channels that are read."""
    return (size(conv.channels) or 1) * math.prod(conv.sizes)


def _in_whole_vectors(conv: Conv, target: Target) -> bool:
    """Whether what a tile of pixels reads is copied first, so that each channel of it begins a line and is
    whole vectors: where that saves more than it takes, as each thread may have outputs of its own, and makes
    a copy; or an image is fewer pixels than a tile.

    Measured (Emerald Rapids, against tiles of pixels × outputs, one thread and two): 1024 to 256 channels of
    14 × 14 0.89 and 0.74 of the time, in place 1.11; 728 to 728 of 19 × 19 0.87 and 0.83, 512 to 512 of
    27 × 27 0.99 and 0.86.
    """
    _, vectors = _tile(conv, target, False)
    few = math.prod(conv.sizes) < _lanes(conv, target) * vectors
    saved = (_in_place(conv, target) - 1) * _sums(conv, target, False)
    return few or LINED * target.num_cores * _elements(conv) < saved


def _time(conv: Conv, target: Target, fixed: bool) -> float:
    """Cycles for one image."""
    elements, tiles = _elements(conv), _sums(conv, target, fixed)
    copied = cost_of(target).transposition * elements if _strided(conv) else 0
    _, vectors = _tile(conv, target, fixed)
    if _copied(conv, vectors, target):
        return tiles + (COLD if read_in_place(conv, target) else COPIED) * elements
    # channels lie a plane apart: what a tile of pixels reads of them comes again for each block of outputs
    return tiles * _apart(conv, vectors, target) + copied


def _apart(conv: Conv, vectors: int, target: Target) -> float:
    """How many times as long tiles take whose channels lie a plane apart."""
    near = _near(conv, vectors, target) and not far(conv)
    return 1.0 if near or read_in_place(conv, target) else FAR


def _near(conv: Conv, vectors: int, target: Target) -> bool:
    """Whether what a tile of pixels reads stays in the first cache."""
    return _read(conv, vectors, target) < target.l1_bytes


def _read(conv: Conv, vectors: int, target: Target) -> int:
    """Bytes that a tile of pixels reads of the image."""
    return vectors * target.vector_bits // 8 * (size(conv.channels) or 1)


def _copied(conv: Conv, vectors: int, target: Target) -> bool:
    """Whether what a few tiles read is copied first, channel beside channel: each lies in a page of its own,
    or nearly so, and does not stay near.

    Measured (Emerald Rapids, images in turn): 256 to 64 channels of 56 × 56 take 0.70 of the time, 512 to 128
    of 28 × 28 0.58; 480 to 192 of 14 × 14, which are many to a page, 1.06, 64 to 256 of 56 × 56 1.04.
    """
    return not _strided(conv) and not _near(conv, vectors, target) and plane_of(conv) > PAGE // 2


def _run(conv: Conv, vectors: int, target: Target) -> int:
    """How many tiles of pixels are computed for a block of outputs before the next."""
    if not far_outputs(conv):
        return 1
    return max(1, min(WRITTEN, target.l2_bytes // 8 // _read(conv, vectors, target)))


def _evenly(tiles: int, most: int, threads: int) -> int:
    """How many of so many tiles come in a run, which all are computed: those of the last one that there are
    not, too, and some more than ``most`` where that spares them. So many ``threads`` have runs of their own:
    what counts is the one with the most of them.

    Measured (Zen 5, one thread): 256 to 1024 channels of 14 × 14, 7 tiles in a run and not 8 in two, 0.93.
    """
    runs = range(most // 2 + 1, 2 * most if most > 1 else 2)
    return min(runs, key=lambda run: (-(-tiles // (run * threads)) * run, run > most, -run))


def _tile(conv: Conv, target: Target, fixed: bool, threads: int = 1) -> tuple[int, int]:
    """The tile, of so many ``threads`` that share tiles of pixels out; of a weight that is not ``fixed``, and
    so lies as it came, of no more rows than stay in the first cache."""
    lanes, table, pixels = _lanes(conv, target), cost_of(target).of_panels, math.prod(conv.sizes)
    most = MANY if fixed else rows_that_stay(conv.weight, conv.weight_axes.get(conv.outputs), target)
    return tile_for(conv.each, pixels, lanes, target.vector_registers, table, threads, most=most)


def _tile_apart(conv: Conv, fixed: bool, threads: int, target: Target) -> tuple[tuple[int, int], bool]:
    """The tile where each of so many threads copies what it reads of an image, and whether they share outputs
    out, each with a copy of all pixels, and not tiles of pixels: few tiles are not as many for each."""
    lanes, table, pixels = _lanes(conv, target), cost_of(target).of_panels, math.prod(conv.sizes)
    tile, each = _tile(conv, target, fixed, threads), -(-conv.each // threads)
    other = _tile(replace(conv, each=each), target, fixed)
    copied = (1 - 1 / threads) * TWICE * copying(conv, target) * _elements(conv) / depth(conv)
    by_pixels = column(conv.each, *tile, table) * -(-pixels // (lanes * tile[1] * threads))
    by_outputs = column(each, *other, table) * -(-pixels // (lanes * other[1])) + copied
    return (other, True) if by_outputs < OUTPUTS * by_pixels else (tile, False)


def _lanes(conv: Conv, target: Target) -> int:
    return target.vector_lanes(conv.data.dtype)


def _strided(conv: Conv) -> bool:
    return any(stride > 1 for stride in conv.strides)


def apply(s: Schedule, out: Stage, inside: Stage, target: Target, constants: Sequence[Tensor]) -> None:
    """Compute the convolution ``inside`` in register tiles of ``out``, which has its shape and reads it at
    its own place."""
    conv = conv_of(inside.op)
    assert conv is not None
    lanes, iterations, batch = _lanes(conv, target), work(inside), len(conv.batch)
    # each thread copies what a stride picks for its own tiles, where they can be shared out evenly enough:
    # lines that another has just written come slowly. Measured (Zen 4, 90 drawn shapes at stride 2, two
    # threads): 0.46 of the time. A weight at the call, which lies as it came, is better read by the thread
    # whose outputs it makes: 256 to 512 channels of 56 × 56 1.2
    fixed = is_known(conv.weight, constants)
    given = fixed or 4 * weight_of(conv) <= target.l2_bytes
    copied = _strided(conv) or (not conv.pointwise and padding_of(s, conv.data) is not None)
    threads = target.num_cores if copied and given and conv.images == 1 else 1
    worth = threads > 1 and cost_of(target).shared(iterations) and iterations >= WORTH
    (high, vectors), by_outputs = (
        _tile_apart(conv, fixed, threads, target) if worth else (_tile(conv, target, fixed), False)
    )
    weight = pack_outputs(s, inside, conv, high, lanes, constants)
    pixels = _image(s, conv, inside)

    def laid_out(*at: Any) -> list[Any]:
        front, places = at[: -len(conv.sizes)], at[-len(conv.sizes) :]
        return [*front, *counted(places, conv.sizes)]

    def in_vectors(*at: Any) -> list[Any]:
        return [*at[:-1], at[-1] // lanes, at[-1] % lanes]

    # an image of fewer pixels than a tile is filled up to whole vectors, and so are its sums: those behind a
    # mask would stay in memory. Measured (Emerald Rapids): 76 to 366 channels of 6 × 6 take 0.07 of the time
    few = conv.pointwise and math.prod(conv.sizes) < lanes * vectors
    whole = few or (_in_call(conv, target, constants) and _in_whole_vectors(conv, target))
    near = None
    if whole or (pixels is None and weight is None and _copied(conv, vectors, target)):
        read = conv.data if pixels is None else pixels.op.outputs[0]
        near = s[s.cache_read(read, "global", [inside.name])]
        near.transform_layout(laid_out)
    inside.transform_layout(laid_out)
    if near is not None and whole:
        near.transform_layout(in_vectors)
        inside.transform_layout(in_vectors, pad_value="any")
    images, o, places = list(out.op.axis[:batch]), out.op.axis[batch], list(out.op.axis[batch + 1 :])
    # vectors are counted: a last tile of fewer has a body of its own, instead of lanes that are all masked
    block, oi = out.split(o, high)
    pv, lane = out.split(fuse(out, places), lanes)
    po, vector = out.split(pv, vectors)
    tiles, within = -(-math.prod(conv.sizes) // (lanes * vectors)), []
    run = _evenly(tiles, RUN if weight is not None else _run(conv, vectors, target), threads)
    each = -(-tiles // (run * threads)) * run  # tiles of the thread with the most
    own = threads > 1 and each * threads <= tiles * EVEN
    if run > 1:
        within, tiles = [po], -(-tiles // run)
        po, within[0] = out.split(po, run)
    shared = [*images, po] if pixels is None else [po]
    around = shared
    if by_outputs:
        part, block = out.split(block, nparts=threads)
        shared, around, own = [part], [part, po], True
    elif own:
        part, po = out.split(po, nparts=target.num_cores)
        shared, around = [part], [part, po]
    elif tiles * (conv.images or 1) < FEW_TILES * target.num_cores:
        part, block = out.split(block, nparts=target.num_cores)
        shared.append(part)
    # of as many images for each thread all steps of one are a thread's: two parallel loops for each image
    # would hand over what is copied. Measured (Zen 4, two threads): 2 and 8 rows of 301 at stride 2 0.6 and
    # 0.55 of the time
    by_image = pixels is not None and len(images) == 1 and evenly(conv.images or 1, target.num_cores)
    by_image = by_image and target.num_cores > 1 and cost_of(target).shared(iterations)
    if by_image:
        shared, own = images, True
    out.reorder(*(images if pixels is not None else []), *around, block, *within, oi, vector, lane)
    out.unroll(oi)
    out.unroll(vector)
    out.vectorize(lane)
    inside.compute_at(out, [block, *within][-1])
    if weight is not None:
        weight.compute_at(out, block)
    if near is not None:
        near.compute_at(out, shared[-1])
        _, lane = near.split(near.op.axis[-1], lanes)
        near.vectorize(lane)
    in_registers(s, inside)
    if whole:
        *front, vector, lane = inside.op.axis
    else:
        *front, p = inside.op.axis
        vector, lane = inside.split(p, lanes)
    row = front.pop(batch)  # behind it there may be axes of one place
    inside.reorder(*front, conv.channels, *conv.taps, row, vector, lane)
    inside.unroll(row)
    inside.unroll(vector)
    inside.vectorize(lane)
    share_out(out, shared, iterations, target)
    if pixels is not None:
        pixels.compute_at(out, shared[-1] if own else images[-1])
        *around, x = pixels.op.axis
        _, lane = pixels.split(x, lanes)
        pixels.vectorize(lane)
        if not own:
            share_out(pixels, around[batch:], work(pixels), target)


def wide_or_packed(conv: Conv, inside: Stage, target: Target, constants: Sequence[Tensor]) -> bool:
    """Whether image and weight have the type of the sums. A copy of the image makes narrower ones wide once;
    a weight that is a constant may be narrower."""
    kind = inside.op.body[0].dtype
    fixed = is_known(conv.weight, constants) and converts(conv.weight, target)
    return conv.data.dtype == kind and (conv.weight.dtype == kind or fixed)


def pack_outputs(
    s: Schedule, inside: Stage, conv: Conv, high: int, lanes: int, constants: Sequence[Tensor]
) -> Stage | None:
    """A weight that is a constant, in panels of a tile's outputs. A narrower one has a copy of some panels in
    the type of the sums, for the caller to place; None where there is none."""
    if not is_known(conv.weight, constants):
        return None
    deep = (conv.channels, *conv.taps)
    packed = pack(s, inside, conv.weight, conv.weight_axes, conv.outputs, high, deep=deep)
    if conv.weight.dtype == inside.op.body[0].dtype:
        return None
    return widen(s, inside, packed, len(deep) + (high > 1), lanes)


def _image(s: Schedule, conv: Conv, inside: Stage) -> Stage | None:
    """What is computed for each image: its margin, or the pixels that a stride reads, side by side; None
    where it is read where it lies."""
    # behind a margin around single pixels, all of it is an image
    copy = None if conv.pointwise else padding_of(s, conv.data)
    if copy is None and _strided(conv):
        copy = s[s.cache_read(conv.data, "global", [inside.name])]
    if copy is None:
        return None
    copy.transform_layout(by_phase(conv))
    return copy
