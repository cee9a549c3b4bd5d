"""The loop: propose, measure, remember, learn. Knows every room of the package by its protocol and none by its inside."""

from __future__ import annotations

import json
import platform
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

import tensorlang as tl
from tensorlang import te

from .cost_model import MODELS, CostModel
from .measure import Job, Measurer, Outcome
from .records import Record, RecordLog, best_of
from .records.record import canonical
from .report import Report, reporter, seconds_text
from .search import STRATEGIES, Seen, Strategy, allot
from .space import variants_of
from .task import SearchTask

FINALISTS = 4
HOPELESS = 3.0  # a candidate so many times slower than the best is timed once


class Measures(Protocol):
    """What the loop needs of measurement."""

    def run(self, jobs: Iterable[Job]) -> Iterator[Outcome]:
        """The outcome of each job, in order."""


@dataclass(frozen=True)
class TuneResult:
    """What a tune found. ``schedule`` and ``tensors`` go to ``tl.build``; None when nothing worked. ``history`` is the best cost
    after each trial; ``failures`` counts outcomes by status, with an example of each in ``reasons``."""

    task: SearchTask
    best: Record | None
    trials: int
    measured: int
    seconds: float
    flops: float
    history: tuple[float, ...] = ()
    failures: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    @property
    def schedule(self) -> tl.Schedule | None:
        """The best schedule, with numbers in place of sampled values."""
        return None if self.best is None else self.task.apply_best([self.best])[0]

    @property
    def tensors(self) -> list[te.Tensor]:
        """The arguments to build it with."""
        return self.task.tensors

    @property
    def gflops(self) -> float:
        """Billions of operations per second of the best."""
        return 0.0 if self.best is None else self.flops / self.best.cost / 1e9

    def __str__(self) -> str:
        lines = [
            f"{self.task.name}: {self.trials} trials, {self.measured} measured now, in {self.seconds:.1f} s "
            f"({self.measured / max(self.seconds, 1e-9):.1f} a second)"
        ]
        if self.best is None:
            lines.append("  no candidate worked")
        else:
            values = ", ".join(f"{k}={list(v) if len(v) > 1 else v[0]}" for k, v in self.best.trace().decisions.items())
            lines.append(f"  best {seconds_text(self.best.cost)}  {self.gflops:.1f} GFLOP/s  {values}")
        lines += [f"  {n} × {status}: {self.reasons[status].splitlines()[0]}" for status, n in sorted(self.failures.items())]
        return "\n".join(lines)


def tune(
    task: SearchTask,
    trials: int = 64,
    records: str | Path | RecordLog | None = None,
    seed: int = 0,
    *,
    strategy: str | Strategy = "evolutionary",
    model: str | CostModel = "xgb",
    batch: int = 16,
    measurer: Measures | None = None,
    timeout: float = 20.0,
    progress: bool | Report | None = None,
) -> TuneResult:
    """Search for a fast schedule of ``task`` by measuring up to ``trials`` candidates.

    Measurements in ``records`` count as trials and are not repeated; new ones are appended. ``measurer`` replaces the worker
    process. Raises TensorLangError for a task that cannot be searched; what candidates do is never an error, but an outcome in
    the result.
    """
    if trials < 1:
        raise tl.TensorLangError(f"tune(trials={trials}): at least one candidate is measured", try_="trials=64")
    why_not = task.target.why_not_here() if measurer is None else None
    if why_not is not None:
        raise tl.TensorLangError(
            f"tune({task.name}): candidates for {task.target} cannot be measured here",
            because=why_not,
            try_="the target of this machine (target=None), or measurer= for one that measures elsewhere",
        )
    start = time.perf_counter()
    log = records if isinstance(records, RecordLog) else RecordLog(records)
    how = STRATEGIES[strategy]() if isinstance(strategy, str) else strategy
    learner = MODELS[model](seed) if isinstance(model, str) else model
    learner.prepare()
    own = None if measurer is not None else Measurer()
    if own is not None:
        own.start()  # it imports while the space is made
    try:
        session = _Session(task, log, how, learner, own if measurer is None else measurer, np.random.default_rng(seed), timeout)  # type: ignore[arg-type]
        report = reporter(progress) if isinstance(progress, bool | None) else progress
        report.begin(task.name, trials, session.trials)
        new = 0
        while session.trials < trials:
            done = session.round(min(batch, trials - session.trials))
            if not done:
                break  # the space is exhausted
            new += len(done)
            report.round(done, log.best(task.workload_key, str(task.target)), session.flops)
        if new:
            session.finals()
    finally:
        if own is not None:
            own.close()
    mine = log.of(task.workload_key, str(task.target))
    failed = [r for r in mine if not r.ok]
    result = TuneResult(
        task,
        best_of(mine, task.workload_key, str(task.target)),
        session.trials,
        new,
        time.perf_counter() - start,
        session.flops,
        _running([r.cost for r in mine]),
        dict(Counter(r.status for r in failed)),
        {r.status: r.error for r in failed},
    )
    report.end(result)
    return result


class _Session:
    """One run of the loop: the space, what was seen of it, and who proposes, learns and measures."""

    def __init__(
        self,
        task: SearchTask,
        log: RecordLog,
        strategy: Strategy,
        model: CostModel,
        measurer: Measures,
        rng: np.random.Generator,
        timeout: float,
    ) -> None:
        self.task, self.log, self.strategy, self.model, self.measurer, self.rng, self.timeout = (
            task,
            log,
            strategy,
            model,
            measurer,
            rng,
            timeout,
        )
        self.key, self.target = task.workload_key, str(task.target)
        self.variants = variants_of(task)
        self.seen = [Seen(len(v.domains)) for v in self.variants]
        self.known: dict[str, float] = {}
        self.flops = float(self.variants[0].analysis.flops)
        self.learnt = False
        self.jobs = 0
        for r in log.of(self.key, self.target):
            self._remember(r)
        if self.known:
            self._learn()

    @property
    def trials(self) -> int:
        """How many different candidates were measured."""
        return len(self.known)

    def _remember(self, r: Record) -> None:
        if r.steps in self.known:
            return
        self.known[r.steps] = r.cost
        try:
            trace = r.trace()
        except tl.ScheduleError:
            return
        for v, seen in zip(self.variants, self.seen, strict=True):
            row = v.row(trace.decisions) if trace.steps == v.trace.steps else None
            if row is not None:
                seen.add(row[None, :], [r.cost])
                return

    def _learn(self) -> None:
        rows = [v.features(s.rows) for v, s in zip(self.variants, self.seen, strict=True) if len(s.rows)]
        if rows:
            self.model.fit(np.concatenate(rows), np.concatenate([s.costs for s in self.seen if len(s.rows)]))
            self.learnt = bool(np.isfinite(np.concatenate([s.costs for s in self.seen])).sum() >= 2)

    def round(self, n: int) -> list[Record]:
        """Propose and measure up to ``n`` candidates, and learn from them."""
        scores = [lambda rows, v=v: self.model.predict(v.features(rows)) for v in self.variants] if self.learnt else None
        chosen = allot(self.variants, self.seen, self.strategy, n, self.rng, scores)
        traces = list(dict.fromkeys(canonical_trace(self.variants[i].trace_of(row)) for i, row in chosen))
        jobs = (self._job(t) for t in traces)  # made one by one: what is hopeless is known better after each
        done = [self._record(t, o) for t, o in zip(traces, self.measurer.run(jobs), strict=True)]
        if done:
            self._learn()
        return done

    def _job(self, steps: str, *, again: bool = False) -> Job:
        self.jobs += 1
        best = min(self.known.values(), default=float("inf"))
        hopeless = HOPELESS * best if best < float("inf") and not again else 0.0
        return Job(self.jobs, self.task.graph, self.key, self.target, steps, timeout=self.timeout, hopeless=hopeless)

    def _record(self, steps: str, o: Outcome) -> Record:
        now, versions = time.time(), {"tensorlang": tl.__version__}
        r = Record(
            self.key, self.target, steps, o.status, o.times, o.error, self.task.name, machine(), o.build_seconds, o.seconds, now, versions
        )
        self.log.append(r)
        self._remember(r)
        return r

    def finals(self) -> None:
        """Measure the fastest few again, in turns, so that a lucky moment does not win."""
        order = sorted((c, s) for s, c in self.known.items() if c < float("inf"))[:FINALISTS]
        if len(order) < 2:
            return
        traces = [s for _ in range(3) for _, s in order]
        for t, o in zip(traces, self.measurer.run(self._job(t, again=True) for t in traces), strict=True):
            if o.status == "ok":
                self._record(t, o)


def _running(costs: list[float]) -> tuple[float, ...]:
    """The smallest cost so far, after each."""
    return tuple(float(c) for c in np.minimum.accumulate(costs)) if costs else ()


def canonical_trace(trace: tl.Trace) -> str:
    """The one text of a trace."""
    return canonical(json.loads(trace.to_json()))


def machine() -> str:
    """A fingerprint of this machine."""
    return f"{platform.machine()} {platform.processor() or platform.system()} {tl.Target.host().mcpu}".replace("  ", " ")
