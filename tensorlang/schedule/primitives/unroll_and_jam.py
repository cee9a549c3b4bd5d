"""unroll_and_jam: some iterations of an outer loop are run together, in the innermost body.

``for i: for j: C[i] += A[i, j] * B[j]`` with s[C].unroll_and_jam(i, 4) →
``for i.outer: for j: for i.inner in 0..4 (unrolled): C[i] += A[i, j] * B[j]``

What the iterations have in common, here ``B[j]``, is then loaded once for all of them, and their results stay
in registers. The same as split, reorder and unroll; vectorized and unrolled loops that are innermost already
stay inside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...te.axis import IterVar
from ..legality.verdict import Verdict
from ..state import ScheduleState
from .base import Primitive, position
from .fields import Factor, LoopName, Number, StageName
from .kind import Unroll
from .reorder import Reorder
from .split import Split

if TYPE_CHECKING:
    from ..python_text import Writer
    from ..schedule import Stage


@dataclass(frozen=True, slots=True)
class UnrollAndJam(Primitive):
    """Run ``factor`` iterations of ``loop`` of ``stage`` together, unrolled inside the loops that it
    encloses."""

    stage: StageName
    loop: LoopName
    factor: Number
    name = "unroll_and_jam"

    def check(self, state: ScheduleState) -> Verdict:
        split = Split(self.stage, self.loop, self.factor)
        verdict = split.check(state)
        if verdict:
            state, (_, inner) = split.apply(state)
            verdict = Unroll(self.stage, inner.name).check(state)
        return verdict

    def apply(self, state: ScheduleState) -> tuple[ScheduleState, Any]:
        state, (outer, inner) = Split(self.stage, self.loop, self.factor).apply(state)
        st = state.stage(self.stage)
        enclosed = list(st.leaves[position(st, inner.name) + 1 :])
        # a vector loop has to stay the innermost one: jammed into it, its lanes would be far apart
        while enclosed and st.kind(enclosed[-1]) in ("vectorized", "unrolled"):
            enclosed.pop()
        state, _ = Reorder(self.stage, (*[iv.name for iv in enclosed], inner.name)).apply(state)
        state, _ = Unroll(self.stage, inner.name).apply(state)
        return state, (outer, inner)

    def python(self, w: Writer) -> None:
        (loop,) = w.loops(self.stage, self.loop)
        new = w.new_loops(self.stage, f"{self.loop}.outer", f"{self.loop}.inner")
        w.line(f"{new} = s[{w.tensor(self.stage)}].unroll_and_jam({loop}, {w.value(self.factor)})")

    @staticmethod
    def call(stage: Stage, loop: IterVar | str, factor: Factor) -> tuple[IterVar, IterVar]:
        """Run ``factor`` iterations of ``loop`` together: split, the inner half moved inside the loops that
        it encloses and unrolled there (vectorized and unrolled loops that are innermost stay inside). Returns
        (outer, inner).

        Raises ScheduleError where the loop cannot be split, or where the factor is known only at the call.

        >>> x = te.placeholder((8, 32), name="x")
        >>> k = te.reduce_axis((0, 32), name="k")
        >>> y = te.compute((8,), lambda i: te.sum(x[i, k], axis=k), name="y")
        >>> s = te.create_schedule(y)
        >>> _ = s[y].unroll_and_jam("i", 4)
        >>> print(s.tree())
        root
        └─ loop y.i.outer         0..2
           └─ loop y.k            0..32  reduce
              └─ loop y.i.inner   0..4  unrolled
                 └─ compute y     reads x
        """
        return stage.do(
            UnrollAndJam(
                stage.name,
                stage.loop_name("unroll_and_jam", loop),  # type: ignore[no-any-return]
                stage.number("unroll_and_jam", factor),
            )
        )
