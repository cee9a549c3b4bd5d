"""Whether a stage can still be given a cache, and the advice to make one where the caller's memory is in the
way. Knows states."""

from __future__ import annotations

from ...expr.nodes import const_int
from ...te.axis import REDUCE
from ..relations import Split
from ..state import ScheduleState, StageState


def no_layout(st: StageState) -> str | None:
    """Why a cache cannot be laid out by the loops of a stage, or None."""
    for rel in st.relations:
        # memory has the data axes only
        if any(iv.kind == REDUCE for iv in rel.children):
            return f"a reduction loop of `{st.name}` is cut already, and would move to the cache"
        if isinstance(rel, Split) and const_int(rel.nparts if rel.factor is None else rel.factor) is None:
            return (
                f"the loops of `{st.name}` are not a layout: what cuts {rel.parent.name} is not a number yet"
            )
    return None


def instead_of_output(state: ScheduleState, name: str, scope: str = "local", then: str = "") -> str:
    """The call that gives an output a buffer of its own, and when: loops of a reduction that are cut, and
    what is annotated or holds stages, would have to move to it."""
    call = f"s.cache_write({name}, {scope!r})"
    stage = state.stage(name)
    if stage.kinds or no_layout(stage) or state.attached(name):
        return f"call {call} before split, vectorize, compute_at and the like{f', {then}' if then else ''}"
    return f"{call}{f' {then}' if then else ''}"
