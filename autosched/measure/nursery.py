"""The process that forks workers and watches them: ``python -m autosched.measure.nursery [entry]``, JSON lines on stdin and stdout.

It imports what a worker needs, once, and stays single-threaded so that forking is safe. A worker runs jobs until it dies; how it
died is the outcome of the job it was at. When stdin closes, the worker is killed and the nursery ends, so a tuner that is killed
leaves nobody behind; a worker also dies with its nursery. ``entry`` ("module:function") is what a worker calls for each job.
Knows the protocol only.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from typing import Any

from .protocol import CRASH, OUT_OF_MEMORY, TIMEOUT, Job, Outcome

ENTRY = "autosched.measure.runner:measure"
_NO_MEMORY = ("out of memory", "bad_alloc", "Cannot allocate memory", "MemoryError")
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG


class Worker:
    """A forked process that measures jobs, and the two pipes to it."""

    def __init__(self, entry: Callable[[Job, str | None], Outcome], directory: str) -> None:
        job_out, self.jobs = os.pipe()
        self.results, result_in = os.pipe()
        self.log = os.path.join(directory, "worker.log")
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(self.jobs)
                os.close(self.results)
                _live(entry, directory, job_out, result_in, self.log)
            except BaseException:
                traceback.print_exc()  # its last line is the reason the parent is told
                sys.stderr.flush()
            finally:
                os._exit(1)
        os.close(job_out)
        os.close(result_in)

    def end(self, *, kill: bool = True) -> int:
        """Kill it (or wait for it), and tell how it ended."""
        if kill:
            os.kill(self.pid, signal.SIGKILL)  # not reaped yet, so the number is still its own
        _, status = os.waitpid(self.pid, 0)
        os.close(self.jobs)
        os.close(self.results)
        return status

    def last_words(self) -> str:
        """The end of what it wrote to stderr."""
        try:
            with open(self.log, "rb") as f:
                return f.read()[-2000:].decode(errors="replace").strip()
        except OSError:
            return ""


def _live(entry: Callable[[Job, str | None], Outcome], directory: str, jobs: int, results: int, log: str) -> None:
    """The life of a worker."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    base = _address_space()
    with os.fdopen(jobs, "r") as lines:
        for line in lines:
            job = Job.from_json(line)
            os.ftruncate(fd, 0)
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_AS, (base + job.memory, resource.RLIM_INFINITY))
            outcome = entry(job, directory)
            _write(results, outcome.to_json())
    os._exit(0)


def _address_space() -> int:
    with open("/proc/self/statm") as f:
        return int(f.read().split()[0]) * resource.getpagesize()


def _write(fd: int, line: str) -> None:
    data = (line + "\n").encode()
    while data:
        data = data[os.write(fd, data) :]


class Lines:
    """Whole lines from a pipe, with a deadline."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.rest = b""

    def next(self, deadline: float | None, also: int | None = None) -> str | None:
        """The next line; None at the end of the pipe. Raises TimeoutError at the deadline, EOFError when the pipe ``also`` ends."""
        while b"\n" not in self.rest:
            wait = None if deadline is None else max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select([self.fd, *([] if also is None else [also])], [], [], wait)
            if not ready:
                raise TimeoutError
            if self.fd not in ready:
                raise EOFError
            data = os.read(self.fd, 1 << 16)
            if not data:
                return None
            self.rest += data
        line, _, self.rest = self.rest.partition(b"\n")
        return line.decode()


def serve(entry_name: str, jobs: int, results: int) -> None:
    """Measure the jobs that come in, one after the other, until the pipe ends."""
    module, _, function = entry_name.partition(":")
    entry = getattr(importlib.import_module(module), function)
    directory = tempfile.mkdtemp(prefix="autosched-")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    incoming = Lines(jobs)
    worker: Worker | None = None
    replies: Lines | None = None
    try:
        while (line := incoming.next(None)) is not None:
            job = Job.from_json(line)
            if worker is None:
                worker = Worker(entry, directory)
                replies = Lines(worker.results)
            start = time.monotonic()
            outcome, alive = _one(worker, replies, job, jobs, start)  # type: ignore[arg-type]
            if not alive:
                worker = None
            _write(results, outcome.to_json())
    except (EOFError, BrokenPipeError):
        pass
    finally:
        if worker is not None:
            worker.end()
        shutil.rmtree(directory, ignore_errors=True)


def _one(worker: Worker, replies: Lines, job: Job, parent: int, start: float) -> tuple[Outcome, bool]:
    with contextlib.suppress(BrokenPipeError):
        _write(worker.jobs, job.to_json())
    try:
        reply = replies.next(start + job.timeout, also=parent)
    except TimeoutError:
        worker.end()
        return Outcome(job.id, TIMEOUT, f"not done after {job.timeout:g} s", seconds=time.monotonic() - start), False
    if reply is not None:
        return Outcome.from_json(reply), True
    status = worker.end(kill=False)  # the pipe ended because it did
    words = worker.last_words()
    return Outcome(job.id, *_death(status, words), seconds=time.monotonic() - start), False


def _death(status: int, words: str) -> tuple[str, str]:
    """(outcome, reason) of a worker that ended by itself."""
    said = f": {words.splitlines()[-1]}" if words else ""
    if any(w in words for w in _NO_MEMORY):
        return OUT_OF_MEMORY, f"the worker ran out of memory{said}"
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == signal.SIGKILL:
            return OUT_OF_MEMORY, "the worker was killed by the system, most likely for its memory"
        return CRASH, f"the worker died of {signal.Signals(number).name}{said}"
    return CRASH, f"the worker ended with status {os.waitstatus_to_exitcode(status)}{said}"


def main(arguments: list[str] | None = None) -> Any:
    """Serve on stdin and stdout; what the imports print goes to stderr."""
    given = sys.argv[1:] if arguments is None else arguments
    results = os.dup(1)
    os.dup2(2, 1)
    serve(given[0] if given else ENTRY, 0, results)


if __name__ == "__main__":
    main()
