"""Timing of a loaded kernel: repeats the raw machine-code entry and keeps the samples. Knows nothing of
arrays or tuning."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..entries import public
from ..errors import CallError, TensorLangError

# shortest sample in seconds: well above the resolution of the clock and the cost of one call of the loop
SAMPLE = 1e-3
# samples: of fewer a median tells little; more do not make it surer
MIN_RUNS, MAX_RUNS = 5, 1000


@public(TensorLangError, "Timing", text="plain", page="timing", made="f.benchmark(a, b)")
@dataclass(frozen=True)
class Timing:
    """Seconds of one run of a kernel over ``runs`` samples of ``repeat`` runs each; ``results`` are the
    samples, in order."""

    median: float
    min: float
    mean: float
    std: float
    runs: int
    repeat: int = 1
    results: tuple[float, ...] = field(default=(), repr=False)

    @property
    def max(self) -> float:
        """The slowest sample, in seconds of one run; the median where samples were not kept."""
        return max(self.results, default=self.median)

    def __str__(self) -> str:
        times = f" × {self.repeat}" if self.repeat > 1 else ""
        return (
            f"median {seconds_text(self.median)}  min {seconds_text(self.min)}  mean "
            f"{seconds_text(self.mean)} "
            f"± {seconds_text(self.std)}  ({self.runs}{times} runs)"
        )


def seconds_text(seconds: float) -> str:
    """``0.00123`` as ``1.23 ms``."""
    unit, scale = next(
        ((u, s) for u, s in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)) if seconds >= s), ("ns", 1e-9)
    )
    value = seconds / scale
    digits = 0 if value == 0 else max(0, 2 - math.floor(math.log10(max(value, 1e-3))))
    return f"{value:.{min(digits, 3)}f} {unit}"


def _summary(samples: Sequence[float], repeat: int) -> Timing:
    return Timing(
        float(np.median(samples)),
        min(samples),
        float(np.mean(samples)),
        float(np.std(samples, ddof=1)) if len(samples) > 1 else 0.0,
        len(samples),
        repeat,
        tuple(samples),
    )


def evaluate(
    run: Callable[[int], None],
    number: int,
    repeat: int,
    min_seconds: float = 0.0,
    pause: float = 0.0,
    flush: Callable[[], object] = lambda: None,
) -> Timing:
    """``repeat`` samples of ``number`` runs each, after one run that does not count. A sample shorter than
    ``min_seconds`` is taken again with more runs. Before each, ``pause`` seconds go by and ``flush`` is
    called."""
    clock = time.perf_counter
    run(1)
    samples: list[float] = []
    while len(samples) < repeat:
        if pause:
            time.sleep(pause)
        flush()
        begin = clock()
        run(number)
        spent = clock() - begin
        if spent < min_seconds:
            number = max(math.ceil(number * min(min_seconds / max(spent, 1e-9) * 1.05, 16)), number + 1)
            continue
        samples.append(spent / number)
    return _summary(samples, number)


def checked_seconds(word: str, seconds: float) -> None:
    """Raises CallError for what is no length of time; none at all means a few samples."""
    if not 0 <= seconds < math.inf:
        raise CallError(f"{word}(seconds={seconds})", because="it is how long to measure, such as 0.5")


def measure(run: Callable[[int], object], *, seconds: float = 0.5) -> Timing:
    """Time ``run(n)``, which runs the kernel n times, within about ``seconds`` after a warm-up. Raises
    CallError for seconds that are none."""
    checked_seconds("benchmark", seconds)
    clock = time.perf_counter
    was_collecting = gc.isenabled()
    gc.disable()
    try:
        begin = clock()
        run(1)
        first = clock() - begin
        repeat = 1
        while True:  # warm-up and calibration in one
            begin = clock()
            run(repeat)
            spent = clock() - begin
            if spent >= SAMPLE or repeat >= 1 << 30 or first >= SAMPLE:
                break
            repeat = min(repeat * 16, max(repeat * 2, math.ceil(repeat * SAMPLE * 1.2 / max(spent, 1e-9))))
        samples: list[float] = []
        end = clock() + max(0.0, seconds)
        while len(samples) < MAX_RUNS:
            begin = clock()
            run(repeat)
            now = clock()
            samples.append((now - begin) / repeat)
            # Always a few samples, unless even these take many times the budget.
            if now >= end and (len(samples) >= MIN_RUNS or now >= end + 10 * seconds):
                break
    finally:
        if was_collecting:
            gc.enable()
    return _summary(samples, repeat)
