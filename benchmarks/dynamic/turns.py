"""Least seconds of several ways to compute the same, measured in turns of random order. Knows callables
only."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import tensorlang as tl

from ..harness.measure import settle

Call = Callable[[], Any]
TURNS = 12  # of each, at least
PROBES = 3  # calls of each that tell how often to repeat it
SAMPLE = 20e-6  # seconds of a sample at least: the clock is then below 1 %


def in_turns(calls: Mapping[str, Call], seconds: float, seed: int = 0) -> dict[str, float]:
    """Least seconds of a call of each, in turns of random order, each after an untimed call of its own. In
    one order, each would always follow the same other and find the caches as that one left them: 5 % of a
    call here, where some read a copy of the weight of their own. With more than one thread, those of whoever
    came before have gone to sleep first: some spin for long, on the processors that the next one needs."""
    clock = time.perf_counter
    order = list(calls)
    rng = np.random.default_rng(seed)
    best = dict.fromkeys(order, float("inf"))
    repeats = {}
    for name, call in calls.items():
        once = float("inf")
        for _ in range(PROBES):  # the first one sees pages, caches and code for the first time
            begin = clock()
            call()
            once = min(once, clock() - begin)
        repeats[name] = max(1, min(1000, round(SAMPLE / max(once, 1e-8))))
    end = clock() + seconds
    turn = 0
    while turn < TURNS or clock() < end:
        for i in rng.permutation(len(order)):
            name = order[i]
            call, count = calls[name], range(repeats[name])
            if tl.num_threads() > 1:
                settle()
            call()
            begin = clock()
            for _ in count:
                call()
            best[name] = min(best[name], (clock() - begin) / len(count))
        turn += 1
    return best
