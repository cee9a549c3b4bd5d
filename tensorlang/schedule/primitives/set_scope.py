"""set_scope: where the memory of a stage lives. ``local`` is registers or stack when it is small, ``global``
is workspace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..legality.cache_stages import instead_of_output
from ..legality.verdict import YES, Verdict, refuse
from ..state import ScheduleState, change
from .base import Primitive, check_own_memory
from .fields import SCOPES, Scope, StageName

if TYPE_CHECKING:
    from ..schedule import Stage


@dataclass(frozen=True, slots=True)
class SetScope(Primitive):
    """Keep the results of ``stage`` in ``scope``."""

    stage: StageName
    scope: Scope
    name = "set_scope"

    def check(self, state: ScheduleState) -> Verdict:
        verdict = check_own_memory(state, self.stage)
        if not verdict:
            return verdict
        if self.scope not in SCOPES:
            return refuse(f"scope {self.scope!r} is not known", legal=", ".join(SCOPES))
        if state.stage(self.stage).is_output:
            return refuse(
                f"`{self.stage}` is an output: the caller's memory holds it",
                try_=instead_of_output(state, self.stage, self.scope),
            )
        return YES

    def apply(self, state: ScheduleState) -> tuple[ScheduleState, Any]:
        return state.with_stage(change(state.stage(self.stage), scope=self.scope)), None

    @staticmethod
    def call(stage: Stage, scope: str) -> None:
        """Keep the results of this stage in ``"local"`` or ``"global"`` memory.

        >>> x = te.placeholder((8, 32), name="x")
        >>> y = te.compute((8, 32), lambda i, j: x[i, j] * 2, name="y")
        >>> z = te.compute((8, 32), lambda i, j: y[i, j] + 1, name="z")
        >>> s = te.create_schedule(z)
        >>> s[y].set_scope("local")
        >>> print(s.tree())
        root
        ├─ storage y         float32[8, 32]  local  1 KiB
        ├─ loop y.i          0..8
        │  └─ loop y.j       0..32
        │     └─ compute y   reads x
        └─ loop z.i          0..8
           └─ loop z.j       0..32
              └─ compute z   reads y
        """
        stage.do(SetScope(stage.name, scope))
