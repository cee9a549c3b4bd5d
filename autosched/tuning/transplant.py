"""The calls of a schedule of a part of a computation, made on a schedule of the whole. Knows schedules only.

Stages are identified by their place, not by their names: what the part calls ``dense`` may be ``dense_3`` of
the whole, and what a call makes there has the name that is free there. Loops are identified by their place
among those of their stage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import tensorlang as tl

_STAGES = ("stage", "at", "tensor")
_LOOPS = ("loop", "loops", "axis")
_NAMED = (*_STAGES, *_LOOPS, "readers")


def transplant(
    trace: tl.Trace, part: tl.Schedule, whole: tl.Schedule, names: Mapping[str, str], prefix: str
) -> None:
    """Make the steps of ``trace``, which applies to ``part`` (a schedule with no step made), on ``whole``:
    ``names`` are the stages of the whole by those of the part. Decisions get ``prefix`` before their names.
    All or nothing.

    Raises ScheduleError when the whole does not allow a step.
    """
    whole.take(_made(trace, part, whole, names, prefix)[0])


def renamed(trace: tl.Trace, part: tl.Schedule, whole: tl.Schedule) -> tl.Trace:
    """``trace``, which applies to ``part``, in the names of ``whole``: schedules of computations that differ
    in names only, no step made. The names of decisions stay.

    Raises ScheduleError when a step is refused.
    """
    names = dict(zip([st.name for st in part.stages], [st.name for st in whole.stages], strict=True))
    return tl.Trace(tuple(_made(trace, part, whole, names, "")[1]), trace.decisions)


def _made(
    trace: tl.Trace, part: tl.Schedule, whole: tl.Schedule, names: Mapping[str, str], prefix: str
) -> tuple[tl.Schedule, list[Any]]:
    """The whole with the steps made, and the steps in its names."""
    here, there, known = part.copy(), whole.copy(), dict(names)
    steps = []
    for step in trace.steps:
        arguments = step.arguments()
        values = trace.decisions.get(arguments.get("decision", ""))
        if values is not None:
            arguments["values"] = values
        moved = {
            key: _moved(key, value, arguments, here, there, known, prefix) for key, value in arguments.items()
        }
        before = set(here.state.position), set(there.state.position)
        here.step(step.name, **arguments)
        there.step(step.name, **moved)
        made = [
            [n for n in s.state.order if n not in old] for s, old in zip((here, there), before, strict=True)
        ]
        known.update(zip(*made, strict=True))
        steps.append(replace(step, **{k: moved[k] for k in _NAMED if k in moved}))
    return there, steps


def _moved(
    key: str,
    value: Any,
    arguments: Mapping[str, Any],
    here: tl.Schedule,
    there: tl.Schedule,
    known: Mapping[str, str],
    prefix: str,
) -> Any:
    """An argument of a step in the names of the whole."""
    if key in _STAGES:
        return known[value]
    if key == "readers":
        return tuple(known[v] for v in value)
    if key in _LOOPS:
        host = arguments.get("at", arguments.get("stage"))
        if isinstance(value, tuple):
            return tuple(_loop(v, here[host], there[known[host]]) for v in value)
        return _loop(value, here[host], there[known[host]])
    if key == "decision":
        return prefix + value
    name = getattr(value, "name", None)
    return there.knob(prefix + name) if name is not None else value  # a sampled value, where a number stands


def _loop(name: str, here: tl.Stage, there: tl.Stage) -> str:
    names = [iv.name for iv in here.all_iter_vars]
    return there.all_iter_vars[len(names) - 1 - names[::-1].index(name)].name
