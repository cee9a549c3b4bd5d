"""The form of a sketch rule, and what rules see. Knows tensorlang's public names; nothing of tasks, search or
measurement.

A rule looks at one stage of an unfinished schedule and gives the schedules that go on from there, as in Ansor
(Zheng et al., "Ansor: Generating High-Performance Tensor Programs for Deep Learning", OSDI 2020, section
4.1). Tile sizes stay open (``s.sample_tile``), so what comes out is a trace with knobs.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import tensorlang as tl
from tensorlang import te
from tensorlang.analysis import constant, cost_of, typical
from tensorlang.boundary import shown


class Answer(enum.Enum):
    """Whether a rule has something to say about a stage: nothing; one way among others; the only way that
    makes sense."""

    SKIP = "skip"
    APPLY = "apply"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True)
class Where:
    """What a sketch is made for."""

    target: tl.Target

    def lanes(self, stage: tl.Stage) -> int:
        """Elements of a stage's type in one vector."""
        return self.target.vector_lanes(stage.op.body[0].dtype)

    def threads(self, work: int) -> list[bool]:
        """Whether this many iterations may be shared out: no, yes, or both, the likely one first."""
        table = cost_of(self.target)
        if self.target.num_cores == 1 or not table.perhaps_shared(work):
            return [False]
        return [True] if table.shared(work) else [True, False]


class Rule(Protocol):
    """One way to schedule a stage. ``name`` is shown with the sketches it made."""

    name: str

    def applies(self, s: tl.Schedule, stage: tl.Stage, where: Where) -> Answer:
        """Whether the rule knows what to do with ``stage``; changes nothing."""

    def apply(self, s: tl.Schedule, stage: tl.Stage, where: Where) -> Iterable[tl.Schedule]:
        """The schedules that go on from ``s``, each a copy, likely ones first; best made as they are asked
        for (see ``ways``)."""


@dataclass(frozen=True, slots=True)
class FunctionRule:
    """A rule made of two functions: what the decorator ``rule`` gives."""

    name: str
    condition: Callable[[tl.Schedule, tl.Stage, Where], Answer | bool]
    action: Callable[[tl.Schedule, tl.Stage, Where], Iterable[tl.Schedule] | tl.Schedule]

    def applies(self, s: tl.Schedule, stage: tl.Stage, where: Where) -> Answer:
        """The condition's answer; True counts as one way among others."""
        said = self.condition(s, stage, where)
        return said if isinstance(said, Answer) else Answer.APPLY if said else Answer.SKIP

    def apply(self, s: tl.Schedule, stage: tl.Stage, where: Where) -> Iterable[tl.Schedule]:
        """What the action makes of a copy; nothing when it is refused, or leaves a stage waiting for its
        place."""
        trial = s.copy()
        try:
            made = self.action(trial, trial[stage.name], where)
        except tl.ScheduleError:
            return []
        return [x for x in ([made] if isinstance(made, tl.Schedule) else made) if not x.pending]


def rule(applies: Callable[[tl.Schedule, tl.Stage, Where], Answer | bool]) -> Callable[..., FunctionRule]:
    """A rule from a function: ``@rule(applies=…)`` over ``def my_rule(s, stage, where)`` that returns
    schedules made from ``s.copy()``."""

    def made(action: Callable[..., Any]) -> FunctionRule:
        if not callable(action) or not hasattr(action, "__name__"):
            raise tl.TensorLangError(
                f"rule(…)({shown(action)}): not a function with a name",
                try_="@rule(applies) over def my_rule(s, stage, where)",
            )
        return FunctionRule(action.__name__, applies, action)

    return made


Way = Callable[[tl.Schedule], object]


def ways(s: tl.Schedule, *attempts: Way) -> Iterator[tl.Schedule]:
    """A copy of the schedule for each attempt, changed by it when it is asked for; those that are refused, or
    leave a stage waiting for its place, are left out."""
    for attempt in attempts:
        trial = s.copy()
        try:
            attempt(trial)
        except tl.ScheduleError:
            continue
        if not trial.pending:
            yield trial


def untouched(stage: tl.Stage) -> bool:
    """Whether a stage computes something and nothing was decided about it."""
    st = stage.state
    return (
        isinstance(stage.op, te.ComputeOp)
        and not st.is_opaque
        and (st.attach is None or inside_scan(stage))
        and not st.relations
        and not st.kinds
    )


def inside_scan(stage: tl.Stage) -> bool:
    """Whether a stage hangs on the state of a scan and stands in its loop, as it was declared."""
    st = stage.state
    return st.within is not None and getattr(st.attach, "stage", None) == st.within


def sizes(stage: tl.Stage) -> list[int | None]:
    """The extents of the axes and reduction axes; None for a symbolic one."""
    return [constant(a.extent) for a in (*stage.op.axis, *stage.op.reduce_axis)]


def empty(stage: tl.Stage) -> bool:
    """Whether a stage has no elements or no iterations: there is nothing to tune."""
    return 0 in sizes(stage)


def iterations(stage: tl.Stage) -> int:
    """Iterations of the body, counting a symbolic size by its hint."""
    total = 1
    for a in (*stage.op.axis, *stage.op.reduce_axis):
        total *= typical(a.extent, 64)
    return total
