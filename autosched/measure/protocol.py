"""What the parent asks and what comes back: two records of plain data, one JSON line each. Knows nothing
else."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any

BUILT = "built"  # what a builder answers; the end of a job only where it is built ahead


@dataclass(frozen=True, slots=True)
class Job:
    """Measure one candidate: ``graph`` and ``trace`` as JSON text, ``key`` the graph's. ``timeout`` seconds
    to build it and as many to run it, ``memory`` bytes beyond what a worker has at birth, ``seconds`` to
    spend on timing, ``best`` the seconds of the fastest candidate so far (0: none): what is much slower is
    timed only once. ``process``: jobs of the same name here are run in one process, which has run nothing
    else before; those without a name in any. ``place``: when it is not negative, as a
    program would find it, with what disturbs it, and the arrays where that number says. ``also``: traces of
    other candidates that are built too and timed in turns with this one, in one process. ``whole``: built as
    a user's kernels are, and not of nests that candidates share. ``ahead``: only built, for a later job that
    finds the kernel there."""

    id: int
    graph: str
    key: str
    target: str
    trace: str
    timeout: float = 20.0
    memory: int = 4 << 30
    seconds: float = 0.015
    best: float = 0.0
    process: str = ""
    place: int = -1
    also: tuple[str, ...] = ()
    whole: bool = False
    ahead: bool = False

    @property
    def traces(self) -> tuple[str, ...]:
        """Of all candidates of the job."""
        return self.trace, *self.also

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(line: str) -> Job:
        data = json.loads(line)
        return Job(**{**data, "also": tuple(data.get("also", ()))})


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a job: ``times`` when ``status`` is ok, the reason in ``error`` otherwise. ``machine``
    is where it was measured; ``parts`` what the work took, in seconds by their names; ``also`` the times of
    the other candidates of a job: the n-th of each were taken right after one another; ``shared``, while
    processors shared a core (see ``cores``)."""

    id: int
    status: str
    error: str = ""
    times: tuple[float, ...] = ()
    build_seconds: float = 0.0
    seconds: float = 0.0
    machine: str = ""
    parts: dict[str, float] = field(default_factory=dict)
    also: tuple[tuple[float, ...], ...] = ()
    shared: bool = False

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(line: str) -> Outcome:
        known = {f.name for f in fields(Outcome)}
        data: dict[str, Any] = {k: v for k, v in json.loads(line).items() if k in known}
        also = tuple(tuple(times) for times in data.get("also", ()))
        return Outcome(**{**data, "times": tuple(data.get("times", ())), "also": also})


@dataclass(frozen=True, slots=True)
class Stages:
    """The two halves of a measurement, each ``"module:function"`` of ``(job, directory, say)``: the builder
    leaves a kernel in the directory and answers BUILT, the runner finds it there. ``say(phase)`` tells the
    nursery what comes next: see ``nursery``. Where a module has a ``prepare(directory)``, it is called once
    in the process of which workers are forked; it may be a generator, whose steps for runners are made while
    builders work."""

    build: str = "autosched.measure.builder:build"
    run: str = "autosched.measure.runner:run"


PREPARE, TIMING, TIMING_SERIAL = "prepare", "timing", "timing serial"  # what a runner says comes next
HOLD, GO = "hold", "go"  # what a parent says between jobs: begin no run now; begin them again
HELD = "held"  # the answer to the first: nothing runs
FORGET = "forget"  # what a parent says that waits for no job any more
