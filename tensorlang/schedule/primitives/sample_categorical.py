"""sample_categorical: one of several numbers as a named decision, for unroll depths, vector widths and the
like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...core.dtype import INT32
from ...expr.nodes import Var
from ..legality.verdict import YES, Verdict, refuse
from ..state import Decision, ScheduleState
from .base import Primitive, check_decision
from .fields import DecisionName, Role, whole

if TYPE_CHECKING:
    from ..python_text import Writer
    from ..schedule import Schedule


@dataclass(frozen=True, slots=True)
class SampleCategorical(Primitive):
    """One of ``candidates``; ``values`` (one number) is what holds until a search decides."""

    decision: DecisionName
    candidates: tuple[int, ...]
    role: Role = "categorical"
    values: tuple[int, ...] | None = None
    name = "sample_categorical"
    of = "schedule"
    samples = True

    def check(self, state: ScheduleState) -> Verdict:
        if not self.candidates or any(
            type(c) is not int or not 1 <= c <= 0x7FFFFFFF for c in self.candidates
        ):
            return refuse(f"candidates={list(self.candidates)}: a non-empty list of positive numbers")
        fresh = check_decision(state, self.decision)
        if not fresh:
            return fresh
        if self.values is not None and (len(self.values) != 1 or self.values[0] not in self.candidates):
            return refuse(
                f"value {', '.join(map(str, self.values))} of {self.decision!r} is not a candidate",
                legal=f"one of {list(self.candidates)}",
            )
        return YES

    def apply(self, state: ScheduleState) -> tuple[ScheduleState, Any]:
        allowed = tuple(sorted(set(self.candidates)))
        knob = Var(f"{self.decision}.0", INT32, "knob", allowed[0], allowed[-1])
        values = self.values if self.values is not None else (self.candidates[0],)
        return state.with_decision(
            Decision(self.decision, self.role, (knob,), values, ((allowed[0], allowed[-1]),), allowed)
        ), knob

    def python(self, w: Writer) -> None:
        values = w.sampled(self.decision, self.values)
        value = f", value={values[0]}" if values is not None else ""
        role = f", role={self.role!r}" if self.role != "categorical" else ""
        w.line(
            f"{w.new_knobs(self.decision)} = s.sample_categorical({self.candidates}, "
            f"name={self.decision!r}{value}{role})"
        )

    @staticmethod
    def call(
        schedule: Schedule,
        candidates: Sequence[int],
        *,
        name: str | None = None,
        value: int | None = None,
        role: str = "categorical",
    ) -> Var:
        """One of ``candidates`` as a knob, to be passed where a primitive takes a number. ``value`` (else the
        first candidate) holds until a search decides.

        >>> x = te.placeholder((8, 32), name="x")
        >>> y = te.compute((8, 32), lambda i, j: x[i, j] * 2, name="y")
        >>> z = te.compute((8, 32), lambda i, j: y[i, j] + 1, name="z")
        >>> s = te.create_schedule(z)
        >>> wide = s.sample_categorical([8, 16], value=16, name="wide")
        >>> outer, inner = s[z].split("j", factor=wide)
        >>> s.decisions
        {'wide': (16,)}
        """
        return schedule.perform(
            SampleCategorical(
                schedule.free_decision("choice") if name is None else name,
                whole(candidates),
                role,  # type: ignore[no-any-return]
                None if value is None else (whole(value),),
            )
        )
