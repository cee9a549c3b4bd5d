"""What every primitive is made of. Knows the state and verdicts, and no particular primitive."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

from ...core.names import free_name
from ...errors import ScheduleError
from ...expr import make
from ...expr.nodes import Expr, Var
from ...expr.walk import variables
from ...te.axis import REDUCE, IterVar
from ...te.tensor import ComputeOp
from ..legality.verdict import YES, Verdict, refuse
from ..state import INLINED, At, Pending, ScheduleState, StageState, change
from .fields import Knob, Number, Size, shown

if TYPE_CHECKING:
    from ..python_text import Writer


@dataclass(frozen=True, slots=True)
class Primitive:
    """Base class. ``name`` is the word of the API; ``of`` says whether it is a method of a stage or of the
    schedule."""

    name: ClassVar[str] = ""
    of: ClassVar[str] = "stage"
    # numbers that other calls take: where those are written as numbers, this call is left out
    samples: ClassVar[bool] = False
    # the method users see: builds the primitive from their arguments and performs it
    call: ClassVar[Callable[..., Any]]

    def check(self, state: ScheduleState) -> Verdict:
        """Whether the call is legal in this state; changes nothing, and its text is made only when read."""
        raise NotImplementedError

    def apply(self, state: ScheduleState) -> tuple[ScheduleState, Any]:
        """The new state, and what the call returns. Only after a positive check."""
        raise NotImplementedError

    def uncertain_name(self) -> str:
        """The name its new stage asks for, where of several calls that ask for one name it is not known which
        gets it; else ""."""
        return ""

    def python(self, w: Writer) -> None:
        """Writes the call as a person would. What is here holds for every primitive: ``s[C].unroll(i)`` where
        the parameters of ``call`` are the fields, ``s.step("name", …)`` otherwise. A primitive with another
        form overrides it; one whose new loops and stages shall be variables binds them (``w.new_loops``,
        ``w.new_stage``), one that makes the axes of a stage anew says so (``w.renewed``)."""
        as_method = _called_by_fields(type(self))  # type: ignore[arg-type]  # a class is hashable
        w.line(w.call(self) if as_method else w.step(self))

    def arguments(self) -> dict[str, Any]:
        """The fields as plain data, in order."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def __str__(self) -> str:
        parts = []
        usual = {f.name: f.default for f in fields(self)}
        for key, value in self.arguments().items():
            same = type(value) is type(usual[key]) and value == usual[key]
            # what is as usual is not worth reading in a list of steps
            if value is None or key == "stage" or same or (key == "loop" and hasattr(self, "at")):
                continue
            if key == "at":
                value = f"{value}.{getattr(self, 'loop', '')}"
            text = shown(value)
            parts.append(text if key in ("loop", "loops", "tensor") else f"{key}={text}")
        stage = getattr(self, "stage", None)
        return f"{self.name}({', '.join(([stage] if stage else []) + parts)})"


@functools.cache
def _called_by_fields(kind: Any) -> bool:
    """Whether the method of a stage takes the fields of the primitive, in their order."""
    parameters = list(inspect.signature(kind.call).parameters)
    return kind.of == "stage" and parameters[1:] == [f.name for f in fields(kind)][1:]


def number(state: ScheduleState, value: Number) -> Expr:
    """A number of a primitive as an expression: a literal, a size, or the knob's variable (its value, when
    the state is concrete)."""
    if isinstance(value, int):
        return make.const(value, "int32")
    if isinstance(value, Size):
        return sizes_called(state, value.name)[0] if value.var is None else value.var
    base, _, index = value.name.rpartition(".")
    decision = state.decision(base)
    assert decision is not None, f"no decision {base!r}"
    i = int(index)
    # one trace is read both ways: with symbols for a search's features, with numbers for code
    return decision.knobs[i] if state.symbolic else make.const(decision.values[i], "int32")


def check_number(state: ScheduleState, value: Number | None) -> Verdict:
    """Whether a number is one: a literal, a size of the program, or a knob that a decision of this schedule
    has."""
    if isinstance(value, Size):
        found = len(sizes_called(state, value.name)) + (value.var is not None)
        if found != 1:
            return refuse(
                f"{'several sizes are' if found else 'no size of the program is'} called `{value.name}`",
                try_="variables with names of their own"
                if found
                else "split by the variable itself, which a trace does not keep",
            )
    if isinstance(value, Knob):
        base, _, index = value.name.rpartition(".")
        decision = state.decision(base)
        if decision is None or not index.isdecimal() or int(index) >= len(decision.knobs):
            return refuse(
                f"there is no sampled value `{value.name}`",
                legal=", ".join(k.name for d in state.decisions for k in d.knobs) or "none",
                try_="s.sample_tile(loop) first",
            )
    return YES


def sizes_called(state: ScheduleState, name: str) -> list[Var]:
    """The sizes and integer arguments of that name that the program speaks of."""
    exprs = [e for st in state.stages for t in st.op.outputs for e in t.shape]
    exprs += [
        e
        for st in state.stages
        if isinstance(st.op, ComputeOp)
        for e in (*st.op.body, *(a.extent for a in st.op.reduce_axis))
    ]
    # in the order of the program, so that messages are the same in every process
    found = dict.fromkeys(v for e in exprs for v in variables(e))
    return [v for v in found if v.name == name and v.kind in ("dim", "value") and v.dtype.is_index]


def check_parent(call: str, stage: Any, parent: Any) -> None:
    """Raises ScheduleError for what is no stage of the same schedule."""
    name = getattr(parent, "name", type(parent).__name__)
    if not hasattr(parent, "loop_name"):
        raise ScheduleError(
            f"s[{stage.name}].{call}({name}, …): not a stage",
            try_=f"s[{stage.name}].{call}(s[{getattr(parent, 'name', 'T')}], loop)",
        )
    if parent.schedule is not stage.schedule:
        raise ScheduleError(
            f"s[{stage.name}].{call}(s[{name}], …): s[{name}] is a stage of another schedule",
            because="te.create_schedule and s.copy() make new schedules, with stages of their own",
            try_=f"s[{stage.name}].{call}(s[{name}], loop), where both are the one s",
        )


def check_names(state: ScheduleState, *names: str) -> Verdict:
    """Whether stages of these names exist."""
    missing = next((n for n in names if n not in state.position), None)
    if missing is None:
        return YES
    return refuse(f"there is no stage `{missing}`", legal=", ".join(state.order))


def check_decision(state: ScheduleState, name: str) -> Verdict:
    """Whether a new decision may have that name."""
    if state.decision(name) is None:
        return YES
    return refuse(
        f"a decision named {name!r} exists already",
        legal="names in use: " + ", ".join(d.name for d in state.decisions),
    )


def check_stage(state: ScheduleState, name: str) -> Verdict:
    """Whether a stage exists and can be scheduled."""
    there = check_names(state, name)
    if not there:
        return there
    stage = state.stage(name)
    if stage.is_placeholder:
        return refuse(
            f"`{name}` is an argument: it has no loops",
            try_=f"s.cache_read({name}, 'local', [reader]) makes a stage that copies it",
        )
    if stage.attach == INLINED:
        return refuse(
            f"`{name}` is inlined: it has no loops any more", try_="schedule it before, or do not inline it"
        )
    return YES


def check_own_memory(state: ScheduleState, name: str) -> Verdict:
    """Whether a stage exists and decides about its own memory: a scan and its parts do not."""
    verdict = check_stage(state, name)
    if verdict:
        stage = state.stage(name)
        if stage.is_opaque:
            return refuse(
                f"`{name}` is {stage.what}",
                mark=(name, None),
                try_="the same call on the update" if stage.is_scan else None,
            )
        if stage.shares:
            return refuse(
                f"`{name}` is written straight into the scan `{stage.shares[0].name}`",
                mark=(name, None),
                try_=f"s.cache_write({name}, 'local') and the same call on that",
            )
    return verdict


def check_output(state: ScheduleState, name: str, index: int) -> Verdict:
    """Whether stage ``name`` has an output ``index``."""
    n = len(state.stage(name).op.outputs)
    return (
        YES
        if 0 <= index < n
        else refuse(
            f"index={index}: `{name}` has {n} output{'s' if n > 1 else ''}",
            legal=", ".join(map(str, range(n))),
        )
    )


def check_loop(state: ScheduleState, stage: str, loop: str) -> Verdict:
    """Whether a stage has that loop, now."""
    verdict = check_stage(state, stage)
    if not verdict:
        return verdict
    st = state.stage(stage)
    if st.place_of(loop) is not None:
        return YES
    loops = ", ".join(iv.name for iv in st.leaves) or "none"
    if st.loop(loop) is not None:
        # a loop that was there: its children are what the user looks for
        made = next((r for r in st.relations if any(p.name == loop for p in r.parents)), None)
        into = f" into {', '.join(c.name for c in made.children)}" if made else ""
        how = {"Split": "was split", "Fuse": "was fused"}.get(type(made).__name__, "is gone")
        if made is None:
            return refuse(
                f"`{loop}` is an axis that `{stage}` no longer loops over",
                legal=f"the loops of {stage}: {loops}",
            )
        return refuse(
            f"`{loop}` {how}{into} before", legal=f"the loops of {stage}: {loops}", mark=(stage, None)
        )
    return refuse(
        f"`{stage}` has no loop `{loop}`", legal=f"the loops of {stage}: {loops}", mark=(stage, None)
    )


def leaf(stage: StageState, name: str) -> IterVar:
    """The loop of that name among the present ones."""
    return stage.leaves[position(stage, name)]


def position(stage: StageState, name: str) -> int:
    """The place of that loop among the present ones, outermost first."""
    place = stage.place_of(name)
    assert place is not None, f"{stage.name} has no loop {name}"
    return place


# a loop is named after those it is made of: split and fused again and again, its name would double each time
LONGEST_NAME = 256


def fresh_loop_name(stage: StageState, preferred: str) -> str:
    """A loop name the stage has never used."""
    if len(preferred) <= LONGEST_NAME:
        return free_name(preferred, stage.used())
    short = f"{preferred.partition('.')[0]}.{preferred.rpartition('.')[2]}"
    return free_name(short, stage.used() | {short}, len(stage.relations))


def renamed(state: ScheduleState, stage: str, now: dict[str, str]) -> list[StageState]:
    """The stages computed, stored or pending at loops of ``stage`` that are gone, at the loops they are
    ``now``; those that change."""
    inside: dict[str, None] = dict.fromkeys(state.links.pending)
    todo = [stage]
    for name in (
        todo
    ):  # grows on the way; memory is made at loops around the place of a stage, so those inside are all
        inside.update(dict.fromkeys(state.links.attached.get(name, ())))
        todo += state.links.attached.get(name, ())

    def at(place: Any) -> Any:
        return (
            At(stage, now[place.loop])
            if isinstance(place, At) and place.stage == stage and place.loop in now
            else place
        )

    result = []
    for st in map(state.stage, inside):
        pending = st.pending and Pending(at(st.pending.place), at(st.pending.store))
        new = change(st, attach=at(st.attach), store=at(st.store), pending=pending)
        if (new.attach, new.store, new.pending) != (st.attach, st.store, st.pending):
            result.append(new)
    return result


def check_untouched(state: ScheduleState, stage: str, name: str, mark: tuple[str, str | None]) -> Verdict:
    """Whether nothing has been said of the loops of a stage, which the primitive ``name`` replaces."""
    inside = state.attached(stage)
    if inside:
        return refuse(
            f"`{inside[0].name}` is computed inside its loops, which would be gone",
            mark=mark,
            try_=f"{name} before compute_at",
        )
    st = state.stage(stage)
    if st.relations or st.kinds or any(x is not None for x in (st.attach, st.pending, st.within)):
        return refuse(
            f"its schedule is begun, and the loops of `{stage}` would be others",
            mark=(stage, None),
            try_=f"{name} before all other calls for this stage",
        )
    return YES


def check_plain(state: ScheduleState, stage: str, mark: tuple[str, str | None]) -> Verdict:
    """Whether a stage is a compute, and no part of a scan."""
    st = state.stage(stage)
    if st.is_opaque or st.within is not None:
        what = st.what if st.is_opaque else "a part of a scan"
        return refuse(f"`{stage}` is {what}", mark=mark)
    return YES


def check_formula(state: ScheduleState, stage: str, name: str, mark: tuple[str, str | None]) -> Verdict:
    """Whether there is such a stage, and its formula may be written anew by the primitive ``name``: of a
    compute of which nothing has been said."""
    there = check_stage(state, stage) and check_plain(state, stage, mark)
    return there and check_untouched(state, stage, name, mark)


def parts_before(state: ScheduleState, stage: str, parts: Iterable[ComputeOp]) -> ScheduleState:
    """The state with a stage for each of ``parts`` in front of a stage."""
    part = state.stage(stage).in_part
    for op in parts:
        leaves = (*op.axis, *op.reduce_axis)
        state = state.insert_before(stage, StageState(op.name, op, leaves, in_part=part))
    return state


def in_parts(state: ScheduleState, stage: str, parts: Iterable[ComputeOp], body: Expr) -> ScheduleState:
    """The state with a stage for each of ``parts`` in front of a reduction, which becomes ``body``."""
    st = state.stage(stage)
    state = parts_before(state, stage, parts)
    kept = tuple(iv for iv in st.leaves if iv.kind != REDUCE)
    return state.with_stage(change(st, op=st.compute.redefined((body,), reduce_axis=()), leaves=kept))
