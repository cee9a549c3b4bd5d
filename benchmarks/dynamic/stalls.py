"""What a caller notices while specialised code is being made: nobody compiling, a thread of the same process
compiling, the workshop's process compiling, and each time the code is loaded.

``python -m benchmarks.dynamic.stalls`` calls a small kernel from Python without pause and prints the
percentiles of the times between two calls. The ways take turns, so that a machine that is busy with something
else is so for all of them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tensorlang as tl
from autosched.tiers import SPECIALISED, Order, Workshop
from tensorlang import ops, te

ROUNDS, SECONDS = 6, 1.5


def softmax(m: Any = 64, n: int = 256) -> list[te.Tensor]:
    """What is compiled and called."""
    x = te.placeholder((m, n), name="X")
    return [x, ops.softmax(x)]


def gaps(kernel: Callable[..., object], arrays: tuple[np.ndarray, ...], seconds: float) -> np.ndarray:
    """Seconds from one call's begin to the next's."""
    clock, stamps = time.perf_counter, []
    end = clock() + seconds
    while not stamps or stamps[-1] < end:
        kernel(*arrays)
        stamps.append(clock())
    return np.diff(stamps)


def main() -> None:
    """Print the table."""
    kernel = tl.compile(softmax())
    x = np.random.default_rng(0).random((64, 256), np.float32)
    arrays = (x, np.empty_like(x))
    workshop = Workshop(softmax(te.dim("m", 0, 10_000)), ["m"])
    sizes = iter(range(1, 10_000))

    def thread(stop: threading.Event) -> int:
        made = 0
        while not stop.is_set():
            tl.compile(softmax(next(sizes)))
            made += 1
        return made

    def process(stop: threading.Event) -> int:
        made = 0
        while not stop.is_set():
            if not workshop.busy():
                workshop.order(Order((next(sizes),), SPECIALISED))
            made += len(workshop.finished())
            time.sleep(0.002)
        while workshop.busy():
            made += len(workshop.finished())
            time.sleep(0.002)
        return made

    ways: dict[str, Callable[[threading.Event], int]] = {
        "nobody compiles": lambda stop: 0,
        "a thread compiles": thread,
        "the workshop compiles": process,
    }
    workshop.order(Order((0,), SPECIALISED))  # its workers start
    while workshop.busy():
        workshop.finished()
        time.sleep(0.01)
    found: dict[str, list[np.ndarray]] = {name: [] for name in ways}
    made = dict.fromkeys(ways, 0)
    for _ in range(ROUNDS):
        for name, way in ways.items():
            stop = threading.Event()

            def run(
                name: str = name, way: Callable[[threading.Event], int] = way, stop: threading.Event = stop
            ) -> None:
                made[name] += way(stop)

            background = threading.Thread(target=run)
            background.start()
            found[name].append(gaps(kernel, arrays, SECONDS))
            stop.set()
            background.join()
    workshop.close()
    print(
        f"{'call to call':24}{'calls':>9}{'made':>6}{'p50':>10}{'p99':>10}{'p99.9':>10}{'p99.99':>10}{'longest':>10}{'> 1 ms':>8}   (µs)"  # noqa: E501
    )
    for name, times in found.items():
        t = np.concatenate(times) * 1e6
        p = np.percentile(t, [50, 99, 99.9, 99.99, 100])
        print(
            f"{name:24}{len(t):9,}{made[name]:6}"
            + "".join(f"{v:10.1f}" for v in p)
            + f"{int((t > 1000).sum()):8}"
        )


if __name__ == "__main__":
    main()
