"""Who can make a better kernel of a task than its default schedule: looked up here and nowhere else, so that
this package knows no search. Knows te; nothing of graphs.

A maker is an entry point of the group ``tensorlang.makers``: a function that is given what ``records=`` was,
and returns one that gives, for the tensors of a kernel (outputs last) and a target, the trace of a schedule
of them as JSON text; or None where it knows none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..errors import TensorLangError
from ..target import Target
from ..te import Tensor

GROUP = "tensorlang.makers"
Schedules = Callable[[Sequence[Tensor], Target], str | None]


def installed() -> list[Callable[[Any], Schedules]]:
    """The makers that are installed."""
    from importlib.metadata import entry_points

    return [point.load() for point in entry_points(group=GROUP)]


def schedules(records: Any) -> Schedules:
    """What all makers know from these records; the first that knows a schedule is asked. Raises
    TensorLangError where no maker is installed, and as makers do for records that cannot be read."""
    makers = [make(records) for make in installed()]
    if not makers:
        raise TensorLangError(
            f"compile(records={records!r}): nobody here reads records",
            because=f"no installed package has an entry point {GROUP}",
            try_="pip install . in a clone of this project, which brings autosched",
        )

    def first(tensors: Sequence[Tensor], target: Target) -> str | None:
        found = (make(tensors, target) for make in makers)
        return next((trace for trace in found if trace is not None), None)

    return first
