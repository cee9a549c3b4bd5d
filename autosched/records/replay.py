"""Traces from files and other machines, applied within bounds: so many steps, so much unrolled, so much
memory. Knows tensorlang's public names; executes nothing of what it reads.

The bounds are far beyond what a search proposes and well below what would hang a compiler or eat a machine.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import tensorlang as tl
from tensorlang.analysis import Analysis, amount, analyse, constant, times

MAX_TEXT = 1 << 20  # characters of a trace
MAX_STEPS = 2000
MAX_STEPS_OF_A_STAGE = 200
MAX_WRITTEN = 1 << 14
# elements of all statements, each copy of an unrolled loop and each lane of a vector written out; a search
# proposes 2,000
MAX_WORKSPACE = 4 << 30  # bytes that a kernel takes besides its arguments
MAX_KEPT = 2000  # steps that are remembered


def replay(steps: str | tl.Trace, schedule: tl.Schedule) -> tl.Schedule:
    """The schedule with the steps made, numbers in place of sampled values.

    Raises ScheduleError when a step is refused, when it is not a trace, when it leaves a stage waiting for
    its place, and when it goes beyond the bounds of this file.
    """
    with refusals():
        return checked(steps, schedule)


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    """Whatever a trace sets off is a ScheduleError: a file decides nothing about whether its reader goes
    on."""
    try:
        yield
    except RecursionError:
        raise _too_much("its loops and expressions stand too deep in one another") from None
    except tl.ScheduleError:
        raise
    except Exception as e:
        raise tl.ScheduleError(
            "a trace breaks the schedule it is replayed on", because=f"{type(e).__name__}: {e}"
        ) from e


def checked(steps: str | tl.Trace, schedule: tl.Schedule) -> tl.Schedule:
    """:func:`replay`, in which a mistake of ours stays what it is."""
    return _sound(schedule.fresh(symbolic=False).replay(parsed(steps)))


class Replays:
    """The traces of one computation, most of which begin as an earlier one did: those steps are not made
    again. Nine in ten of a search's are shared with one of the last sixteen candidates."""

    def __init__(self, schedule: tl.Schedule) -> None:
        self._root = _Made(schedule.fresh(symbolic=False))
        self._kept = 0

    def replay(self, steps: str | tl.Trace) -> tl.Schedule:
        """:func:`replay` on the schedule that this was made of."""
        with refusals():
            return _sound(self._made(parsed(steps)))

    def _made(self, trace: tl.Trace) -> tl.Schedule:
        if self._kept > MAX_KEPT:
            self._root.then.clear()
            self._kept = 0
        at = self._root
        for p in trace.steps:
            decided = {
                name: values
                for name, values in trace.decisions.items()
                if name == getattr(p, "decision", None)
            }
            key = p, *decided.values()
            if key not in at.then:
                at.then[key] = _Made(at.schedule.copy().replay(tl.Trace((p,), decided)))
                self._kept += 1
            at = at.then[key]
        return at.schedule.copy()


@dataclass
class _Made:
    """A schedule, and those that were made of it by one more step."""

    schedule: tl.Schedule
    then: dict[Any, _Made] = field(default_factory=dict)


def _sound(made: tl.Schedule) -> tl.Schedule:
    """The schedule, when it can be built as it is and within the bounds. Raises ScheduleError."""
    if made.pending:
        raise tl.ScheduleError(
            "a trace leaves stages without a place",
            because="; ".join(f"{k} waits for {v}" for k, v in made.pending.items()),
        )
    moved = [st.name for st in made.state.stages if st.aliases and (st.is_placeholder or st.is_output)]
    if moved:
        raise tl.ScheduleError(
            "a trace changes the layout of arguments",
            because=f"callers pass {', '.join(moved)} as the task declares them",
        )
    _bounded(analyse(made, accesses=False))
    return made


def parsed(steps: str | tl.Trace) -> tl.Trace:
    """The trace, of a length that is taken. Raises ScheduleError."""
    if isinstance(steps, str) and len(steps) > MAX_TEXT:
        raise tl.ScheduleError(
            "a trace is too long", because=f"{len(steps)} characters; {MAX_TEXT} are taken"
        )
    trace = tl.Trace.from_json(steps) if isinstance(steps, str) else steps
    if len(trace) > MAX_STEPS:
        raise tl.ScheduleError("a trace is too long", because=f"{len(trace)} steps; {MAX_STEPS} are taken")
    name, most = max(
        Counter(getattr(p, "stage", "") for p in trace.steps).items(), key=lambda row: row[1], default=("", 0)
    )
    if most > MAX_STEPS_OF_A_STAGE:
        raise tl.ScheduleError(
            "a trace is too long",
            because=f"{most} steps of the stage {name[:40]}; {MAX_STEPS_OF_A_STAGE} are taken",
        )
    return trace


def _bounded(analysis: Analysis) -> None:
    """Raise ScheduleError for a kernel that is too much to build. Nothing is symbolic any more, so the
    amounts are literals."""
    total = 0
    for st in analysis.statements:
        total += (
            constant(amount(times(1, *[p.extent for p in st.loops if p.kind in ("unrolled", "vectorized")])))
            or 0
        )
        if total > MAX_WRITTEN:
            raise _too_much(
                f"with {st.name}, {total} elements are written out by unrolled and vectorized loops; "
                f"{MAX_WRITTEN} are taken"
            )
    for m in analysis.storage:
        size = constant(amount(m.bytes))
        if size is not None and size > MAX_WORKSPACE:
            raise _too_much(f"{m.name} takes {size} bytes; {MAX_WORKSPACE} are taken")


def _too_much(why: str) -> tl.ScheduleError:
    return tl.ScheduleError("a trace asks for too much", because=why)
