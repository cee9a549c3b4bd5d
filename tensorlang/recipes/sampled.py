"""Images that are read at places which are data, as by grid_sample: all channels of a place at once, side by
side in a copy of the image, and a strip of results that is transposed back.

One by one elements are gathered for every channel anew; here the address of a place and its weight are taken
once, and its channels are loads of vectors. Measured (Zen 4, one thread): 64 channels of 56 × 56 at 56 × 56
places take 0.22 of the time, 16 of 40 × 40 at 30 × 33 0.22, 8 of 100 × 90 at 64 × 70 0.35. Uses public
primitives only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from operator import mul
from typing import Any

from .. import te
from ..analysis import constant, reducer_kind, samples_image
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import Expr, Tensor
from .choices import at_most
from .common import in_registers, share_out, size, work
from .pixels import FEW, transpose_pixels

FEWEST = 8  # channels, below which vectors of them are mostly empty
WIDE = 4  # vectors of channels that are summed together
SCARCE = 16  # elements of an image for each place, up to which all of it is copied
WRITTEN_OUT = 8  # taps of a place


def applies(s: Schedule, inside: Stage, target: Target, constants: Sequence[Tensor]) -> bool:
    """Whether ``inside`` sums elements of an image [N, C, …] at places that are data, the same for each of
    several channels, whose number is known."""
    op = inside.op
    image = samples_image(op)
    if image is None or reducer_kind(op) != "add" or not all(size(a) for a in op.reduce_axis):
        return False
    known = [constant(n) for n in (*image.shape, *op.outputs[0].shape)]
    if (size(op.axis[1]) or 0) < FEWEST or 0 in known:
        return False
    elements, places = _product(image.shape[2:]), _product([a.extent for a in op.axis[2:]])
    return at_most(elements // te.max(places, 1), SCARCE)


def _product(sizes: Sequence[Expr]) -> Expr:
    return reduce(mul, (te.cast("int64", n) for n in sizes))


def apply(s: Schedule, out: Stage, inside: Stage, target: Target, constants: Sequence[Tensor]) -> None:
    """Compute ``inside`` in strips of rows of ``out``, which has its shape and reads it at its own place."""
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
