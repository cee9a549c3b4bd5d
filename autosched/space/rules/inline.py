"""Inline: what is cheap is written into its readers (Ansor's rule "always inline"). Knows schedules."""

from __future__ import annotations

from collections.abc import Sequence

import tensorlang as tl
from tensorlang.analysis import cost, reads_of

from .rule import Answer, Where, untouched, ways

FREE = 1000  # operations a body may have that is evaluated once for each element of its one reader
AGAIN = 8  # the same where it is evaluated again and again


class Inline:
    """One element of the stage is one expression, and evaluating it again costs less than keeping it."""

    name = "inline"

    def applies(self, s: tl.Schedule, stage: tl.Stage, where: Where) -> Answer:
        """Always for what is cheap; not for outputs, reductions and what is dear and read in many places."""
        if not untouched(stage) or stage.op.reduce_axis or not s.can("compute_inline", stage.name):
            return Answer.SKIP
        readers = s.state.readers(stage.name)
        reads = [indices for r in readers for t, indices in reads_of(r.compute).plain if t in stage.op.outputs]
        again = len({tuple(map(id, indices)) for indices in reads}) > 1 or len(readers) > 1 or any(r.compute.reduce_axis for r in readers)
        return Answer.ALWAYS if cost(stage.op.body) <= (AGAIN if again else FREE) else Answer.SKIP

    def apply(self, s: tl.Schedule, stage: tl.Stage, where: Where) -> Sequence[tl.Schedule]:
        """One way."""
        return ways(s, lambda t: t[stage.name].compute_inline())
