"""Many kernels compiled at once: by this process and by some that it starts. Knows jobs.

Workers are new processes, not forks: a fork would copy the caller's threads' locks. One takes half a second
to begin, and this process compiles meanwhile, so few kernels need none; a caller who expects many lets one
begin (``Ahead``) while it still finds out which. At the end this process compiles too what a worker has not
begun: nobody waits for several kernels. A worker that dies takes nobody with it: the job counts as
failed, for it might end this process too.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .. import options
from ..errors import CompileError, TensorLangError
from ..runtime.codes import KernelCode, from_bytes
from ..runtime.processors import processors
from .job import Job, compiled

AHEAD = 4  # jobs a worker has at once: this process answers only between two jobs of its own
WORTH = 12  # kernels that are worth another process

Done = Callable[[int, KernelCode], None]


class Ahead:
    """A worker that begins before the jobs are known, for ``distinct`` kernels at most of which some will be
    equal; none where that is too few, and where ``workers`` or the processors say so. A context that ends
    those that nobody took."""

    def __init__(self, distinct: int, workers: int | None = None) -> None:
        most = processors() if workers is None else workers
        self.helpers = [_Helper()] if most > 1 and distinct >= 2 * WORTH else []

    def taken(self) -> list[_Helper]:
        """The workers, which are the caller's from now on."""
        helpers, self.helpers = self.helpers, []
        return helpers

    def __enter__(self) -> Ahead:
        return self

    def __exit__(self, *_: object) -> None:
        for h in self.taken():
            h.close()


def compile_all(
    jobs: Sequence[Job], done: Done, workers: int | None = None, ahead: Ahead | None = None
) -> None:
    """Compile the jobs; ``done(number, code)`` is called for each, in the order in which they are ready.
    ``workers`` are processes at once, this one included; None: as many as are worth it. Those of ``ahead``
    have begun and are of them.

    Raises TensorLangError for the first that fails, and CompileError where a worker died of one.
    """
    most = processors() if workers is None else workers
    begun = [] if ahead is None else ahead.taken()
    pool = _Pool(jobs, done, min(most - 1, len(jobs) // WORTH if workers is None else len(jobs)), begun)
    try:
        pool.run()
    finally:
        pool.close()


class _Pool:
    def __init__(self, jobs: Sequence[Job], done: Done, helpers: int, begun: Sequence[_Helper] = ()) -> None:
        self.jobs = jobs
        self.done = done
        self.waiting = deque(range(len(jobs)))
        self.ready: set[int] = set()
        self.twice: set[int] = set()  # given to a worker, and compiled here too
        self.selector = selectors.DefaultSelector()
        self.helpers = [*begun, *(_Helper() for _ in range(helpers - len(begun)))]
        for h in self.helpers:
            self.selector.register(h.results, selectors.EVENT_READ, h)

    def run(self) -> None:
        while len(self.ready) < len(self.jobs):
            for h in self.helpers:
                while self.waiting and len(h.given) < AHEAD:
                    number = self.waiting.popleft()
                    h.give(number, self.jobs[number])
            own = self._own()
            if own is not None:
                self._finished(own, compiled(self.jobs[own]))
            # wait only when there is nothing left to do here
            self._hear(None if own is None else 0)

    def _own(self) -> int | None:
        """What this process compiles next: what waits, and then what a worker has not begun."""
        if self.waiting:
            # from the other end than workers take from: the two meet in the middle, not at the same kernel
            return self.waiting.pop()
        for h in self.helpers:
            # the first is what the worker is at; the last is what it would come to last
            for number in reversed(list(h.given)[1:]):
                if number not in self.twice and number not in self.ready:
                    self.twice.add(number)
                    return number
        return None

    def _finished(self, number: int, code: KernelCode) -> None:
        # the worker may have been quicker after all: of two equal results the second is dropped
        if number not in self.ready:
            self.ready.add(number)
            self.done(number, code)

    def _hear(self, timeout: float | None) -> None:
        """Take what workers have ready."""
        if not any(h.given for h in self.helpers):
            return
        for key, _ in self.selector.select(timeout):
            helper: _Helper = key.data
            for number, code in helper.take(self.jobs):
                self._finished(number, code)

    def close(self) -> None:
        for h in self.helpers:
            h.close()
        self.selector.close()


class _Helper:
    """A worker and the pipes to it."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tensorlang.workers.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=options.of_workers(str(Path(__file__).parents[2])),
            # a line that stayed in a buffer would keep a worker waiting, and us for it
            bufsize=0,
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        self.jobs: Any = self.process.stdin
        self.results: Any = self.process.stdout
        self.given: deque[int] = deque()
        self.rest = bytearray()

    def give(self, number: int, job: Job) -> None:
        self.given.append(number)
        with contextlib.suppress(BrokenPipeError):  # the end of its results tells
            self.jobs.write(f"{number} {job.to_json()}\n".encode())

    def take(self, jobs: Sequence[Job]) -> list[tuple[int, KernelCode]]:
        """The kernels that are whole."""
        data = os.read(self.results.fileno(), 1 << 20)
        if not data:
            status = self.process.wait()
            raise CompileError(
                f"{jobs[self.given[0]].name} was not compiled" if self.given else "a compiling process ended",
                because=f"the process that compiled it ended with {status}",
                try_="workers=1 compiles in this process and shows more",
            )
        self.rest += data
        found = []
        while (end := self.rest.find(b"\n")) >= 0:
            head = json.loads(self.rest[:end])
            whole = end + 1 + head["bytes"]
            # pipes give what there is: a kernel may come in several pieces
            if len(self.rest) < whole:
                break
            blob = bytes(self.rest[end + 1 : whole])
            del self.rest[:whole]
            self.given.remove(head["job"])
            if head["error"] is not None:
                what, because, try_ = head["error"]
                raise TensorLangError(what, because=because, try_=try_)
            found.append((head["job"], from_bytes(blob)))
        return found

    def close(self) -> None:
        """End it; it may be in the middle of a kernel."""
        self.process.kill()
        self.process.wait()
        self.jobs.close()
        self.results.close()
