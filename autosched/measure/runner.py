"""Inside a worker: replay the trace, build, check the answer against the reference, time. Knows tensorlang's public names.

The check uses small integers, of which every order of summation gives the same bits, so a schedule that drops or doubles a term
is far outside the tolerance, which is there for division and the functions of the mathematical library only. Outputs are poisoned
before the run.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

import tensorlang as tl
from tensorlang import te
from tensorlang.analysis import Sizes

from .protocol import BUILD_ERROR, OK, OUT_OF_MEMORY, REFUSED, WRONG_ANSWER, Job, Outcome

SAMPLES = 3
LONG = 2e-3  # seconds: from here on a run is timed by itself, and the call from Python does not count
_workbenches: dict[str, Workbench] = {}


class Workbench:
    """A computation ready to be measured: its tensors, inputs, and the right answers."""

    def __init__(self, graph: str, cache: Path | None) -> None:
        self.tensors = te.serialize.from_json(graph)
        self.outputs = [t for t in self.tensors if not isinstance(t.op, te.PlaceholderOp)]
        sizes = Sizes()
        rng = np.random.default_rng(20)
        self.arrays: dict[te.Tensor, Any] = {t: self.array(rng, t, [int(str(sizes(e))) for e in t.shape]) for t in self.tensors}
        inputs = {t: a for t, a in self.arrays.items() if t not in self.outputs}
        if cache is not None and cache.exists():
            with np.load(cache) as kept:
                self.right = [kept[f"a{i}"] for i in range(len(self.outputs))]
        else:
            self.right = list(te.reference.evaluate(self.outputs, inputs))
            if cache is not None:  # a worker that dies leaves this to the next; renamed, so that it is whole or not there
                part = cache.with_suffix(".part.npz")
                np.savez(part, **{f"a{i}": a for i, a in enumerate(self.right)})
                part.rename(cache)

    @staticmethod
    def array(rng: np.random.Generator, t: te.Tensor, shape: list[int]) -> Any:
        kind = t.dtype.to_numpy()
        low, high = (0, 2) if kind == np.bool_ else (0, 5) if kind.kind == "u" else (-4, 5)
        return rng.integers(low, high, shape).astype(kind)

    def wrong(self) -> str:
        """What is wrong with the outputs as they stand; empty when nothing is."""
        for t, right in zip(self.outputs, self.right, strict=True):
            got = self.arrays[t]
            bad = ~_close(got, right)
            n = int(bad.sum())
            if n:
                at = tuple(int(x[0]) for x in np.nonzero(bad))
                return f"{t.name}: {n} of {right.size} elements differ; {t.name}{list(at)} is {got[at]!r}, should be {right[at]!r}"
        return ""

    def poison(self) -> None:
        """Fill the outputs with what no right answer is."""
        for t in self.outputs:
            a = self.arrays[t]
            a.fill(np.nan if a.dtype.kind == "f" else 1 if a.dtype.kind == "b" else 99)


def _close(got: Any, right: Any) -> Any:
    same = got == right
    if got.dtype.kind != "f" or same.all():
        return same
    both = np.isnan(got) & np.isnan(right)
    size = float(np.max(np.abs(right), initial=1.0, where=np.isfinite(right)))
    with np.errstate(invalid="ignore"):
        return same | both | (np.abs(got.astype(np.float64) - right.astype(np.float64)) <= 64 * np.finfo(got.dtype).eps * size)


def measure(job: Job, directory: str | None = None) -> Outcome:
    """Measure one candidate in this process. Never raises for what a candidate may do, except by dying."""
    start = time.perf_counter()
    built = 0.0

    def outcome(status: str, error: str = "", times: tuple[float, ...] = ()) -> Outcome:
        return Outcome(job.id, status, error, times, built, time.perf_counter() - start)

    try:
        bench = _workbenches.get(job.key)
        if bench is None:
            cache = Path(directory) / f"{job.key}.npz" if directory else None
            bench = _workbenches[job.key] = Workbench(job.graph, cache)
        try:
            schedule = tl.create_schedule(bench.outputs).fresh(symbolic=False).replay(tl.Trace.from_json(job.trace))
        except tl.ScheduleError as e:
            return outcome(REFUSED, str(e))
        began = time.perf_counter()
        try:
            kernel = tl.build(schedule, bench.tensors, target=job.target, name="candidate")
        except MemoryError:
            raise
        except tl.TensorLangError as e:
            return outcome(BUILD_ERROR, str(e))
        except Exception as e:
            return outcome(BUILD_ERROR, f"{type(e).__name__}: {e} (a bug of the compiler)")
        built = time.perf_counter() - began
        args = [bench.arrays[t] for t in bench.tensors]
        bench.poison()
        began = time.perf_counter()
        kernel(*args)
        first = time.perf_counter() - began
        wrong = bench.wrong()
        if wrong:
            return outcome(WRONG_ANSWER, wrong)
        if job.hopeless and first > job.hopeless:
            return outcome(OK, times=(first,))
        return outcome(OK, times=_timed(kernel, args, first, job.seconds))
    except MemoryError as e:
        return outcome(OUT_OF_MEMORY, str(e) or "no memory")


def _timed(kernel: tl.Module, args: list[Any], first: float, seconds: float) -> tuple[float, ...]:
    """A few samples, each the fastest of several runs: what disturbs a run only ever makes it slower."""
    if first < LONG:
        return tuple(kernel.benchmark(*args, seconds=seconds / SAMPLES).min for _ in range(SAMPLES))
    call, clock, samples = kernel.entry, time.perf_counter, []
    runs = max(1, min(5, int(seconds / SAMPLES / first)))
    for _ in range(SAMPLES):
        best = float("inf")
        for _ in range(runs):
            start = clock()
            call(*args)
            best = min(best, clock() - start)
        samples.append(best)
    return tuple(samples)
