"""The clock: what instrumented kernels call, and how long that takes. Native functions."""

from __future__ import annotations

import time

from .types import Array, CFunctions, i32, i64
from .words import address, fetch_add, inline, local, relaxed

MONOTONIC = getattr(time, "CLOCK_MONOTONIC", 1)

c = CFunctions("i32 clock_gettime(i32, ptr)")


@inline
def now() -> i64:
    """Nanoseconds."""
    t = local(i64, 2)
    c.clock_gettime(MONOTONIC, t)
    return t[0] * 1_000_000_000 + t[1]


def start(began: Array[i64]) -> i32:
    began[0] = now()
    return 0


def stop(began: Array[i64], table: Array[i64], row: i64) -> i32:
    """Add the time since ``start``, and one to the number of times, to a row of the table."""
    spent = now() - began[0]
    fetch_add(table[2 * row], spent, relaxed)
    fetch_add(table[2 * row + 1], 1, relaxed)
    return 0


def cost(began: Array[i64], table: Array[i64], times: i64) -> None:
    """Many looks at the clock: each adds to row 1, all of them together to row 0."""
    whole = address(began[1])
    start(whole)
    for _ in range(times):
        start(began)
        stop(began, table, 1)
    stop(whole, table, 0)
