"""Convolutions with channels last: register tiles of neighbouring pixels × vectors of output channels, summed
from panels of the weight. A panel is read for some rows of pixels before the next one, and its lines lie one
behind the other, which in the weight are as far apart as there are outputs, in few sets of a cache. Uses
public primitives only.

A weight whose outputs lie one behind the other, as in OHWI, is laid along the lanes by ``across``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..analysis import bytes_of, cost_of, windows_of
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import IterVar, Tensor
from .common import FEW_REGISTERS, is_known, share_out, size, together_of, work
from .lanes import in_vectors
from .narrow import made_wide
from .nests import Axes, fill, nest, pack, sums
from .register_tile import even, tile_for

BLOCK_PIXELS = 96  # that read a panel before the next one
PACKED_PIXELS = 64  # of an image, from which packing the weight in the call pays


@dataclass(frozen=True)
class Last:
    """The weight with the dimension of each axis, the outputs, the pixels by rows and along a row, the loops
    of the sum with the channels last."""

    data: Tensor
    weight: Tensor
    weight_axes: dict[IterVar, int]
    outputs: IterVar
    rows: tuple[IterVar, ...]
    row: IterVar
    deep: tuple[IterVar, ...]


def last_of(inside: Stage) -> Last | None:
    """``inside`` as a convolution of known places with channels last, of more than a pixel; None for any
    other stage."""
    op = inside.op
    w = windows_of(op)
    if w is None or len(op.axis) < 3 or w.outputs is not op.axis[-1]:
        return None
    *places, c = w.moved
    alone = len(places) == len(op.axis) - 1 and all(
        m.axis is a for m, a in zip(places, op.axis, strict=False)
    )
    if not alone or c.axis is not None or c.tap is None or (c.dilation, c.added) != (1, 0):
        return None
    if all(m.tap is None for m in places) or w.weight_axes[w.outputs] != len(w.weight.shape) - 1:
        return None
    if any(size(a) in (None, 0) for a in (*op.axis[1:], *op.reduce_axis)):
        return None
    taps = [t for t in op.reduce_axis if t is not c.tap]
    *rows, row = op.axis[1:-1]
    return Last(w.data, w.weight, w.weight_axes, w.outputs, tuple(rows), row, (*taps, c.tap))


def applies(s: Schedule, inside: Stage, target: Target, constants: Sequence[Tensor]) -> bool:
    """Whether ``inside`` is a convolution for ``apply``: of outputs that fill a vector, of a weight that the
    first cache does not hold beside the image, and of pixels enough to pack one that comes with the call.
    Where there are many registers, tiles of two vectors that read the weight as it lies are as good, unless
    outputs are an odd number of vectors, or the weight takes half of the second cache.

    Measured with few registers (Zen 3, one thread and two): 64 to 64 channels of 56 × 56 take 1.0 of the time
    of tiles that read the weight where it lies, 128 to 128 of 28 × 28 0.8, 256 to 256 of 14 × 14 0.54 and
    0.93, 512 to 512 of 7 × 7 0.12; 3 to 32 of 224 × 224 1.14, whose weight stays near. With many (Zen 4, one
    thread), 3×3 and 5×5: 48 outputs of 13 × 13 to 56 × 56 0.75 to 0.8, 80 and 112 0.8 to 0.95, 128 to 320 of
    a large weight 0.9; 64 to 64 of 40 × 40, which keeps its tiles, 1.1.
    """
    found = last_of(inside)
    if found is None:
        return False
    kind, weight = inside.op.body[0].dtype, bytes_of(found.weight) or 0
    fixed, few = is_known(found.weight, constants), target.vector_registers <= FEW_REGISTERS
    pixels = math.prod(size(a) or 1 for a in (*found.rows, found.row))
    outputs, lanes = size(found.outputs) or 0, target.vector_lanes(kind)
    odd = outputs > lanes and -(-outputs // lanes) % 2 == 1
    if outputs < lanes or not (fixed or pixels >= PACKED_PIXELS * (1 if few else 2)):
        return False
    if _together(found, target) > 1:
        return True
    return (
        kind.is_float
        and all(kind.holds(t.dtype) for t in inside.op.input_tensors)
        and weight > target.l1_bytes // 4
        and (few or odd or found.data.dtype != kind or weight > target.l2_bytes // 2)
    )


def _together(c: Last, target: Target) -> int:
    """How many channels of a pixel are multiplied at once: they lie side by side. Not those of a rest."""
    together = together_of(c.data, c.weight, target)
    return together if (size(c.deep[-1]) or 1) % together == 0 else 1


def apply(s: Schedule, out: Stage, inside: Stage, target: Target, constants: Sequence[Tensor]) -> None:
    """Compute the convolution ``inside`` in register tiles of ``out``, which has its shape and reads it at
    its own place."""
    c = last_of(inside)
    assert c is not None
    lanes, iterations = target.vector_lanes(inside.op.body[0].dtype), work(inside)
    wide = size(c.row) or 1
    high, vectors = tile_for(wide, size(c.outputs), lanes, target.vector_registers * 15 // 16)
    together = _together(c, target)
    if together > 1:
        # one vector of the loop IR, so that the products of a group are neighbours
        vectors = 1 << vectors.bit_length() - 1
    width = lanes * vectors
    fixed = is_known(c.weight, constants)
    dtype = made_wide(inside, c.data, c.weight, together)
    image = s[s.cache_read(c.data, "global", [inside.name], dtype)] if dtype else None
    panels = dtype if together > 1 or not fixed else ""
    weight = pack(
        s, inside, c.weight, c.weight_axes, c.outputs, width, deep=c.deep, together=together, dtype=panels
    )
    n, *places, o = out.op.axis
    *rows, x = places
    last = rows[-1:]
    some = even(size(c.rows[-1]) or 1, max(1, BLOCK_PIXELS // wide)) if last else None
    loops = nest(
        out,
        {"n": n, "z": rows[:-1], "y": last, "x": x, "o": o},
        "(n z yo oo) yi xo | xi oi",
        {"y": some, "x": high, "o": width},
        parallel=cost_of(target).shared(iterations),
    )
    n, *places, o = inside.op.axis
    *taps, channels = c.deep
    named: Axes = {"f": [n, *places[:-1]], "k": taps, "c": channels, "p": places[-1], "o": o}
    if together > 1:
        sums(s, inside, out, loops.place, named, "f k co | p ci o", {"c": together})
    else:
        sums(s, inside, out, loops.place, named, "f k c | p o")
    if image is not None:
        in_vectors(image, target)
        share_out(image, list(image.op.axis[:1]), work(image), target)
    if not fixed:
        fill(weight, len(c.deep), None, together)
        share_out(weight, [weight.leaf_iter_vars[0]], iterations // 16, target)
