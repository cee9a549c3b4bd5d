"""Inline: what is cheap is written into its readers (Ansor's rule "always inline"). Knows schedules."""

from __future__ import annotations

from collections.abc import Iterable

import tensorlang as tl
from tensorlang import te
from tensorlang.analysis import few_operations, operations, reads_of
from tensorlang.recipes import same_in_rows

from .choices import compared
from .rule import Answer, Where, untouched, ways
from .tiling import at_own_place, carries

FREE = 1000  # operations a body may have that is evaluated once for each element of its one reader
AGAIN = 8  # the same where it is evaluated again and again
# operations and reads of a body, and places where it is read, from which on keeping it is tried too
LARGE, PLACES = 8, 4


class Inline:
    """One element of the stage is one expression, and evaluating it again costs less than keeping it."""

    name = "inline"

    def applies(self, s: tl.Schedule, stage: tl.Stage, where: Where) -> Answer:
        """Always for what is cheap; not for outputs, reductions, what is expensive and read in many places,
        what every row would compute again, and what a choice looks for; and not for the stage in whose tiles
        an undecided reduction will be computed, unless its one reader takes that over."""
        if not untouched(stage) or stage.op.reduce_axis or stage.state.is_output:
            return Answer.SKIP
        readers = s.state.readers(stage.name)
        if any(not isinstance(r.op, te.ComputeOp) for r in readers) or compared(s, stage):
            return Answer.SKIP
        reads = [
            indices for r in readers for t, indices in reads_of(r.compute).plain if t in stage.op.outputs
        ]
        again = (
            len({tuple(map(id, indices)) for indices in reads}) > 1
            or len(readers) > 1
            or any(r.compute.reduce_axis for r in readers)
        )
        if not few_operations(stage.op, AGAIN if again else FREE) or not s.can("compute_inline", stage.name):
            return Answer.SKIP
        if any(same_in_rows(r.compute, stage, where.target) for r in readers):
            return Answer.SKIP
        heir = s[readers[0].name] if len(readers) == 1 and isinstance(readers[0].op, te.ComputeOp) else None
        passes_on = (
            heir is not None and untouched(heir) and not heir.op.reduce_axis and at_own_place(heir, stage)
        )
        if carries(s, stage) and not passes_on:
            return Answer.SKIP
        large = operations(stage.op.body) + len(reads_of(stage.op).plain) >= LARGE
        return Answer.APPLY if large and len(reads) >= PLACES else Answer.ALWAYS

    def apply(self, s: tl.Schedule, stage: tl.Stage, where: Where) -> Iterable[tl.Schedule]:
        """One way."""
        return ways(s, lambda t: t[stage.name].compute_inline())
