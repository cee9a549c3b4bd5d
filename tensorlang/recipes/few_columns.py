"""Reductions over the rows of matrices of a few columns, as the mean colour of an image, or the least and the
largest coordinates of points: rows side by side that fill registers are a vector of partial results, and
these are reduced at the end. Uses public primitives only.

A vector of one row is mostly empty, is read under a mask, and waits for the one before. Measured (Zen 4, one
thread, AVX2 and two threads alike): 20,003 rows of 2, 3, 5, 7 and 10 floats take 0.12, 0.16, 0.25, 0.36 and
0.51 of the time, of 14 0.78, of bytes 0.12 to 0.33, the sums of three colours of 480 × 640 floats 0.16, their
largest bytes 0.02, 400 times 64 points 0.45, 129 points 0.86.
"""

from __future__ import annotations

import math

from ..analysis import cost_of, typical
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import IterVar
from . import whole_rows
from .common import in_registers, share_out, size, work
from .lanes import one_stretch

CHAINS = 2  # vectors of partial results, of which none waits for the addition before
OPEN = 64  # rows that an open number counts as
OPEN_GROUP = 1024  # rows that a thread takes together, of an open number of them
AGAIN = 4  # times that partial results are added to, at least
# columns and elements of matrices of which several are side by side in a vector of results
NARROW, SMALL = 3, 12


def rows_of(stage: Stage, target: Target) -> int | None:
    """How many rows side by side are the partial results of a stage that reduces columns; None where a row
    fills vectors by itself, or where there are too few."""
    rows = in_vectors(size(stage.op.axis[-1]), target.vector_lanes(stage.op.body[0].dtype))
    if rows is None:
        return None
    last = typical(_together(stage)[-1].extent, OPEN)
    each = math.prod(typical(a.extent, OPEN) for a in _together(stage))
    return rows if each >= AGAIN * rows and (each > last or last >= AGAIN * rows) else None


def in_vectors(n: int | None, lanes: int) -> int | None:
    """How many rows of ``n`` columns side by side fill vectors, enough that none waits for another."""
    rows = whole_rows.filling(n, lanes)
    return None if n is None or rows is None else rows * max(1, CHAINS * lanes // (rows * n))


def of_groups(stage: Stage, target: Target) -> bool:
    """Whether a stage that reduces columns does so in so small matrices that vectors of the results of
    several are filled from what lies side by side, as means of groups of points are.

    Measured (Zen 4, one thread, AVX2 alike), of 2 to 4 rows of 2 and 3 floats 0.52 to 1.05 of the time, of
    bytes 0.27 to 0.55; of larger ones up to 8.
    """
    if whole_rows.rows_of(stage, target) is None:
        return False
    n, sizes = size(stage.op.axis[-1]) or 0, [size(a) or SMALL + 1 for a in stage.op.reduce_axis]
    return n <= NARROW and math.prod(sizes) * n <= SMALL


def apply(s: Schedule, stage: Stage, rows: int, target: Target) -> None:
    """Reduce so many ``rows`` side by side, and then these, at the root."""
    iterations, cores = work(stage), target.num_cores
    front, found = stage.op.axis[:-1], _together(stage)
    row = stage.fuse(*found) if len(found) > 1 else found[0]
    sizes = [size(a) for a in found]
    each = None if None in sizes else math.prod(n or 0 for n in sizes)
    many = each is None or each >= 2 * AGAIN * cores * rows
    if many and cores > 1 and cost_of(target).shared(iterations) and all(size(a) == 1 for a in front):
        group, _ = stage.split(row, OPEN_GROUP) if each is None else stage.split(row, nparts=cores)
        if s.can("rfactor", stage.name, group):
            own = s[s.rfactor(stage.name, group)]
            side_by_side(s, own, own.op.reduce_axis[-1], rows)
            own.parallel(own.op.axis[0])
            stage.vectorize(stage.op.axis[-1])
            return
    side_by_side(s, stage, row, rows)
    if front:
        share_out(stage, list(front), iterations, target)


def side_by_side(s: Schedule, stage: Stage, row: IterVar, rows: int) -> None:
    """Reduce a stage by partial results of so many of its rows together, in registers, for each matrix."""
    front = stage.op.axis[:-1]
    _, inner = stage.split(row, rows)
    part = s[s.rfactor(stage.name, inner)]
    sums = s[s.cache_write(part.name, "local")]  # what is picked apart later stays in no register
    own, *_, column = part.op.axis
    place, own = part.split(own, rows)
    part.reorder(place, *part.op.axis[1:-1], own, column)
    part.vectorize(part.fuse(own, column))
    sums.compute_at(part, place)
    own, *_, column = sums.op.axis
    sums.reorder(*sums.op.axis[1:-1], *sums.op.reduce_axis, own, column)
    sums.vectorize(sums.fuse(own, column))
    if front:
        part.compute_at(stage, stage.op.axis[-2])
    in_registers(s, part)
    stage.reorder(*front, *stage.op.reduce_axis, stage.op.axis[-1])
    stage.vectorize(stage.op.axis[-1])


def _together(stage: Stage) -> list[IterVar]:
    """The reduced axes that are rows of one stretch of memory, the last of all at least."""
    return one_stretch(stage.op, [*stage.op.reduce_axis, stage.op.axis[-1]])[:-1] or [
        stage.op.reduce_axis[-1]
    ]
