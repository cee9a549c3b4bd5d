"""compute_at, compute_root: where a stage is computed.

``for i: P`` then ``for i: C reads P`` with compute_at(C, i) → ``for i: { the part of P this iteration reads;
C }``
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...te.axis import IterVar
from ..legality.places import legal_text, place_verdict
from ..legality.verdict import Verdict, refuse
from ..state import At, ScheduleState, change
from .base import Primitive, check_names, check_parent, check_stage
from .fields import LoopName, StageName

if TYPE_CHECKING:
    from ..python_text import Writer
    from ..schedule import Stage


@dataclass(frozen=True, slots=True)
class ComputeAt(Primitive):
    """Compute ``stage`` inside ``loop`` of ``at``, as much of it as one iteration of that loop needs."""

    stage: StageName
    at: StageName
    loop: LoopName
    name = "compute_at"

    def check(self, state: ScheduleState) -> Verdict:
        there = check_names(state, self.at, self.stage)
        if not there:
            return there
        return place_verdict(state, state.stage(self.stage), state.stage(self.at), self.loop, hope=True)

    def apply(self, state: ScheduleState) -> tuple[ScheduleState, Any]:
        return state.with_stage(
            change(state.stage(self.stage), attach=At(self.at, self.loop), pending=None)
        ), None

    def python(self, w: Writer) -> None:
        w.line(w.placing(self, self.stage, self.at, self.loop))

    def __str__(self) -> str:
        return f"compute_at({self.stage}, at={self.at}.{self.loop})"

    @staticmethod
    def call(stage: Stage, parent: Stage, loop: IterVar | str) -> None:
        """Compute this stage inside ``loop`` of ``parent``: as much of it as one iteration of the loop reads.

        Calls come in any order: while a reader that could still be moved there is elsewhere, the stage waits
        at root (``s.pending``). Raises ScheduleError for a place that no later call could make legal.

        >>> A = te.placeholder((8, 8), name="A")
        >>> B = te.compute((8, 8), lambda i, j: A[i, j] + 1, name="B")
        >>> C = te.compute((8, 8), lambda i, j: B[i, j] * 2, name="C")
        >>> s = te.create_schedule(C.op)
        >>> s[B].compute_at(s[C], C.op.axis[0])
        >>> print(s.tree())
        root
        └─ loop C.i             0..8
           ├─ storage B         float32[1, 8]  global  32 B
           ├─ loop B.i          0..1
           │  └─ loop B.j       0..8
           │     └─ compute B   reads A
           └─ loop C.j          0..8
              └─ compute C      reads B
        """
        check_parent("compute_at", stage, parent)
        stage.do(ComputeAt(stage.name, parent.name, parent.loop_name("compute_at", loop)))


@dataclass(frozen=True, slots=True)
class ComputeRoot(Primitive):
    """Compute ``stage`` whole, before everything that reads it."""

    stage: StageName
    name = "compute_root"

    def check(self, state: ScheduleState) -> Verdict:
        verdict = check_stage(state, self.stage)
        if verdict and state.stage(self.stage).within is not None:
            scan = state.stage(self.stage).within
            return refuse(
                f"`{self.stage}` depends on the state of the scan `{scan}` and must run inside its loop",
                mark=(self.stage, None),
                legal=lambda: legal_text(state, state.stage(self.stage)),
            )
        return verdict

    def apply(self, state: ScheduleState) -> tuple[ScheduleState, Any]:
        return state.with_stage(change(state.stage(self.stage), attach=None, store=None, pending=None)), None

    @staticmethod
    def call(stage: Stage) -> None:
        """Compute this stage whole, before everything that reads it: undoes ``compute_at``.

        >>> x = te.placeholder((8, 32), name="x")
        >>> y = te.compute((8, 32), lambda i, j: x[i, j] * 2, name="y")
        >>> z = te.compute((8, 32), lambda i, j: y[i, j] + 1, name="z")
        >>> s = te.create_schedule(z)
        >>> s[y].compute_at(s[z], "i")
        >>> s[y].compute_root()
        >>> s[z].leaf_iter_vars == z.op.axis
        True
        """
        stage.do(ComputeRoot(stage.name))
