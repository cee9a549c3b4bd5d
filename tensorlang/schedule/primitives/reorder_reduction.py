"""reorder_reduction: a reduction goes over its axes in another order.

``C[i] = sum(A[i, x, y], axis=[y, x])`` with reorder_reduction(x, y) → ``C[i] = sum(A[i, x, y], axis=[x, y])``
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...te.axis import REDUCE, IterVar
from ...te.patterns import reducer_kind
from ...te.reducers import Reduce
from ..legality.verdict import YES, Verdict, refuse
from ..state import ScheduleState, change
from .base import Primitive, check_formula
from .fields import LoopName, StageName

if TYPE_CHECKING:
    from ..schedule import Stage


@dataclass(frozen=True, slots=True)
class ReorderReduction(Primitive):
    """Let ``stage`` be reduced over ``axes`` in this order, the last the fastest."""

    stage: StageName
    axes: tuple[LoopName, ...]
    name = "reorder_reduction"

    def check(self, state: ScheduleState) -> Verdict:
        mark = (self.stage, None)
        verdict = check_formula(state, self.stage, self.name, mark)
        if not verdict:
            return verdict
        op = state.stage(self.stage).compute
        there = [a.name for a in op.reduce_axis]
        if not there:
            return refuse(f"`{self.stage}` is no reduction", mark=mark)
        if sorted(self.axes) != sorted(there):
            return refuse(
                f"`{self.stage}` is reduced over {_listed(there)}, and not over {_listed(self.axes)}",
                mark=mark,
                try_="name each axis of the reduction once",
            )
        if reducer_kind(op) in (None, "custom"):
            return refuse(
                f"`{self.stage}` has a reducer of its own, of which nothing says that another order of "
                "elements gives the same",
                mark=mark,
                legal="te.sum, te.max, te.min, te.prod, te.all, te.any",
            )
        return YES

    def apply(self, state: ScheduleState) -> tuple[ScheduleState, Any]:
        st = state.stage(self.stage)
        op = st.compute
        by_name = {a.name: a for a in op.reduce_axis}
        axes = tuple(by_name[n] for n in self.axes)
        body = tuple(
            Reduce(e.reducer, e.sources, axes, e.condition, e.init, e.index)
            for e in op.body
            if isinstance(e, Reduce)
        )
        kept = tuple(iv for iv in st.leaves if iv.kind != REDUCE)
        return state.with_stage(
            change(st, op=op.redefined(body, reduce_axis=axes), leaves=(*kept, *axes))
        ), None

    @staticmethod
    def call(stage: Stage, *axes: IterVar | str) -> None:
        """Reduce over the axes in this order, the last the fastest: as the elements lie in memory, where they
        were named in another one. Floats are added up in another order, as they are by vectors anyway.

        ``reorder`` changes the loops of a schedule; this changes the declaration that primitives see, as
        ``rfactor`` and recipes do, which take the last axis for that along memory. ``tl.compile`` does so by
        itself. Raises ScheduleError where the axes are not those of the reduction, for reducers of the user's
        own, and where the schedule of the stage is begun.

        >>> A = te.placeholder((8, 4, 16), name="A")
        >>> x, y = te.reduce_axis((0, 4), "x"), te.reduce_axis((0, 16), "y")
        >>> B = te.compute((8,), lambda i: te.sum(A[i, x, y], axis=[y, x]), name="B")
        >>> s = te.create_schedule(B.op)
        >>> s[B].reorder_reduction(x, y)
        >>> print(s.tree())
        root
        └─ loop B.i          0..8
           └─ loop B.x       0..4    reduce
              └─ loop B.y    0..16   reduce
                 └─ compute B   reads A
        """
        stage.do(ReorderReduction(stage.name, tuple(stage.loop_name("reorder_reduction", x) for x in axes)))


def _listed(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f"`{n}`" for n in names) if names else "nothing"
