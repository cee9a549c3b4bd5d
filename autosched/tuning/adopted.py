"""Records of a computation in the names of a task that computes the same with other names, or was known by
the key of before. Knows records and schedules; nothing of search or measurement.

The key of a task ignores names, and the trace of a record speaks of stages and loops by name: so a record
carries the names it was made with, and its steps are made on a schedule with those names and expressed in the
names of the task.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import Any, Protocol

import tensorlang as tl
from tensorlang import te

from ..records import Record
from ..records.database import shortened
from ..records.record import canonical_trace
from ..records.replay import parsed, refusals
from .transplant import renamed


class Named(Protocol):
    """What is needed of a task: its keys, the names it knows things by, and its computation."""

    target: tl.Target

    @property
    def workload_key(self) -> str: ...
    @property
    def exact_key(self) -> str: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def tensors(self) -> list[te.Tensor]: ...
    def schedule(self) -> tl.Schedule: ...


class Adopted:
    """Takes records for ``task``. ``like`` are traces whose names for decisions are taken where the steps are
    the same; ``refused`` collects the reasons of the records that cannot be expressed in the task's names."""

    def __init__(self, task: Named, like: Sequence[tl.Trace] = ()) -> None:
        self.task, self.target, self.like = task, str(task.target), like
        self.refused: list[str] = []
        self._parts: dict[tuple[str, ...], tl.Schedule] = {}
        self._known: dict[
            Any, tuple[tl.Trace, dict[str, str]]
        ] = {}  # by names and steps: most records differ in sampled values only

    def take(self, records: Iterable[Record]) -> list[Record]:
        """The records, those of the task with its key and in its names. Records of other tasks stay as they
        are; what cannot be expressed is left out."""
        result = []
        for r in records:
            try:
                result.append(self._one(r))
            except tl.TensorLangError as e:
                self.refused.append(shortened(str(e)))
        return result

    def own(self, records: Iterable[Record]) -> list[Record]:
        """Those of the task and its target."""
        return [r for r in self.take(records) if r.task == self.task.workload_key and r.target == self.target]

    def _one(self, r: Record) -> Record:
        if r.task == self.task.exact_key:
            return replace(r, task=self.task.workload_key, names=self.task.names)
        if r.task != self.task.workload_key or r.target != self.target or r.names == self.task.names:
            return r
        if not r.names:
            return replace(r, names=self.task.names)
        return replace(
            r, names=self.task.names, steps=canonical_trace(self._translated(parsed(r.steps), r.names))
        )

    def _translated(self, trace: tl.Trace, names: tuple[str, ...]) -> tl.Trace:
        """The trace in the names of the task. Raises ScheduleError."""
        key = names, trace.steps
        if key not in self._known:
            with refusals():
                self._known[key] = self._aligned(renamed(trace, self._part(names), self.task.schedule()))
        like, decisions = self._known[key]
        values = {decisions.get(k, k): v for k, v in trace.decisions.items()}
        return tl.Trace(
            like.steps, {k: values[k] for k in dict.fromkeys([*like.decisions, *values]) if k in values}
        )

    def _part(self, names: tuple[str, ...]) -> tl.Schedule:
        """A schedule of the task with those names, no step made."""
        if names not in self._parts:
            tensors = te.serialize.renamed(self.task.tensors, names)
            self._parts[names] = tl.create_schedule(
                [t for t in tensors if not isinstance(t.op, te.PlaceholderOp)]
            )
        return self._parts[names]

    def _aligned(self, trace: tl.Trace) -> tuple[tl.Trace, dict[str, str]]:
        """The trace of ``like`` with the same steps, and its decisions by those of ``trace``; ``trace``
        itself when there is none."""
        mine = _decisions(trace)
        for other in self.like:
            theirs = _decisions(other)
            if len(mine) == len(theirs) and len(trace) == len(other):
                names = dict(zip(mine, theirs, strict=True))
                if tuple(_decided(p, names) for p in trace.steps) == other.steps:
                    return other, names
        return trace, {}


def _decisions(trace: tl.Trace) -> list[str]:
    return list(dict.fromkeys(p.decision for p in trace.steps if hasattr(p, "decision")))


def _decided(step: Any, names: dict[str, str]) -> Any:
    """A step with other names for decisions."""

    def translated(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(translated, value))
        known = getattr(value, "name", None)  # a sampled value, where a number stands
        if known is None:
            return value
        name, dot, number = known.rpartition(".")
        return replace(value, name=names.get(name, name) + dot + number)

    changes = {f.name: translated(getattr(step, f.name)) for f in fields(step)}
    if "decision" in changes:
        changes["decision"] = names[step.decision]
    return replace(step, **changes)
