"""Choices: a reduction that takes one of two tuples by comparing one part, as argmax does, finds the extreme
and its place first, as default schedules have it. Knows schedules.

Vectors know these two reductions, and no reducer of a user's: what is left of that runs over the one place.
What they compare is kept where it is computed: written into both, it could be rounded in another way when
it is looked for.
"""

from __future__ import annotations

from collections.abc import Iterable

import tensorlang as tl
from tensorlang import te
from tensorlang.recipes import chooses_along

from .rule import Answer, Where, empty, untouched, ways


class Choices:
    """Where elements are compared that lie along memory, and there are enough of them."""

    name = "choices"

    def applies(self, s: tl.Schedule, stage: tl.Stage, where: Where) -> Answer:
        """Always where it is clearly less work."""
        if not untouched(stage) or stage.state.within is not None or empty(stage):
            return Answer.SKIP
        return Answer.ALWAYS if chooses_along(s, stage) else Answer.SKIP

    def apply(self, s: tl.Schedule, stage: tl.Stage, where: Where) -> Iterable[tl.Schedule]:
        """One way."""
        return ways(s, lambda t: t.split_choice(stage.name))


def compared(s: tl.Schedule, stage: tl.Stage) -> bool:
    """Whether a choice that was taken apart looks for an element of a stage that is equal to another."""
    split = [str(p.arguments()["stage"]) for p in s.trace.steps if p.name == "split_choice"]
    parts = {name for whole in split for name in _made_of(s, whole)}
    return any(r.name in parts for r in s.state.readers(stage.name))


def _made_of(s: tl.Schedule, whole: str) -> list[str]:
    """The reductions that a stage is made of: those that nothing else reads, and theirs."""
    found: list[str] = []
    at = [whole]
    while at:
        name = at.pop()
        before = [s[s.state.of(t).name] for t in s[name].op.input_tensors]
        own = [
            st.name
            for st in before
            if isinstance(st.op, te.ComputeOp)
            and st.op.reduce_axis
            and all(r.name in (name, whole, *found) for r in s.state.readers(st.name))
        ]
        found += own
        at += own
    return found
