"""precompute: a term of a formula that depends on some of its axes alone becomes a stage of its own.

``B[h, t] = A[h, t] * cos(W[t])``, of t → ``B.term[t] = cos(W[t])``, ``B[h, t] = A[h, t] * B.term[t]``

What is hoisted out of loops by itself is what the innermost ones do not change; a term of the innermost axis
is computed in every row again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...te.axis import IterVar
from ...te.patterns import operations
from ...te.tensor import ComputeOp, Operation, Tensor
from ...te.terms import Term, apart, terms_of
from ..legality.verdict import YES, Verdict, refuse
from ..state import ScheduleState, StageState, change
from .base import Primitive, check_formula, check_loop, check_stage
from .fields import LoopName, StageName

if TYPE_CHECKING:
    from ..python_text import Writer
    from ..schedule import Schedule, StageKey


@dataclass(frozen=True, slots=True)
class Precompute(Primitive):
    """Compute the largest term of the formula of ``stage`` that depends on ``loops`` and on no others before
    it."""

    stage: StageName
    loops: tuple[LoopName, ...]
    name = "precompute"
    of = "schedule"

    def check(self, state: ScheduleState) -> Verdict:
        verdict = check_stage(state, self.stage)
        for loop in self.loops:
            verdict = verdict and check_loop(state, self.stage, loop)
        if not verdict:
            return verdict
        st = state.stage(self.stage)
        mark = (self.stage, self.loops[0] if self.loops else None)
        verdict = check_formula(state, self.stage, self.name, mark)
        if not verdict:
            return verdict
        if _largest(st.compute, self.loops) is not None:
            return YES
        others = {tuple(a.name for a in t.axes) for t in terms_of(st.compute)}
        return refuse(
            f"no term of `{self.stage}` depends on {' and '.join(self.loops) or 'no loop'} and nothing else",
            mark=mark,
            legal="; ".join(sorted(map(", ".join, others))) or "none: every term depends on all loops",
        )

    def apply(self, state: ScheduleState) -> tuple[ScheduleState, Any]:
        st = state.stage(self.stage)
        term = _largest(st.compute, self.loops)
        assert term is not None
        made, rest = apart(st.compute, term, state.free_name(self.uncertain_name()))
        new = StageState(made.name, made, made.axis, in_part=st.in_part)
        state = state.with_stage(change(st, op=rest))
        return state.insert_before(self.stage, new), made.outputs[0]

    def uncertain_name(self) -> str:
        return f"{self.stage}.term"

    def python(self, w: Writer) -> None:
        loops = w.loops(self.stage, *self.loops)
        of = w.tensor(self.stage)
        name = w.new_stage(self.uncertain_name(), self.stage)
        w.line(f"{name}s.precompute({of}, [{', '.join(loops)}])")

    @staticmethod
    def call(
        schedule: Schedule, tensor: Tensor | Operation | str, axes: Sequence[IterVar | str] | IterVar | str
    ) -> Tensor:
        """Compute what of the formula of ``tensor`` depends on ``axes`` alone in a stage before it, with
        these axes, and read it there: its largest such term that reads no axis else, has an operation and
        stands behind no condition; returns the tensor of the term, ``tensor.term``. Each call takes one term.

        It pays where a term is dear and other axes would compute it again: a window's cosines for each frame,
        the root of a variance for each pixel. ``tl.compile`` does so by itself. A term is rounded, which a
        fused multiply-add around it would not have done; results are else the same. Raises ScheduleError
        where no term depends on these axes alone, and where the schedule of ``tensor`` is begun.

        >>> A, W = te.placeholder((64, 256), name="A"), te.placeholder((256,), name="W")
        >>> B = te.compute((64, 256), lambda i, j: A[i, j] * te.exp(W[j]), name="B")
        >>> s = te.create_schedule(B.op)
        >>> s.precompute(B, [B.op.axis[1]])
        Tensor(B.term: float32[256])
        """
        key: StageKey = tensor
        stage = schedule[key]
        given: Sequence[Any] = axes if isinstance(axes, list | tuple) else [axes]
        loops = tuple(stage.loop_name("precompute", a) for a in given)
        return schedule.perform(Precompute(stage.name, loops))  # type: ignore[no-any-return]


def _largest(op: ComputeOp, loops: tuple[str, ...]) -> Term | None:
    """The term of exactly these axes with the most operations, the first of equals."""
    fitting = [t for t in terms_of(op) if {a.name for a in t.axes} == set(loops)]
    return max(fitting, key=lambda t: operations((t.expr,)), default=None)
