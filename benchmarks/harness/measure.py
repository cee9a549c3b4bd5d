"""Times several ways of computing one thing in turns, and compares them round by round. Knows callables only.

In each round everyone has one turn, in random order; a turn is as many calls as fill ``TURN`` seconds, after
half as many that are not timed: they bring the data into the caches and wake the threads and the processors
(a core that has slept is a third slower for milliseconds). Before a turn, threads of the one before are given
time to stop spinning. A ratio is the median over rounds of the ratio within a round, so that a slow moment of
the machine, which hits all alike, cancels.
"""

from __future__ import annotations

import gc
import math
import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

TURN = 1e-2
ROUNDS = 15
LEAST = 1 / 3  # the part of the rounds that is done even when the budget is spent
SLOW, SLOW_ROUNDS = 20.0, 3  # who takes 20 times the fastest has few turns: its place is not in doubt
# Threads are quiet when they use less than a quarter of a slice. It is longer than a tick of the system (4 to
# 10 ms): what another thread uses is counted at ticks only, so that a spinning one looks asleep in a shorter
# slice. onnxruntime's spin for 47 ms, and whoever comes next would have one processor less.
QUIET_SLICE, QUIET_SHARE, QUIET_LIMIT = 0.012, 0.25, 0.3


Run = Callable[[], object]
Clock = Callable[[], float]


@dataclass
class Samples:
    """Seconds a call by round, and processor seconds by second of the clock: how many threads worked."""

    seconds: dict[int, float] = field(default_factory=dict)
    calls: int = 1
    busy: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds.values())

    @property
    def quartiles(self) -> tuple[float, float]:
        return quartiles(list(self.seconds.values()))


def quartiles(values: list[float]) -> tuple[float, float]:
    """First and third."""
    if len(values) < 2:
        return values[0], values[0]
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return first, third


def ratio(ours: Samples, theirs: Samples) -> tuple[float, tuple[float, float]]:
    """How many times faster ``ours`` is (theirs / ours), median and quartiles over the rounds both took part
    in."""
    both = [theirs.seconds[r] / ours.seconds[r] for r in ours.seconds if r in theirs.seconds]
    return statistics.median(both), quartiles(both)


def settle() -> None:
    """Return when the other threads of this process have gone to sleep, or after a limit."""
    end = time.perf_counter() + QUIET_LIMIT
    while time.perf_counter() < end:
        wall, used = time.perf_counter(), time.process_time()
        time.sleep(QUIET_SLICE)
        if time.process_time() - used < QUIET_SHARE * (time.perf_counter() - wall):
            return


def take_turns(
    runs: Mapping[str, Run],
    *,
    budget: float,
    rounds: int = ROUNDS,
    clock: Clock = time.perf_counter,
    processor_clock: Clock = time.process_time,
    settle: Callable[[], None] = settle,
    seed: int = 0,
) -> dict[str, Samples]:
    """Samples of each run: ``rounds`` of them, fewer, but a third of them, when ``budget`` seconds are
    spent."""
    begin = clock()
    once = {name: _once(run, clock) for name, run in runs.items()}
    fastest = min(once.values(), default=0.0)
    found = {
        name: Samples(calls=max(1, math.ceil(TURN / max(seconds, 1e-9)))) for name, seconds in once.items()
    }
    order = random.Random(seed)
    collecting = gc.isenabled()
    gc.disable()
    try:
        for n in range(rounds):
            if n >= LEAST * rounds and clock() - begin > budget:
                break
            names = [name for name in runs if n < SLOW_ROUNDS or once[name] <= SLOW * fastest]
            for name in order.sample(names, len(names)):
                settle()
                _turn(runs[name], found[name], n, clock, processor_clock)
    finally:
        if collecting:
            gc.enable()
    return found


def _once(run: Run, clock: Clock) -> float:
    """Seconds of a call, the least of three unless one alone takes long."""
    least = math.inf
    for _ in range(3):
        start = clock()
        run()
        least = min(least, clock() - start)
        if least > 0.1:
            break
    return least


def _turn(run: Run, into: Samples, n: int, clock: Clock, processor_clock: Clock) -> None:
    for _ in range(max(into.calls // 2, not into.seconds)):
        run()
    calls = range(into.calls)
    used, start = processor_clock(), clock()
    for _ in calls:
        run()
    spent, used = clock() - start, processor_clock() - used
    into.seconds[n] = spent / into.calls
    into.busy.append(used / spent if spent else 0.0)
