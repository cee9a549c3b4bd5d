"""P5: what a call of a DynamicKernel costs before the kernel runs: an empty one, and products of a few
thousand operations."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import autosched
import tensorlang as tl
from tensorlang import te

from .figures import Figure

ABOUT = "dispatch, in nanoseconds of a call from Python"
ROUNDS, CALLS = 15, 20_000
LEAVES = 64


def _empty(m: Any) -> tl.Module:
    a = te.placeholder((m, 4), name="A")
    return tl.compile([a, te.compute((m, 4), lambda i, j: a[i, j], name="B")])


def _tree(low: int, high: int, leaves: int) -> Any:
    if leaves == 1:
        return low % 2
    middle = (low + high) // 2
    return ("m", middle, _tree(low, middle, leaves // 2), _tree(middle + 1, high, leaves // 2))


def _in_turns(calls: dict[str, Callable[[], None]], count: int) -> dict[str, float]:
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for name, run in calls.items():
            begin = time.perf_counter_ns()
            run()
            best[name] = min(best[name], (time.perf_counter_ns() - begin) / count)
    return best


def _repeat(function: Any, *args: Any) -> Callable[[], None]:
    def run() -> None:
        for _ in range(CALLS):
            function(*args)

    return run


def _shuffled(function: Any, arrays: list[tuple[Any, ...]]) -> Callable[[], None]:
    def run() -> None:
        for args in arrays:
            function(*args)

    return run


def run(options: Any) -> Iterator[str | Figure]:
    """The lines of the suite."""
    m = te.dim("m", 0, 4096)
    plain = _empty(m)
    tree = tl.Dispatcher(plain, [plain, plain], _tree(0, 4096, LEAVES))
    rows = tl.Dispatcher(plain, [tl.Rows("m", dict.fromkeys(range(1, 7), plain))])
    exact = tl.Dispatcher(plain, [plain, plain], _tree(0, 4096, LEAVES))
    for n in range(32):
        exact.publish((n,), _empty(n))
    ways = {"one kernel": plain, f"tree of {LEAVES} leaves": tree, "rows": rows, "exact shapes": exact}
    none = np.zeros((0, 4), np.float32), np.zeros((0, 4), np.float32)
    got = _in_turns({name: _repeat(w.entry, *none) for name, w in ways.items()}, CALLS)
    for name, ns in got.items():
        yield f"  no rows, {name:<22} {ns:6.1f} ns   {ns - got['one kernel']:+6.1f}"
    yield Figure("no rows", "nanoseconds of a call", got, "ns", more=False)
    arrays = [(np.zeros((n, 4), np.float32), np.zeros((n, 4), np.float32)) for n in range(64)] * (CALLS // 64)
    random.Random(0).shuffle(arrays)
    got = _in_turns({name: _shuffled(w.entry, arrays) for name, w in ways.items()}, len(arrays))
    for name, ns in got.items():
        yield f"  0 … 63 rows at random, {name:<22} {ns:6.1f} ns   {ns - got['one kernel']:+6.1f}"
    yield Figure("0 … 63 rows at random", "nanoseconds of a call", got, "ns", more=False)
    ratios = {}
    for n in (8, 16, 32):
        w = np.random.default_rng(0).random((n, n), np.float32)
        a, b = te.placeholder((m, n), name="A"), te.placeholder((n, n), name="B")
        k = te.reduce_axis((0, n), "k")
        c = te.compute((m, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
        task = autosched.SearchTask.of([a, b, c], name="small")
        ours = autosched.tune_dynamic(task, {"m": (0, n, 64)}, constants={"B": w}, cache=False, seconds=0.2)
        x, y = np.random.default_rng(1).random((n, n), np.float32), np.empty((n, n), np.float32)
        got = _in_turns(
            {"ours": _repeat(ours.entry, x, y), "numpy": _repeat(lambda x, y: np.matmul(x, w, out=y), x, y)},
            CALLS,
        )
        ratios[f"{n}³"] = got["numpy"] / got["ours"]
        yield f"  {n}³: ours {got['ours']:.0f} ns, numpy {got['numpy']:.0f} ns, ratio {ratios[f'{n}³']:.2f}"
    yield Figure("products", "numpy", ratios)
