"""split_choice: a reduction that chooses one of two tuples by comparing one part finds the extreme first,
then its place, and what is there.

``I, V = argmax((idx[i, k], val[i, k]))`` → ``I.extreme[i] = max(val[i, k])``, ``I.place[i] = min(k where
val[i, k] == I.extreme[i])``, ``I[i], V[i] = idx[i, I.place[i]], val[i, I.place[i]]``
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...te.choices_apart import choice_of, chosen_apart
from ...te.tensor import Operation, Tensor
from ..legality.verdict import YES, Verdict, refuse
from ..state import ScheduleState, change
from .base import Primitive, check_formula, parts_before
from .fields import StageName

if TYPE_CHECKING:
    from ..python_text import Writer
    from ..schedule import Schedule, StageKey


@dataclass(frozen=True, slots=True)
class SplitChoice(Primitive):
    """Compute the extreme and its place before ``stage``, which chooses one element of those it reduces."""

    stage: StageName
    name = "split_choice"
    of = "schedule"

    def check(self, state: ScheduleState) -> Verdict:
        mark = (self.stage, None)
        verdict = check_formula(state, self.stage, self.name, mark)
        if not verdict:
            return verdict
        if choice_of(state.stage(self.stage).compute) is not None:
            return YES
        return refuse(
            f"`{self.stage}` chooses no element by comparing what it reads over one axis",
            mark=mark,
            legal="te.comm_reducer(lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.max(x[1], y[1])), "
            "…)",
        )

    def apply(self, state: ScheduleState) -> tuple[ScheduleState, Any]:
        st = state.stage(self.stage)
        chosen = choice_of(st.compute)
        assert chosen is not None
        new, body = chosen_apart(st.compute, chosen, state.free_names())
        state = parts_before(state, self.stage, new)
        state = state.with_stage(change(st, op=st.compute.redefined(body)))
        return state, new[-1].outputs[0]

    def uncertain_name(self) -> str:
        return f"{self.stage}.place"

    def python(self, w: Writer) -> None:
        of = w.tensor(self.stage)
        w.renewed(self.stage)
        name = w.new_stage(self.uncertain_name(), self.stage)
        w.line(f"{name}s.split_choice({of})")

    @staticmethod
    def call(schedule: Schedule, tensor: Tensor | Operation | tuple[Tensor, ...] | str) -> Tensor:
        """Find what ``tensor`` chooses in two reductions that vectors know: it reduces tuples with a reducer
        that compares one part of two and gives the one or the other, as argmax does. The extreme of that
        part is ``tensor.extreme``, the place of the first element that is it (the last, if the reducer takes
        the later of equals) ``tensor.place``, which is returned; ``tensor`` reads its sources there.
        Results are the same, to the last bit: rows with a NaN, and those where nothing is better than what
        the reducer begins with, are reduced as they were declared.

        It pays where the elements lie along memory; ``tl.compile`` does so by itself. What is compared is an
        element that is read, and the reduction is over one axis. Raises ScheduleError for others, and where
        the schedule of ``tensor`` is begun.

        >>> x = te.placeholder((8, 100), name="x")
        >>> pick = lambda a, b: tuple(te.select(a[1] >= b[1], p, q) for p, q in zip(a, b))
        >>> argmax = te.comm_reducer(pick, lambda t, u: (te.const(-1, t), te.min_value(u)), name="argmax")
        >>> k = te.reduce_axis((0, 100), name="k")
        >>> I, V = te.compute((8,), lambda i: argmax((k.var, x[i, k]), axis=k), name="I")
        >>> s = te.create_schedule(I.op)
        >>> s.split_choice(I)
        Tensor(I.place: int32[8])
        """
        stage: StageKey = tensor
        return schedule.perform(SplitChoice(schedule[stage].name))  # type: ignore[no-any-return]
