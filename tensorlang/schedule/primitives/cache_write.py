"""cache_write: a stage is computed into a buffer of its own and copied from there.

``C[i, j] = sum(…)`` → ``C.local[i, j] = sum(…)``, ``C[i, j] = C.local[i, j]``
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...core.node import intern
from ...expr.walk import substitute
from ...te.axis import fresh_axis
from ...te.tensor import ComputeOp, TensorRead
from ..legality.verdict import YES, Verdict, no
from ..state import At, ScheduleState, StageState, change
from .base import Primitive, find_stage

if TYPE_CHECKING:
    from ..schedule import Schedule, Stage


@dataclass(frozen=True, slots=True)
class CacheWrite(Primitive):
    """Compute the outputs of ``stage`` in ``scope`` and copy them; returns the new tensor (or a tuple of them)."""

    stage: str
    scope: str = "local"
    name = "cache_write"
    of = "schedule"

    def check(self, state: ScheduleState) -> Verdict:
        found = find_stage(state, self.stage)
        if not found:
            return found
        if self.scope not in ("local", "global"):
            return no(f"scope {self.scope!r} is not known", legal="local, global")
        st = state.stage(self.stage)
        if st.relations or st.kinds:
            return no(f"`{self.stage}` is scheduled already, and its loops would move to the cache", mark=(self.stage, None),
                      try_="call cache_write before split, fuse and the like")
        inside = state.attached(self.stage)
        if inside:
            return no(f"`{inside[0].name}` is computed inside its loops, which would move to the cache", mark=(self.stage, None),
                      try_="call cache_write before compute_at")
        return YES

    def apply(self, state: ScheduleState) -> tuple[ScheduleState, Any]:
        st = state.stage(self.stage)
        op = st.compute
        axes = tuple(fresh_axis(a.name, a.extent) for a in op.axis)
        to_new = {a.var: b.var for a, b in zip(op.axis, axes, strict=True)}
        name = state.free_name(f"{self.stage}.{self.scope}")
        cached = ComputeOp(name, axes, op.reduce_axis, tuple(substitute(e, to_new) for e in op.body), op.tag, op.attrs)
        index = tuple(a.var for a in op.axis)
        copy = op.redefined(tuple(intern(TensorRead, t, index) for t in cached.outputs), reduce_axis=())
        new = StageState(name, cached, (*axes, *op.reduce_axis), attach=st.attach if isinstance(st.attach, At) else None, scope=self.scope)
        data = tuple(iv for iv in st.leaves if not any(iv is r for r in op.reduce_axis))
        state = state.with_stage(change(st, op=copy, leaves=data)).insert_before(self.stage, new)
        return state, cached.outputs[0] if len(cached.outputs) == 1 else cached.outputs

    def __str__(self) -> str:
        return f"cache_write({self.stage}, {self.scope!r})"

    @staticmethod
    def call(schedule: Schedule, tensor: Any, scope: str = "local") -> Any:
        """Compute ``tensor`` in a buffer of its own (``tensor.local``) and copy it from there; returns that tensor."""
        return schedule.perform(CacheWrite(schedule.stage_name(tensor), scope))
