"""``python -m tensorlang calibrate``: this machine's table of costs, measured in less than two seconds and
saved where every later schedule finds it. Nothing else measures: neither an import nor ``tl.compile`` does.

Three numbers are measured, those that differ most between machines: what a parallel loop takes to begin and
end, and from how many iterations of a body, and of a register tile, a second thread is worth that. The
kernels run in turns, each time on new arrays, and the least time of each counts: others at work, and pages
that lie badly in the caches, make some tries longer, none shorter.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from .analysis import ROOFLINE, Cost, generic, saved_at
from .build import build, compile
from .errors import TensorLangError
from .runtime import files
from .runtime.threads import regions_of
from .schedule import create_schedule
from .target import Target
from .te import Tensor, placeholder, reduce_axis
from .te import compute as compute_
from .te import sum as sum_

ITERATIONS = 1 << 16  # of the body that is next to nothing
REGIONS = 100  # in one look at the clock
SIDE = 96  # of the product
TRY, SECONDS = 0.01, 1.2  # seconds of one try, and of all
PROFIT = 2  # a second thread must save this many times what it costs


def saved(path: str | None = None) -> tuple[Cost, Path]:
    """Measure the table of this machine and save it: at ``path``, else where ``cost_of`` looks for it. The
    table and its file. Raises TensorLangError for a file that cannot be written."""
    at = Path(path or saved_at(Target.host().mcpu))
    table = measured()
    try:
        at.parent.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise TensorLangError(f"cannot save costs to {at}", because=e.strerror) from None
    files.write({at: (table.to_json() + "\n").encode()}, "save costs")
    return table, at


def measured() -> Cost:
    """The table of this machine; the defaults where it has one processor."""
    cores = Target.host().num_cores
    if cores < 2:
        return ROOFLINE
    with generic():  # another table would make another product
        kernels = _regions(), _doubled(), _product()
    tries: list[tuple[float, ...]] = []
    end = time.perf_counter() + SECONDS
    while not tries or time.perf_counter() < end:
        tries.append(tuple(run() for run in kernels))
    start, one, product = map(min, zip(*tries, strict=True))
    return table_of(start, one / ITERATIONS, product / SIDE**3, cores)


def table_of(start: float, iteration: float, product: float, cores: int) -> Cost:
    """The table where a parallel loop takes ``start`` seconds to begin and end, one iteration of a body
    ``iteration`` and one of a register tile ``product``; numbers of two digits, which is what is known."""
    saves = iteration * (1 - 1 / cores)
    # the defaults say what a cycle is: a vector of eight elements is one of them
    return replace(
        ROOFLINE,
        start=int(_rounded(start / iteration / 8)),
        thread=max(int(_rounded(PROFIT * start / saves)), 4),
        product=_rounded(max(1.0, iteration / product)),
    )


def _rounded(x: float) -> float:
    """Two digits of a number between 1 and 2**39."""
    return float(f"{min(max(x, 1.0), 2.0**39):.1e}")


def _regions() -> Callable[[], float]:
    """Seconds of beginning and ending a parallel loop that another thread takes part in."""
    one = regions_of(REGIONS)
    return lambda: min(one() for _ in range(REGIONS))


def _doubled() -> Callable[[], float]:
    """Seconds of a loop whose body is next to nothing."""
    a = placeholder((ITERATIONS,), name="a")
    b = compute_((ITERATIONS,), lambda i: a[i] * 2.0, name="b")
    s = create_schedule(b)
    _, inner = s[b].split(s[b].op.axis[0], 16)
    s[b].vectorize(inner)
    f = build(s, [a, b], name="doubled")
    return lambda: float(f.benchmark(np.ones(ITERATIONS, np.float32), seconds=TRY).min)


def _product() -> Callable[[], float]:
    """Seconds of a product of two square matrices."""
    a, b = placeholder((SIDE, SIDE), name="a"), placeholder((SIDE, SIDE), name="b")
    k = reduce_axis((0, SIDE), name="k")
    c: Tensor = compute_((SIDE, SIDE), lambda i, j: sum_(a[i, k] * b[k, j], axis=k), name="c")
    f, square = compile([a, b, c], "llvm -num-cores=1", name="product"), (SIDE, SIDE)
    return lambda: float(
        f.benchmark(np.ones(square, np.float32), np.ones(square, np.float32), seconds=TRY).min
    )
