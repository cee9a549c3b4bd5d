"""Parallel regions of no work, one after the other: what handing one over to another thread takes. Native
functions; knows the pool by its address.
"""

from __future__ import annotations

from collections.abc import Callable

from .types import Array, i64, ptr
from .words import acq_rel, acquire, address, fetch_add, load

Parallel = Callable[[ptr, ptr, i64, i64], None]
PATIENCE = 10_000  # looks at the other part before one goes on without it


def meet(arrived: Array[i64], begin: i64, end: i64) -> None:
    """Each of two parts waits until the other has begun."""
    both = fetch_add(arrived[0], 1, acq_rel) | 1
    looks = PATIENCE
    while (load(arrived[0], acquire) <= both) & (looks > 0):
        looks -= 1


def run(parallel: Parallel, body: ptr, arrived: Array[i64], times: i64) -> None:
    """Regions of two iterations each."""
    for _ in range(times):
        parallel(body, address(arrived[0]), 0, 2)
