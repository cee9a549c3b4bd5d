"""storage_align: rows of a stage's memory are padded, so that the stride of an axis is ``factor * n +
offset`` elements.

A power of two between rows makes them fall into the same cache sets; an offset spreads them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...te.axis import IterVar
from ..legality.cache_stages import instead_of_output
from ..legality.verdict import YES, Verdict, refuse
from ..state import ScheduleState, change
from .base import Primitive, check_own_memory
from .fields import AxisName, StageName, whole

if TYPE_CHECKING:
    from ..schedule import Stage


@dataclass(frozen=True, slots=True)
class StorageAlign(Primitive):
    """The stride of data axis ``axis`` of ``stage`` is a multiple of ``factor``, plus ``offset``."""

    stage: StageName
    axis: AxisName
    factor: int
    offset: int = 0
    name = "storage_align"

    def check(self, state: ScheduleState) -> Verdict:
        verdict = check_own_memory(state, self.stage)
        if not verdict:
            return verdict
        st = state.stage(self.stage)
        names = [a.name for a in st.compute.axis]
        opaque = next((r for r in state.readers(self.stage) if r.is_opaque), None)
        # a C function takes a pointer and knows of no strides
        if opaque is not None:
            return refuse(f"`{opaque.name}` reads it whole, without padding", mark=(self.stage, None))
        if st.is_output:
            return refuse(
                f"`{self.stage}` is an output: the caller's memory holds it",
                try_=instead_of_output(state, self.stage),
            )
        if self.axis not in names:
            return refuse(f"`{self.axis}` is not a data axis of `{self.stage}`", legal=", ".join(names))
        if self.axis == names[-1]:
            return refuse(
                f"`{self.axis}` is the last axis: its elements are neighbours",
                legal=", ".join(names[:-1]) or "none",
            )
        if not 1 <= self.factor <= 1 << 20 or not 0 <= self.offset < 1 << 20:
            return refuse(
                f"factor={self.factor}, offset={self.offset}: a positive factor and an offset that is not "
                f"negative, both below {1 << 20}"
            )
        return YES

    def apply(self, state: ScheduleState) -> tuple[ScheduleState, Any]:
        st = state.stage(self.stage)
        at = next(d for d, a in enumerate(st.compute.axis) if a.name == self.axis)
        return state.with_stage(change(st, align={**st.align, at: (self.factor, self.offset)})), None

    @staticmethod
    def call(stage: Stage, axis: IterVar | str, factor: int, offset: int = 0) -> None:
        """Pad this stage's memory so that the stride of data axis ``axis`` is a multiple of ``factor``
        elements, plus ``offset``.

        >>> x = te.placeholder((8, 32), name="x")
        >>> y = te.compute((8, 32), lambda i, j: x[i, j] * 2, name="y")
        >>> z = te.compute((8, 32), lambda i, j: y[i, j] + 1, name="z")
        >>> s = te.create_schedule(z)
        >>> s[y].storage_align("i", factor=16, offset=8)
        >>> print(tl.lower(s, [x, z], simple=True))
        def main(x: float32[8, 32], z: float32[8, 32] out):
            y: float32[8, 32] strides [40, 1] global
            for i in range(0, 8):
                for j in range(0, 32):
                    y[i, j] = x[i, j] * 2.0
            for i_1 in range(0, 8):
                for j_1 in range(0, 32):
                    z[i_1, j_1] = y[i_1, j_1] + 1.0
        """
        stage.do(
            StorageAlign(stage.name, stage.loop_name("storage_align", axis), whole(factor), whole(offset))
        )
