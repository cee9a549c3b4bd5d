"""Terms: what every row of a formula would compute again becomes a stage of its own, as default schedules
have it. Knows schedules.
"""

from __future__ import annotations

from collections.abc import Iterable

import tensorlang as tl
from tensorlang.recipes import dear_term, hold_terms

from .rule import Answer, Where, untouched, ways


class Terms:
    """A dear term depends on some axes alone, and others would compute it again."""

    name = "terms"

    def applies(self, s: tl.Schedule, stage: tl.Stage, where: Where) -> Answer:
        """Always where it is clearly less work."""
        if not untouched(stage) or stage.state.within is not None:
            return Answer.SKIP
        return Answer.SKIP if dear_term(s, stage, where.target) is None else Answer.ALWAYS

    def apply(self, s: tl.Schedule, stage: tl.Stage, where: Where) -> Iterable[tl.Schedule]:
        """One way."""
        return ways(s, lambda t: hold_terms(t, t[stage.name], where.target))
