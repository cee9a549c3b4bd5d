"""The trace: the list of primitives a schedule was made by, with the sampled values beside it. JSON and
Python text, both replay.

A trace knows stages and loops by name only, so it applies to any schedule of the same computation. Loading
one never executes text.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any

from ..boundary import shown
from ..entries import public
from ..errors import ScheduleError
from ..protocols import Entries, Row, element
from .primitives import BY_NAME
from .primitives.base import Primitive
from .primitives.fields import Knob, Size, mistyped
from .python_text import python_text

if TYPE_CHECKING:
    from .schedule import Schedule

VERSION = 1
LARGEST = 1 << 62  # of the numbers in a trace: sizes and strides are counted in 64 bits
Decisions = Mapping[str, tuple[int, ...]]


@public(ScheduleError, "Trace", text="plain", page="trace")
class Trace:
    """``steps`` in order of application; ``decisions`` maps the name of each sampled decision to its values.

    ``notes`` are remarks beside steps, by their number from 0, as on places that are pending: shown as text,
    and no part of the trace.
    """

    __slots__ = ("decisions", "notes", "steps")

    def __init__(
        self,
        steps: tuple[Primitive, ...] = (),
        decisions: Decisions | None = None,
        notes: Mapping[int, str] | None = None,
    ) -> None:
        if not isinstance(steps, tuple) or not all(isinstance(p, Primitive) for p in steps):
            raise ScheduleError(
                "Trace(…): the steps are not a tuple of primitives", try_="Trace.from_json(text), s.trace"
            )
        self.steps: tuple[Primitive, ...] = Row("trace.steps", steps)
        self.notes = Entries("trace.notes", notes)
        self.decisions: dict[str, tuple[int, ...]] = Entries("trace.decisions", decisions)

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Primitive]:
        return iter(self.steps)

    def __getitem__(self, index: int) -> Primitive:
        """A step, from 0; a slice gives a tuple of them."""
        return element("trace", tuple(self.steps), index)  # type: ignore[no-any-return]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Trace) and self.steps == other.steps and self.decisions == other.decisions

    def __hash__(self) -> int:
        # sorted: two traces are equal whatever the order in which decisions were sampled
        return hash((self.steps, tuple(sorted(self.decisions.items()))))

    def with_decisions(self, decisions: Decisions) -> Trace:
        """The same steps with other sampled values, by the names of decisions; those that are not named
        stay. Raises ScheduleError for the name of none.

        >>> y = ops.relu(te.placeholder((8, 4), name="x"))
        >>> s = te.create_schedule(y)
        >>> rows = s.sample_tile(y.op.axis[0], values=2, name="rows")
        >>> s.trace.with_decisions({"rows": (4,)}).apply(s.fresh()).decisions
        {'rows': (4,)}
        """
        known = self.decisions
        foreign = [d for d in decisions if d not in known] if isinstance(decisions, Mapping) else [decisions]
        if foreign:
            raise ScheduleError(
                f"with the decisions {shown(decisions)}: {shown(foreign[0])} is no sampled value",
                legal=", ".join(known) or "none is sampled; s.sample_tile(axis) samples one",
            )
        return Trace(self.steps, {**known, **decisions})

    def apply(self, schedule: Schedule) -> Schedule:
        """Replay on a schedule of the same computation; returns it. Decisions take this trace's values.

        Raises ScheduleError at the first step that is refused, and for what is no schedule; it is then as it
        was before the replay.

        >>> y = ops.relu(te.placeholder((8, 4), name="x"))
        >>> s = te.create_schedule(y)
        >>> s[y].vectorize("i1")
        >>> s.trace.apply(te.create_schedule(y)).tree() == s.tree()
        True
        """
        if not hasattr(type(schedule), "replay"):
            raise ScheduleError(
                f"trace.apply({shown(schedule)}): no schedule", try_="trace.apply(te.create_schedule(C.op))"
            )
        return schedule.replay(self)

    # -- JSON ------------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """The trace as JSON text, which ``Trace.from_json`` reads: plain data, no code.

        >>> y = ops.relu(te.placeholder((8, 4), name="x"))
        >>> s = te.create_schedule(y)
        >>> s[y].vectorize("i1")
        >>> print(s.trace.to_json())
        {"version": 1, "steps": [["vectorize", {"stage": "relu", "loop": "i1"}]], "decisions": {}}
        """
        steps = [[p.name, {k: _plain(v) for k, v in p.arguments().items()}] for p in self.steps]
        return json.dumps(
            {"version": VERSION, "steps": steps, "decisions": {k: list(v) for k, v in self.decisions.items()}}
        )

    @staticmethod
    def from_json(text: str) -> Trace:
        """The trace of that JSON text. Raises ScheduleError when it is not one; nothing is executed.

        >>> y = ops.relu(te.placeholder((8, 4), name="x"))
        >>> s = te.create_schedule(y)
        >>> s[y].vectorize("i1")
        >>> tl.Trace.from_json(s.trace.to_json()) == s.trace
        True
        """
        try:
            data = json.loads(text) if isinstance(text, str | bytes) else None
            if not isinstance(data, dict):
                what = f"a {type(text).__name__}, and not text"
                if isinstance(text, str | bytes):
                    what = f"JSON of a {type(data).__name__}, and not of an object"
                raise ScheduleError(
                    "not a trace", because=f"it is {what}", try_="text made by trace.to_json()"
                )
            if data["version"] != VERSION:
                raise ScheduleError(
                    f"a trace of version {data['version']!r}; this release reads version {VERSION}",
                    try_="record the trace again",
                )
            steps = tuple(primitive_of(name, arguments) for name, arguments in data["steps"])
            decisions = {str(k): tuple(_size(x) for x in v) for k, v in data["decisions"].items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
            raise ScheduleError(
                "not a trace", because=f"{type(e).__name__}: {e}", try_="text made by trace.to_json()"
            ) from None
        return Trace(steps, decisions)

    # -- Python text -----------------------------------------------------------------------------------------

    def to_python(self, *, numbers: bool = False) -> str:
        """A function ``apply(s)`` that makes the same calls on a fresh schedule ``s``; paste it, read it,
        change it.

        ``numbers=True`` writes sampled sizes as numbers instead of sampling them again.

        >>> y = ops.relu(te.placeholder((8, 4), name="x"))
        >>> s = te.create_schedule(y)
        >>> s[y].vectorize("i1")
        >>> print(s.trace.to_python())
        def apply(s):
            relu = s.tensor('relu')
            i1 = s[relu].loop('i1')
            s[relu].vectorize(i1)
            return s
        """
        return python_text(self.steps, self.decisions, numbers, self.notes)

    def __str__(self) -> str:
        return "\n".join(
            f"{i + 1:3}  {p}" + (f"  # {self.notes[i]}" if i in self.notes else "")
            for i, p in enumerate(self.steps)
        )


def _plain(value: Any) -> Any:
    if isinstance(value, Knob | Size):
        return {type(value).__name__.lower(): value.name}
    return [_plain(v) for v in value] if isinstance(value, tuple) else value


def _value(data: Any, depth: int = 0) -> Any:
    """A field of a primitive: text, a number, a size, a knob, or a list of such, once more nested at most."""
    if isinstance(data, dict):
        for word, kind in (("knob", Knob), ("size", Size)):
            if list(data) == [word] and isinstance(data[word], str):
                return kind(data[word])
        raise ValueError("an object that is not a knob stands where a value is meant")
    if isinstance(data, list):
        if depth > 1:
            # else a hostile file could nest them until Python's stack is full
            raise ValueError("lists stand deeper in one another than any primitive has them")
        return tuple(_value(v, depth + 1) for v in data)
    return _size(data) if type(data) is int else data


def _size(value: Any) -> int:
    # a bool is an int to isinstance, and JSON's 1e3 a float
    if type(value) is not int or not -LARGEST <= value <= LARGEST:
        raise ValueError(f"{str(value)[:40]} is not a size")
    return value


def primitive_of(name: str, arguments: Mapping[str, Any]) -> Primitive:
    """The primitive of that name with plain data as arguments. Raises ScheduleError when they do not fit."""
    kind = BY_NAME.get(name)
    if kind is None:
        near = difflib.get_close_matches(str(name), BY_NAME, 3)
        raise ScheduleError(
            f"the primitive {name!r} does not exist",
            legal=None if near else ", ".join(BY_NAME),
            try_=" or ".join(repr(n) for n in near) or None,
        )
    known = {f.name: f for f in fields(kind)}
    for key in arguments:
        if key not in known:
            raise ScheduleError(
                f"a step `{name}` with {key}=, which {name} does not take", legal=", ".join(known)
            )
    for f in known.values():
        if f.name not in arguments and f.default is MISSING:
            raise ScheduleError(
                f"a step `{name}` without {f.name}=", because=f"{name} takes {', '.join(known)}"
            )
    p = kind(**{k: _value(v) for k, v in arguments.items()})
    typed = mistyped(p)
    if not typed:
        raise ScheduleError(f"a step `{name}` of a wrong type", because=typed.because)
    return p
