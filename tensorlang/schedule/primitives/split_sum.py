"""split_sum: a sum of integers whose terms depend on different axes becomes a sum for each term.

``C[i, j] = sum((A[i, k] - p) * B[k, j])`` → ``C.sums[j] = sum(B[k, j])``, ``C.products[i, j] = sum(A[i, k] *
B[k, j])``, ``C[i, j] = C.products[i, j] - p * C.sums[j]``
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...te.sums_apart import apart, parts_of
from ...te.tensor import Operation, Tensor
from ..legality.verdict import YES, Verdict, refuse
from ..state import ScheduleState
from .base import Primitive, check_formula, in_parts
from .fields import StageName

if TYPE_CHECKING:
    from ..python_text import Writer
    from ..schedule import Schedule, StageKey


@dataclass(frozen=True, slots=True)
class SplitSum(Primitive):
    """Compute the terms of ``stage``, a sum of integers, each over the axes that it depends on."""

    stage: StageName
    name = "split_sum"
    of = "schedule"

    def check(self, state: ScheduleState) -> Verdict:
        mark = (self.stage, None)
        verdict = check_formula(state, self.stage, self.name, mark)
        if not verdict:
            return verdict
        st = state.stage(self.stage)
        if parts_of(st.compute) is not None:
            return YES
        return refuse(
            f"`{self.stage}` is no sum of integers with terms of fewer axes than the largest",
            mark=mark,
            legal="sum((A[i, k].astype('int32') - p) * B[k, j].astype('int32'), axis=k)",
        )

    def apply(self, state: ScheduleState) -> tuple[ScheduleState, Any]:
        st = state.stage(self.stage)
        parts = parts_of(st.compute)
        assert parts is not None
        new, body = apart(st.compute, *parts, state.free_names())
        return in_parts(state, self.stage, new, body), new[-1].outputs[0]

    def uncertain_name(self) -> str:
        return f"{self.stage}.products"

    def python(self, w: Writer) -> None:
        of = w.tensor(self.stage)
        w.renewed(self.stage)
        name = w.new_stage(self.uncertain_name(), self.stage)
        w.line(f"{name}s.split_sum({of})")

    @staticmethod
    def call(schedule: Schedule, tensor: Tensor | Operation | str) -> Tensor:
        """Compute the terms of ``tensor``, a sum of integers, each over the axes that it depends on: of a
        product less zero points, ``sum((A[i, k] - p) * (B[k, j] - q[j]))``, the sum of ``A[i, k] * B[k, j]``,
        those of ``A`` for each i and of ``B`` for each j. Returns the tensor of the largest term's sums,
        ``tensor.products``. Results are the same, to the last bit, for integers wrap around.

        It pays where the largest term is a product of 8- or 16-bit integers, which processors sum in fours
        and pairs; ``tl.compile`` does so by itself. Raises ScheduleError for other sums, and where the
        schedule of ``tensor`` is begun.

        >>> A, B = te.placeholder((8, 16), "uint8", "A"), te.placeholder((16, 32), "int8", "B")
        >>> k = te.reduce_axis((0, 16), name="k")
        >>> at = lambda i, j: (A[i, k].astype("int32") - 3) * B[k, j].astype("int32")
        >>> C = te.compute((8, 32), lambda i, j: te.sum(at(i, j), axis=k), "C")
        >>> s = te.create_schedule(C.op)
        >>> s.split_sum(C)
        Tensor(C.products: int32[8, 32])
        """
        stage: StageKey = tensor
        return schedule.perform(SplitSum(schedule[stage].name))  # type: ignore[no-any-return]
