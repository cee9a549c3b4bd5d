"""Two kernels for one shape against each other: equal answers first, then times in turns. Knows kernels by
what they do on arrays.

Each round times both, the order changing from round to round, so that a machine that grows slower meanwhile
does not decide. A newcomer wins by the median of the rounds' ratios, and only if most rounds agree. The loop
around a kernel is machine code (``Module.benchmark``): a loop in Python would keep the interpreter's lock
from those who are being served.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .serves import Verdict

ROUNDS, SECONDS = 7, 0.002  # rounds; seconds of one kernel in a round
CLOSE = 1e-3  # of the largest output: answers within are equal but for rounding
AGREE = 0.7  # share of the rounds that the newcomer has to win

Call = Callable[..., Any]
Timer = Callable[[Any, Sequence[Any]], float]


def seconds_of(kernel: Any, arrays: Sequence[Any]) -> float:
    """Seconds of a call on these arrays: by the kernel's own ``benchmark`` where it has one."""
    benchmark = getattr(kernel, "benchmark", None)
    if benchmark is not None:
        return float(benchmark(*arrays, seconds=SECONDS).median)
    spent, calls, times = 0.0, 0, []
    while spent < SECONDS or calls < 3:
        begin = time.perf_counter()
        kernel(*arrays)
        times.append(time.perf_counter() - begin)
        spent, calls = spent + times[-1], calls + 1
        time.sleep(0)  # whoever waits for the interpreter goes first
    return statistics.median(times)


def compare(
    now: Call, new: Call, inputs: Sequence[Any], outputs: Sequence[Any], timer: Timer = seconds_of
) -> Verdict:
    """The verdict on ``new`` against ``now``, both called as ``f(*inputs, *outputs)``."""
    wrong = _differ(now, new, inputs, outputs)
    if wrong:
        return Verdict(0.0, 0.0, False, wrong)
    arrays = [*inputs, *outputs]
    pairs: list[tuple[float, float]] = []
    for number in range(ROUNDS):
        if number % 2:
            b, a = timer(new, arrays), timer(now, arrays)
        else:
            a, b = timer(now, arrays), timer(new, arrays)
        pairs.append((a, b))
    base = statistics.median(a for a, _ in pairs)
    ratio = statistics.median(b / a for a, b in pairs)
    if sum(b < a for a, b in pairs) < AGREE * ROUNDS:
        ratio = max(ratio, 1.0)
    return Verdict(base, base * ratio)


def _differ(now: Call, new: Call, inputs: Sequence[Any], outputs: Sequence[Any]) -> str:
    """How the answers differ; empty when they do not."""
    answers = []
    for kernel in (now, new):
        for a in outputs:
            _poison(a)
        kernel(*inputs, *outputs)
        answers.append([a.copy() for a in outputs])
    for i, (a, b) in enumerate(zip(*answers, strict=True)):
        if not a.size:
            continue
        if a.dtype.kind in "biu":
            same = bool((a == b).all())
        else:
            a, b = a.astype(np.float64), b.astype(np.float64)
            scale = float(np.max(np.abs(a), where=np.isfinite(a), initial=1.0))
            same = bool(np.allclose(a, b, rtol=CLOSE, atol=CLOSE * scale, equal_nan=True))
        if not same:
            return f"output {i} differs from that of the kernel in use"
    return ""


def _poison(a: Any) -> None:
    a.fill(np.nan if a.dtype.kind not in "biu" else 1 if a.dtype.kind == "b" else 111)


def sample(shape: Sequence[int], dtype: Any, rng: np.random.Generator) -> Any:
    """An input: small integers, of which every order of summation gives the same bits."""
    kind = np.dtype(dtype)
    low, high = (0, 2) if kind.kind == "b" else (0, 5) if kind.kind == "u" else (-4, 5)
    return rng.integers(low, high, tuple(shape)).astype(kind)
