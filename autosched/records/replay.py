"""Traces from files and other machines, applied within bounds: so many steps, so much unrolled, so much memory. Knows tensorlang's public
names; executes nothing of what it reads.

The bounds are far beyond what a search proposes and well below what would hang a compiler or eat a machine.
"""

from __future__ import annotations

import tensorlang as tl
from tensorlang.analysis import Analysis, amount, analyse, constant, times

MAX_TEXT = 1 << 20  # characters of a trace
MAX_STEPS = 2000
MAX_UNROLLED = 1 << 15  # copies of a statement
MAX_WORKSPACE = 4 << 30  # bytes that a kernel takes besides its arguments


def replay(steps: str | tl.Trace, schedule: tl.Schedule) -> tl.Schedule:
    """The schedule with the steps made, numbers in place of sampled values.

    Raises ScheduleError when a step is refused, when it is no trace, when it leaves a stage waiting for its place, and when it goes beyond the
    bounds of this file.
    """
    if isinstance(steps, str) and len(steps) > MAX_TEXT:
        raise tl.ScheduleError("a trace is too long", because=f"{len(steps)} characters; {MAX_TEXT} are taken")
    trace = tl.Trace.from_json(steps) if isinstance(steps, str) else steps
    if len(trace) > MAX_STEPS:
        raise tl.ScheduleError("a trace is too long", because=f"{len(trace)} steps; {MAX_STEPS} are taken")
    made = schedule.fresh(symbolic=False).replay(trace)
    if made.pending:
        raise tl.ScheduleError("a trace leaves stages without a place", because="; ".join(f"{k} waits for {v}" for k, v in made.pending.items()))
    _bounded(analyse(made, accesses=False))
    return made


def _bounded(analysis: Analysis) -> None:
    """Raise ScheduleError for a kernel that is too much to build. Nothing is symbolic any more, so the amounts are literals."""
    found = [(f"{st.name} is unrolled into {{}} copies", times(1, *[p.extent for p in st.loops if p.kind == "unrolled"]), MAX_UNROLLED)
             for st in analysis.statements]
    found += [(f"{m.name} takes {{}} bytes", m.bytes, MAX_WORKSPACE) for m in analysis.storage]
    for what, value, limit in found:
        number = constant(amount(value))
        if number is not None and number > limit:
            raise tl.ScheduleError("a trace asks for too much", because=f"{what.format(number)}; {limit} are taken")
