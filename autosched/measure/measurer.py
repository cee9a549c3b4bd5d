"""The parent's side of measurement: asks a nursery, restarts it when it dies, never dies itself. Knows the
protocol and processes."""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType

import tensorlang as tl
from tensorlang.options import of_workers

from ..statuses import CRASH
from .awake import TURN, Awake
from .directory import Directory
from .nursery import PREPARING, Lines
from .protocol import FORGET, GO, HELD, HOLD, Job, Outcome, Stages

# jobs on their way at once: one that runs, what is built, what is being built, and what is built next
AHEAD = 8
# seconds beyond the jobs' own limits before a silent nursery is given up; its first answer waits for its
# imports
GRACE = 30.0
_START = "import sys; sys.path[:] = {path!r}; from autosched.measure.nursery import main; main({entries!r})"


class Measurer:
    """Measures jobs in other processes. ``with Measurer() as m: for outcome in m.run(jobs): …``

    ``command`` starts the nursery elsewhere: ``["ssh", host, "python3", "-m", "autosched.measure.nursery"]``
    measures on another machine, which needs this package and nothing of the caller's.
    """

    def __init__(self, stages: Stages | None = None, command: Sequence[str] | None = None) -> None:
        self.stages = stages or Stages()
        self.command = command
        self.process: subprocess.Popen[bytes] | None = None
        self.lines: Lines | None = None
        self.directory: Directory | None = None
        self.restarts = 0
        self.held = False  # the nursery has said that nothing runs
        self.heard = False  # it has said something: before, it has nothing to run

    def start(self) -> None:
        """Start the nursery; it imports while the caller goes on."""
        if self.process is not None:
            return
        entries = [self.stages.build, self.stages.run]
        if self.command is None:
            self.directory = _made()  # ours, so that it goes even when the nursery has no time to tidy up
        # the path is handed over as it is: the worker must see the same packages, wherever the caller was
        # started
        code = _START.format(
            path=_paths(), entries=[*entries, self.directory.path if self.directory is not None else ""]
        )
        command = [sys.executable, "-c", code] if self.command is None else [*self.command, *entries]
        try:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=of_workers(),
                cwd=None if _here() else "/",  # Python 3.13.0 cannot import numpy in a deleted directory
            )
        except OSError as e:
            self._tidy()
            raise tl.TensorLangError(f"cannot start {command[0]}, which measures", because=str(e)) from None
        assert self.process.stdout is not None
        self.lines = Lines(self.process.stdout.fileno())

    def measure(self, job: Job) -> Outcome:
        """The outcome of one job, whatever happens."""
        return next(iter(self.run([job])))

    def run(self, jobs: Iterable[Job]) -> Iterator[Outcome]:
        """The outcomes of the jobs, in order. A few jobs are taken ahead of the outcomes: always as many, so
        that which jobs follow may depend on outcomes and yet not on the clock. Nothing is timed while a job
        is being taken: whoever makes it may think hard; those before it are built meanwhile. The first of all
        are taken while the nursery still imports. Whoever closes the iterator waits for none of the jobs on
        their way, and the next run begins at once."""
        source = iter(jobs)
        sent: deque[Job] = deque()  # taken, and not yet answered for
        done: dict[int, Outcome] = {}
        fed: set[int] = set()  # given to the present nursery
        # on their way when a nursery died: they go one by one, so that the guilty one is known
        suspects: set[int] = set()

        def hear() -> None:
            why = self._receive(sent, done)
            if why is not None:
                self.close()
                self.restarts += 1
                lost = fed - done.keys()
                if len(lost) == 1:
                    done.update((i, Outcome(i, CRASH, why)) for i in lost)
                suspects.update(lost)
                fed.clear()
            suspects.difference_update(done)

        def feed() -> None:
            open_ = [j for j in sent if j.id not in done]
            for j in open_[: 1 if suspects else AHEAD]:
                if j.id not in fed:
                    self.start()
                    self._say(j.to_json())
                    fed.add(j.id)

        ended = False
        try:
            while True:
                if not ended and len(sent) < AHEAD:
                    if busy := self.heard:
                        self._say(HOLD)
                    while busy and self.process is not None and not self.held:
                        hear()
                    try:
                        for job in itertools.islice(source, AHEAD - len(sent)):
                            sent.append(job)
                            feed()
                    finally:
                        if busy:  # whatever becomes of this run, the next may begin at once
                            self._say(GO)
                    ended = len(sent) < AHEAD
                if not sent:
                    return
                while sent[0].id not in done:
                    feed()
                    hear()
                yield done.pop(sent.popleft().id)
        finally:
            if sent:  # nobody wants to know any more
                self._say(FORGET)

    def _say(self, line: str) -> None:
        """Tell the nursery, if there is one. One that is dead is found out by what it says."""
        self.held = False
        if self.process is not None:
            assert self.process.stdin is not None
            with contextlib.suppress(OSError):
                self.process.stdin.write((line + "\n").encode())
                self.process.stdin.flush()

    def _receive(self, sent: Iterable[Job], done: dict[int, Outcome]) -> str | None:
        """Wait for something new; why nothing can come any more, else None."""
        assert self.lines is not None
        wanted = {j.id: j for j in sent if j.id not in done}
        limit = sum(2 * j.timeout for j in wanted.values()) + PREPARING + GRACE
        clock = Awake()
        end = clock() + limit
        while not select.select([self.lines.fd], [], [], TURN)[0]:
            if clock() >= end:
                return "the measuring process did not answer"
        for line in self.lines.read():
            self.heard = True
            if line == HELD:
                self.held = True
                continue
            try:
                outcome = Outcome.from_json(line)
            except (ValueError, TypeError, AttributeError):
                return f"the measuring process said {line[:80]!r}"
            if outcome.id in wanted:  # an older answer belongs to a run that was interrupted
                done[outcome.id] = outcome
        return "the measuring process died" if self.lines.ended else None

    def close(self) -> None:
        """End the nursery and its workers."""
        process, self.process, self.lines, self.heard = self.process, None, None, False
        if process is None:
            return
        with contextlib.suppress(OSError):
            if process.stdin is not None:
                process.stdin.close()
        try:
            process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
        self._tidy()

    def _tidy(self) -> None:
        if self.directory is not None:
            self.directory.remove()
            self.directory = None

    def __enter__(self) -> Measurer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _made() -> Directory:
    try:
        return Directory.new()
    except OSError as e:
        raise tl.TensorLangError(
            "there is no place for what is measured",
            because=str(e),
            try_="free memory or disk, or set TMPDIR",
        ) from None


def _paths() -> list[str]:
    """Where modules are looked for; the working directory by its name, unless it was deleted."""
    return [path for p in sys.path for path in ([p] if p else _here())]


def _here() -> list[str]:
    """The working directory; nothing where it was deleted."""
    try:
        return [os.getcwd()]
    except OSError:
        return []
