"""compute_inline: the body of a stage is written where it is read; the stage disappears.

``P[i] = f(i)``, ``C[i] = g(P[i + 1])`` → ``C[i] = g(f(i + 1))``
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...te.inlined import inlined
from ..legality.verdict import YES, Verdict, refuse
from ..state import INLINED, ScheduleState, change
from .base import Primitive, check_own_memory
from .fields import StageName

if TYPE_CHECKING:
    from ..schedule import Stage


@dataclass(frozen=True, slots=True)
class ComputeInline(Primitive):
    """Write the body of ``stage`` into its readers."""

    stage: StageName
    name = "compute_inline"

    def check(self, state: ScheduleState) -> Verdict:
        verdict = check_own_memory(state, self.stage)
        if not verdict:
            return verdict
        st = state.stage(self.stage)
        if st.is_output:
            return refuse(
                f"`{self.stage}` is an output: the caller wants it stored",
                mark=(self.stage, None),
                try_=lambda: _what_it_reads(state, self.stage),
            )
        opaque = next((r for r in state.readers(self.stage) if r.is_opaque), None)
        if opaque is not None:
            return refuse(f"`{opaque.name}` reads it whole, from memory", mark=(self.stage, None))
        if st.compute.reduce_axis:
            return refuse(
                f"`{self.stage}` is a reduction: its value is not one expression",
                mark=(self.stage, None),
                try_=f"s[{self.stage}].compute_at(reader, loop)",
            )
        inside = state.attached(self.stage)
        if inside:
            return refuse(
                f"`{inside[0].name}` is computed inside its loops, which would disappear",
                mark=(self.stage, None),
                try_=f"s[{inside[0].name}].compute_root() first",
            )
        return YES

    def apply(self, state: ScheduleState) -> tuple[ScheduleState, Any]:
        st = state.stage(self.stage)
        # the stage stays in the state, without loops: traces and messages still know its name
        changed = [change(r, op=inlined(r.compute, st.compute, st.key)) for r in state.readers(self.stage)]
        return state.with_stage(change(st, attach=INLINED, store=None, pending=None), *changed), None

    @staticmethod
    def call(stage: Stage) -> None:
        """Write this stage's body into its readers; the stage disappears.

        >>> A = te.placeholder((8, 8), name="A")
        >>> B = te.compute((8, 8), lambda i, j: A[i, j] + 1, name="B")
        >>> C = te.compute((8, 8), lambda i, j: B[i, j] * 2, name="C")
        >>> s = te.create_schedule(C.op)
        >>> s[B].compute_inline()
        >>> print(s.tree())
        root
        └─ loop C.i          0..8
           └─ loop C.j       0..8
              └─ compute C   reads A
        """
        stage.do(ComputeInline(stage.name))


def _what_it_reads(state: ScheduleState, name: str) -> str:
    """The call that inlines a stage which this one reads; no text where none can be."""
    reads = [st.name for st in state.stages if any(r.name == name for r in state.readers(st.name))]
    return next((f"s[{p}].compute_inline()" for p in reads if ComputeInline(p).check(state)), "")
