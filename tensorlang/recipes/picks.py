"""Columns picked by places that are data, the same in every row: where a processor gathers slowly, one by
one, for some rows together, which read a place once. Uses public primitives only.
"""

from __future__ import annotations

from ..analysis import cost_of, picks_columns
from ..schedule import Stage
from ..target import Target
from ..te import IterVar
from .common import share_out, size, work

# together. Measured (Zen 4, one thread): 1100 of 1100 columns of 700 rows take 0.64 of the time of gathers,
# of 24 rows of 512 0.65, 40 of 64 columns of 3000 rows 0.78; eight rows 0.65, 0.70 and 0.78, one 1.2 to 1.5
ROWS = 4


def rows_of(stage: Stage, target: Target) -> IterVar | None:
    """The axis of rows to take together, where the stage picks columns and it pays; else None."""
    if cost_of(target).gathered <= 1:
        return None
    rows = [a for a in picks_columns(stage.op) if (size(a) or 0) >= ROWS]
    return rows[-1] if rows else None


def apply(stage: Stage, rows: IterVar, target: Target) -> None:
    """Schedule the stage for which :func:`rows_of` found ``rows``."""
    iterations = work(stage)
    # a rest is rows that overlap those before, unless threads share them out
    tail = "auto" if cost_of(target).shared(iterations) else "shift"
    outer, some = stage.split(rows, ROWS, tail=tail)
    *others, last = stage.op.axis
    loops = [outer if a is rows else a for a in others]
    stage.reorder(*loops, last, some)
    stage.unroll(some)
    share_out(stage, loops, iterations, target)
