"""sample_location: where a stage is computed as a named decision. It decides and acts: the place is part of
the structure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..legality.places import legal_places, start_of
from ..legality.verdict import YES, Verdict, refuse
from ..state import At, Decision, ScheduleState, change
from .base import Primitive, check_decision, check_stage
from .fields import DecisionName, StageName, whole

if TYPE_CHECKING:
    from ..python_text import Writer
    from ..schedule import Schedule, StageKey


@dataclass(frozen=True, slots=True)
class SampleLocation(Primitive):
    """Compute ``stage`` at root (value 0) or at the n-th of its legal places (value n); ``values`` holds
    until a search decides."""

    stage: StageName
    decision: DecisionName
    values: tuple[int, ...] | None = None
    name = "sample_location"
    of = "schedule"

    def check(self, state: ScheduleState) -> Verdict:
        verdict = check_stage(state, self.stage)
        if not verdict:
            return verdict
        fresh = check_decision(state, self.decision)
        if not fresh:
            return fresh
        places = legal_places(state, state.stage(self.stage), in_vectors=False)
        if self.values is not None and (len(self.values) != 1 or not 0 <= self.values[0] <= len(places)):
            return refuse(
                f"value {', '.join(map(str, self.values))} of {self.decision!r}: there are {len(places)} "
                "places besides root",
                legal=", ".join(["0: root", *[f"{n + 1}: {s}.{loop}" for n, (s, loop) in enumerate(places)]]),
            )
        return YES

    def apply(self, state: ScheduleState) -> tuple[ScheduleState, Any]:
        places = legal_places(state, state.stage(self.stage), in_vectors=False)
        n = self.values[0] if self.values is not None else 0
        stage = state.stage(self.stage)
        state = state.with_stage(
            change(
                stage, attach=At(*places[n - 1]) if n else start_of(state, stage), store=None, pending=None
            )
        )
        # no knobs: a place is not a number that extents could hang on
        return state.with_decision(Decision(self.decision, "location", (), (n,), ((0, len(places)),))), n

    def python(self, w: Writer) -> None:
        values = w.sampled(self.decision, self.values)
        value = f", value={values[0]}" if values is not None else ""
        w.line(f"s.sample_location({w.tensor(self.stage)}{value}, name={self.decision!r})")

    @staticmethod
    def call(
        schedule: Schedule, tensor: StageKey, *, value: int | None = None, name: str | None = None
    ) -> int:
        """Compute ``tensor`` at one of its legal places: 0 is root (the loop of the scan it is part of), n
        the n-th of ``s.legal_places(tensor)``, of which those inside vector loops are left out.

        Returns the number.

        >>> x = te.placeholder((8, 32), name="x")
        >>> y = te.compute((8, 32), lambda i, j: x[i, j] * 2, name="y")
        >>> z = te.compute((8, 32), lambda i, j: y[i, j] + 1, name="z")
        >>> s = te.create_schedule(z)
        >>> place = s.sample_location(y, value=1)
        >>> print(s.tree())
        root
        └─ loop z.i             0..8
           ├─ storage y         float32[1, 32]  global  128 B
           ├─ loop y.i          0..1
           │  └─ loop y.j       0..32
           │     └─ compute y   reads x
           └─ loop z.j          0..32
              └─ compute z      reads y
        """
        stage = schedule.stage_name(tensor)
        return schedule.perform(
            SampleLocation(
                stage,
                schedule.free_decision(f"location_{stage}") if name is None else name,  # type: ignore[no-any-return]
                None if value is None else (whole(value),),
            )
        )
