"""Windows: what a reduction over windows reads with a margin, or at places that are no sums, becomes a stage
of its own, as default schedules have it. Knows schedules.
"""

from __future__ import annotations

from collections.abc import Iterable

import tensorlang as tl

from .rule import Answer, Where, untouched, ways


class Windows:
    """A place is asked about or computed once, and not for each tap."""

    name = "windows"

    def applies(self, s: tl.Schedule, stage: tl.Stage, where: Where) -> Answer:
        """Always where it is less work."""
        if not untouched(stage) or stage.state.within is not None:
            return Answer.SKIP
        return Answer.ALWAYS if s.can("cache_windows", stage.name) else Answer.SKIP

    def apply(self, s: tl.Schedule, stage: tl.Stage, where: Where) -> Iterable[tl.Schedule]:
        """One way."""
        return ways(s, lambda t: t.cache_windows(stage.name))
