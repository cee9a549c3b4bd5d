"""Images that are read at places which are data, as by grid_sample: all channels of a place at once, side by
side in a copy of the image, and a strip of results that is transposed back.

One by one elements are gathered for every channel anew; here the address of a place and its weight are taken
once, and its channels are loads of vectors. Measured (Zen 4, one thread): 64 channels of 56 × 56 at 56 × 56
places take 0.22 of the time, 16 of 40 × 40 at 30 × 33 0.22, 8 of 100 × 90 at 64 × 70 0.35.

Of a few channels vectors run along the places, and what tells where and with which weight is held for a strip
of them, which would go through memory for all. Measured (Zen 4, one thread and two): one channel of 480 × 640
at as many places takes 0.48 to 0.8 and 0.63 of the time, of the nearest 0.75 and 0.7 to 0.8, three 0.66 and
0.5, six of 100 × 120 0.88 and 0.4, seven of 56 × 56 0.97 and 0.62; with AVX2 0.36 to 0.89. Uses public
primitives only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from operator import mul
from typing import Any

from .. import te
from ..analysis import constant, cost_of, reads_of, reducer_kind, samples_image, told_by_data
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import Expr, Tensor
from .choices import at_most
from .common import in_registers, share_out, size, work
from .pixels import FEW, transpose_pixels
from .register_tile import even
from .rows import behind

FEWEST = 8  # channels, below which vectors of them are mostly empty
WIDE = 4  # vectors of channels that are summed together
SCARCE = 16  # elements of an image for each place, up to which all of it is copied
WRITTEN_OUT = 8  # taps of a place
STRIP = 1024  # places of a row, of a few channels, whose indices and weights are held


def applies(s: Schedule, inside: Stage, target: Target, constants: Sequence[Tensor]) -> bool:
    """Whether ``inside`` sums elements of an image [N, C, …] at places that are data, the same for each of
    several channels, whose number is known."""
    op = inside.op
    image = samples_image(op)
    if image is None or reducer_kind(op) != "add" or not all(size(a) for a in op.reduce_axis):
        return False
    known = [constant(n) for n in (*image.shape, *op.outputs[0].shape)]
    if 0 in known:
        return False
    if 0 < (size(op.axis[1]) or 0) < FEWEST:
        return bool(tables_of(s, inside))
    if size(op.axis[1]) is None:
        return False
    elements, places = _product(image.shape[2:]), _product([a.extent for a in op.axis[2:]])
    return at_most(elements // te.max(places, 1), SCARCE)


def tables_of(s: Schedule, stage: Stage) -> list[Stage]:
    """What tells for each place where an image is read, and with which weight: the stages that only ``stage``
    reads, a result [N, C, …] of elements at places that are data, or others of these; readers first."""
    axes = stage.op.axis
    if len(axes) < 3 or not 0 < (size(axes[1]) or 0) < FEWEST or size(axes[-1]) == 1:
        return []
    if not any(len(at) == len(axes) and told_by_data(at[2:]) for _, at in reads_of(stage.op).plain):
        return []
    extents = [axes[0].extent, *(a.extent for a in axes[2:])]

    def of_places(st: Stage) -> bool:
        own, last = st.op.axis, len(extents) - 1
        if len(own) <= last or not all(size(a) for a in own[1 : len(own) - last]):
            return False
        ends = [own[0].extent, *(a.extent for a in own[-last:])]
        return all(a is b for a, b in zip(ends, extents, strict=True))

    return list(behind(s, stage, of_places, lambda st: False))


def few_channels(
    s: Schedule, out: Stage, tables: Sequence[Stage], target: Target, inside: Stage | None = None
) -> None:
    """Compute ``out`` of a few channels, the sums ``inside`` of it if any, for strips of places with their
    ``tables``."""
    lanes, iterations = target.vector_lanes(out.op.body[0].dtype), work(out if inside is None else inside)
    n, c, *rows, x = out.op.axis
    wide = STRIP if size(x) is None else even(-(-(size(x) or 1) // lanes), STRIP // lanes) * lanes
    strip, x = out.split(x, wide)
    xo, xi = out.split(x, lanes)
    out.reorder(n, *rows, strip, xo, c, xi)
    out.unroll(c)
    out.vectorize(xi)
    place = out.fuse(n, *rows, strip)
    if cost_of(target).shared(iterations):
        out.parallel(place)
    if inside is not None:
        inside.compute_at(out, xo)
        in_registers(s, inside)
        inside.reorder(*inside.op.reduce_axis, *inside.op.axis)
        inside.unroll(inside.op.axis[1])
        inside.vectorize(inside.op.axis[-1])
        if math.prod(size(a) or 1 for a in inside.op.reduce_axis) <= WRITTEN_OUT:
            for a in inside.op.reduce_axis:
                inside.unroll(a)
    for st in tables:
        st.compute_at(out, place)
        in_registers(s, st)
        xo, xi = st.split(st.op.axis[-1], lanes)
        each = st.op.axis[1 : len(st.op.axis) - len(rows) - 1]
        st.reorder(st.op.axis[0], *st.op.axis[len(each) + 1 : -1], xo, *each, xi)
        st.vectorize(xi)
        for a in each:
            st.unroll(a)


def _product(sizes: Sequence[Expr]) -> Expr:
    return reduce(mul, (te.cast("int64", n) for n in sizes))


def apply(s: Schedule, out: Stage, inside: Stage, target: Target, constants: Sequence[Tensor]) -> None:
    """Compute ``inside`` in strips of rows of ``out``, which has its shape and reads it at its own place."""
    if (size(out.op.axis[1]) or 0) < FEWEST:
        few_channels(s, out, tables_of(s, inside), target, inside)
        return
    image = samples_image(inside.op)
    assert image is not None
    lanes, iterations = target.vector_lanes(inside.op.body[0].dtype), work(inside)

    def channels_last(n: Any, c: Any, *place: Any) -> list[Any]:
        return [n, *place, c]

    copy = s[s.cache_read(image, "global", [inside.name])]
    copy.transform_layout(channels_last)
    inside.transform_layout(channels_last)
    finished = s[s.cache_write(out.name, "local")]
    finished.transform_layout(channels_last)
    n, c, *rows, x = out.op.axis
    high = _channels_of_a_part(size(c) or 1, size(n) or 1, lanes, target)
    co, ci = out.split(c, high)
    cio, cii = out.split(ci, FEW)
    xo, xi = out.split(x, min(lanes, size(x) or lanes))
    out.reorder(n, co, *rows, xo, cio, cii, xi)
    out.unroll(cii)
    out.vectorize(xi)
    part = out.fuse(n, co)
    finished.compute_at(out, xo)
    *front, c = finished.op.axis
    vector, lane = finished.split(c, min(lanes, high))
    finished.reorder(*front, vector, lane)
    finished.unroll(vector)
    finished.vectorize(lane)
    inside.compute_at(finished, front[-1])
    in_registers(s, inside)
    *front, c = inside.op.axis
    vector, lane = inside.split(c, min(lanes, high))
    taps = inside.op.reduce_axis
    inside.reorder(*front, *taps, vector, lane)
    inside.unroll(vector)
    inside.vectorize(lane)
    if math.prod(size(a) or 1 for a in taps) <= WRITTEN_OUT:
        for a in taps:
            inside.unroll(a)
    copy.compute_at(out, part)
    transpose_pixels(copy, min(lanes, high))
    share_out(out, [part], iterations, target)


def _channels_of_a_part(channels: int, images: int, lanes: int, target: Target) -> int:
    """How many channels of an image are copied and summed at a time, by one thread: what another one has
    copied would come line by line. Measured (Zen 4, two threads): 64 channels of 56 × 56 take 0.3 of the time
    of one copy for both."""
    wide = WIDE * lanes
    parts = -(-channels // wide)
    if images * parts < target.num_cores:
        parts = min(target.num_cores, -(-channels // FEWEST))
    return min(channels, -(-channels // (parts * FEWEST)) * FEWEST)
