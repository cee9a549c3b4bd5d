"""Latencies in a histogram of logarithmic buckets: four for each power of two of nanoseconds. Knows numbers
only.

A bucket is the position of the highest bit of the nanoseconds and the two bits after it, which machine code
finds with one count of leading zeros, so a native dispatcher can keep the same table. A percentile is off by
at most an eighth (the middle of a bucket stands for it).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

BUCKETS = 256


def bucket(nanoseconds: int) -> int:
    """The bucket of a latency."""
    if nanoseconds < 4:
        return max(0, nanoseconds)
    top = nanoseconds.bit_length() - 1
    return min(BUCKETS - 1, 4 * (top - 1) + ((nanoseconds >> (top - 2)) & 3))


def bounds(index: int) -> tuple[int, int]:
    """The nanoseconds of a bucket: from (inclusive), to (exclusive)."""
    if index < 4:
        return index, index + 1
    top, quarter = index // 4 + 1, index % 4
    return (4 + quarter) << (top - 2), (5 + quarter) << (top - 2)


class Histogram:
    """Counts by bucket."""

    def __init__(self, counts: Sequence[int] | None = None) -> None:
        self.counts = [0] * BUCKETS if counts is None else [int(n) for n in counts]
        if len(self.counts) != BUCKETS:
            raise ValueError(f"{len(self.counts)} counts; a histogram has {BUCKETS}")

    def add(self, seconds: float, times: int = 1) -> None:
        """A latency, this many times."""
        self.counts[bucket(int(seconds * 1e9))] += times

    def add_all(self, seconds: Any) -> None:
        """An array of latencies."""
        ns = np.maximum(np.asarray(seconds) * 1e9, 0).astype(np.int64)
        # as ``bucket``, for whole arrays: the exponent of a float is the bit length of the integer
        top = np.frexp(np.maximum(ns, 4).astype(np.float64))[1] - 1
        index = np.where(
            ns < 4, ns, np.minimum(BUCKETS - 1, 4 * (top - 1) + ((ns >> np.maximum(top - 2, 0)) & 3))
        )
        for i, n in zip(*np.unique(index, return_counts=True), strict=True):
            self.counts[int(i)] += int(n)

    @property
    def total(self) -> int:
        """How many latencies."""
        return sum(self.counts)

    def percentile(self, share: float) -> float:
        """Seconds below which this share of all latencies is; 0 when there are none."""
        wanted, seen = share * self.total, 0
        for i, n in enumerate(self.counts):
            seen += n
            if n and seen >= wanted:
                lo, hi = bounds(i)
                return (lo + hi - 1) / 2 * 1e-9
        return 0.0

    def merged(self, other: Histogram) -> Histogram:
        """Both together."""
        return Histogram([a + b for a, b in zip(self.counts, other.counts, strict=True)])
