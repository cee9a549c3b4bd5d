"""Who can make a better kernel of a task than its default schedule: looked up here and nowhere else, so that
this package knows no search. Knows te; nothing of graphs.

A maker is an entry point of the group ``tensorlang.makers``: a function that is given what ``records=`` was,
and returns one that gives, for the tensors of a kernel (outputs last) and a target, the trace of a schedule
of them as JSON text; or None where it knows none. A tuner is an entry point of ``tensorlang.tuners``: it
searches for schedules of tasks, and leaves in a file what it found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..errors import TensorLangError
from ..target import Target
from ..te import Tensor

GROUP = "tensorlang.makers"
TUNERS = "tensorlang.tuners"
Schedules = Callable[[Sequence[Tensor], Target], str | None]
Task = tuple[Sequence[Tensor], int]  # the tensors of a kernel, and how many calls of it a program makes
Tuner = Callable[[Sequence[Task], Target, Any, int, Any], None]


def installed() -> list[Callable[[Any], Schedules]]:
    """The makers that are installed."""
    from importlib.metadata import entry_points

    # by entry points: this room knows nothing of the search, which knows this one
    return [point.load() for point in entry_points(group=GROUP)]


def schedules(records: Any) -> Schedules:
    """What all makers know from these records; the first that knows a schedule is asked. Raises
    TensorLangError where no maker is installed, and as makers do for records that cannot be read."""
    makers = [make(records) for make in installed()]
    if not makers:
        raise TensorLangError(
            f"compile(records={records!r}): no reader of records is installed",
            because=f"no installed package has an entry point {GROUP}",
            try_="pip install . in a clone of this project, which brings autosched",
        )

    def first(tensors: Sequence[Tensor], target: Target) -> str | None:
        found = (make(tensors, target) for make in makers)
        return next((trace for trace in found if trace is not None), None)

    return first


def tuners() -> list[Tuner]:
    """The tuners that are installed."""
    from importlib.metadata import entry_points

    return [point.load() for point in entry_points(group=TUNERS)]


def tuned(tasks: Sequence[Task], target: Target, records: Any, trials: int, progress: Any = False) -> None:
    """Have schedules of tasks searched for, with ``trials`` measurements for each, and kept in ``records``;
    ``progress`` as the tuner takes it.
    Raises TensorLangError where no tuner is installed, and as tuners do."""
    found = tuners()
    if not found:
        raise TensorLangError(
            f"tune(records={records!r}): no tuner is installed",
            because=f"no installed package has an entry point {TUNERS}",
            try_="pip install . in a clone of this project, which brings autosched",
        )
    found[0](tasks, target, records, trials, progress)
