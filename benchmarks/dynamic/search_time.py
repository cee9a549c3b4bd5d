"""P7: seconds until every number of rows in 1 … 512 of a layer runs at 0.95 of the best known, against tuning
single shapes.

The best known of a number of rows is the fastest of: every plan of ours, the default schedule of the exact
shape, a kernel tuned for it where there is one, and else one tuned for more rows, its padding computed along.
Where our choice is slower than that, the seconds to make the faster kernel are added to ours.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import autosched
import tensorlang as tl
from tensorlang import te

from .baselines import spread
from .dense import compiled, declared, tuned
from .figures import Figure
from .turns import in_turns

ABOUT = "seconds until every M in 1 … 512 of 768×768 reaches 0.95 of the best known"
N, K, MOST = 768, 768, 512
ENOUGH = 0.95
TRIALS = 64  # candidates of a tuned shape, unless told
SHAPES = 8  # shapes tuned one by one
TUNED_QUICK, SAMPLED_QUICK = 2, 32
SECONDS = 0.12  # of measuring at each number of rows


@dataclass(frozen=True)
class Row:
    """Measured seconds at one number of rows: of our choice, and of each other kernel by name; ``made``:
    seconds to make each of these."""

    m: int
    ours: float
    others: Mapping[str, float]
    made: Mapping[str, float]

    @property
    def best(self) -> str:
        """The fastest of the others."""
        return min(self.others, key=lambda name: self.others[name])

    def share(self, seconds: float) -> float:
        """Of the best known."""
        return min(self.ours, self.others[self.best]) / seconds


def repair(rows: Sequence[Row], shapes: int) -> tuple[int, float]:
    """How many of the rows are below ``ENOUGH``, and the seconds to make what they lack, as if ``shapes``
    were like these."""
    lacking = [r for r in rows if r.share(r.ours) < ENOUGH]
    return len(lacking), sum(r.made[r.best] for r in lacking) * shapes / max(1, len(rows))


def against(ours: float, tuned: Sequence[float]) -> Iterator[Figure]:
    """How many times longer tuning 8 shapes and all take, from the seconds of those that were tuned."""
    each = float(np.mean(tuned))
    for shapes in (SHAPES, MOST):
        told = (
            "measured"
            if len(tuned) == shapes
            else f"extrapolated from {each:.1f} s a shape, the mean of {len(tuned)}"
        )
        yield Figure(f"N={N} K={K}", f"seconds of tuning {shapes} shapes", {told: each * shapes / ours})


def run(options: Any) -> Iterator[str | Figure]:
    """The lines of the suite."""
    rng = np.random.default_rng(options.seed)
    w = rng.random((K, N), np.float32)
    task = autosched.SearchTask(declared, (te.dim("m", 0, MOST), N, K), name="dense")
    begin = time.perf_counter()
    kernel = autosched.tune_dynamic(task, {"m": (1, 128, MOST)}, constants={"W": w}, cache=False)
    ours = time.perf_counter() - begin
    yield f"  ours: tune_dynamic without any stored table {ours:.1f} s, {kernel.account.kernels} kernels"

    every = [MOST * (i + 1) // SHAPES for i in range(SHAPES)]
    kernels: dict[int, tl.Module] = {}
    took: dict[int, float] = {}
    for m in every[1 :: SHAPES // TUNED_QUICK] if options.quick else every:
        begin = time.perf_counter()
        kernels[m] = tuned(m, N, K, w, options.trials or TRIALS)
        took[m] = time.perf_counter() - begin
        yield f"  autosched.tune of M={m}, {options.trials or TRIALS} trials: {took[m]:.1f} s"

    picked = sorted({*kernels, *spread(SAMPLED_QUICK, options.seed)}) if options.quick else range(1, MOST + 1)
    x, y = rng.random((MOST, K), np.float32), np.empty((MOST, N), np.float32)
    rows = [_row(m, kernel, kernels, took, w, x, y) for m in picked]
    shares = np.array([r.share(r.ours) for r in rows])
    lacking, more = repair(rows, MOST)
    mean, worst = np.exp(np.log(shares).mean()), int(shares.argmin())
    yield (
        f"  ours reaches {ENOUGH} of the best known at {len(rows) - lacking} of {len(rows)} M: geometric "
        f"mean {mean:.3f}, "
        f"worst {shares[worst]:.3f} (M={rows[worst].m})"
    )
    for r in sorted((r for r in rows if r.share(r.ours) < ENOUGH), key=lambda r: r.share(r.ours))[:8]:
        yield (
            f"    M={r.m}: {r.share(r.ours):.3f}, {r.best} is faster; "
            f"{kernel.explain(m=r.m).alternatives[0][2]}"
        )
    padded = [
        r.share(min((s for name, s in r.others.items() if name.startswith("tuned")), default=np.inf))
        for r in rows
    ]
    own = ", ".join(f"{r.share(r.others[f'tuned for {r.m}']):.2f} (M={r.m})" for r in rows if r.m in kernels)
    yield f"  kernels tuned for a shape reach, at that shape, {own}"
    yield (
        f"  the {len(kernels)} tuned shapes, fewer rows padded to the next, reach it at "
        f"{sum(s >= ENOUGH for s in padded)} of {len(rows)} M"
    )
    yield (
        f"  to make what is lacking takes {more:.1f} s for {MOST} M (to find out where not counted): "
        f"{ours + more:.1f} s in all"
    )
    yield Figure(
        f"N={N} K={K}", "seconds until 0.95 everywhere", {f"1 … {MOST}": ours + more}, "s", more=False
    )
    yield Figure(f"N={N} K={K}", "of the best known", {str(r.m): r.share(r.ours) for r in rows})
    yield from against(ours + more, list(took.values()))


def _row(
    m: int,
    kernel: autosched.DynamicKernel,
    kernels: Mapping[int, tl.Module],
    took: Mapping[int, float],
    w: Any,
    x: Any,
    y: Any,
) -> Row:
    """All kernels of a number of rows, in turns. Those for more rows write into the room after the last."""
    begin = time.perf_counter()
    exact = compiled(m, N, K, w)
    compiling = time.perf_counter() - begin
    mine, out = x[:m], y[:m]
    d = kernel.dispatcher
    names = {f"plan {i}": tl.Dispatcher(d.signature, [r]).entry for i, r in enumerate(d.routes)}
    made = {**dict.fromkeys(names, SECONDS), "exact": compiling}
    calls: dict[str, Any] = {"ours": lambda: kernel.entry(mine, out), "exact": lambda: exact.entry(mine, out)}
    calls.update({name: (lambda e=e: e(mine, out)) for name, e in names.items()})
    wide = min((n for n in kernels if n >= m), default=None)
    if wide is not None:
        name = f"tuned for {wide}"
        calls[name] = lambda: kernels[wide].entry(x[:wide], y[:wide])
        made[name] = took[wide]
    seconds = in_turns(calls, SECONDS)
    ours = min(seconds.pop("ours"), seconds[f"plan {d.slot((m,))}"])  # the same code, timed twice
    return Row(m, ours, seconds, made)
