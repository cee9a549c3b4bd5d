"""prefetch: what a later iteration of a loop reads is asked for while this one runs.

``for i: C reads A[i, …]`` with s[C].prefetch(A, i, 2) → ``for i: { prefetch A[i + 2, …]; C reads A[i, …] }``

``for j: for i: for k: C reads A[j, k]`` with s[C].prefetch(A, k, 1, share=True) asks at each iteration for a
little of A[j + 1, …], which all of them together have asked for when the next j begins.

A hint: it does nothing when the tensor is moved so that its memory is made inside the loop, where a later
iteration has other memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...te.axis import IterVar
from ..legality.verdict import YES, Verdict, refuse
from ..state import INLINED, ScheduleState, change
from .base import Primitive, check_loop, check_output
from .fields import LoopName, StageName, TensorName, whole

if TYPE_CHECKING:
    from ..python_text import Writer
    from ..schedule import Stage, StageKey

# iterations: more is a mistake, and its addresses might leave 32 bits
MAX_OFFSET = 1 << 20


@dataclass(frozen=True, slots=True)
class Prefetch(Primitive):
    """At each iteration of ``loop``, ask for what ``stage`` reads of output ``index`` of ``tensor``
    ``offset`` iterations later; with ``share``, for a share of what comes after the loops around the stage
    that read the same again."""

    stage: StageName
    tensor: TensorName
    loop: LoopName
    offset: int = 1
    index: int = 0
    share: bool = False
    name = "prefetch"

    def check(self, state: ScheduleState) -> Verdict:
        verdict = check_loop(state, self.stage, self.loop)
        if not verdict:
            return verdict
        if self.tensor not in state.position or state.stage(self.tensor).attach == INLINED:
            return refuse(
                f"there is no stored tensor `{self.tensor}`",
                legal=", ".join(t.name for t in state.stage(self.stage).op.input_tensors),
            )
        verdict = check_output(state, self.tensor, self.index)
        if not verdict:
            return verdict
        if not any(r.name == self.stage for r in state.readers(self.tensor)):
            return refuse(
                f"`{self.stage}` does not read `{self.tensor}`",
                mark=(self.stage, self.loop),
                legal=", ".join(t.name for t in state.stage(self.stage).op.input_tensors),
            )
        if not 0 <= self.offset <= MAX_OFFSET:
            return refuse(f"offset={self.offset}: a number of iterations from 0 to {MAX_OFFSET}")
        return YES

    def apply(self, state: ScheduleState) -> tuple[ScheduleState, Any]:
        st = state.stage(self.stage)
        tensor = state.stage(self.tensor).op.outputs[self.index]
        return state.with_stage(
            change(st, prefetches=(*st.prefetches, (tensor, self.loop, self.offset, self.share)))
        ), None

    def python(self, w: Writer) -> None:
        (loop,) = w.loops(self.stage, self.loop)
        of = w.tensor(self.tensor, self.index)
        share = ", share=True" if self.share else ""
        w.line(f"s[{w.tensor(self.stage)}].prefetch({of}, {loop}, {self.offset}{share})")

    @staticmethod
    def call(
        stage: Stage, tensor: StageKey, loop: IterVar | str, offset: int = 1, share: bool = False
    ) -> None:
        """Ask for what this stage reads of ``tensor`` ``offset`` iterations of ``loop`` ahead.

        ``share=True`` is for a stage computed inside loops of which some read the same elements again, as
        each tile of rows reads a block of a product's right operand: each iteration of ``loop`` asks for a
        share of the block ``offset`` after it. Without such loops, and where a block is not known to be one
        run of memory, it does nothing.

        >>> x = te.placeholder((8, 32), name="x")
        >>> y = te.compute((8, 32), lambda i, j: x[i, j] * 2, name="y")
        >>> z = te.compute((8, 32), lambda i, j: y[i, j] + 1, name="z")
        >>> s = te.create_schedule(z)
        >>> s[y].prefetch(x, "i", 2)
        >>> print(s.trace)
          1  prefetch(y, x, i, offset=2)
        """
        schedule = stage.schedule
        stage.do(
            Prefetch(
                stage.name,
                schedule.stage_name(tensor),
                stage.loop_name("prefetch", loop),
                whole(offset),
                getattr(tensor, "value_index", 0),
                share,
            )
        )
