"""Convolutions of few outputs whose weight is known ahead of a call, in two steps: the products of each pixel
with every tap of all its channels, a convolution of single pixels that reads the image where it lies and each
element of it once for all taps, and the sums of those that an output gathers. A tile of direct sums of one
output reads a vector for each multiply-add, after a copy of the image with its margin; the phases of a
transposed convolution leave vectors of small images nearly empty.

Another computation in their place, before there is a schedule; chosen by the table of costs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .. import ops, te
from ..analysis import TapProducts, conv_of, cost_of, gathered, phases_of, tap_products_of
from ..ops import tags
from ..schedule import create_schedule
from ..target import Target
from ..te import ComputeOp, Tensor
from . import subpixel
from .common import is_known
from .conv import time_by_pixel
from .flat import plan
from .pointwise import least_time
from .register_tile import even, tile_for, time_of

# multiply-adds of an output that are written out where products are gathered: kernels of 7 × 7, and no code
# that takes long to compile
MOST_TAPS = 49
NOWHERE = 1e-3  # in a table of costs
# cycles for each of the products that are gathered, of plain and of transposed convolutions, and how many
# times as long where they do not stay in the second cache. Measured (Zen 5): with them the cycles of 130
# drawn convolutions by tap are 4000 to 4700 for each microsecond
GATHERED, INTERLEAVED, BEHIND = 0.5, 1.0, 3
# of the time that the table says for direct sums of every second pixel: their copies take less
STRIDED = 0.75
# sums of a tile of phases; cycles of a row that does not fill a vector, and what all are taken for: the
# phases of even kernels of 3 to 15 pixels take 2 to 5 times as long as their multiply-adds
PHASES, SHORT, ALL = 24, 1.5, 0.75


def by_tap(op: ComputeOp, target: Target, constants: Sequence[Tensor]) -> Tensor | None:
    """What may take the place of a convolution that gains by it; None for all else."""
    if not op.reduce_axis or cost_of(target).by_tap <= NOWHERE:
        return None
    t = tap_products_of(op)
    if t is None or not is_known(t.weight, constants) or not 1 < math.prod(t.taps) <= MOST_TAPS:
        return None
    kind = op.outputs[0].dtype
    if kind != "float32" or t.image.dtype != kind or t.weight.dtype != kind:
        return None
    products = _products(op, t)
    if not _gains(op, t, products, target):
        return None
    around = ops.pad(products, ((0, 0), (0, 0), *t.margin)) if any(map(any, t.margin)) else products
    return gathered(op, t, around)


def _products(op: ComputeOp, t: TapProducts) -> Tensor:
    """[N, taps · outputs, …]: a convolution of single pixels to the recipes."""
    places, channels = t.image.shape[2:], t.channels.extent
    many, ones = math.prod(t.taps) * t.outputs, [1 for _ in t.taps]
    weight = te.compute(
        (many, channels, *ones),
        lambda q, c, *_: t.element(te.floordiv(q, t.outputs), te.floormod(q, t.outputs), c),
        name=f"{op.name}.weight.taps",
        tag=tags.LINES,
    )
    rc = te.reduce_axis((0, channels), "rc")
    single = [te.reduce_axis((0, 1), f"r{d}") for d in range(len(ones))]
    return te.compute(  # type: ignore[no-any-return]
        (t.image.shape[0], many, *places),
        lambda n, q, *at: te.sum(
            t.image(n, rc, *[i + r for i, r in zip(at, single, strict=True)]) * weight(q, rc, *single),
            axis=[rc, *single],
        ),
        name=f"{op.name}.products",
        tag=tags.conv_tag(tags.CONV, len(places), "NC" + "DHW"[-len(places) :]),
    )


def _gains(op: ComputeOp, t: TapProducts, products: Tensor, target: Target) -> bool:
    """Whether the products and their sums take so much less than direct sums."""
    table, made = cost_of(target), products.op
    single = conv_of(made) if isinstance(made, ComputeOp) else None
    direct = _direct(op, t, target)
    if single is None or direct is None:
        return False
    count = math.prod(map(int, products.shape))
    nbytes, threads = count * products.dtype.bytes, target.num_cores
    each = INTERLEAVED if phases_of(op) else GATHERED
    summed = count * each * (1 if nbytes < target.l2_bytes else BEHIND)
    summed += nbytes * (threads - 1) / table.remote_rate  # what one thread has made another adds up
    return least_time(single, target) + summed <= table.by_tap * direct


def _direct(op: ComputeOp, t: TapProducts, target: Target) -> float | None:
    """Cycles of the sums as they are declared, for all images; None where nothing is known of them."""
    conv = conv_of(op)
    if conv is not None and len(conv.sizes) > 1 and conv.batch:
        time = min(plan(conv, target).time, time_by_pixel(conv, target, True)) * (conv.images or 1)
        return time * (STRIDED if max(conv.strides) > 1 else 1.0)
    phases = phases_of(op)
    lanes, table = target.vector_lanes(op.outputs[0].dtype), cost_of(target)
    if conv is not None or not phases:
        return None
    many = math.prod(phases.values())
    images, _, *places = [int(a.extent) for a in op.axis]
    *rows, row = [-(-n // phases.get(a, 1)) for n, a in zip(places, op.axis[2:], strict=True)]
    deep = int(t.channels.extent) * math.prod(t.taps) / many
    if t.outputs >= lanes and _in_tiles_of_outputs(op, t, target):
        pixels = math.prod(rows) * row
        tile = tile_for(pixels, t.outputs, lanes, target.vector_registers * 15 // 16)
        return images * many * deep * time_of(pixels, t.outputs, *tile, lanes, table)
    high = many if t.outputs == 1 else even(many * t.outputs, PHASES)
    if row < lanes:  # counted as one axis with those beside it
        time = SHORT * time_of(many * t.outputs, math.prod(rows) * row, high, 1, lanes, table)
    else:
        time = math.prod(rows) * time_of(many * t.outputs, row, high, 1, lanes, table)
    # threads share images out, and outputs that are more than a tile
    alone = target.num_cores if images < target.num_cores and t.outputs < lanes else 1
    return images * deep * time * alone / ALL


def _in_tiles_of_outputs(op: ComputeOp, t: TapProducts, target: Target) -> bool:
    """Whether vectors of outputs are what a transposed convolution would be summed in.

    Measured (Zen 5, of 37 drawn ones of 16 to 100 outputs): the 11 that are taken take 0.49 to 0.86 of the
    time on one thread, 4 images of 160 to 48 channels of 4 × 4, 2 × 2, 1.13; on two threads 0.54 to 0.87.
    """
    s = create_schedule(op.outputs[0])
    return subpixel.applies(s, s[op.name], target, [t.weight])
