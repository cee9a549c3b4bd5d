"""The process that forks workers and watches them: ``python -m autosched.measure.nursery [build entry, run
entry, directory]``, JSON lines on stdin and stdout.

It imports what a worker needs, once, and what only runners need is prepared while the first candidates are
built. It stays single-threaded so that forking is safe. Builders, one a
processor, compile the next candidates while the one runner times the present one. A worker that overstays its
time is killed; a new one is there in milliseconds. When stdin closes, the workers are killed and the nursery
ends, so a tuner that is killed leaves nobody behind. Knows the protocol and workers.

Between its jobs' outcomes a worker says what comes next: ``prepare`` (the right answer is being computed,
once, which may take long) ``timing`` (a measurement that needs all processors begins: builders are stopped
until the runner is done) and ``timing serial`` (one that needs the runner's own processor: only the builder
that shares it is stopped). It waits for the answer to the last two: a kernel that began while builders still
ran had one processor less, and with the second of two threads waiting for it took twice its time.

Between jobs the parent may say ``forget``: what is built or run at the moment is for nobody, and the rest is
dropped. It may say ``hold``: it is about to think, and a kernel timed meanwhile would look slow. No run is
begun then until it says ``go``; ``held`` tells it that none is under way. Builders go on.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import select
import signal
import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from ..statuses import TIMEOUT
from .awake import TURN, Awake
from .directory import Directory
from .fingerprint import fingerprint
from .protocol import BUILT, FORGET, GO, HELD, HOLD, PREPARE, TIMING, TIMING_SERIAL, Job, Outcome, Stages
from .worker import Entry, Worker, write_line

AHEAD = 8  # kernels built and not yet run
# as ``nice``, of builders: they take the time that is left by the parent when it thinks, for whom all wait,
# and by the runner
BEHIND = 5
PREPARING = 300.0  # seconds
DONE = object()  # after the last step
clock = Awake()  # of the limits of jobs: they are stopped where the nursery is


class Lines:
    """Whole lines from a pipe."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.rest = b""
        self.ended = False

    def read(self) -> list[str]:
        """What has come, when something has; at the end of the pipe ``ended`` is set."""
        try:
            data = os.read(self.fd, 1 << 16)
        except ConnectionResetError:
            data = b""
        self.ended = not data
        *whole, self.rest = (self.rest + data).split(b"\n")
        return [line.decode() for line in whole]


@dataclass
class Bench:
    """A place where one worker at a time works; the worker is forked when there is something to do."""

    entry: Entry
    directory: str
    name: str
    cores: set[int] | None
    behind: int = 0
    held: bool = False
    worker: Worker | None = None
    lines: Lines | None = None
    job: Job | None = None
    since: float = 0.0
    deadline: float = 0.0
    stopped_at: float | None = None

    def give(self, job: Job) -> None:
        """Begin a job."""
        if self.worker is None:
            self.worker = Worker(self.entry, self.directory, self.name, self.cores, self.behind)
            self.lines = Lines(self.worker.results)
        self.job, self.since = job, clock()
        self.deadline = self.since + job.timeout
        self.worker.give(job)

    def hold(self, stop: bool) -> None:
        """Stop the clock and the worker, or let both go on. Meanwhile it gets no job."""
        self.held = stop
        if self.worker is None or (self.stopped_at is not None) == stop:
            return
        now = clock()
        if not stop and self.stopped_at is not None:
            self.deadline += now - self.stopped_at
        self.stopped_at = now if stop else None
        self.worker.stop(stop)

    def close(self, reason: tuple[str, str]) -> Outcome | None:
        """The outcome of the present job of a worker that is gone."""
        self.worker, self.lines, self.stopped_at = None, None, None
        job, self.job = self.job, None
        return None if job is None else Outcome(job.id, *reason, seconds=clock() - self.since)

    def died(self) -> Outcome | None:
        """Bury the worker."""
        assert self.worker is not None
        return self.close(self.worker.why_dead())

    def kill(self, reason: tuple[str, str] = (TIMEOUT, "")) -> Outcome | None:
        """Kill the worker."""
        assert self.worker is not None
        self.worker.end()
        return self.close(reason)


@dataclass
class Nursery:
    """The jobs on their way through the two stages."""

    builders: list[Bench]
    runner: Bench
    results: int
    waiting: deque[Job] = field(default_factory=deque)
    built: deque[tuple[Job, Outcome]] = field(default_factory=deque)
    build_outcome: Outcome | None = None  # of what the runner has now
    process: str = ""  # the name of what the runner was last made for
    hold: bool = False  # begin no run
    reply_due: bool = False  # the parent waits to hear that nothing runs
    forgotten: set[int] = field(default_factory=set)  # jobs in the making that nobody waits for
    preparing: Iterator[None] | None = None  # the steps to be made before a runner is forked

    @property
    def benches(self) -> list[Bench]:
        """All of them."""
        return [*self.builders, self.runner]

    def serve(self, jobs: int) -> None:
        """Measure the jobs that come in until the pipe ends."""
        incoming = Lines(jobs)
        while not incoming.ended:
            self.assign()
            busy = {b.lines.fd: b for b in self.benches if b.lines is not None}
            deadlines = [b.deadline for b in busy.values() if b.job is not None and b.stopped_at is None]
            wait = max(0.0, min(min(deadlines) - clock(), TURN)) if deadlines else None
            if self.preparing is not None:
                wait = 0.0
            ready, _, _ = select.select([incoming.fd, *busy], [], [], wait)
            if not ready and self.preparing is not None:
                self.prepare()
            if incoming.fd in ready:
                for line in incoming.read():
                    self.receive(line)
            for fd in ready:
                if fd in busy:
                    self.hear(busy[fd])
            now = clock()
            for b in self.benches:
                if b.job is not None and b.stopped_at is None and now >= b.deadline:
                    what = "run" if b is self.runner else "built"
                    self.finished(b, b.kill((TIMEOUT, f"not {what} after {b.job.timeout:g} s")))

    def prepare(self) -> None:
        """Make the next step of what runners need. Meanwhile builders build."""
        assert self.preparing is not None
        if next(self.preparing, DONE) is DONE:
            self.preparing = None
            gc.freeze()

    def receive(self, line: str) -> None:
        """What the parent says: a job, or whether runs may begin."""
        if line in (HOLD, GO):
            self.hold = self.reply_due = line == HOLD
        elif line == FORGET:
            self.waiting.clear()
            self.built.clear()
            self.forgotten = {b.job.id for b in self.builders if b.job is not None}
            if self.runner.job is not None:
                self.finished(self.runner, self.runner.kill())
        else:
            self.waiting.append(Job.from_json(line))

    def assign(self) -> None:
        """Give idle workers what there is to do."""
        if self.reply_due and self.runner.job is None:
            write_line(self.results, HELD)
            self.reply_due = False
        if self.runner.job is None and self.built and not self.hold and self.preparing is None:
            job, outcome = self.built.popleft()
            self.build_outcome = outcome
            if job.process and job.process != self.process and self.runner.worker is not None:
                self.runner.kill()
            self.process = job.process or self.process
            self.runner.give(job)
        for b in self.builders:
            if b.job is None and not b.held and len(self.built) < AHEAD:
                for job in [j for j in self.waiting if self.may_build(b, j)][:1]:
                    self.waiting.remove(job)
                    b.give(job)

    def may_build(self, b: Bench, job: Job) -> bool:
        """What is only built leaves the runner's processor to what is waited for."""
        return not job.ahead or b is not self.builders[-1] or len(self.builders) == 1

    def hear(self, b: Bench) -> None:
        """What a worker says: what it does next, an outcome, or its last."""
        if b.lines is None or b.worker is None:
            return  # killed since it said something
        for line in b.lines.read():
            if line == PREPARE:
                b.deadline += PREPARING
            elif line in (TIMING, TIMING_SERIAL):
                for other in self.builders if line == TIMING else self.builders[-1:]:
                    other.hold(True)
                b.worker.answer(GO)
            else:
                self.finished(b, Outcome.from_json(line))
                b.job = None
        if b.lines.ended:
            self.finished(b, b.died())

    def finished(self, b: Bench, outcome: Outcome | None) -> None:
        """Pass a job on, or tell what became of it."""
        if b is self.runner:
            for other in self.builders:
                other.hold(False)
        if outcome is None:
            return
        if b is not self.runner and outcome.status == BUILT and b.job is not None and not b.job.ahead:
            if b.job.id not in self.forgotten:
                self.built.append((b.job, outcome))
            return
        if b is self.runner:
            built = self.build_outcome
            assert built is not None
            outcome = replace(
                outcome,
                build_seconds=built.build_seconds,
                seconds=outcome.seconds + built.build_seconds,
                parts={**built.parts, **outcome.parts},
            )
        write_line(self.results, replace(outcome, machine=fingerprint()).to_json())

    def close(self) -> None:
        """End all workers."""
        for b in self.benches:
            if b.worker is not None:
                b.kill()


def serve(stages: Stages, jobs: int, results: int, directory: Directory) -> None:
    """Measure the jobs that come in on one pipe, tell the outcomes on the other, in the order in which they
    are known. The directory is removed at the end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    named = [s.partition(":") for s in (stages.build, stages.run)]
    modules = [importlib.import_module(m) for m, _, _ in named]
    build, run = (getattr(module, f) for module, (_, _, f) in zip(modules, named, strict=True))

    def prepared(module: Any) -> Iterator[None]:
        """What all its workers need, step by step."""
        return iter(getattr(module, "prepare", lambda directory: ())(directory.path) or ())

    for _ in prepared(modules[0]):
        pass
    gc.freeze()  # what is imported stays, and no worker looks through it again
    # a builder makes millions of small objects that die by themselves, and each search goes through all that
    # one kernel is made of
    gc.set_threshold(1_000_000)
    gc.enable()
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    places: list[set[int] | None] = [{c} for c in cores] or [None]  # the runner's own processor is the last
    builders = [Bench(build, directory.path, f"builder{i}", place, BEHIND) for i, place in enumerate(places)]
    runner = Bench(run, directory.path, "runner", None)
    later = prepared(modules[1]) if modules[1] is not modules[0] else None
    nursery = Nursery(builders, runner, results, preparing=later)
    try:
        with contextlib.suppress(BrokenPipeError):
            nursery.serve(jobs)
    finally:
        nursery.close()
        directory.remove()


def main(arguments: list[str] | None = None) -> Any:
    """Serve on stdin and stdout; what the imports print goes to stderr."""
    given = sys.argv[1:] if arguments is None else arguments
    results = os.dup(1)
    os.dup2(2, 1)
    gc.disable()  # while what stays is imported there is nothing to find
    serve(Stages(*given[:2]), 0, results, Directory.join(given[2]) if len(given) > 2 else Directory.new())
    os._exit(0)  # its objects one by one would take as long as two candidates, and the parent waits


if __name__ == "__main__":
    main()
