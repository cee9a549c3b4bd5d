"""decompose_reduction: the initial values of a reduction are written further out than they need be.

``for i: { s[i] = 0; for k: s[i] += … }`` decomposed at i → ``for i: s[i] = 0`` and then ``for i: for k: s[i]
+= …``
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...te.axis import IterVar
from ..legality.verdict import YES, Verdict, refuse
from ..state import ScheduleState, change
from .base import Primitive, check_loop, position
from .fields import LoopName, StageName

if TYPE_CHECKING:
    from ..schedule import Stage


@dataclass(frozen=True, slots=True)
class DecomposeReduction(Primitive):
    """Write the initial values of ``stage`` before ``loop``, in loops of their own."""

    stage: StageName
    loop: LoopName
    name = "decompose_reduction"

    def check(self, state: ScheduleState) -> Verdict:
        verdict = check_loop(state, self.stage, self.loop)
        if not verdict:
            return verdict
        st = state.stage(self.stage)
        if not st.compute.reduce_axis:
            return refuse(
                f"`{self.stage}` is not a reduction: it has no initial values", mark=(self.stage, None)
            )
        # at the outermost reduction loop itself the values are still written once
        if position(st, self.loop) > st.first_reduce():
            outer = st.leaves[st.first_reduce()].name
            return refuse(
                f"loop {self.stage}.{self.loop} is inside the reduction loop {outer}: the initial values "
                "would be written again at each iteration",
                mark=(self.stage, self.loop),
                legal=", ".join(iv.name for iv in st.leaves[: st.first_reduce() + 1]),
            )
        return YES

    def apply(self, state: ScheduleState) -> tuple[ScheduleState, Any]:
        return state.with_stage(change(state.stage(self.stage), init_at=self.loop)), None

    @staticmethod
    def call(stage: Stage, loop: IterVar | str) -> None:
        """Write the initial values of this reduction before ``loop``, in loops of their own.

        >>> x = te.placeholder((8, 32), name="x")
        >>> k = te.reduce_axis((0, 32), name="k")
        >>> y = te.compute((8,), lambda i: te.sum(x[i, k], axis=k), name="y")
        >>> s = te.create_schedule(y)
        >>> s[y].decompose_reduction("k")
        >>> print(tl.lower(s, [x, y], simple=True))
        def main(x: float32[8, 32], y: float32[8] out):
            for i in range(0, 8):
                y[i] = 0.0
                for k in range(0, 32):
                    y[i] = y[i] + x[i, k]
        """
        stage.do(DecomposeReduction(stage.name, stage.loop_name("decompose_reduction", loop)))
