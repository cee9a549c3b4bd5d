"""Convolutions many taps of which read the margin: in parts, bands of rows or planes that see the same taps,
each a convolution by those alone; put together as they are written.

So it is with a dilation that is large for the image, as in the branches of a segmentation network, and with
kernels as deep as a volume. Zeros are multiplied as other elements are, and tiles of pixels run over the ends
of rows, so that no loop of theirs could leave a tap out.

Another computation in their place, before there is a schedule; chosen by the table of costs. Measured (Zen 5,
one thread and two, 3×3 where nothing is said; AVX2 alike): 512 to 256 channels of 33 × 33 at dilation 18 0.43
of the time, at 12 0.60, at 6 0.81 and 0.85; 256 to 128 of 10 × 10, 5×5 at dilation 3, 0.81 and 1.03; 64 to 32
of 2 × 32 × 32, 3×3×3 at stride (1, 2, 2), 0.71 and 0.80; 3 to 64 of 8 × 64 × 64, 7×7×7 at stride 2, 0.84.
Of a weight that comes with the call: 3 to 64 channels of 4 × 112 × 112, 7×7×7 at stride (1, 2, 2), 0.59 and
0.67, of 4 × 64 × 64 at stride 2 0.68 and 0.75, 64 to 128 of 33 × 33, 3×3 at dilation 12, 0.78 on one thread.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from .. import te
from ..analysis import (
    FilterSizes,
    Margin,
    Window,
    constant,
    conv_of,
    cost_of,
    margin_of,
    outputs_at_once,
    window_of,
)
from ..ops import tags
from ..target import Target
from ..te import ComputeOp, Expr, Tensor
from .common import is_known
from .conv import packing, time_by_pixel
from .flat import plan

# of the products of an axis that a band more has to save, and of the time that parts may take; the same of
# rows and columns at a stride, of which the table knows less. Measured (Zen 5, two threads), 7×7 at stride
# 2: 192 to 200 channels of 14 × 14 take 1.03 of the time, 256 to 200 of 28 × 14 would take 1.06
BAND, GAIN, STRIDED = 0.06, 0.9, 0.8
# parts, each of which is a kernel's worth of code, and packs the taps that it sees where they come with the
# call; loops whose begin and end a part more takes: those that copy image and weight, and those of the sums.
# Measured (Zen 5, two threads): 16 to 32 channels of 2 × 32 × 32 in two parts would take 1.24 of the time
MOST, MOST_AT_CALL, LOOPS = 9, 4, 5
# pixels of a plane of outputs, at least, where the weight comes with the call: small images have recipes of
# their own, of which the time that is compared knows nothing. Measured (Zen 5, two threads): 4 times 48 to
# 2048 channels of 4 × 4 at dilation 3 would take 2.9 of the time
PIXELS_AT_CALL = 64
# cycles of an element that is put in its place, and of a vector of an image that is copied for a part
PUT, COPIED = 0.25, 10


class Band(NamedTuple):
    """Places of a result, from ``first`` to before ``end``, and the taps that any of them sees."""

    first: int
    end: int
    tap: int
    last: int  # before which they end

    @property
    def products(self) -> int:
        return (self.end - self.first) * (self.last - self.tap)


class _Known(NamedTuple):
    """A convolution in one group of known sizes."""

    window: Window
    image: Tensor
    margin: Margin
    outputs: tuple[int, ...]  # along each place


def within_image(op: ComputeOp, target: Target, constants: Sequence[Tensor]) -> Tensor | None:
    """What may take the place of a convolution that gains by it; None for all else."""
    if not op.reduce_axis:
        return None
    known = _known(op)
    if known is None:
        return None
    fixed = is_known(known.window.weight, constants)
    if not fixed and (math.prod(known.outputs[-2:]) < PIXELS_AT_CALL or _filtered(op, known, target)):
        return None
    each = [_bands(known, d) for d in range(len(known.outputs))]
    if all(len(b) == 1 for b in each):
        return None
    most = MOST if fixed else MOST_AT_CALL
    begin = 0.0 if fixed else LOOPS * cost_of(target).start * (target.num_cores - 1) * target.num_cores
    whole, direct = [_one(known, d) for d in range(len(each))], _time(op, target, fixed)
    if direct is None:
        return None
    found: list[tuple[float, Tensor]] = []
    strides = known.window.strides
    for cut in range(1, len(each) + 1):  # axes in front of the last ones, which lie along memory
        bands = [*each[:cut], *whole[cut:]]
        if len(each[cut - 1]) == 1 or not 1 < math.prod(map(len, bands)) <= most:
            continue
        parts = {at: _part(op, known, at) for at in itertools.product(*bands)}
        times = [_time(p.op, target, fixed) for p in parts.values() if isinstance(p.op, ComputeOp)]
        if None not in times:
            elements = math.prod(constant(a.extent) or 1 for a in op.axis)
            time = sum(t or 0.0 for t in times) + PUT * elements / target.num_cores
            time += begin * (len(parts) - 1)
            rows = [s for s, b in zip(strides[-2:], bands[-2:], strict=True) if len(b) > 1]
            found.append(
                (time / (STRIDED if max(rows, default=1) > 1 else GAIN), _together(op, bands, parts))
            )
    if not found:
        return None
    time, made = min(found, key=lambda f: f[0])
    return made if time < direct else None


def _filtered(op: ComputeOp, known: _Known, target: Target) -> bool:
    """Whether the sum is made by minimal filtering within a schedule, all of it. Measured (Zen 5, two
    threads): 64 to 64 channels of 2 × 14 × 14, 3×3×3, would take 1.32 of the time in parts, on one 0.81."""
    conv = conv_of(op)
    sizes = None if conv is None else FilterSizes.of_window(known.window, conv, known.margin)
    if sizes is None or sizes.phases > 1:
        return False
    return outputs_at_once(sizes, False, target, exact=True) is not None


def _known(op: ComputeOp) -> _Known | None:
    window = window_of(op)
    if window is None or window.groups != 1:
        return None
    sizes = [constant(n) for t in (window.data, window.weight, op.outputs[0]) for n in t.shape]
    kinds = {t.dtype.name for t in (window.data, window.weight, op.outputs[0])}
    if None in sizes or kinds != {"float32"} or window.data.op.tag != tags.PAD:
        return None
    (image,) = window.data.op.input_tensors
    margin = margin_of(window.data, image)
    outputs = tuple(constant(a.extent) or 1 for a in op.axis[2:])
    return None if margin is None else _Known(window, image, margin, outputs)


def _one(known: _Known, d: int) -> list[Band]:
    taps = constant(known.window.weight.shape[2 + d]) or 1
    return [Band(0, known.outputs[d], 0, taps)]


def _bands(known: _Known, d: int) -> list[Band]:
    """The bands of one axis with the fewest products, each more of which saves some."""
    ((_, many, _, taps),) = _one(known, d)
    n, ahead = constant(known.image.shape[2 + d]) or 1, known.margin[d][0]
    stride, apart = known.window.strides[d], known.window.dilation[d]
    seen = [[t for t in range(taps) if 0 <= y * stride + t * apart - ahead < n] or [0] for y in range(many)]
    changes = [y for y in range(1, many) if (seen[y][0], seen[y][-1]) != (seen[y - 1][0], seen[y - 1][-1])]
    ends, least = [0, *changes, many], BAND * many * taps
    best: list[tuple[float, list[Band]]] = [(0.0, [])]
    for j in range(1, len(ends)):
        options = []
        for i in range(j):
            rows = seen[ends[i] : ends[j]]
            band = Band(ends[i], ends[j], min(r[0] for r in rows), max(r[-1] for r in rows) + 1)
            options.append((best[i][0] + band.products + least, [*best[i][1], band]))
        best.append(min(options, key=lambda o: o[0]))
    return best[-1][1]


def _time(op: ComputeOp, target: Target, fixed: bool) -> float | None:
    """Cycles of the sums, for all images; None where nothing is known of them."""
    conv = conv_of(op)
    if conv is None or len(conv.sizes) < 2 or not conv.batch:
        return None
    *front, row = (constant(n) or 1 for n in conv.data.shape)
    copied = COPIED * math.prod(front) * -(-row // target.vector_lanes("float32")) / target.num_cores
    packed = 0.0 if fixed else packing(conv, target)
    time = min(plan(conv, target, fixed).time, time_by_pixel(conv, target, True) + packed)
    return time * (conv.images or 1) + copied


def _part(op: ComputeOp, known: _Known, bands: Sequence[Band]) -> Tensor:
    """The convolution of one part by the taps that it sees."""
    w, image = known.window, known.image
    name = f"{op.name}.at.{'.'.join(str(b.first) for b in bands)}"
    strides, apart = w.strides, w.dilation
    around = list(zip(bands, strides, apart, known.margin, strict=True))
    begins = [b.first * s + b.tap * a - m[0] for b, s, a, m in around]
    sizes = [(b.end - 1 - b.first) * s + (b.last - 1 - b.tap) * a + 1 for b, s, a, _ in around]
    channels, outputs = w.weight.shape[1], w.weight.shape[0]

    def seen(n: Any, c: Any, *places: Any) -> Expr:
        inside = []
        for i, first, size, whole in zip(places, begins, sizes, image.shape[2:], strict=True):
            if first < 0:
                inside.append(i >= -first)
            if first + size > int(whole):
                inside.append(i < whole - first)
        read = image(n, c, *[i + first for i, first in zip(places, begins, strict=True)])
        return te.if_then_else(te.all(*inside), read, te.cast(image.dtype, 0)) if inside else read

    source = te.compute(
        (image.shape[0], channels, *sizes),
        seen,
        name=f"{name}.pad",
        tag=tags.PAD,
        varargs_names=[f"i{d}" for d in range(2, image.ndim)],
    )
    taps = [b.last - b.tap for b in bands]
    weight = te.compute(
        (outputs, channels, *taps),
        lambda o, c, *t: w.weight(o, c, *[i + b.tap for i, b in zip(t, bands, strict=True)]),
        name=f"{name}.taps",
        tag=tags.LINES,
    )
    rc = te.reduce_axis((0, channels), "rc")
    letters = "zyx"[3 - len(taps) :]
    reduced = [te.reduce_axis((0, k), f"r{letter}") for k, letter in zip(taps, letters, strict=True)]

    def products(n: Any, o: Any, *at: Any) -> Expr:
        places = [i * s + t * a for i, s, t, a in zip(at, strides, reduced, apart, strict=True)]
        total: Expr = te.sum(source(n, rc, *places) * weight(o, rc, *reduced), axis=[rc, *reduced])
        return total

    return te.compute(  # type: ignore[no-any-return]
        (image.shape[0], outputs, *[b.end - b.first for b in bands]),
        products,
        name=name,
        tag=tags.conv_tag(tags.CONV, len(taps), "NC" + "DHW"[-len(taps) :]),
        varargs_names=[*letters],
    )


def _together(
    op: ComputeOp, bands: Sequence[Sequence[Band]], parts: dict[tuple[Band, ...], Tensor]
) -> Tensor:
    """The result, each element from the part that has it."""

    def element(n: Any, o: Any, *at: Any) -> Expr:
        def chosen(*of: Band) -> Expr:
            d = len(of)
            if d == len(bands):
                return parts[of](n, o, *[i - b.first for i, b in zip(at, of, strict=True)])
            found = chosen(*of, bands[d][-1])
            for b in reversed(bands[d][:-1]):
                found = te.if_then_else(at[d] < b.end, chosen(*of, b), found)
            return found

        return chosen()

    return te.compute(op.outputs[0].shape, element, name=op.name)  # type: ignore[no-any-return]
