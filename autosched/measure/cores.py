"""Whether the processors of this process are cores of their own at the moment. Knows how to time a kernel of
multiply-adds.

A hypervisor moves its guests' processors: now two of them are two cores, now the two threads of one core, and
back within seconds. Both are real machines, of which the second computes half as much and hands data over
faster. A schedule for two cores that was 1.33 times as fast as another on the one was 1.05 times on the
other, to the percent each time; another one 1.6 and 2.0. What is timed on either is true there only.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

import tensorlang as tl
from tensorlang.roofline import CHAINS, multiply_adds

STEPS, LOOKS = 1 << 12, 4  # 8 µs of multiply-adds, the fastest of some runs
WAKING = 2e-3  # seconds after which sleeping threads, and processors, are awake
SHARE = 0.7  # of the speed of as many cores as there are threads: two threads of a core have half of it


def apart(threads: int) -> bool:
    """Whether so many threads multiply as fast as that many cores; takes 60 to 100 µs: longer, and they
    would fall asleep. One thread has nothing to share."""
    if threads < 2:
        return True
    one, all_ = (_kernel(n) for n in (1, threads))
    # twice the work for two threads: alike in time where each has a core
    return _fastest(all_) * SHARE < _fastest(one)


def apart_after_a_pause(threads: int) -> bool:
    """The same for threads that may sleep: they are woken first."""
    if threads > 1:
        end, kernel = time.perf_counter() + WAKING, _kernel(threads)
        while time.perf_counter() < end:
            kernel()
    return apart(threads)


@contextmanager
def threads_of(target: str | None) -> Iterator[int]:
    """Kernels use as many threads as their target has cores, at most as many as are allowed: the number. A
    target for one core would else be judged by what runs on two: default schedules are parallel whatever
    the target is, and what a search makes for one core is not."""
    before = tl.num_threads()
    wanted = before if target is None else min(before, tl.Target.parse(target).num_cores)
    if wanted == before:  # to set a limit, the system is asked what it grants
        yield before
        return
    tl.set_num_threads(wanted)
    try:
        yield wanted
    finally:
        tl.set_num_threads(before)


def prepare() -> Iterator[None]:
    """Compile what is timed, in steps; nothing is run, so a process may be forked afterwards."""
    threads = tl.num_threads()
    for n in (1, threads) if threads > 1 else ():
        _kernel(n)
        yield


@functools.cache
def _kernel(threads: int) -> Callable[[], object]:
    """A call of the loop with that many threads."""
    loop, _, lanes = multiply_adds(threads, STEPS)
    values, out = np.full(lanes, 0.25, np.float32), np.zeros((threads, CHAINS, lanes), np.float32)
    return functools.partial(loop.entry, values, out)


def _fastest(call: Callable[[], object]) -> float:
    clock, fastest = time.perf_counter, float("inf")
    for _ in range(LOOKS):
        begin = clock()
        call()
        fastest = min(fastest, clock() - begin)
    return fastest
