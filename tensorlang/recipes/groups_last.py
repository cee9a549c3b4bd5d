"""Convolutions in groups with channels last: register tiles of neighbouring pixels × the outputs of a group,
summed from a copy of the weight in which these lie one behind the other. Uses public primitives only.

In [O, I, H, W] they lie a whole filter apart; and groups of outputs that are no whole vectors have none of
their own in plain tiles, whose vectors would read two groups' channels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..analysis import cost_of, phases_of, windows_of
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import IterVar, Tensor
from .common import is_known, share_out, size, work
from .nests import Axes, nest, sums
from .phases import in_whole_groups
from .register_tile import even

FEWEST = 3  # outputs of a group
MOST_VECTORS = 6  # of a group that is summed whole
PACKED_PIXELS = 64  # of all images, from which packing the weight in the call pays


@dataclass(frozen=True)
class Grouped:
    """The weight with the dimension of each axis, the outputs, so many of them in a group, the loops of the
    sum with the channels last."""

    weight: Tensor
    weight_axes: dict[IterVar, int]
    outputs: IterVar
    each: int
    deep: tuple[IterVar, ...]


def grouped_of(inside: Stage) -> Grouped | None:
    """``inside`` as a convolution of known places in groups with channels last; None for any other stage."""
    op = inside.op
    w, groups = windows_of(op), phases_of(op)
    if w is None or len(op.axis) < 3 or w.outputs is not op.axis[-1] or list(groups) != [w.outputs]:
        return None
    *places, c = w.moved
    alone = len(places) == len(op.axis) - 1 and all(
        m.axis is a for m, a in zip(places, op.axis, strict=False)
    )
    # the channel that a group begins with is of the group alone
    if not alone or c.axis is not None or c.tap is None or c.dilation != 1 or c.added is not None:
        return None
    if any(size(a) in (None, 0) for a in (*op.axis[1:], *op.reduce_axis)):
        return None
    taps = [t for t in op.reduce_axis if t is not c.tap]
    return Grouped(w.weight, w.weight_axes, w.outputs, groups[w.outputs], (*taps, c.tap))


def applies(s: Schedule, inside: Stage, target: Target, constants: Sequence[Tensor]) -> bool:
    """Whether ``inside`` is a convolution for ``apply``: of groups of some outputs, which plain tiles do not
    read in whole vectors; with pixels enough to pack a weight that comes with the call.

    Measured (Zen 5, one thread, known weights in [O, I, H, W], 3×3 where nothing is said; AVX2 in brackets),
    beside ``phases``: 64 to 64 channels of 28 × 28 in 4 groups 0.15 (0.12) of the time, in 8 0.30
    (0.13), in 16 0.85 (0.46); 60 to 60 in 20 0.79 (0.69); 21 to 96 of 33 × 34 in 3 0.06 (0.07); 14 to 28 of
    31 × 31 in 2, 5×5, 0.16 (0.15); 1×1, 64 to 192 of 28 × 28 in 2, 0.13. In [H, W, I, O] 64 to 64 in 8 groups
    0.55 (1.0), 60 to 60 in 20 1.1 (0.77); in groups of 2 outputs it would take 1.15 to 1.4.
    """
    found = grouped_of(inside)
    if found is None or in_whole_groups(inside, target):
        return False
    lanes = target.vector_lanes(inside.op.body[0].dtype)
    pixels = math.prod(size(a) or 1 for a in inside.op.axis[:-1])
    if found.each < FEWEST or not (is_known(found.weight, constants) or pixels >= PACKED_PIXELS):
        return False
    return _vectors(found, lanes) is not None


def _vectors(c: Grouped, lanes: int) -> int | None:
    """How many vectors of a group are summed together: all, or a number that divides them."""
    whole = -(-c.each // lanes)
    if whole <= MOST_VECTORS:
        return whole
    return next((v for v in (4, 3, 2, 1) if c.each % (v * lanes) == 0), None)


def apply(s: Schedule, out: Stage, inside: Stage, target: Target, constants: Sequence[Tensor]) -> None:
    """Compute the convolution ``inside`` in register tiles of ``out``, which has its shape and reads it at
    its own place."""
    c = grouped_of(inside)
    assert c is not None
    lanes, iterations = target.vector_lanes(inside.op.body[0].dtype), work(inside)
    vectors = _vectors(c, lanes) or 1
    width = min(c.each, lanes * vectors)
    n, *places, o = out.op.axis
    x = places[-1]
    high = even(size(x) or 1, max(1, (target.vector_registers - 2) // vectors - 1))
    weight = _packed(s, inside, c, width)
    loops = nest(
        out,
        {"n": n, "y": places[:-1], "x": x, "g": o},
        "(n y go) gio xo | xi gii",
        {"x": high, "g": c.each, "gi": width},
        parallel=cost_of(target).shared(iterations),
        whole=lanes,
    )
    n, *places, o = inside.op.axis
    named: Axes = {"f": [n, *places[:-1]], "k": c.deep, "p": places[-1], "o": o}
    sums(s, inside, out, loops.place, named, "f k | p o", whole=lanes)
    if not is_known(c.weight, constants):
        share_out(weight, [weight.leaf_iter_vars[0]], iterations // 16, target)


def _packed(s: Schedule, inside: Stage, c: Grouped, width: int) -> Stage:
    """The weight by groups, ``width`` of their outputs one behind the other for each term of a sum."""

    def panels(*at: Any) -> list[Any]:
        o = at[c.weight_axes[c.outputs]]
        along = [at[c.weight_axes[k]] for k in c.deep if k in c.weight_axes]
        several = [o // width % (c.each // width)] if width < c.each else []
        return [o // c.each, *several, *along, o % width]

    packed = s[s.cache_read(c.weight, "global", [inside.name])]
    packed.transform_layout(panels)
    packed.vectorize(packed.op.axis[-1])
    return packed
