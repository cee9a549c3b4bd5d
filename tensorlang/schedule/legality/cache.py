"""What to try where the caller's memory is in the way: a cache of the output, if one can still be made. Knows states."""

from __future__ import annotations

from ..state import ScheduleState


def instead_of_output(state: ScheduleState, name: str, scope: str = "local", then: str = "") -> str:
    """The call that gives an output a buffer of its own, and when: loops that are cut, annotated or hold stages would have to move to it."""
    call = f"s.cache_write({name}, {scope!r})"
    stage = state.stage(name)
    if stage.kinds or stage.relations or state.attached(name):
        return f"call {call} before split, vectorize, compute_at and the like{f', {then}' if then else ''}"
    return f"{call}{f' {then}' if then else ''}"
