"""Cases in processes of their own, kept alive from case to case: one that dies, or uses the processor for too
long, is a failure of its seed, and the next goes on in a fresh process. Cheaper than a child for each kernel,
and what kills a *call* is told as well. Knows nothing of the cases."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import resource
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

PROCESSOR = 60  # seconds of the processor that one case may use
PATIENCE = 900.0  # seconds of the clock, for what waits and does not work


@dataclass(frozen=True)
class Died:
    """A case whose process ended without an answer."""

    why: str


class _Member:
    """One process, and the case it has."""

    def __init__(self, work: Callable[[int], Any], seed: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, far = context.Pipe()
        self.process = context.Process(target=_serve, args=(work, far))
        self.process.start()
        far.close()
        self.give(seed)

    def give(self, seed: int) -> None:
        self.seed, self.since = seed, time.monotonic()
        self.pipe.send(seed)

    def answer(self) -> Any:
        """What came of the case. To be asked when something has arrived or the process has ended."""
        try:
            return self.pipe.recv()
        except EOFError:
            self.process.join()
            return Died(_ending(self.process.exitcode or 0))

    def late(self) -> Died | None:
        return Died(f"no answer after {PATIENCE:.0f} s") if time.monotonic() - self.since > PATIENCE else None

    def end(self) -> None:
        if self.process.is_alive():
            self.process.kill()
        self.process.join()
        self.pipe.close()


def _ending(code: int) -> str:
    if code == -signal.SIGXCPU:
        return f"more than {PROCESSOR} s of the processor"
    return f"the process ended with {signal.Signals(-code).name if code < 0 else f'code {code}'}"


def _serve(work: Callable[[int], Any], pipe: Connection) -> None:
    """One case after the other, until the pipe closes."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    while True:
        try:
            seed = pipe.recv()
        except EOFError:
            return
        resource.setrlimit(resource.RLIMIT_CPU, (int(sum(os.times()[:2])) + PROCESSOR, hard))
        pipe.send(work(seed))


def outcomes(work: Callable[[int], Any], seeds: Iterable[int], jobs: int = 1) -> Iterator[tuple[int, Any]]:
    """(seed, what ``work(seed)`` returned or how its process :class:`Died`), as they come. ``work`` is a
    function of a module and raises nothing."""
    rest = iter(seeds)
    crew = [_Member(work, seed) for seed in itertools.islice(rest, jobs)]
    try:
        while crew:
            ready = wait([m.pipe for m in crew], timeout=PATIENCE / 10)
            for member in crew[:]:
                result = member.answer() if member.pipe in ready else member.late()
                if result is None:
                    continue
                done, seed = member.seed, next(rest, None)
                if seed is None or isinstance(result, Died):
                    member.end()
                    crew.remove(member)
                if seed is not None and isinstance(result, Died):
                    crew.append(_Member(work, seed))
                elif seed is not None:
                    member.give(seed)
                yield done, result
    finally:
        for member in crew:
            member.end()
