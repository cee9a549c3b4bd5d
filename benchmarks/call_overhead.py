"""What a call costs beside the work: kernels on arrays of 8 numbers against an empty Python function, with
numpy's ``add`` for scale.

``python -m benchmarks.call_overhead`` prints nanoseconds a call and those over the empty function: medians of
rounds that take every row in turn, each round a loop of a thousand calls written out ten to a line, so that
the loop itself costs little.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tensorlang as tl
from tensorlang import te

ROUNDS, TURNS, UNROLLED = 60, 100, 10


def kernel(strides: str | None = None, sizes: bool = True, native: bool = True) -> Callable[..., Any]:
    """C = A + B; its entry, or the portable path that serves where there is none."""
    f = built(strides, sizes)
    return f.entry if native else f._plan.portable


def built(strides: str | None = None, sizes: bool = True) -> tl.Module:
    """The kernel itself, as users call it."""
    n: Any = te.var("n") if sizes else 8
    A, B = (te.placeholder((n,), name=name, strides=strides) for name in "AB")
    C = te.compute((n,), lambda i: A[i] + B[i], name="C")
    return tl.build(te.create_schedule(C.op), [A, B, C])


def empty(a: Any, b: Any, c: Any) -> None:
    """A Python function that does nothing."""


def loop(f: Callable[..., Any], args: tuple[Any, ...]) -> Callable[[], float]:
    """A function that makes TURNS times UNROLLED calls and returns the seconds of one."""
    names = [f"x{i}" for i in range(len(args))]
    calls = "; ".join([f"f({', '.join(names)})"] * UNROLLED)
    scope: dict[str, Any] = {"f": f, "clock": time.perf_counter, **dict(zip(names, args, strict=True))}
    exec(
        f"def run({', '.join(f'{n}={n}' for n in ['f', 'clock', *names])}):\n    start = clock()\n    for _ "
        f"in range({TURNS}):\n"
        f"        {calls}\n    return (clock() - start) / {TURNS * UNROLLED}\n",
        scope,
    )
    return scope["run"]  # type: ignore[no-any-return]


def measured() -> dict[str, float]:
    """Seconds a call, by row."""
    a, b, c = (np.ones(8, np.float32) for _ in range(3))
    view = np.ones(16, np.float32)[::2]
    rows: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        "empty Python function": (empty, (a, b, c)),
        "kernel": (built(), (a, b, c)),
        "native entry": (kernel(), (a, b, c)),
        "native entry, fixed shapes": (kernel(sizes=False), (a, b, c)),
        "native entry, strided views": (kernel(strides="any"), (view, view, c)),
        "native entry, output returned": (kernel(), (a, b)),
        "portable path": (kernel(native=False), (a, b, c)),
        "np.add with out": (np.add, (a, b, c)),
        "np.add": (np.add, (a, b)),
    }
    loops = {name: loop(f, args) for name, (f, args) in rows.items()}
    seen: dict[str, list[float]] = {name: [] for name in rows}
    for _ in range(ROUNDS):
        for name, run in loops.items():
            seen[name].append(run())
    return {name: statistics.median(times) for name, times in seen.items()}


def main() -> None:
    """Print the table."""
    times = measured()
    base = times["empty Python function"]
    print(f"{'call with three arrays of 8 float32':38}{'ns a call':>12}{'over empty':>12}")
    for name, seconds in times.items():
        print(f"{name:38}{1e9 * seconds:12.0f}{1e9 * (seconds - base):12.0f}")


if __name__ == "__main__":
    main()
