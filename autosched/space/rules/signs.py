"""Signs: products of int8 by int8, and of uint8 by uint8, are computed by those of both, as default schedules
have it. Knows schedules.
"""

from __future__ import annotations

from collections.abc import Iterable

import tensorlang as tl
from tensorlang.recipes import operand_to_turn

from .rule import Answer, Where, untouched, ways


class Signs:
    """A processor sums products of both types in fours, and of one in pairs."""

    name = "signs"

    def applies(self, s: tl.Schedule, stage: tl.Stage, where: Where) -> Answer:
        """Always where it is clearly less work."""
        if not untouched(stage) or stage.state.within is not None:
            return Answer.SKIP
        return Answer.SKIP if operand_to_turn(s, stage, where.target) is None else Answer.ALWAYS

    def apply(self, s: tl.Schedule, stage: tl.Stage, where: Where) -> Iterable[tl.Schedule]:
        """One way."""
        operand = operand_to_turn(s, stage, where.target)
        return [] if operand is None else ways(s, lambda t: t.turn_sign(stage.name, operand))
