"""Inside a runner: load a kernel, check its answer against the reference, time it. Knows tensorlang's public
names.

The check uses small integers, of which every order of summation gives the same bits, so a schedule that drops
or doubles a term is far outside the tolerance, which is there for division and the functions of the
mathematical library only. Where that does not suffice, as in long programs with a softmax of large numbers
inside, or where angles and coordinates are made of indices, the reference itself says how much rounding may
explain (see ``moved``). Outputs are poisoned before the run.

For timing the inputs are made small. Sums of products of integers are in the thousands, and ``exp`` of such
differences is subnormal, which takes processors many times as long: a softmax of scores was timed at twice
what it takes with any data, and the search chose by that.

A serial kernel is timed on one processor, the last of those of this process, while the builder of that
processor is stopped; a parallel one on all of them, while all builders are.
"""

from __future__ import annotations

import functools
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import tensorlang as tl
from tensorlang import te
from tensorlang.analysis import Sizes, positions

from ..records.record import median_interval
from ..statuses import OK, OUT_OF_MEMORY, WRONG_ANSWER
from . import cores
from .builder import computation, kernel_file, outputs_of
from .differing import differing, largest, ulp
from .moved import rounding
from .protocol import PREPARE, TIMING, TIMING_SERIAL, Job, Outcome
from .small import quiet, small_job
from .turns import in_turns
from .worker import in_child

SAMPLES, MOST_SAMPLES = 3, 6
ORDINARY = 2.0**-4  # of the integers of the check: a power of two changes no bits
PRECISE = 0.02  # of the median: an interval as narrow as this needs no more samples
HOPELESS = 2.0  # this many times slower than the best is not timed with care
# seconds, and runs, of a look after which a kernel may count as hopeless; so many looks must say so: who else
# had a processor for a moment, such as the process that reads the outcomes, has it no longer at the next, nor
# for as long as a LASTING run
GLANCE, GLANCES, CONDEMNING, LASTING = 1e-3, 8, 2, 1e-2
DOUBTFUL = 1.3  # this many times slower than the best, one sample is enough
PROMISING = 1.1  # up to this many times slower than the best, a wide interval is worth more samples
# timings of what the search begins with, of 5 ms each, and of others; seconds after which there are no more
FIRST_TRIES, TRIES, TRYING = 6, 2, 0.1
# seconds: from here on a run is timed by itself, and the call from Python (some 0.1 µs) does not count
LONG = 3e-4
SLICE, SLICES = (
    2.5e-4,
    3,
)  # seconds that a shorter kernel runs between two looks at the clock; slices at least
# ulp of a result for each term of its longest sum, where terms are no integers: equal ones round alike, and
# one after the other that adds up to half an ulp for each at worst. 5000 squares of distances from a mean
# were off by 435; one left out is 840
OF_A_SUM = 1 / 8
# ulp of the largest element that minimal filtering by tiles of 4 × 4 may be off by. Measured (Zen 5): 60 to
# 136 for sums of 1,000 to 9,000 terms; one of them left out is 3,300 and more
OF_FILTERING = 256.0
PAGE, LINE = 4096, 64  # bytes
MALLOC = 16  # bytes into a page, where a program's large arrays begin, and so in a line of the caches
PLACES, APART = 21, 11  # every place begins this many lines further on in a page; every array in odd places
_workbenches: dict[str, Workbench] = {}


def longest_sum(outputs: Sequence[te.Tensor], sizes: Sizes) -> int:
    """The most elements that one element of a stage reduces."""
    computed = [op for op in te.graph.operations([t.op for t in outputs]) if isinstance(op, te.ComputeOp)]
    return max((math.prod(int(str(sizes(a.extent))) for a in op.reduce_axis) for op in computed), default=1)


def _whole(a: Any) -> bool:
    """Whether all elements are integers, as sums of integers are in whatever order."""
    with np.errstate(invalid="ignore"):
        return bool(np.all(a == np.rint(a)))


def placed(a: Any, at: int) -> Any:
    """A copy that begins so many bytes into a page."""
    raw = np.empty(a.nbytes + 2 * PAGE, np.uint8)
    start = -raw.__array_interface__["data"][0] % PAGE + at
    new = raw[start : start + a.nbytes].view(a.dtype).reshape(a.shape)
    new[...] = a
    return new


class Workbench:
    """A computation ready to be measured: its tensors, inputs, and the right answers."""

    def __init__(
        self, tensors: list[te.Tensor], cache: Path | None, say: Callable[[str], None] = lambda phase: None
    ) -> None:
        self.tensors = tensors
        self.outputs = outputs_of(tensors)
        self.place = -1  # where numpy has put them
        self.say = say
        self._slack: list[Any] | None = None
        self._slack_cache = None if cache is None else cache.with_suffix(".slack.npz")
        sizes = Sizes()
        rng = np.random.default_rng(20)
        counts = {t: (int(str(sizes(n))), rising) for t, (n, rising) in positions(self.outputs).items()}
        self.arrays: dict[te.Tensor, Any] = {
            t: self.array(rng, t, [int(str(sizes(e))) for e in t.shape], counts.get(t)) for t in self.tensors
        }
        inputs = {t: a for t, a in self.arrays.items() if t not in self.outputs}
        self.right = [
            a.view(t.dtype.to_numpy())  # bfloat16 is not a type of files
            for t, a in zip(
                self.outputs,
                self._made(cache, lambda: list(te.reference.evaluate(self.outputs, inputs))),
                strict=True,
            )
        ]
        self.sizes = [1.0 if a.dtype.kind in "biu" else largest(a) for a in self.right]
        self.depth = longest_sum(self.outputs, sizes)

    @staticmethod
    def array(
        rng: np.random.Generator, t: te.Tensor, shape: list[int], count: tuple[int, bool] | None = None
    ) -> Any:
        kind = t.dtype.to_numpy()
        if count is not None:  # positions in another tensor
            values = rng.integers(0, max(1, count[0]), shape).astype(kind)
            return np.sort(values, axis=-1) if count[1] and shape else values
        low, high = (0, 2) if kind == np.bool_ else (0, 5) if kind.kind == "u" else (-4, 5)
        return rng.integers(low, high, shape).astype(kind)

    @property
    def arguments(self) -> list[Any]:
        """The arrays in the order of a call."""
        return [self.arrays[t] for t in self.tensors]

    def move(self, place: int) -> None:
        """The same arrays elsewhere in memory: where they lie can make a kernel a third faster or slower, and
        so that no candidate wins by that, those that matter are timed in several places, all of a turn in the
        same. In even places all begin alike in their pages, and inputs as large arrays of numpy do, whose
        vectors cross lines; results as ours do, on a line."""
        if place == self.place:
            return
        self.place = place
        for n, (t, a) in enumerate(self.arrays.items()):
            lines = place * PLACES + (n * APART if place % 2 else 0)
            more = 0 if place % 2 or t in self.outputs else MALLOC
            self.arrays[t] = placed(a, lines * LINE % PAGE + more)

    @contextmanager
    def ordinary(self) -> Iterator[None]:
        """Float inputs of the size that data have, for timing; afterwards they are the integers again."""
        for a in self._floats():
            a *= a.dtype.type(ORDINARY)
        try:
            yield
        finally:
            for a in self._floats():  # meanwhile they may have moved
                a /= a.dtype.type(ORDINARY)

    def _floats(self) -> list[Any]:
        return [a for t, a in self.arrays.items() if t not in self.outputs and a.dtype.kind not in "biu"]

    def wrong(self, filters: Callable[[], bool] = lambda: False) -> str:
        """What is wrong with the outputs as they stand; empty when nothing is. ``filters``: whether they were
        made by minimal filtering in large tiles, which is asked where something seems off."""
        for i, (t, right) in enumerate(zip(self.outputs, self.right, strict=True)):
            got = self.arrays[t]
            bad = differing(got, right, self.sizes[i])
            if bad.any():
                last = 0.0 if right.dtype.kind in "biu" else ulp(right.dtype) * self.sizes[i]
                sums = 0.0 if not last or _whole(right) else OF_A_SUM * self.depth
                sums = last * max(sums, OF_FILTERING if last and filters() else 0.0)
                bad = differing(got, right, self.sizes[i], np.maximum(sums, self.slack()[i]))
            n = int(bad.sum())
            if n:
                at = tuple(int(x[0]) for x in np.nonzero(bad))
                return (
                    f"{t.name}: {n} of {right.size} elements differ; {t.name}{list(at)} is {got[at]!r}, "
                    f"should be {right[at]!r}"
                )
        return ""

    def slack(self) -> list[Any]:
        """How far each output may be off because of rounding, see ``rounding``."""
        if self._slack is None:
            inputs = {t: a for t, a in self.arrays.items() if t not in self.outputs}
            self._slack = self._made(self._slack_cache, lambda: rounding(self.outputs, inputs))
        return self._slack

    def _made(self, cache: Path | None, make: Callable[[], list[Any]]) -> list[Any]:
        """What the reference says, an array for each output, from ``cache`` where it is there. Else a process
        of its own makes it: the threads that numpy's products leave behind wait for more by spinning, and
        what was timed first had one processor less."""
        if cache is None or not cache.exists():
            self.say(PREPARE)
        if cache is not None and not cache.exists():
            in_child(lambda: self._keep(cache, make()))
        if cache is None or not cache.exists():  # the child could not: here it is known why
            return make()
        with np.load(cache) as kept:
            return [kept[f"a{i}"] for i in range(len(self.outputs))]

    @staticmethod
    def _keep(cache: Path | None, arrays: list[Any]) -> None:
        """Leave to later workers what takes long to compute; renamed, so that it is whole or not there."""
        if cache is not None:
            part = cache.with_suffix(".part.npz")
            np.savez(part, **{f"a{i}": a for i, a in enumerate(arrays)})
            part.rename(cache)

    def poison(self) -> None:
        """Fill the outputs with what no right answer is."""
        for t in self.outputs:
            a = self.arrays[t]
            a.fill(np.nan if a.dtype.kind not in "biu" else 1 if a.dtype.kind == "b" else 99)


def run(job: Job, directory: str, say: Callable[[str], None]) -> Outcome:
    """Check and time the kernel that a builder left, on as many threads as its target has cores. Never raises
    for what a candidate may do, except by dying."""
    with cores.threads_of(job.target):
        return _run(job, directory, say)


def _run(job: Job, directory: str, say: Callable[[str], None]) -> Outcome:
    start = checked = time.perf_counter()

    def outcome(status: str, error: str = "", times: tuple[float, ...] = ()) -> Outcome:
        end = time.perf_counter()
        parts = {"check": checked - start, "run": end - checked} if times else {"check": end - start}
        return Outcome(job.id, status, error, times, seconds=end - start, parts=parts)

    try:
        kernels = [tl.load(kernel_file(job, directory, trace), mine=True) for trace in job.traces]
        bench = _workbenches.get(job.key)
        if bench is None:
            bench = _workbenches[job.key] = Workbench(
                computation(job), Path(directory) / f"{job.key}.npz", say
            )
        if job.place >= 0:
            bench.move(job.place)
        for trace, kernel in zip(job.traces, kernels, strict=True):
            bench.poison()
            began = time.perf_counter()
            kernel(*bench.arguments)
            first = time.perf_counter() - began
            wrong = bench.wrong(functools.partial(_filters, trace))
            if wrong:
                return outcome(WRONG_ANSWER, wrong)
        checked = time.perf_counter()
        parallel = tl.num_threads() > 1 and any(b"tensorlang_parallel" in k.object_code for k in kernels)
        with bench.ordinary(), _alone(parallel, say):
            if job.also:
                threads = tl.num_threads() if parallel else 1
                (mine, *others), apart = in_turns(
                    kernels, bench, job.seconds, functools.partial(cores.apart, threads)
                )
                return replace(outcome(OK, times=mine), also=tuple(others), shared=not apart)
            once = functools.partial(
                timed, kernels[0], bench.arguments, first, job.seconds, job.best, job.place >= 0
            )
            most = (TRIES if job.best else FIRST_TRIES) if parallel else 1
            return outcome(OK, times=_undisturbed(once, most))
    except MemoryError as e:
        return outcome(OUT_OF_MEMORY, str(e) or "no memory")


def _filters(trace: str) -> bool:
    """Whether a candidate filters minimally in tiles that are not exact for small integers."""
    steps = tl.Trace.from_json(trace).steps
    return any(p.name == "winograd" and p.arguments()["tile"] > 2 for p in steps)


def prepare(directory: str) -> Iterator[None]:
    """Check and time a small kernel in the process of which runners are forked, so that they find the native
    parts of the runtime compiled. The parallel one is loaded only: a fork would not have its threads. In
    steps, between which builders are given what to do."""
    if kernel_file(small_job(False), directory).exists():  # else the builder could not, and will tell
        tl.load(kernel_file(small_job(False), directory), mine=True)  # half of the time
        yield
        run(small_job(False), directory, quiet)
    yield
    if kernel_file(small_job(True), directory).exists():
        tl.load(kernel_file(small_job(True), directory), mine=True)
    yield
    yield from cores.prepare()


@contextmanager
def _alone(parallel: bool, say: Callable[[str], None]) -> Iterator[None]:
    """Keep others off the processors that the kernel runs on."""
    if not hasattr(os, "sched_getaffinity"):
        yield
        return
    mine = os.sched_getaffinity(0)
    if parallel or len(mine) == 1:
        say(TIMING)
        yield
        return
    say(TIMING_SERIAL)
    os.sched_setaffinity(0, {max(mine)})  # of this thread only: the pool's threads are not asked
    try:
        yield
    finally:
        os.sched_setaffinity(0, mine)


def _undisturbed(once: Callable[[], tuple[float, ...]], most: int) -> tuple[float, ...]:
    """The fastest of up to so many timings, by their medians; one is enough when all processors were this
    kernel's before and after. The search makes its first proposals while the kernel it begins with is timed:
    eleven of twelve looked 1.4 to 2.0 times as slow as they are, and 3 % of what was timed later."""
    if most == 1:
        return once()
    threads, tries, end = tl.num_threads(), list[tuple[float, ...]](), time.perf_counter() + TRYING
    while len(tries) < most:
        before = cores.apart(threads)
        tries.append(once())
        if (before and cores.apart(threads)) or time.perf_counter() > end:
            break
    return min(tries, key=statistics.median)


def timed(
    kernel: tl.Module, args: list[Any], first: float, seconds: float, best: float, plain: bool = False
) -> tuple[float, ...]:
    """Samples in seconds, each the fastest of several slices: what disturbs a run only ever makes it slower.
    ``plain``: the median of them, as a program would find it; the fastest flatters what needs threads that
    are awake.

    ``first`` is what the first run took, caches cold. It condemns nobody, nor does the second of a short
    kernel, for which threads may have to wake up: that takes longer than many a kernel. No longer than its
    precision needs: what is clearly slower than the best is timed briefly."""
    usual = first
    if first < LONG or (best and first > HOPELESS * best):
        usual = first
        for _ in range(CONDEMNING if first < LASTING else 1):
            usual = min(usual, _fastest(kernel, args, max(1, min(GLANCES, int(GLANCE / usual)))))
            if not best or usual <= HOPELESS * best:
                break
        else:
            return (usual,)
    share = seconds / SAMPLES
    samples = [_sample(kernel, args, usual, share, plain)]
    while len(samples) < MOST_SAMPLES:
        fastest = min(samples)
        if best and fastest > DOUBTFUL * best:
            break
        if len(samples) >= SAMPLES:
            low, high = median_interval(samples)
            if not best or fastest > PROMISING * best or high - low <= PRECISE * fastest:
                break
        samples.append(_sample(kernel, args, usual, share, plain))
    return tuple(samples)


def _sample(kernel: tl.Module, args: list[Any], usual: float, seconds: float, plain: bool) -> float:
    if usual >= LONG:
        runs, slices = 1, max(2, min(5, int(seconds / usual)))
    else:
        runs = max(1, round(SLICE / usual))
        slices = max(SLICES, round(seconds / (runs * usual)))
    timing = kernel.time_evaluator(number=runs, repeat=slices)(*args)
    return timing.median if plain else timing.min


def _fastest(kernel: tl.Module, args: list[Any], runs: int) -> float:
    call, clock, fastest = kernel.entry, time.perf_counter, float("inf")
    for _ in range(runs):
        start = clock()
        call(*args)
        fastest = min(fastest, clock() - start)
    return fastest
