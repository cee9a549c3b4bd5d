"""Integers: sums of products less zero points are taken apart, and products of int8 by int8, and of uint8 by
uint8, are computed by those of both, as default schedules have it. Knows schedules.
"""

from __future__ import annotations

from collections.abc import Iterable

import tensorlang as tl
from tensorlang.recipes import operand_to_turn, splits

from .rule import Answer, Where, untouched, ways


class Integers:
    """A processor sums products of narrow integers in pairs, and of uint8 by int8 in fours."""

    name = "integers"

    def applies(self, s: tl.Schedule, stage: tl.Stage, where: Where) -> Answer:
        """Always where it is clearly less work."""
        if not untouched(stage) or stage.state.within is not None:
            return Answer.SKIP
        turns = splits(s, stage, where.target) or operand_to_turn(s, stage, where.target) is not None
        return Answer.ALWAYS if turns else Answer.SKIP

    def apply(self, s: tl.Schedule, stage: tl.Stage, where: Where) -> Iterable[tl.Schedule]:
        """One way."""
        if splits(s, stage, where.target):
            return ways(s, lambda t: t.split_sum(stage.name))
        operand = operand_to_turn(s, stage, where.target)
        return [] if operand is None else ways(s, lambda t: t.turn_sign(stage.name, operand))
