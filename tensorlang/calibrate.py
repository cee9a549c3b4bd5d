"""``python -m tensorlang calibrate``: this machine's table of costs, measured in less than two seconds and
saved where every later schedule finds it. Nothing else measures: neither an import nor ``tl.compile`` does.

Three numbers are measured, those that differ most between machines: what a parallel loop takes to begin and
end, and from how many iterations of a body, and of a register tile, a second thread is worth that. The others
are those of the kind of processor, as they come with the package. The kernels run in turns, each time on new
arrays, and the least time of each counts: others at work, and pages that lie badly in the caches, make some
tries longer, none shorter.

A parallel loop begins in less than a microsecond while the other threads still wait for work, and takes ten
or more to wake them when they sleep. Short loops are for threads that are awake alone (``native.pool``), so a
loop is shared out when those gain by it.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from .analysis import Cost, generic, known_of, saved_at
from .build import build, compile
from .errors import TensorLangError
from .runtime import files
from .runtime.threads import regions_of
from .schedule import create_schedule
from .target import Target
from .te import Tensor, exp, placeholder, reduce_axis
from .te import compute as compute_
from .te import sum as sum_

ITERATIONS = 1 << 16  # of the body
REGIONS = 100  # in one look at the clock
PAUSE = 3e-4  # seconds after which the other threads sleep
SIDE = 96  # of the product
# times a parallel loop's beginning and end that another thread must save: what both read and write moves
# between caches too. Measured (Zen 4, 0.13 µs): loops of 2 µs gain, of 1.4 µs lose
GAIN = 8
TRY, SECONDS = 0.01, 1.2  # seconds of one try, and of all


def saved(path: str | None = None) -> tuple[Cost, Path]:
    """Measure the table of this machine and save it: at ``path``, else where ``cost_of`` looks for it. The
    table and its file. Raises TensorLangError for a file that cannot be written."""
    usual = path or saved_at(Target.host().mcpu)
    if usual is None:
        raise TensorLangError(
            "cannot save costs: this user has no home directory",
            try_="tensorlang calibrate FILE, and TENSORLANG_COST=FILE where it is used; or set HOME",
        )
    at = Path(usual)
    table = measured()
    try:
        at.parent.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise TensorLangError(f"cannot save costs to {at}", because=e.strerror) from None
    files.write({at: (table.to_json() + "\n").encode()}, "save costs")
    return table, at


def measured() -> Cost:
    """The table of this machine; that of its kind where it has one processor."""
    cores, known = Target.host().num_cores, known_of(Target.host().mcpu)
    if cores < 2:
        return known
    with generic():  # another table would make another product
        kernels = _awake(), _asleep(), _vectors(), _product()
    tries: list[tuple[float, ...]] = []
    end = time.perf_counter() + SECONDS
    while not tries or time.perf_counter() < end:
        tries.append(tuple(run() for run in kernels))
    awake, asleep, one, product = map(min, zip(*tries, strict=True))
    lanes = Target.host().vector_lanes("float32")
    return table_of(awake, asleep, one / ITERATIONS, product / SIDE**3, lanes, cores, known)


def table_of(
    awake: float, asleep: float, iteration: float, product: float, lanes: int, cores: int, known: Cost
) -> Cost:
    """The table where a parallel loop takes ``awake`` seconds to begin and end, ``asleep`` if the other
    threads sleep, one iteration of a body ``iteration`` and one of a register tile ``product``; the rest is
    as ``known`` of the processor. Its numbers have two digits, which is what is known."""
    cycle = product * lanes * known.per_cycle  # a register tile keeps the units busy
    return replace(
        known,
        start=int(_rounded(math.sqrt(awake * asleep) / cycle)),
        thread=max(int(_rounded(worth_sharing(awake, cores) / iteration)), 4),
        product=_rounded(max(1.0, iteration / product)),
    )


def worth_sharing(awake: float, cores: int) -> float:
    """Seconds of work by which ``cores`` threads that are awake gain enough: ``work - work / cores`` is
    ``GAIN`` times what a region of no work takes."""
    return GAIN * awake / (1 - 1 / cores)


def _rounded(x: float) -> float:
    """Two digits of a number between 1 and 2**39."""
    return float(f"{min(max(x, 1.0), 2.0**39):.1e}")


def _awake() -> Callable[[], float]:
    """Seconds of beginning and ending a parallel loop that another thread, which is awake, takes part in."""
    one = regions_of(REGIONS)
    return lambda: min(one() for _ in range(REGIONS))


def _asleep() -> Callable[[], float]:
    """The same where the other thread sleeps."""
    one = regions_of(1)

    def later() -> float:
        time.sleep(PAUSE)
        return one()

    return lambda: statistics.median(later() for _ in range(REGIONS // 4))  # some wake at once: by chance


def _vectors() -> Callable[[], float]:
    """Seconds of a loop over a body of one intrinsic. Loops of less are held back when they run: what a body
    takes is known there."""
    a = placeholder((ITERATIONS,), name="a")
    b = compute_((ITERATIONS,), lambda i: exp(a[i]), name="b")
    s = create_schedule(b)
    _, inner = s[b].split(s[b].op.axis[0], 16)
    s[b].vectorize(inner)
    f = build(s, [a, b], name="vectors")
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
