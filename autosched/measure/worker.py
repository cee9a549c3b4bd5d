"""A forked process that does jobs of one stage until it dies, and the two pipes to it. Knows the protocol
only.

How a worker died is the outcome of the job it was at. It also dies with its nursery.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import traceback
from collections.abc import Callable
from pathlib import Path

from ..statuses import CRASH, KILLED, OUT_OF_MEMORY
from .protocol import TIMING, TIMING_SERIAL, Job, Outcome

Entry = Callable[[Job, str, Callable[[str], None]], Outcome]
_NO_MEMORY = ("out of memory", "bad_alloc", "Cannot allocate memory", "MemoryError")
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG


class Worker:
    """``cores`` is where it may run; None: everywhere. ``behind``: by how much others go before it, as
    ``nice``."""

    def __init__(
        self, entry: Entry, directory: str, name: str, cores: set[int] | None = None, behind: int = 0
    ) -> None:
        job_out, self.jobs = os.pipe()
        self.results, result_in = os.pipe()
        self.log = os.path.join(directory, f"{name}.log")
        self.kills = _kills_of_the_system()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(self.jobs)
                os.close(self.results)
                if cores:
                    os.sched_setaffinity(0, cores)
                if behind:
                    os.nice(behind)
                _live(entry, directory, job_out, result_in, self.log)
            except BaseException:
                traceback.print_exc()  # its last line is the reason that the parent reports
            finally:
                os._exit(1)
        os.close(job_out)
        os.close(result_in)

    def give(self, job: Job) -> None:
        """Hand it a job. A worker that is dead already is found out by its results."""
        self.answer(job.to_json())

    def answer(self, line: str) -> None:
        """Say something that it waits for."""
        with contextlib.suppress(BrokenPipeError):
            write_line(self.jobs, line)

    def stop(self, stopped: bool) -> None:
        """Hold it, or let it go on."""
        os.kill(
            self.pid, signal.SIGSTOP if stopped else signal.SIGCONT
        )  # not reaped, so the number is still its own

    def end(self, *, kill: bool = True) -> int:
        """Kill it (or wait for it), and tell how it ended."""
        if kill:
            os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        os.close(self.jobs)
        os.close(self.results)
        return status

    def why_dead(self) -> tuple[str, str]:
        """Bury a worker that ended by itself: (outcome, reason)."""
        status = self.end(kill=False)
        words = self._last_words()
        said = f": {words.splitlines()[-1]}" if words else ""
        if any(w in words for w in _NO_MEMORY):
            return OUT_OF_MEMORY, f"the worker ran out of memory{said}"
        if not os.WIFSIGNALED(status):
            return CRASH, f"the worker ended with status {os.waitstatus_to_exitcode(status)}{said}"
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            return CRASH, f"the worker died of {signal.Signals(number).name}{said}"
        if _kills_of_the_system() > self.kills:
            return OUT_OF_MEMORY, "the system killed the worker for want of memory"
        return KILLED, "the worker was killed from outside (SIGKILL)"

    def _last_words(self) -> str:
        """The end of what it wrote to stderr."""
        try:
            with open(self.log, "rb") as f:
                return f.read()[-2000:].decode(errors="replace").strip()
        except OSError:
            return ""


def _live(entry: Entry, directory: str, jobs: int, results: int, log: str) -> None:
    """The life of a worker."""
    _die_with_parent()
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    base = _address_space()
    with os.fdopen(jobs, "r") as lines:

        def say(phase: str) -> None:
            write_line(results, phase)
            if phase in (TIMING, TIMING_SERIAL):
                lines.readline()  # the answer: others are stopped

        for line in lines:
            job = Job.from_json(line)
            os.ftruncate(fd, 0)
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_AS, (base + job.memory, resource.RLIM_INFINITY))
            write_line(results, entry(job, directory, say).to_json())
    os._exit(0)


def _die_with_parent() -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)


def in_child(work: Callable[[], None]) -> None:
    """Do some work in a forked child and wait for its end, whatever becomes of it: what it leaves running in
    its process goes with it."""
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            _die_with_parent()
            work()
        os._exit(0)
    os.waitpid(pid, 0)


def _address_space() -> int:
    with open("/proc/self/statm") as f:
        return int(f.read().split()[0]) * resource.getpagesize()


def _kills_of_the_system() -> int:
    """How many processes the kernel has killed for want of memory; 0 where it does not say."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


def write_line(fd: int, line: str) -> None:
    """All of a line."""
    data = (line + "\n").encode()
    while data:
        data = data[os.write(fd, data) :]
