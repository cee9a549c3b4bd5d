"""Rows of a few elements, as the colours of a pixel or the coordinates of a point: whole rows side by side in
a vector, as many as fill registers. What a row has one of is spread over its elements in registers, and what
a column has one of is a vector of its own. Uses public primitives only.

A vector of one row leaves most lanes empty, and is written under a mask. Measured (Zen 4, one thread; AVX2
alike), three colours of 480 × 640: bytes less a mean 0.12 of the time, two images blended 0.13, colours
turned 0.08, cross products of points 0.12; in the caches rows of 2 to 10 floats 0.5 to 0.9, of 12 to 15 1.0
(turned 1.4), exponentials 0.27 to 0.7, bytes 0.1 to 0.6.
"""

from __future__ import annotations

import math

from ..analysis import cost_of, reads_of, step, told_by_data, typical
from ..schedule import Stage
from ..target import Target
from ..te import IterVar
from .common import plain_work, share_out, size

MOST = 7  # registers that rows of an odd number of elements fill
OPEN = 64  # rows that an open number counts as


def rows_of(stage: Stage, target: Target) -> int | None:
    """How many rows of an elementwise stage fill registers; None where a row does by itself, where there are
    too few, or where columns, or places that are data, are what lies side by side."""
    if len(stage.op.axis) < 2:
        return None
    lanes = target.vector_lanes(stage.op.body[0].dtype)
    *_, row, column = stage.op.axis
    n = size(column)
    if n is None or not 2 <= n < lanes:
        return None
    for _, at in reads_of(stage.op).plain:
        if told_by_data(at):
            return None
        if step(at[-1], row) != 0 and any(step(i, column) != 0 for i in at[:-1]):
            return None
    rows = lanes // math.gcd(n, lanes)
    return rows if rows * n <= MOST * lanes and typical(row.extent, OPEN) >= rows else None


def apply(stage: Stage, rows: int, target: Target) -> None:
    """Compute whole rows of an elementwise stage in a vector, ``rows`` together."""
    front, iterations = list(stage.op.axis[:-2]), plain_work(stage)
    several = any(size(a) != 1 for a in front)
    # a rest is rows that overlap those before, unless threads share them out
    shift = several or not cost_of(target).shared(iterations)
    outer, _ = split(stage, rows, "shift" if shift else "peel")
    share_out(stage, front if several else [*front, outer], iterations, target)


def split(stage: Stage, rows: int, tail: str) -> tuple[IterVar, IterVar]:
    """The loop over the vectors of whole rows, and the vector."""
    *_, row, column = stage.op.axis
    outer, inner = stage.split(row, rows, tail=tail)
    lanes = stage.fuse(inner, column)
    stage.vectorize(lanes)
    return outer, lanes
