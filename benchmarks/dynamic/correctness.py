"""P6: one kernel of a large layer, every number of rows in 1 … 8192: each element right, nothing read or
written beyond the rows.

All numbers are small integers, so that every sum is exact in float32 whatever its order, and rows depend on
no other row: the product of all rows, by numpy, is what each call has to equal, bit for bit. The row after
the last is NaN in the input and is watched in the output.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

import autosched
from tensorlang import te

from .dense import declared
from .figures import Figure, sizes, wanted

ABOUT = "dense with a constant weight, N=3072 K=768, every M in 1 … 8192 right to the last bit"
N, K, MOST = 3072, 768, 8192
LARGEST = 2  # of the integers: a sum of K products stays far below 2**24
BEYOND, UNTOUCHED = (
    4,
    -0.5,
)  # rows after the last that are watched, and what stands there: no sum of integers, and no NaN
PART = 512  # rows of a part, for --case
SAMPLED = 24  # of --quick, beside all up to 40 rows and the last few


class Layer:
    """Inputs of up to ``most`` rows, the product of all of them, and room for the output of a call."""

    def __init__(self, most: int, n: int, k: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.most = most
        self.w = rng.integers(-LARGEST, LARGEST + 1, (k, n)).astype(np.float32)
        self._x = np.zeros((most + 1, k), np.float32)
        self._x[:most] = rng.integers(-LARGEST, LARGEST + 1, (most, k))
        self._want = self._x[:most] @ self.w
        self._y = np.empty((most + BEYOND, n), np.float32)

    def fault(self, kernel: Callable[..., Any], m: int) -> str:
        """What is wrong with a call of m rows; empty when nothing is."""
        row = self._x[m].copy()
        self._x[m] = np.nan
        self._y[:m] = np.nan
        self._y[m : m + BEYOND] = UNTOUCHED
        kernel(self._x[:m], self._y[:m])
        self._x[m] = row
        if (self._y[m : m + BEYOND] != UNTOUCHED).any():
            return "it wrote beyond its last row"
        different = self._y[:m] != self._want[:m]
        if not different.any():
            return ""
        i, j = np.argwhere(different)[0]
        return (
            f"{int(different.sum())} elements differ, the first is [{i}, {j}]: {self._y[i, j]:g} instead "
            f"of {self._want[i, j]:g}"
        )


def faults(layer: Layer, kernel: Callable[..., Any], rows: Iterable[int]) -> Iterator[tuple[int, str]]:
    """The numbers of rows a kernel is wrong for, and why."""
    for m in rows:
        why = layer.fault(kernel, m)
        if why:
            yield m, why


def parts(options: Any) -> dict[str, Sequence[int]]:
    """Numbers of rows by what they are called."""
    if options.quick:
        return {"a sample": sizes(MOST, SAMPLED, options.seed, [*range(1, 41), *range(MOST - 3, MOST + 1)])}
    every = {
        f"{first + 1} … {first + PART}": range(first + 1, first + PART + 1) for first in range(0, MOST, PART)
    }
    return {name: rows for name, rows in every.items() if wanted(name, options)}


def run(options: Any) -> Iterator[str | Figure]:
    """The lines of the suite."""
    layer = Layer(MOST, N, K)
    task = autosched.SearchTask(declared, (te.dim("m", 0, MOST), N, K), name="dense")
    kernel = autosched.tune_dynamic(task, {"m": (1, 128, MOST)}, constants={"W": layer.w}, cache=False)
    yield (
        f"  {kernel.account.kernels} kernels and a tree of {kernel.account.leaves} leaves in "
        f"{kernel.account.seconds:.1f} s"
    )
    for name, rows in parts(options).items():
        begin = time.perf_counter()
        wrong = list(faults(layer, kernel, rows))
        for m, why in wrong[:10]:
            yield f"  M={m}: {why}"
        yield (
            f"  {len(rows) - len(wrong)} of {len(rows)} numbers of rows right (M = {name}), "
            f"{time.perf_counter() - begin:.1f} s"
        )
        yield Figure(
            f"M = {name}",
            "rows right, of all",
            {f"{len(rows)} numbers of rows": 1 - len(wrong) / len(rows)},
            "",
        )
