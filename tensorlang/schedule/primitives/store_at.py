"""store_at: the memory of a stage is made further out than it is computed, and lives longer.

``for i: for j: { P: storage; compute }`` with store_at(C, i) → ``for i: { P: storage; for j: compute P … }``
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...te.axis import IterVar
from ..legality.places import store_verdict
from ..legality.verdict import Verdict
from ..state import At, ScheduleState, change
from .base import Primitive, check_names, check_own_memory, check_parent
from .fields import LoopName, StageName

if TYPE_CHECKING:
    from ..python_text import Writer
    from ..schedule import Stage


@dataclass(frozen=True, slots=True)
class StoreAt(Primitive):
    """Keep the storage of ``stage`` at ``loop`` of ``at``, a loop around the place where it is computed."""

    stage: StageName
    at: StageName
    loop: LoopName
    name = "store_at"

    def check(self, state: ScheduleState) -> Verdict:
        verdict = check_own_memory(state, self.stage)
        if not verdict:
            return verdict
        # before the stage is asked for, which would not be found
        there = check_names(state, self.at)
        if not there:
            return there
        return store_verdict(state, state.stage(self.stage), At(self.at, self.loop))

    def apply(self, state: ScheduleState) -> tuple[ScheduleState, Any]:
        return state.with_stage(change(state.stage(self.stage), store=At(self.at, self.loop))), None

    def python(self, w: Writer) -> None:
        w.line(w.placing(self, self.stage, self.at, self.loop))

    @staticmethod
    def call(stage: Stage, parent: Stage, loop: IterVar | str) -> None:
        """Make this stage's memory at ``loop`` of ``parent``, further out than the loop it is computed at.

        >>> x = te.placeholder((8, 32), name="x")
        >>> y = te.compute((8, 32), lambda i, j: x[i, j] * 2, name="y")
        >>> z = te.compute((8, 32), lambda i, j: y[i, j] + 1, name="z")
        >>> s = te.create_schedule(z)
        >>> s[y].compute_at(s[z], "j")
        >>> s[y].store_at(s[z], "i")
        >>> print(s.tree())
        root
        └─ loop z.i                0..8
           ├─ storage y            float32[1, 1]  global  4 B  ring of 1
           └─ loop z.j             0..32
              ├─ loop y.i          0..1
              │  └─ loop y.j       0..1
              │     └─ compute y   reads x
              └─ compute z         reads y
        """
        check_parent("store_at", stage, parent)
        stage.do(StoreAt(stage.name, parent.name, parent.loop_name("store_at", loop)))
