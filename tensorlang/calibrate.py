"""``python -m tensorlang calibrate FILE``: this machine's table of costs, measured in a second or two.
Nothing else measures: neither an import nor ``tl.compile`` does.

Three numbers are measured, those that differ most between machines: what a parallel loop takes to begin and
end, and from how many iterations of a body, and of a register tile, a second thread is worth that. They are
rounded to powers of two, so that a busy moment seldom makes another table.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from .analysis import ROOFLINE, Cost
from .build import build, compile
from .schedule import create_schedule
from .target import Target
from .te import Tensor, placeholder, reduce_axis
from .te import compute as compute_
from .te import sum as sum_

ITERATIONS = 1 << 16  # of the loop that is run by one thread and by all
SIDE = 96  # of the product
SECONDS, TRIES = 0.02, 5  # of one try; others may be at work during some of them
PROFIT = 2  # a second thread must save this many times what it costs


def measured() -> Cost:
    """The table of this machine; the defaults where it has one processor."""
    target = Target.host()
    if target.num_cores < 2:
        return ROOFLINE
    one = _least(_doubled(parallel=False))
    start = max(_least(_doubled(parallel=True)) - one / target.num_cores, 1e-7)
    return table_of(start, one / ITERATIONS, _least(_product()) / SIDE**3, target.num_cores)


def table_of(start: float, iteration: float, product: float, cores: int) -> Cost:
    """The table where a parallel loop takes ``start`` seconds to begin and end, one iteration of a body
    ``iteration`` and one of a register tile ``product``."""
    saved = iteration * (1 - 1 / cores)
    thread = max(_power(PROFIT * start / saved), 4)
    # the defaults say what a cycle is: a vector of eight elements is one of them
    return replace(
        ROOFLINE,
        start=_power(start / iteration / 8),
        thread=thread,
        product=_power(max(1.0, iteration / product)),
    )


def _power(x: float) -> int:
    """The power of two that is nearest in proportion, at least 1."""
    return 1 << max(0, min(39, round(math.log2(x)))) if x > 0 else 1


def _doubled(parallel: bool) -> Callable[[], float]:
    a = placeholder((ITERATIONS,), name="a")
    b = compute_((ITERATIONS,), lambda i: a[i] * 2.0, name="b")
    s = create_schedule(b)
    outer, inner = s[b].split(s[b].op.axis[0], 16)
    s[b].vectorize(inner)
    if parallel:
        s[b].parallel(outer)
    f, x = build(s, [a, b], name="doubled"), np.ones(ITERATIONS, np.float32)
    return lambda: float(f.benchmark(x, seconds=SECONDS).min)


def _product() -> Callable[[], float]:
    a, b = placeholder((SIDE, SIDE), name="a"), placeholder((SIDE, SIDE), name="b")
    k = reduce_axis((0, SIDE), name="k")
    c: Tensor = compute_((SIDE, SIDE), lambda i, j: sum_(a[i, k] * b[k, j], axis=k), name="c")
    f, x = compile([a, b, c], "llvm -num-cores=1", name="product"), np.ones((SIDE, SIDE), np.float32)
    return lambda: float(f.benchmark(x, x, seconds=SECONDS).min)


def _least(run: Callable[[], float]) -> float:
    return min(run() for _ in range(TRIES))
