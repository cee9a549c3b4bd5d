"""``f.explain()``: why a kernel runs as it does: what its stages were taken for, which loops are vectors and
which are scalar, what is shared out among threads, and what the table of costs counts. Knows schedules, loop
IR and the table. Engines report which operators of a model share a kernel, a dynamic kernel which plan
runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .analysis import Innermost, constant, cost_of, costs_text, innermost, iterations_of, least_for_a_thread
from .entries import public
from .errors import TensorLangError, counted
from .loopir.stmt import Func
from .schedule.schedule import Schedule
from .target import Target
from .te.tensor import ComputeOp


@public(TensorLangError, "explanation", text="plain", page="explanation", made="f.explain()")
@dataclass(frozen=True)
class KernelExplanation:
    """What ``f.explain()`` tells; printed, it is text, and a table in a notebook.

    ``stages`` says of each stage how it is computed and why, ``loops`` are those that compute something, with
    their lanes, iterations and cycles, ``threads`` says what is parallel, or why nothing is; ``costs`` names
    the table by its digest and ``cycles`` are what it counts for a call on one core. No clock is asked.
    """

    name: str
    target: str
    stages: Mapping[str, str]
    loops: Sequence[Innermost]
    threads: str
    costs: str

    @property
    def cycles(self) -> float:
        """Cycles of a call on one core, open sizes at their hints."""
        return sum(x.cycles for x in self.loops)

    @property
    def is_scalar(self) -> bool:
        """Whether most of the cycles are spent in scalar loops."""
        return 2 * sum(x.cycles for x in self.loops if x.is_scalar) > self.cycles

    @property
    def summary(self) -> str:
        """One line: vectors or scalar loops, and what they take."""
        lanes = max((x.lanes for x in self.loops), default=1)
        kind = "in scalar loops" if self.is_scalar else f"in vectors of up to {lanes} elements"
        return f"{self.name} for {self.target}: {kind}, {self.cycles:,.0f} cycles by the table"

    def __str__(self) -> str:
        lines = [self.summary]
        lines += [f"  {name}: {why}" for name, why in self.stages.items()]
        lines.append(f"  threads: {self.threads}")
        lines += [f"  {f'loop {x.loops[-1]}' if x.loops else 'once'}: {loop_text(x)}" for x in self.loops]
        return "\n".join([*lines, f"  {self.costs}"])


def loop_text(x: Innermost) -> str:
    """What an innermost loop does, in words."""
    made = "scalar code, one element" if x.is_scalar else f"vectors of {x.lanes} elements"
    made = f"tiles of a matrix unit, rows of {x.lanes} sums" if x.in_tiles else made
    divided = ", divides an index" if x.divides else ""
    counts = f"{x.iterations:,} iterations, {x.cycles:,.0f} cycles"
    return f"{', '.join(x.writes)} in {made}{divided}; {counts}"


def explained(
    name: str, func: Func, target: Target, schedule: Schedule | None, why: Mapping[str, str]
) -> KernelExplanation:
    """The explanation of a kernel that was made of ``func``; ``why`` is what a recipe says of its stages."""
    cost = cost_of(target)
    loops = innermost(func, target, cost)
    return KernelExplanation(
        name,
        target.mcpu,
        _stages(schedule, why),
        loops,
        _threads(loops, schedule, target),
        costs_text(target),
    )


def _stages(schedule: Schedule | None, why: Mapping[str, str]) -> dict[str, str]:
    """Of each stage that is computed how: as a recipe chose, or as the steps of a schedule say."""
    if schedule is None:
        return {"the loops": "given as loop IR, whoever made it"}
    if not why:
        steps = len(schedule.trace.steps)
        return {
            "the schedule": f"{counted(steps, 'step')} by hand or of a search"
            if steps
            else "plain loops, no step"
        }
    inlined = {
        st.name: "written into what reads it"
        for st in schedule.state.stages
        if not st.is_placeholder and st.attach == "inlined"
    }
    return {**inlined, **why}


def _threads(loops: Sequence[Innermost], schedule: Schedule | None, target: Target) -> str:
    """What is shared out, or why nothing is."""
    parallel = dict.fromkeys(x.parallel for x in loops if x.parallel)
    stages = () if schedule is None else schedule.state.stages
    computed = [st.compute for st in stages if isinstance(st.op, ComputeOp)]
    if parallel:
        is_open = any(constant(a.extent) is None for op in computed for a in (*op.axis, *op.reduce_axis))
        how = ", in as many parts as the sizes of a call are worth" if is_open else ""
        return f"{', '.join(f'`{p}`' for p in parallel)} shared out{how}"
    if schedule is None:
        return "nothing is parallel"
    work, op = max(((iterations_of(op), op) for op in computed), key=lambda pair: pair[0])
    least = least_for_a_thread(op, target)
    if work < least:
        return f"serial: `{op.name}` has {work:,} iterations, and from {least:,} on a second thread pays"
    return f"serial: `{op.name}` has {work:,} iterations, but no step of the schedule shares them out"
