"""One measurement: what was measured, on what, with what outcome. Knows JSON; nothing of files."""

from __future__ import annotations

import functools
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import tensorlang as tl
from tensorlang.boundary import answer, guard, shown
from tensorlang.entries import show

from ..statuses import OK, STATUSES

VERSION = 1
# of the time of the schedule a search began with: less gain is within what placement in memory does
WORTH = 0.97
LOOKING = " look"  # at the end of the name of a turn that only chose who was measured further
SHARED = " shared"  # in that of a turn during which processors shared a core


@dataclass(frozen=True, slots=True, repr=False)
class Record:
    """``status`` is ok, refused, build_error, wrong_answer, crash, timeout, out_of_memory or killed;
    ``error`` the reason in words; ``times`` seconds of one run, one per sample; ``steps`` the trace as JSON
    text, sampled values included; ``start`` marks the schedule that the search began with, which is kept
    unless another is clearly faster; ``names`` are those of the computation that the trace speaks of, in the
    order of ``te.serialize.form_and_names``, or none: those of whoever reads it; ``turn`` is one text for all
    that was measured right after one another, and may be compared whatever the machine was like then. Raises
    TensorLangError for another status, and where one of the first four is not text."""

    task: str
    target: str
    steps: str
    status: str
    times: tuple[float, ...] = ()
    error: str = ""
    name: str = ""
    machine: str = ""
    build_seconds: float = 0.0
    seconds: float = 0.0
    when: float = 0.0
    versions: Mapping[str, str] = field(default_factory=dict)
    version: int = VERSION
    start: bool = False
    names: tuple[str, ...] = ()
    turn: str = ""

    def __post_init__(self) -> None:
        for name in ("task", "target", "steps", "status"):
            if not isinstance(getattr(self, name), str):
                raise tl.TensorLangError(
                    f"autosched.Record({name}={shown(getattr(self, name))}): text is needed",
                    try_="autosched.RecordLog('records.jsonl') has the records of a file",
                )
        if self.status not in STATUSES:
            raise tl.TensorLangError(
                f"autosched.Record(status={self.status!r}): there is no such outcome",
                legal=", ".join(STATUSES),
            )

    @property
    def ok(self) -> bool:
        """Whether the candidate gave the right answer in time, so that its cost counts."""
        return self.status == OK and bool(self.times)

    @property
    def final(self) -> bool:
        """Whether it was timed again at the end of a search, beside the schedule that the search began with:
        then it is no trial of its own."""
        return bool(self.turn)

    @property
    def cost(self) -> float:
        """The median time of one run in seconds; infinite when the candidate failed."""
        return statistics.median(self.times) if self.ok else float("inf")

    @property
    def interval(self) -> tuple[float, float]:
        """A range that holds the true median with 95 % confidence (see ``median_interval``)."""
        return median_interval(self.times) if self.ok else (float("inf"), float("inf"))

    @property
    def identity(self) -> tuple[object, ...]:
        """By what measurements of the same thing are recognised: task, target, steps and names."""
        return self.task, self.target, self.steps, self.names

    def trace(self) -> tl.Trace:
        """The trace, sampled values included. Raises ScheduleError when it does not parse."""
        return tl.Trace.from_json(self.steps)

    def to_json(self) -> str:
        """One line, without the newline. The median and its interval are written for other readers, and not
        read."""
        derived = {"median": self.cost, "interval": self.interval} if self.ok else {}
        plain = {k: v for k, v in asdict(self).items() if k not in ("start", "names", "turn") or v}
        return json.dumps({**plain, "steps": json.loads(self.steps), **derived}, separators=(",", ":"))

    @staticmethod
    def from_json(line: str) -> Record:
        """The record of one line. Raises TensorLangError with the reason when it is none."""
        data = json.loads(line)
        if not isinstance(data, dict):
            raise ValueError("not a JSON object")
        if data.get("version") != VERSION:
            raise ValueError(f"version {data.get('version')!r}; this release reads version {VERSION}")
        known = {f.name for f in fields(Record)}
        values = {k: v for k, v in data.items() if k in known}
        for name, kind in _TYPES.items():
            if name in values and (not isinstance(values[name], kind) or isinstance(values[name], bool)):
                raise ValueError(f"{name} is of type {type(values[name]).__name__}")
        missing = [n for n in ("task", "target", "steps", "status") if n not in values]
        if missing:
            raise ValueError(f"without {', '.join(missing)}")
        if values["status"] not in STATUSES:
            raise ValueError(f"the status {values['status'][:40]!r} is none")
        for name in ("build_seconds", "seconds", "when"):
            if not math.isfinite(values.get(name, 0.0)):
                raise ValueError(f"{name} is {values[name]}")
        values["times"] = tuple(_seconds(t) for t in values.get("times", ()))
        values["names"] = tuple(values.get("names", ()))
        if not all(isinstance(n, str) for n in values["names"]):
            raise ValueError("names are not all text")
        _check_form(values["steps"])
        values["steps"] = canonical(values["steps"])
        values["start"] = values.get("start") is True
        return Record(**values)


_TYPES: dict[str, Any] = {
    "task": str,
    "target": str,
    "steps": dict,
    "status": str,
    "times": list,
    "error": str,
    "name": str,
    "machine": str,
    "build_seconds": int | float,
    "seconds": int | float,
    "when": int | float,
    "versions": dict,
    "names": list,
    "turn": str,
}


def _check_form(steps: Mapping[str, Any]) -> None:
    """Raise ValueError unless this has the form of a trace; whether its steps mean something is found out
    when they are replayed."""
    listed, decisions = steps.get("steps"), steps.get("decisions")
    if not isinstance(listed, list) or not isinstance(decisions, dict):
        raise ValueError("steps is not a trace")
    for s in listed:
        if not (isinstance(s, list) and len(s) == 2 and isinstance(s[0], str) and isinstance(s[1], dict)):
            raise ValueError(f"a step is {str(s)[:40]}, not [name, arguments]")
    for name, values in decisions.items():
        if not (isinstance(values, list) and all(type(v) is int for v in values)):
            raise ValueError(f"the decision {name[:40]} is not a list of whole numbers")


def _seconds(t: Any) -> float:
    if isinstance(t, bool) or not isinstance(t, int | float) or not t > 0 or t == float("inf"):
        raise ValueError(f"{t!r} is not a time")
    return float(t)


def canonical(steps: Any) -> str:
    """The one text of a trace document, so that equal traces are equal strings."""
    return json.dumps(steps, separators=(",", ":"))


def canonical_trace(trace: tl.Trace) -> str:
    """The one text of a trace."""
    decisions = {name: list(values) for name, values in trace.decisions.items()}
    return f"{_undecided(trace.steps)}{canonical(decisions)}}}"


@functools.lru_cache(maxsize=64)
def _undecided(steps: tuple[Any, ...]) -> str:
    """That of a trace of these steps, up to its decisions: hundreds of candidates have the same."""
    return canonical(json.loads(tl.Trace(steps, {}).to_json())).removesuffix("{}}")


def median_interval(times: Sequence[float]) -> tuple[float, float]:
    """A range that holds the true median with 95 % confidence, whatever the distribution: two of the sorted
    samples (David and Nagaraja, Order Statistics, section 7.1). With fewer than six samples there is no such
    pair, and it is the whole range."""
    ordered, n = sorted(times), len(times)
    low = 0
    while 2 * sum(math.comb(n, i) for i in range(low + 2)) <= 0.05 * 2**n:
        low += 1
    return ordered[low], ordered[n - 1 - low]


answer(Record, "Record", {})
# its other methods are not guarded: readers of files tell lines of others by plain exceptions
guard(Record, ("__init__",), "autosched.Record", tl.TensorLangError)
show(Record, text="autosched.reporting.objects:record", page="autosched.reporting.objects:record_page")
