"""Inside a runner: kernels of one computation timed in turns. Knows kernels and where their arrays may lie;
nothing of jobs.

Machines change within seconds: where a hypervisor puts two processors, or what others do, makes a kernel that
hands data from one processor to the other half as fast, and another less. So kernels are compared within one
process, in turns of a millisecond; each turn begins with runs that do not count, which bring its data into
the caches and wake its threads, as they are in a program that calls it again and again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Protocol

import tensorlang as tl

TURN = 6e-4  # seconds of a turn that count, after as many that do not
LEAST, MOST = 4, 16  # rounds of turns
PLACES = 2  # of the arrays, one after the other


class Placed(Protocol):
    """What is needed of a workbench: the arrays to call kernels on, and to put them elsewhere."""

    place: int

    @property
    def arguments(self) -> list[Any]: ...
    def move(self, place: int) -> None: ...


def in_turns(kernels: Sequence[tl.Module], bench: Placed, seconds: float) -> list[tuple[float, ...]]:
    """For each kernel the seconds of one run in each round; about ``seconds`` are spent on a kernel, which is
    warm."""
    usual = [_run(k, bench.arguments) for k in kernels]
    runs = [max(1, round(TURN / u)) for u in usual]
    halves = [2 if n > 1 else 1 for n in runs]  # a long run needs no more than the one before it
    one = sum((h * n + 1) * u for h, n, u in zip(halves, runs, usual, strict=True))
    rounds = min(MOST, max(LEAST, int(seconds * len(kernels) / one)))
    samples: list[list[float]] = [[] for _ in kernels]
    place = bench.place
    for number in range(rounds):
        if number == rounds // PLACES:
            bench.move(place + 1)
        for i in sorted(range(len(kernels)), reverse=number % 2 == 1):
            timing = kernels[i].time_evaluator(number=runs[i], repeat=halves[i])(*bench.arguments)
            samples[i].append(timing.results[-1])
    return [tuple(s) for s in samples]


def _run(kernel: tl.Module, arguments: list[Any]) -> float:
    """Seconds of a run: the faster of two."""
    fastest = float("inf")
    for _ in range(2):
        begin = time.perf_counter()
        kernel.entry(*arguments)
        fastest = min(fastest, time.perf_counter() - begin)
    return fastest
