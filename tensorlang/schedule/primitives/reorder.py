"""reorder: the named loops take each other's places; the others stay where they are.

``for i: for j: for k`` with reorder(k, i) → ``for k: for j: for i``
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...te.axis import IterVar
from ..legality.verdict import YES, Verdict, refuse
from ..state import ScheduleState, change
from .base import Primitive, check_loop, leaf
from .fields import LoopName, StageName

if TYPE_CHECKING:
    from ..schedule import Stage


@dataclass(frozen=True, slots=True)
class Reorder(Primitive):
    """Put ``loops`` of ``stage`` into this order, outermost first."""

    stage: StageName
    loops: tuple[LoopName, ...]
    name = "reorder"

    def check(self, state: ScheduleState) -> Verdict:
        for loop in self.loops:
            verdict = check_loop(state, self.stage, loop)
            if not verdict:
                return verdict
        if len(set(self.loops)) != len(self.loops):
            twice = next(x for x in self.loops if self.loops.count(x) > 1)
            return refuse(f"loop `{twice}` is named twice", try_="name each loop once")
        return YES

    def apply(self, state: ScheduleState) -> tuple[ScheduleState, Any]:
        st = state.stage(self.stage)
        wanted = iter([leaf(st, loop) for loop in self.loops])
        named = set(self.loops)
        # the places that the named loops have between them are filled in the new order; the others do not
        # move
        new = tuple(next(wanted) if iv.name in named else iv for iv in st.leaves)
        return state.with_stage(change(st, leaves=new)), None

    @staticmethod
    def call(stage: Stage, *loops: IterVar | str) -> None:
        """Put the named loops into this order, outermost first; the others stay where they are.

        >>> A = te.placeholder((8, 8), name="A")
        >>> B = te.compute((8, 8), lambda i, j: A[i, j] + 1, name="B")
        >>> s = te.create_schedule(B.op)
        >>> i, j = B.op.axis
        >>> s[B].reorder(j, i)
        >>> print(s.tree())
        root
        └─ loop B.j          0..8
           └─ loop B.i       0..8
              └─ compute B   reads A
        """
        stage.do(Reorder(stage.name, tuple(stage.loop_name("reorder", x) for x in loops)))
