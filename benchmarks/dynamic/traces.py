"""A server's day in small: traces of shapes served by a DynamicKernel whose tiers grow meanwhile, against
other ways to serve them.

``python -m benchmarks.dynamic --suite P9`` prints, for each workload and trace, the seconds of all calls over
those of the oracle:

- the oracle has the best kernel of every shape (the exact one or the table's, whichever was measured faster;
  of ``all different`` only some have an exact one), made before and for free;
- ours begins with the table of micro-kernels (the last workload without: with the one generic kernel) and
  makes the rest in the background; ``again`` is a later run that finds the files of the first;
- always generic is one kernel with run-time extents; always recompile makes each shape's kernel when it is
  first seen, while the caller waits.

Calls are made in turns, a few hundred by each way, so that a busy machine is so for all. A stall is a call
that took a millisecond and eight times the usual of its shape longer; the oracle, which nothing can make
wait, shows how many of these are the machine's.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tensorlang as tl
from autosched.dynamic.specialise import specialise
from autosched.dynamic.tune_dynamic import tune_dynamic
from autosched.task import SearchTask
from autosched.tiers import GENERIC, Dispatched, Manager, Tiers, TierStats, Trials, Workshop, cycle_of
from autosched.tiers.trial import compare
from tensorlang import ops, te

from .figures import Figure, wanted

ABOUT = "traces of shapes: seconds of all calls over those of an oracle that has every exact kernel for free"
SHAPES = 32  # different sizes in a trace, at most
TURN = 200  # calls of one way, then of the next
CHANCE = 2.0  # standard deviations by which two counts of the same rate may differ: that much is the machine
Kernel = Callable[..., Any]


@dataclass(frozen=True)
class Workload:
    """A computation of one open size: ``declare(m)``, the constants, the arrays of a call, the highest size;
    whether there is a table."""

    name: str
    declare: Callable[[Any], list[te.Tensor]]
    constants: dict[str, Any]
    arrays: Callable[[int, np.random.Generator], tuple[Any, ...]]
    highest: int = 256
    table: bool = True


def workloads() -> list[Workload]:
    """A dense layer with a dynamic batch; the scores and the softmax of attention over a dynamic length."""
    rng = np.random.default_rng(0)
    weight, large = rng.random((256, 256), np.float32), rng.random((1024, 1024), np.float32)

    def dense(m: Any) -> list[te.Tensor]:
        x, w = te.placeholder((m, 256), name="X"), te.placeholder((256, 256), name="W")
        return [x, w, ops.matmul(x, w)]

    def decode(m: Any) -> list[te.Tensor]:
        x, w = te.placeholder((m, 1024), name="X"), te.placeholder((1024, 1024), name="W")
        return [x, w, ops.matmul(x, w)]

    def softmax(m: Any) -> list[te.Tensor]:
        x = te.placeholder((64, m), name="X")
        return [x, ops.softmax(x)]

    def scores(m: Any) -> list[te.Tensor]:
        q, k = te.placeholder((4, m, 64), name="Q"), te.placeholder((4, m, 64), name="K")
        return [q, k, ops.batch_matmul(q, k, transpose_b=True)]

    def heads(m: int, r: np.random.Generator) -> tuple[Any, ...]:
        return (
            r.random((4, m, 64), np.float32),
            r.random((4, m, 64), np.float32),
            np.empty((4, m, m), np.float32),
        )

    return [
        Workload(
            "dense m×256×256",
            dense,
            {"W": weight},
            lambda m, r: (r.random((m, 256), np.float32), np.empty((m, 256), np.float32)),
        ),
        Workload("scores 4×m×m×64", scores, {}, heads),
        Workload(
            "softmax 64×m",
            softmax,
            {},
            lambda m, r: (r.random((64, m), np.float32), np.empty((64, m), np.float32)),
        ),
        Workload(
            "decoding m×1024×1024",
            decode,
            {},
            lambda m, r: (r.random((m, 1024), np.float32), large, np.empty((m, 1024), np.float32)),
            12,
            False,
        ),
    ]


def traces(shapes: Sequence[int], highest: int, calls: int, seed: int) -> dict[str, np.ndarray]:
    """Sizes call by call. ``all different`` has every size there is, once."""
    rng = np.random.default_rng(seed)
    some = rng.permutation(np.array(shapes))
    zipf = 1 / np.arange(1, len(some) + 1) ** 1.2
    zipf /= zipf.sum()
    middle = np.exp(rng.normal(np.log(len(some) / 4), 0.7, calls)).astype(int).clip(0, len(some) - 1)
    phases = [rng.permutation(some)[rng.choice(len(some), calls // 4, p=zipf)] for _ in range(4)]
    return {
        "uniform": some[rng.integers(len(some), size=calls)],
        "Zipf": some[rng.choice(len(some), calls, p=zipf)],
        "log-normal": np.sort(some)[middle],
        "phase change": np.concatenate(phases),
        "all different": rng.permutation(np.arange(1, highest + 1)),
    }


@dataclass
class Way:
    """One way to serve: the kernel of a size, and what its calls took."""

    kernel: Callable[[int], Kernel]
    sizes: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def serve(self, sizes: Sequence[int], arrays: dict[int, tuple[Any, ...]]) -> None:
        """Some calls."""
        clock = time.perf_counter
        for m in sizes:
            kernel, given = self.kernel(m), arrays[m]
            begin = clock()
            kernel(*given)
            self.seconds.append(clock() - begin)
        self.sizes += sizes

    @property
    def total(self) -> float:
        """Seconds of all calls."""
        return self.total_from(0)

    def total_from(self, first: int) -> float:
        """Seconds of the calls from number ``first`` on. What is longer than a stall has to be counts as such
        a stall: how long the machine had something else to do says nothing."""
        usual = self.usual()
        return sum(
            min(s, 1e-3 + 8 * usual[m]) for m, s in zip(self.sizes[first:], self.seconds[first:], strict=True)
        )

    @property
    def stalls(self) -> int:
        """Calls that took much longer than their shape's."""
        usual = self.usual()
        return sum(s > 1e-3 + 8 * usual[m] for m, s in zip(self.sizes, self.seconds, strict=True))

    def usual(self) -> dict[int, float]:
        """The median of each size."""
        by: dict[int, list[float]] = {}
        for m, s in zip(self.sizes, self.seconds, strict=True):
            by.setdefault(m, []).append(s)
        return {m: float(np.median(v)) for m, v in by.items()}


@dataclass
class Bench:
    """A workload with all its kernels made."""

    work: Workload
    shapes: list[int]

    def __post_init__(self) -> None:
        w, dim = self.work, te.dim("m", 1, self.work.highest)
        self.task = SearchTask(w.declare, (dim,), name=w.name)
        self.generic = self._compile(w.declare(dim))
        self.dynamic = (
            tune_dynamic(self.task, {"m": (1, w.highest // 4, w.highest)}, constants=w.constants)
            if w.table
            else None
        )
        self.kernel = (
            tl.Dispatcher(self.generic, [self.generic]) if self.dynamic is None else self.dynamic.dispatcher
        )
        rng = np.random.default_rng(1)
        self.arrays = {m: w.arrays(m, rng) for m in range(1, w.highest + 1)}
        self.exact: dict[int, tl.Module] = {}
        self.compiling: dict[int, float] = {}
        self.twin = table = tl.Dispatcher(self.generic, self.kernel.routes, self.kernel.tree)
        self.best: dict[int, Kernel] = dict.fromkeys(self.arrays, table)
        for given in self.arrays.values():
            table(*given)  # memory that was never touched would slow down whoever comes first
            self.generic(*given)
        for m in self.shapes:
            begin = time.perf_counter()
            self.exact[m] = self._compile(w.declare(m))
            self.compiling[m] = time.perf_counter() - begin
            *inputs, output = self.arrays[m]
            self.best[m] = (
                self.exact[m] if compare(table, self.exact[m], inputs, [output]).ratio < 1 else table
            )

    def _compile(self, tensors: list[te.Tensor]) -> tl.Module:
        constants = {t: self.work.constants[t.name] for t in tensors if t.name in self.work.constants}
        return tl.compile([t for t in tensors if t not in constants], constants=constants)

    def tiers(self, directory: str) -> Tiers:
        """What looks after the kernel."""
        w = self.work
        if self.dynamic is not None:
            return specialise(self.dynamic, self.task, constants=w.constants, directory=directory)
        served = Dispatched(self.kernel, lambda shape: GENERIC, cycle_of(self.twin, self.arrays[w.highest]))
        return Tiers(
            Manager(
                served,
                Workshop(self.task.tensors, ["m"], constants=w.constants, directory=directory),
                Trials(self.twin),
            )
        )

    def run(self, trace: Sequence[int], directory: str) -> tuple[dict[str, Way], TierStats]:
        """A trace by all ways, a few hundred calls each in turns."""
        ways = {
            "oracle": Way(self.best.__getitem__),
            "ours": Way(lambda m: self.kernel),
            "generic": Way(lambda m: self.generic),
        }
        with self.tiers(directory) as tiers:
            for i, at in enumerate(range(0, len(trace), TURN)):
                names = list(ways)
                for name in names[i % 3 :] + names[: i % 3]:
                    ways[name].serve(trace[at : at + TURN], self.arrays)
            tiers.step()
            stats = tiers.stats()
        for shape in self.kernel.published:
            self.kernel.retire(shape)
        return ways, stats


def rows(bench: Bench, seconds: float, seed: int) -> Iterator[tuple[str, dict[str, float], TierStats]]:
    """The ratios of each trace, first and again."""
    typical = float(
        np.mean([np.median([timed(bench.best[m], bench.arrays[m]) for _ in range(5)]) for m in bench.shapes])
    )
    calls = max(4 * TURN, int(seconds / typical))
    for name, trace in traces(bench.shapes, bench.work.highest, calls, seed).items():
        sizes = trace.tolist()
        with tempfile.TemporaryDirectory() as directory:
            for turn in ("", ", again"):
                ways, stats = bench.run(sizes, directory)
                oracle = ways["oracle"].total
                each = float(np.mean(list(bench.compiling.values())))
                recompile = oracle + sum(
                    bench.compiling.get(m, each) for m in set(sizes)
                )  # its calls are as fast as the oracle's at best
                half = len(sizes) // 2
                late = ways["ours"].total_from(half) / ways["oracle"].total_from(half)
                yield (
                    name + turn,
                    {
                        "calls": len(sizes),
                        "ours": ways["ours"].total / oracle,
                        "second half": late,
                        "generic": ways["generic"].total / oracle,
                        "recompile": recompile / oracle,
                        "stalls": ways["ours"].stalls,
                        "machine": ways["oracle"].stalls,
                    },
                    stats,
                )


def timed(kernel: Kernel, arrays: tuple[Any, ...]) -> float:
    """Seconds of one call."""
    begin = time.perf_counter()
    kernel(*arrays)
    return time.perf_counter() - begin


def run(options: argparse.Namespace) -> Iterator[str | Figure]:
    """The tables, line by line."""
    for work in workloads():
        if not wanted(work.name, options):
            continue
        found: dict[str, dict[str, float]] = {}
        begin = time.perf_counter()
        every = np.random.default_rng(options.seed).permutation(np.arange(1, work.highest + 1))
        shapes = sorted(every[: SHAPES // (2 if options.quick else 1)].tolist())
        bench = Bench(work, shapes)
        made = f"table {bench.dynamic.account.seconds:.1f} s" if bench.dynamic is not None else "no table"
        yield (
            f"{work.name}: {len(shapes)} sizes, {made}, exact kernels {sum(bench.compiling.values()):.1f} s, "
            "best of "
            f"{sum(bench.best[m] is bench.exact[m] for m in shapes)} sizes; "
            f"{time.perf_counter() - begin:.0f} s to prepare"
        )
        yield (
            f"  {'seconds over the oracle':24}{'calls':>9}{'ours':>7}{'2nd half':>10}{'generic':>9}{'recompile':>11}{'stalls':>8}{'oracle':>8}"  # noqa: E501
            f"{'promoted':>10}{'files':>7}"
        )
        for name, r, stats in rows(bench, 1.0 if options.quick else 4.0, options.seed):
            yield (
                f"  {name:24}{r['calls']:9,.0f}{r['ours']:7.2f}{r['second half']:10.2f}{r['generic']:9.2f}{r['recompile']:11.2f}{r['stalls']:8.0f}"  # noqa: E501
                f"{r['machine']:8.0f}{stats.promotions.total():10}{stats.stored:7}"
            )
            found[name] = r
        yield Figure(work.name, "oracle", {name: r["ours"] for name, r in found.items()}, more=False)
        yield Figure(
            work.name,
            "oracle, second half",
            {name: r["second half"] for name, r in found.items()},
            more=False,
        )
        for other in ("generic", "recompile"):
            yield Figure(
                work.name, f"always {other}", {name: r[other] / r["ours"] for name, r in found.items()}
            )
        mine, its = (sum(r[who] for r in found.values()) for who in ("stalls", "machine"))
        beyond = max(0.0, mine - its - CHANCE * (mine + its) ** 0.5)
        yield Figure(
            work.name,
            "stalls beyond the oracle's",
            {f"{mine:.0f} and {its:.0f}, all traces": beyond},
            "calls",
            more=False,
        )
