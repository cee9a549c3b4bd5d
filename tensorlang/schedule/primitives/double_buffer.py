"""double_buffer: a stage computed inside a loop gets two copies of its memory, and each iteration computes
what the next one reads.

``for k: { P = f(k); C += P }``  →  ``P[0] = f(0); for k: { if k + 1 < n: P[(k+1) % 2] = f(k+1); C += P[k % 2]
}``

The processor may then overlap the loads of one iteration with the arithmetic of the other. The loop is the
one the stage is computed at when the schedule is lowered. One copy is kept of a stage at root or in a
parallel loop, where no iteration follows another, and of one that is computed from stages of the same
iteration which have one copy themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..legality.verdict import YES, Verdict, refuse
from ..state import ScheduleState, change
from .base import Primitive, check_own_memory
from .fields import StageName

if TYPE_CHECKING:
    from ..schedule import Stage


@dataclass(frozen=True, slots=True)
class DoubleBuffer(Primitive):
    """Compute ``stage`` one iteration ahead, into the other of two copies of its memory."""

    stage: StageName
    name = "double_buffer"

    def check(self, state: ScheduleState) -> Verdict:
        verdict = check_own_memory(state, self.stage)
        if not verdict:
            return verdict
        if state.stage(self.stage).is_output:
            return refuse(
                f"`{self.stage}` is an output: the caller's memory holds it once",
                mark=(self.stage, None),
                try_="double_buffer of a stage that is computed inside a loop",
            )
        return YES

    def apply(self, state: ScheduleState) -> tuple[ScheduleState, Any]:
        # whether a loop around it can run ahead is known when the schedule is complete: lowering asks
        return state.with_stage(change(state.stage(self.stage), double=True)), None

    @staticmethod
    def call(stage: Stage) -> None:
        """Compute this stage one iteration of its loop ahead, into the other of two copies of its memory.

        >>> x = te.placeholder((8, 32), name="x")
        >>> y = te.compute((8, 32), lambda i, j: x[i, j] * 2, name="y")
        >>> z = te.compute((8, 32), lambda i, j: y[i, j] + 1, name="z")
        >>> s = te.create_schedule(z)
        >>> s[y].compute_at(s[z], "i")
        >>> s[y].double_buffer()
        >>> print(s.tree())
        root
        └─ loop z.i             0..8
           ├─ storage y         float32[1, 32]  global  128 B  double
           ├─ loop y.i          0..1
           │  └─ loop y.j       0..32
           │     └─ compute y   reads x
           └─ loop z.j          0..32
              └─ compute z      reads y
        """
        stage.do(DoubleBuffer(stage.name))
