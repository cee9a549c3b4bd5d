"""Square f32 products of every extent, and mixed ones, on one thread: useful flops a second beside the next
multiple of 8 lanes.

``python -m benchmarks.odd_sizes`` prints one line for each extent and a summary. A kernel with vectors of 8
lanes cannot do better on e columns than e / ceil(e / 8) / 8 of a full vector: the ratio to the next multiple
of 8 is shown as it is and divided by this bound.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import numpy as np

import tensorlang as tl
from benchmarks.matmul import declare

LANES = 8
TURNS = 7
MIXED = (
    (7, 129, 65),
    (129, 7, 65),
    (31, 97, 53),
    (97, 31, 53),
    (65, 127, 17),
    (127, 17, 65),
    (5, 61, 101),
    (113, 113, 7),
)


def main(extents: list[int] | None = None) -> None:
    """Print the table."""
    threads = tl.num_threads()
    tl.set_num_threads(1)
    try:
        shares, bounded = [], []
        for m, n, k in [(e, e, e) for e in extents or range(1, 130)] + ([] if extents else list(MIXED)):
            up = [-(-x // LANES) * LANES for x in (m, n, k)]
            ratio, micros = _compare((m, n, k), (up[0], up[1], up[2]))
            bound = n / up[1]
            shares.append(ratio)
            bounded.append(ratio / bound)
            beside = " x ".join(map(str, up))
            print(
                f"{m:4} x {n:4} x {k:4} {micros:8.2f} us   of {beside:>15}: {ratio:5.2f}   of the bound "
                f"{ratio / bound:5.2f}",
                flush=True,
            )
        for name, values in (("flops of the next multiple", shares), ("of what the lanes allow", bounded)):
            print(
                f"{name}: median {statistics.median(values):.2f}, at least 0.85 in "
                f"{sum(v >= 0.85 for v in values)} of {len(values)}"
            )
    finally:
        tl.set_num_threads(threads)


def _compare(odd: tuple[int, int, int], even: tuple[int, int, int]) -> tuple[float, float]:
    """Useful flops a second of the first product over those of the second, and the time of the first in
    microseconds."""
    runs = [_kernel(*odd), _kernel(*even)]
    times: list[list[float]] = [[], []]
    for _ in range(TURNS):
        for found, run in zip(times, runs, strict=True):
            found.append(_timed(run))
    a, b = (statistics.median(t) for t in times)
    return (odd[0] * odd[1] * odd[2] / a) / (even[0] * even[1] * even[2] / b), a * 1e6


def _kernel(m: int, n: int, k: int) -> Callable[[], object]:
    tensors = declare(m, n, k)
    f = tl.compile(tensors)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, s).astype("float32") for s in ((m, k), (k, n)))
    c = np.empty((m, n), "float32")
    f(a, b, c)
    assert np.array_equal(c, a @ b), f"{m} x {n} x {k} is wrong"
    return lambda: f(a, b, c)


def _timed(run: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(20):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


if __name__ == "__main__":
    main([int(x) for x in sys.argv[1:]])
