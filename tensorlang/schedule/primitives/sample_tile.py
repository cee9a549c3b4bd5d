"""sample_tile: tile sizes as named decisions instead of numbers. A hand, a template and the search all call
it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, overload

from ...core.dtype import INT32
from ...expr.nodes import Var, const_int
from ...te.axis import IterVar
from ..legality.verdict import YES, Verdict, refuse
from ..state import Decision, ScheduleState
from .base import Primitive, check_decision, check_loop, leaf
from .fields import DecisionName, LoopName, Role, StageName, quoted, whole

if TYPE_CHECKING:
    from ..python_text import Writer
    from ..schedule import Schedule

MAX_TILE = 1024


@dataclass(frozen=True, slots=True)
class SampleTile(Primitive):
    """``parts`` sizes of inner tiles of ``loop``, each from 1 to ``max_factor`` (and to the extent), any
    integer or one of ``candidates``. ``values`` is what holds until a search decides; ``role`` says what the
    sizes are for."""

    stage: StageName
    loop: LoopName
    decision: DecisionName
    parts: int = 1
    max_factor: int = 64
    candidates: tuple[int, ...] | None = None
    role: Role = "tile"
    values: tuple[int, ...] | None = None
    name = "sample_tile"
    of = "schedule"
    samples = True

    def check(self, state: ScheduleState) -> Verdict:
        verdict = check_loop(state, self.stage, self.loop)
        if not verdict:
            return verdict
        if not 1 <= self.parts <= 8:
            return refuse(f"parts={self.parts}: between 1 and 8 sizes can be sampled at once")
        if not 1 <= self.max_factor <= MAX_TILE:
            return refuse(f"max_factor={self.max_factor}: it must be between 1 and {MAX_TILE}")
        if self.candidates is not None and (
            not self.candidates or any(type(c) is not int or not 1 <= c <= MAX_TILE for c in self.candidates)
        ):
            return refuse(
                f"candidates={list(self.candidates)}: a non-empty list of sizes between 1 and {MAX_TILE}"
            )
        fresh = check_decision(state, self.decision)
        if not fresh:
            return fresh
        if self.values is not None:
            if len(self.values) != self.parts:
                return refuse(
                    f"values={list(self.values)}: {len(self.values)} value(s) for {self.parts} size(s)"
                )
            allowed = self._allowed(state)
            given = self.candidates or range(
                1, self.max_factor + 1
            )  # a value beyond the extent means the extent, as a factor of split does
            for v in self.values:
                if v not in allowed and v not in given:
                    span = (
                        f"one of {list(allowed)}"
                        if len(allowed) <= 16
                        else f"between {allowed[0]} and {allowed[-1]}"
                    )
                    return refuse(f"value {v} of {self.decision!r} is not in its domain", legal=span)
        return YES

    def _allowed(self, state: ScheduleState) -> tuple[int, ...]:
        # the axis's whole extent, not the loop's present one: that may hang on other knobs, and the domain
        # must be the same whether those are symbols or numbers
        st = state.stage(self.stage)
        axis = leaf(st, self.loop)
        for rel in reversed(st.relations):
            if rel.makes(axis):
                axis = rel.parents[0]
        extent = const_int(axis.extent)
        hi = self.max_factor if extent is None else max(1, min(self.max_factor, extent))
        if self.candidates is not None:
            return tuple(sorted({min(c, hi) for c in self.candidates}))
        return tuple(range(1, hi + 1))

    def apply(self, state: ScheduleState) -> tuple[ScheduleState, Any]:
        allowed = self._allowed(state)
        # what holds until a search decides: small enough for any axis
        usual = max((a for a in allowed if a <= 8), default=allowed[0])
        values = self.values if self.values is not None else (usual,) * self.parts
        knobs = tuple(
            Var(f"{self.decision}.{i}", INT32, "knob", allowed[0], allowed[-1]) for i in range(self.parts)
        )
        decision = Decision(
            self.decision,
            self.role,
            knobs,
            values,
            ((allowed[0], allowed[-1]),) * self.parts,
            allowed if self.candidates is not None else None,
        )
        return state.with_decision(decision), knobs

    def python(self, w: Writer) -> None:
        loop = w.loop_itself(self.stage, self.loop)
        values = w.sampled(self.decision, self.values)
        given = [f"{self.parts}"] if self.parts != 1 else []
        given += [f"max_factor={self.max_factor}"] if self.candidates is None or self.max_factor != 64 else []
        given += [f"candidates={self.candidates}"] if self.candidates is not None else []
        given += [f"values={values[0] if len(values) == 1 else values}"] if values is not None else []
        given += [f"name={self.decision!r}"] + ([f"role={self.role!r}"] if self.role != "tile" else [])
        w.line(f"{w.new_knobs(self.decision, self.parts)} = s.sample_tile({', '.join([loop, *given])})")

    def __str__(self) -> str:
        return f"sample_tile({self.stage}.{self.loop}, {quoted(self.decision)}, parts={quoted(self.parts)})"

    @overload
    @staticmethod
    def call(
        schedule: Schedule,
        loop: IterVar,
        parts: Literal[1] = 1,
        *,
        max_factor: int = 64,
        candidates: Iterable[int] | None = None,
        values: int | Sequence[int] | None = None,
        name: str | None = None,
        role: str = "tile",
    ) -> Var: ...
    @overload
    @staticmethod
    def call(
        schedule: Schedule,
        loop: IterVar,
        parts: Literal[2, 3, 4, 5, 6, 7, 8],
        *,
        max_factor: int = 64,
        candidates: Iterable[int] | None = None,
        values: Sequence[int] | None = None,
        name: str | None = None,
        role: str = "tile",
    ) -> tuple[Var, ...]: ...
    @overload
    @staticmethod
    def call(
        schedule: Schedule,
        loop: IterVar,
        parts: int,
        *,
        max_factor: int = 64,
        candidates: Iterable[int] | None = None,
        values: int | Sequence[int] | None = None,
        name: str | None = None,
        role: str = "tile",
    ) -> Var | tuple[Var, ...]: ...
    @staticmethod
    def call(
        schedule: Schedule,
        loop: IterVar,
        parts: int = 1,
        *,
        max_factor: int = 64,
        candidates: Iterable[int] | None = None,
        values: int | Sequence[int] | None = None,
        name: str | None = None,
        role: str = "tile",
    ) -> Any:
        """Tile sizes of ``loop`` as a decision: one knob, or a tuple of ``parts`` knobs, to be passed to
        split as factor.

        ``values`` hold until a search decides. Every size is an integer from 1 to ``max_factor``, or one of
        ``candidates``.

        >>> x = te.placeholder((8, 32), name="x")
        >>> y = te.compute((8, 32), lambda i, j: x[i, j] * 2, name="y")
        >>> z = te.compute((8, 32), lambda i, j: y[i, j] + 1, name="z")
        >>> s = te.create_schedule(z)
        >>> rows = s.sample_tile(z.op.axis[0], values=4, name="rows")
        >>> outer, inner = s[z].split("i", factor=rows)
        >>> print(s.tree())
        root
        ├─ storage y            float32[8, 32]  global  1 KiB
        ├─ loop y.i             0..8
        │  └─ loop y.j          0..32
        │     └─ compute y      reads x
        └─ loop z.i.outer       0..2  (7 // rows.0 + 1)
           └─ loop z.i.inner    0..4  (rows.0)
              └─ loop z.j       0..32
                 └─ compute z   reads y
        """
        stage = schedule.owner(loop)
        given = whole(values)
        given = (given,) if isinstance(given, int) else given
        knobs = schedule.perform(
            SampleTile(
                stage.name,
                loop.name,
                schedule.free_decision(f"tile_{loop.name}") if name is None else name,
                whole(parts),
                whole(max_factor),
                whole(candidates),
                role,
                given,
            )
        )
        return knobs[0] if parts == 1 else knobs
