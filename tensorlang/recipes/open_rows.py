"""Elementwise stages whose rows are of an open length, where a call tells that a few vectors hold one: so
many vectors under masks for each row. The loop over the vectors of a row stands outside of that over rows, so
that the masks, and what is the same for all rows, are made once. So are small matrices transposed, each a row
that is put in order in a register. Uses public primitives only.

Measured (Zen 5, one thread), 1000 rows of 3 floats of an open length: a bias 1.57 → 0.48 µs, flipped 1.30 →
0.47, a triangle 2.2 → 0.95, 1000 × 5 × 3 with a scale for the axis between 8.5 → 3.5; of 16 as before.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis import constant, reads_of, step
from ..schedule import Stage
from ..target import Target
from ..te import IterVar
from .choices import at_most
from .common import size

# elements of a small matrix, of which some are in the next register: more are more code
SMALL = 64
# vectors that hold a row of an open length, each number of them code of its own. Measured (Zen 5, one
# thread), beside loops over the vectors of a row: a bias of 300 rows of 17 takes 0.43 of the time, of 40 0.7
FEW = (1, 2, 4)
# the same of a row that is reduced, with all that is made of it. Measured (Zen 5, one thread, 1000 rows of
# 17, 40 and 65 floats): sums 0.38, 0.5 and 0.75 of the time, the largest 0.37, 0.5 and 0.8, softmax 0.28,
# 0.48 and 0.85, layer norm 0.44, 0.5 and 0.7; beside rows of a known length 1.1, 1.3 and 1.5
FEW_REDUCED = (1, 2, 4, 8)


def elements_at_most(row: IterVar, lanes: int, vectors: Sequence[int]) -> int | None:
    """The elements of the fewest ``vectors`` of ``lanes`` that hold a row; None where it may be longer."""
    return next((n * lanes for n in vectors if at_most(row.extent, n * lanes)), None)


def in_few_vectors(stage: Stage, row: IterVar, width: int, lanes: int) -> None:
    """A row of so many elements at most, in vectors of ``lanes`` that are written out, each with a mask."""
    _written_out(stage, stage.split(row, width, tail="mask")[1], width, lanes)


def _written_out(stage: Stage, row: IterVar, width: int, lanes: int) -> None:
    """So many elements, in vectors of ``lanes``."""
    if width > lanes:
        vectors, row = stage.split(row, lanes)
        stage.unroll(vectors)
    stage.vectorize(row)


def width_of(stage: Stage, front: Sequence[IterVar], row: IterVar, target: Target) -> tuple[int, int] | None:
    """The elements of a few vectors that a row of an open length fits into, behind the axes ``front``, and of
    one: of the widest type that is read or written. None where a row may be longer, and where there are no
    masks: a row would be taken apart by tests."""
    if size(row) is not None or not target.has_masks or all(size(a) == 1 for a in front):
        return None
    kinds = [stage.op.body[0].dtype, *(tensor.dtype for tensor, _ in reads_of(stage.op).plain)]
    lanes = min(target.vector_lanes(kind) for kind in kinds)
    width = elements_at_most(row, lanes, FEW) if lanes > 1 else None
    return None if width is None else (width, lanes)


def matrices(
    stage: Stage, front: Sequence[IterVar], target: Target, vectors: Sequence[int] = (2, 4)
) -> int | None:
    """So many elements that the axes of a copy behind ``front`` are no more, of which some are of an open
    length, where it reads what it writes there: those of so many ``vectors``. None where they may be more.

    Measured (Zen 5, one thread), 1000 of 5 × 3 floats: 14.0 → 1.2 µs, of 5 × 5 16.2 → 1.2, of 8 × 7 23.5 →
    3.0, which were gathered in tiles; 1000 of 3 × 2 that are joined, in one vector, 2.4 → 0.74.
    """
    op, behind = stage.op, stage.op.axis[len(front) :]
    extent, kind = behind[0].extent, op.body[0].dtype
    for a in behind[1:]:
        extent = extent * a.extent
    lanes = target.vector_lanes(kind)
    if constant(extent) is not None or not target.has_masks or all(size(a) == 1 for a in front):
        return None
    # what lies in memory by fewer of these axes is a row too, and what is the same for all of them
    same = all(
        (len(at) > len(front) and all(i is a.var for i, a in zip(at, front, strict=False)))
        or not any(step(i, a) != 0 for i in at for a in front)
        for _, at in reads_of(op).plain
    )
    if not same or lanes < 2:
        return None
    most = max(lanes, SMALL)
    return next((n for n in dict.fromkeys(min(v * lanes, most) for v in vectors) if at_most(extent, n)), None)


def row_by_row(
    stage: Stage, front: Sequence[IterVar], row: IterVar, width: int, lanes: int | None = None
) -> list[IterVar]:
    """Compute rows of so many elements each in vectors of ``lanes`` (None: in one); the loops over rows."""
    outer, inner = stage.split(row, width, tail="mask")  # whole vectors are no quicker, and a copy more
    stage.reorder(outer, *front, inner)
    _written_out(stage, inner, width, lanes or width)
    return list(front)
