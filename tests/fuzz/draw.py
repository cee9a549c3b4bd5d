"""Arguments for any primitive, drawn by what its fields mean: a primitive is fuzzed from the day it stands in
the table. Knows fields, and no particular primitive; those that need more thought to be legal have a method
of their own in ``schedules.Sampler``."""

from __future__ import annotations

import random
from typing import Any

from tensorlang.errors import ScheduleError
from tensorlang.schedule.primitives.base import Primitive
from tensorlang.schedule.primitives.fields import FieldType, Knob, field_types
from tensorlang.schedule.schedule import Schedule
from tensorlang.schedule.state import INLINED, StageState

NUMBERS = (1, 1, 2, 3, 4, 4, 5, 7, 8, 8, 16)
WILD: tuple[Any, ...] = (
    0,
    -1,
    1,
    2,
    8,
    70,
    2**31,
    2**70,
    None,
    True,
    2.5,
    "i",
    "nowhere",
    "local",
    (),
    ("i", "j"),
    ((0, 1, 0),),
    Knob("no.0"),
    object(),
)


def drawn(s: Schedule, kind: type[Primitive], rng: random.Random) -> Any:
    """Perform a primitive with arguments that exist and are of the right kind; ScheduleError where they do
    not go together."""
    if rng.random() < 0.3 and any(Knob in f.allowed for f in field_types(kind)):
        s.sample_categorical(rng.choice(((1, 2, 4), (3, 5), (8,))))
    return s.step(kind.name, **arguments(s, kind, rng))


def wild(s: Schedule, kind: type[Primitive], rng: random.Random) -> Any:
    """Perform a primitive with arguments of which one or two are anything at all."""
    given = arguments(s, kind, rng)
    for _ in range(rng.randint(1, 2)):
        given[rng.choice(list(given))] = rng.choice(WILD)
    return s.step(kind.name, **given)


def arguments(s: Schedule, kind: type[Primitive], rng: random.Random) -> dict[str, Any]:
    """Arguments for a primitive: loops are loops of the stage named before them. Raises ScheduleError when
    there is nothing to choose from."""
    given: dict[str, Any] = {}
    stage: StageState | None = None
    for f in field_types(kind):
        if f.meaning.of == "stage" and f.element is None:
            stage = _one(
                [st for st in s.state.stages if st.leaves and st.attach != INLINED and st is not stage], rng
            )
            given[f.name] = stage.name
        elif type(None) in f.allowed and rng.random() < 0.5:
            given[f.name] = None
        else:
            given[f.name] = _value(s, f, stage, rng)
    return given


def _value(s: Schedule, f: FieldType, stage: StageState | None, rng: random.Random) -> Any:
    several = tuple in f.allowed
    if f.meaning.of in ("loop", "axis"):
        assert stage is not None, f"{f.name}: a loop of which stage?"
        names = [iv.name for iv in (stage.leaves if f.meaning.of == "loop" else stage.compute.axis)]
        return tuple(rng.sample(names, rng.randint(1, len(names)))) if several else _one(names, rng)
    if f.meaning.of in ("stage", "tensor"):
        names = [st.name for st in s.state.stages if st.attach != INLINED]
        return tuple(rng.sample(names, rng.randint(1, min(2, len(names))))) if several else _one(names, rng)
    if f.meaning.of == "decision":
        return s.free_decision("drawn")
    if f.meaning.words:
        return rng.choice(f.meaning.words)
    knobs = [k.name for d in s.state.decisions for k in d.knobs]
    if Knob in f.allowed and knobs and rng.random() < 0.5:
        return Knob(rng.choice(knobs))
    if int in f.allowed or f.element is int:
        return (
            tuple(rng.choice(NUMBERS) for _ in range(rng.randint(1, 3))) if several else rng.choice(NUMBERS)
        )
    if f.element is tuple:
        assert stage is not None
        return tuple(
            (d, 1, 0)
            for d in rng.sample(range(len(stage.op.outputs[0].shape)), len(stage.op.outputs[0].shape))
        )
    if bool in f.allowed:
        return rng.random() < 0.5
    return _one([], rng)


def _one(things: list[Any], rng: random.Random) -> Any:
    if not things:
        raise ScheduleError("nothing to choose from")
    return rng.choice(things)
