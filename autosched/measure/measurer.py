"""The parent's side of measurement: asks a nursery, restarts it when it dies, never dies itself. Knows the protocol and
processes."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from types import TracebackType

from .nursery import ENTRY, Lines
from .protocol import CRASH, Job, Outcome

GRACE = 30.0  # seconds beyond a job's own limit before the nursery itself is given up; its first answer waits for its imports
_START = "import sys; sys.path[:] = {path!r}; from autosched.measure.nursery import main; main([{entry!r}])"


class Measurer:
    """Measures jobs in another process. ``with Measurer() as m: for outcome in m.run(jobs): …``"""

    def __init__(self, entry: str = ENTRY) -> None:
        self.entry = entry
        self.process: subprocess.Popen[bytes] | None = None
        self.lines: Lines | None = None
        self.restarts = 0

    def start(self) -> None:
        """Start the nursery; it imports while the caller goes on."""
        if self.process is None:
            # the path is handed over as it is: the worker must see the same packages, wherever the caller was started
            code = _START.format(path=[p or os.getcwd() for p in sys.path], entry=self.entry)
            self.process = subprocess.Popen(
                [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            assert self.process.stdout is not None
            self.lines = Lines(self.process.stdout.fileno())

    def measure(self, job: Job) -> Outcome:
        """The outcome of one job, whatever happens."""
        return next(iter(self.run([job])))

    def run(self, jobs: Iterable[Job]) -> Iterator[Outcome]:
        """The outcomes of the jobs, in order, each as soon as it is known."""
        for job in jobs:
            yield self._one(job)

    def _one(self, job: Job) -> Outcome:
        begin = time.monotonic()
        self.start()
        assert self.process is not None and self.process.stdin is not None and self.lines is not None
        try:
            self.process.stdin.write((job.to_json() + "\n").encode())
            self.process.stdin.flush()
            while True:
                reply = self.lines.next(begin + job.timeout + GRACE)
                if reply is None:
                    why = "the measuring process died"
                    break
                outcome = Outcome.from_json(reply)
                if outcome.id == job.id:  # an older answer belongs to a run that was interrupted
                    return outcome
        except TimeoutError:
            why = "the measuring process did not answer"
        except (BrokenPipeError, OSError, ValueError) as e:
            why = f"the measuring process died: {e}"
        self.close()
        self.restarts += 1
        return Outcome(job.id, CRASH, why, seconds=time.monotonic() - begin)

    def close(self) -> None:
        """End the nursery and its worker."""
        process, self.process, self.lines = self.process, None, None
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

    def __enter__(self) -> Measurer:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
