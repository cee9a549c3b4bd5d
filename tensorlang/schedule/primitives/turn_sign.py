"""turn_sign: a product of 8-bit integers of one sign is computed with one operand in the other type.

``C[i, j] = sum(A[i, k] * B[k, j])`` of int8 → ``C.uint8[i, k] = A[i, k] + 128``, ``C.sums[j] = sum(B[k,
j])``, ``C.products[i, j] = sum(C.uint8[i, k] * B[k, j])``, ``C[i, j] = C.products[i, j] - 128 * C.sums[j]``

Processors sum products of uint8 and int8 in fours, and of one sign in pairs of 16 bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from ...te.products import product_of, sums_columns
from ...te.signs import OneSign, one_sign_of, turned
from ...te.tensor import ComputeOp, Operation, Tensor
from ..legality.verdict import YES, Verdict, refuse
from ..state import ScheduleState, StageState
from .base import Primitive, check_formula, check_names, check_stage, in_parts
from .fields import StageName, TensorName

if TYPE_CHECKING:
    from ..python_text import Writer
    from ..schedule import Schedule, StageKey


def _sums(state: ScheduleState, st: StageState, found: OneSign) -> Tensor | None:
    """The sums of the columns of a product's right operand, where a stage makes them already, for a zero
    point: of as many axes as tell their order."""
    product = product_of(st.compute)
    if product is None or product.right is not found.beside.tensor or len(found.axes) > 2:
        return None
    for other in takewhile(lambda other: other.name != st.name, state.stages):  # those computed before
        if other.attach is None and isinstance(other.op, ComputeOp) and sums_columns(other.op, product):
            return other.op.outputs[0]
    return None


@dataclass(frozen=True, slots=True)
class TurnSign(Primitive):
    """Compute ``stage``, a sum of products of 8-bit integers of one sign, with ``tensor`` in the other
    type."""

    stage: StageName
    tensor: TensorName
    name = "turn_sign"
    of = "schedule"

    def check(self, state: ScheduleState) -> Verdict:
        verdict = check_stage(state, self.stage) and check_names(state, self.tensor)
        if not verdict:
            return verdict
        st = state.stage(self.stage)
        mark = (self.stage, None)
        verdict = check_formula(state, self.stage, self.name, mark)
        if not verdict:
            return verdict
        if one_sign_of(st.compute, state.stage(self.tensor).op.outputs[0]) is not None:
            return YES
        return refuse(
            f"`{self.stage}` sums no products of `{self.tensor}` and another tensor, both int8 or both uint8",
            mark=mark,
            legal="sum(A[i, k].astype('int32') * B[k, j].astype('int32'), axis=k): each term reads another "
            "element of B",
        )

    def apply(self, state: ScheduleState) -> tuple[ScheduleState, Any]:
        st = state.stage(self.stage)
        found = one_sign_of(st.compute, state.stage(self.tensor).op.outputs[0])
        assert found is not None
        known = _sums(state, st, found)
        new, body = turned(st.compute, found, state.free_name, known)
        return in_parts(state, self.stage, new, body), new[-1].outputs[0]

    def uncertain_name(self) -> str:
        return f"{self.stage}.products"

    def python(self, w: Writer) -> None:
        of, operand = w.tensor(self.stage), w.tensor(self.tensor)
        w.renewed(self.stage)
        name = w.new_stage(self.uncertain_name(), self.stage)
        w.line(f"{name}s.turn_sign({of}, {operand})")

    @staticmethod
    def call(
        schedule: Schedule, tensor: Tensor | Operation | str, operand: Tensor | Operation | str
    ) -> Tensor:
        """Compute ``tensor``, an int32 sum of products of two tensors that are both int8 or both uint8, with
        ``operand`` in the other of these types: 128 is added to (taken away from) its elements, and 128 times
        sums of the other operand is taken away from (added to) the result. Returns the tensor of the
        products, ``tensor.products``. Results are the same, to the last bit.

        It pays where a processor sums products of uint8 and int8 in fours, as x86 with VNNI does, and those
        of one sign in pairs of 16 bits; ``tl.compile`` does so by itself. Each term of the sum reads another
        element of the other operand, as of the weight of a convolution. Raises ScheduleError for other sums,
        and where the schedule of ``tensor`` is begun.

        >>> A, B = te.placeholder((8, 16), "int8", "A"), te.placeholder((16, 32), "int8", "B")
        >>> k = te.reduce_axis((0, 16), name="k")
        >>> C = te.compute(
        ...     (8, 32), lambda i, j: te.sum(A[i, k].astype("int32") * B[k, j].astype("int32"), axis=k), "C"
        ... )
        >>> s = te.create_schedule(C.op)
        >>> s.turn_sign(C, A)
        Tensor(C.products: int32[8, 32])
        """
        stage: StageKey = tensor
        of: StageKey = operand
        return schedule.perform(  # type: ignore[no-any-return]
            TurnSign(schedule[stage].name, schedule[of].name)
        )
