"""Inside a runner: kernels of one computation timed in turns. Knows kernels and where their arrays may lie;
nothing of jobs.

Machines change within seconds: where a hypervisor puts two processors, or what others do, makes a kernel that
hands data from one processor to the other half as fast, and another less. So kernels are compared within one
process, in turns of a millisecond; each turn begins with runs that do not count, which bring its data into
the caches and wake its threads, as they are in a program that calls it again and again. Rounds during which
two processors shared a core count for kernels of several threads only where there are no others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import tensorlang as tl

from .rounds import rounds

TURN = 6e-4  # seconds of a turn that count, after as many that do not
LONG = 5e-3  # seconds from which on a run brings its data and threads by itself
LEAST, MOST = 4, 24  # rounds of turns
PLACES = 2  # of the arrays, one after the other
PATIENCE = 2  # times as many rounds as are wanted, at most


class Placed(Protocol):
    """What is needed of a workbench: the arrays to call kernels on, and to put them elsewhere."""

    place: int

    @property
    def arguments(self) -> list[Any]: ...
    def move(self, place: int) -> None: ...


def in_turns(
    kernels: Sequence[tl.Module], bench: Placed, seconds: float, apart: Callable[[], bool] = lambda: True
) -> tuple[list[tuple[float, ...]], bool]:
    """For each kernel the seconds of one run in each round, and whether the processors were ``apart`` then,
    which is asked before and after each round; about ``seconds`` are spent on a kernel, which is warm."""
    usual = [min(_runs(k, bench.arguments, 1) for _ in range(2)) for k in kernels]
    runs = [max(1, round(TURN / u)) for u in usual]
    halves = [2 if n > 1 or u < LONG else 1 for n, u in zip(runs, usual, strict=True)]
    one = sum(h * n * u for h, n, u in zip(halves, runs, usual, strict=True))
    wanted = min(MOST, max(LEAST, int(seconds * len(kernels) / one)))

    def turn(i: int) -> float:
        return [_runs(kernels[i], bench.arguments, runs[i]) for _ in range(halves[i])][-1]

    every: list[tuple[float, ...]] = []
    good: list[tuple[float, ...]] = []
    place, going = bench.place, rounds([partial(turn, i) for i in range(len(kernels))], apart)
    while len(good) < wanted and len(every) < PATIENCE * wanted:
        if len(every) % (wanted // PLACES) == 0:
            bench.move(place + len(every) // (wanted // PLACES) % PLACES)
        taken, alone = next(going)
        every.append(taken)
        if alone:
            good.append(taken)
    enough = len(good) >= LEAST
    return list(zip(*(good if enough else every), strict=True)), enough


def _runs(kernel: tl.Module, arguments: list[Any], times: int) -> float:
    """Seconds of a run, called from Python as a program does, the mean of several."""
    call, clock = kernel.entry, time.perf_counter
    begin = clock()
    for _ in range(times):
        call(*arguments)
    return (clock() - begin) / times
