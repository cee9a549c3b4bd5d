"""Reductions over the rows of matrices of a few columns, as the mean colour of an image, or the least and the
largest coordinates of points: rows side by side that fill registers are a vector of partial results, and
these are reduced at the end. Uses public primitives only.

A vector of one row is mostly empty, is read under a mask, and waits for the one before. Measured (Zen 4, one
thread, AVX2 and two threads alike): 20,003 rows of 2, 3, 5, 7 and 10 floats take 0.12, 0.16, 0.25, 0.36 and
0.51 of the time, of 14 0.78, of bytes 0.12 to 0.33, the sums of three colours of 480 × 640 floats 0.16, their
largest bytes 0.02, 400 times 64 points 0.45, 129 points 0.86.

Columns are all that lies behind the reduced axes, of several axes too. Rows that fill no vectors together, as
15 or 21 of them would, or too few for that, nearly fill them: 6001 rows of 15 floats take 0.44 of the time,
of 13 0.59, of 15 bytes 0.32, 301 times 99 × 3 bytes 0.27, 300 times 40 × 11 floats 0.58, 30 × 7 bytes 0.65.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..analysis import cost_of, reads_of, step, typical
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import IterVar
from . import whole_rows
from .as_one import elements_of, one_stretch
from .common import in_registers, share_out, size, work

CHAINS = 2  # vectors of partial results, of which none waits for the addition before
OPEN = 64  # rows that an open number counts as
OPEN_GROUP = 1024  # rows that a thread takes together, of an open number of them
MOST = 8  # vectors of rows that nearly fill them
ADDED = 2  # vectors that take as long as one of the partial results in the end
WORTH = 0.7  # of the vectors of rows that are read one by one
AGAIN = 4  # times that partial results are added to, at least
# columns and elements of matrices of which several are side by side in a vector of results
NARROW, SMALL = 3, 12


def rows_of(stage: Stage, columns: Sequence[IterVar], target: Target) -> int | None:
    """How many rows side by side are the partial results of a stage that reduces ``columns``, its last axes;
    None where a row fills vectors by itself, or where there are too few."""
    n, lanes = elements_of(columns), target.vector_lanes(stage.op.body[0].dtype)
    found = _together(stage, len(columns))
    if not _adjoin(stage, [found[-1], *columns]):
        return None
    last = typical(found[-1].extent, OPEN)
    each = math.prod(typical(a.extent, OPEN) for a in found)
    most = each // AGAIN if each > last else last // AGAIN
    rows = in_vectors(n, lanes)
    return rows if rows is not None and rows <= most else _nearly(n, lanes, most, each)


def _adjoin(stage: Stage, axes: Sequence[IterVar]) -> bool:
    """Whether what is read along the first of these axes is rows of the others, and lies nowhere else."""
    return all(
        len(at) >= len(axes) and all(i is a.var for i, a in zip(at[-len(axes) :], axes, strict=True))
        for _, at in reads_of(stage.op).plain
        if any(step(i, axes[0]) != 0 for i in at)
    )


def in_vectors(n: int | None, lanes: int) -> int | None:
    """How many rows of ``n`` columns side by side fill vectors, enough that none waits for another."""
    rows = whole_rows.filling(n, lanes)
    return None if n is None or rows is None else rows * max(1, CHAINS * lanes // (rows * n))


def _nearly(n: int | None, lanes: int, most: int, each: int) -> int | None:
    """The same of up to so many rows, of ``each`` that a matrix has, which nearly fill vectors: what is left
    over is in parts of one."""
    if n is None or not 2 <= n < lanes:
        return None
    most, end = min(most, MOST * lanes // n), ADDED * _vectors(n, lanes)
    found = [(each * _vectors(rows * n, lanes) / rows + end * rows, rows) for rows in range(2, most + 1)]
    time, rows = min(found, default=(math.inf, 0))
    return rows if time < WORTH * each * _vectors(n, lanes) else None


def _vectors(elements: int, lanes: int) -> int:
    """Vectors that have so many elements, the parts of the last one among them: half of one, a quarter, …"""
    return elements // lanes + (elements % lanes).bit_count()


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


def apply(s: Schedule, stage: Stage, columns: int, rows: int, target: Target) -> None:
    """Reduce so many ``rows`` of the last axes, so many ``columns``, side by side, and then these, at the
    root."""
    iterations, cores = work(stage), target.num_cores
    front, found = stage.op.axis[:-columns], _together(stage, columns)
    row = stage.fuse(*found) if len(found) > 1 else found[0]
    sizes = [size(a) for a in found]
    each = None if None in sizes else math.prod(n or 0 for n in sizes)
    many = each is None or each >= 2 * AGAIN * cores * rows
    if many and cores > 1 and cost_of(target).shared(iterations) and all(size(a) == 1 for a in front):
        group, _ = stage.split(row, OPEN_GROUP) if each is None else stage.split(row, nparts=cores)
        if s.can("rfactor", stage.name, group):
            own = s[s.rfactor(stage.name, group)]
            side_by_side(s, own, own.op.reduce_axis[-1], rows, columns)
            own.parallel(own.op.axis[0])
            stage.vectorize(_one(stage, columns))
            return
    side_by_side(s, stage, row, rows, columns)
    if front:
        share_out(stage, list(front), iterations, target)


def side_by_side(s: Schedule, stage: Stage, row: IterVar, rows: int, columns: int = 1) -> None:
    """Reduce a stage by partial results of so many of its rows together, in registers, for each matrix."""
    front = stage.op.axis[:-columns]
    _, inner = stage.split(row, rows)
    part = s[s.rfactor(stage.name, inner)]
    sums = s[s.cache_write(part.name, "local")]  # what is picked apart later stays in no register
    own, *between = part.op.axis[:-columns]
    place, own = part.split(own, rows)
    part.reorder(place, *between, own, *part.op.axis[-columns:])
    part.vectorize(part.fuse(own, *part.op.axis[-columns:]))
    sums.compute_at(part, place)
    own, *between = sums.op.axis[:-columns]
    sums.reorder(*between, *sums.op.reduce_axis, own, *sums.op.axis[-columns:])
    sums.vectorize(sums.fuse(own, *sums.op.axis[-columns:]))
    if front:
        part.compute_at(stage, front[-1])
    in_registers(s, part)
    column = _one(stage, columns)
    stage.reorder(*front, *stage.op.reduce_axis, column)
    stage.vectorize(column)


def _one(stage: Stage, columns: int) -> IterVar:
    """The loop over all columns."""
    found = stage.op.axis[-columns:]
    return stage.fuse(*found) if columns > 1 else found[0]


def _together(stage: Stage, columns: int) -> list[IterVar]:
    """The reduced axes that are rows of one stretch of memory, the last of all at least."""
    axes = [*stage.op.reduce_axis, *stage.op.axis[-columns:]]
    return one_stretch(stage.op, axes)[:-columns] or [stage.op.reduce_axis[-1]]
