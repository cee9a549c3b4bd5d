"""The loop: propose, measure, remember, learn. Knows every room of the package by its protocol and none by
its inside."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import tensorlang as tl
from tensorlang import te

from .cost_model import MODELS, CostModel
from .measure import Measurer
from .records import Record, RecordLog, best_of
from .records.database import ranked
from .reporting.progress import Report, best_text, reporter, seconds_text
from .reporting.report import TuneReport
from .search import STRATEGIES, Strategy
from .task import SearchTask
from .tuning.program import session_of
from .tuning.session import Measures, Preparing, Session, chosen, measured

NEWLINE = "\n"


@dataclass(frozen=True)
class TuneResult:
    """What a tune found. ``schedule`` and ``tensors`` go to ``tl.build``; None when nothing worked. ``costs``
    are the seconds of the candidates in the order of their first measurement, all measurements of one taken
    together, infinite for one that failed; ``begun`` those of the schedule the search began with (the default
    schedule, or the template as written), None when it was not measured. ``failures`` counts outcomes by
    status, with an example of each in ``reasons``; ``weights`` is what the cost model goes by, the share of
    each feature, when it can say so."""

    task: SearchTask
    best: Record | None
    trials: int
    measured: int
    seconds: float
    flops: float
    costs: tuple[float, ...] = ()
    begun: float | None = None
    failures: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    weights: dict[str, float] = field(default_factory=dict)

    @property
    def schedule(self) -> tl.Schedule | None:
        """The best schedule, with numbers in place of sampled values."""
        return None if self.best is None else self.task.apply_best([self.best])[0]

    @property
    def tensors(self) -> list[te.Tensor]:
        """The arguments to build it with."""
        return self.task.tensors

    @property
    def history(self) -> tuple[float, ...]:
        """The smallest of the costs so far, after each candidate."""
        return tuple(float(c) for c in np.minimum.accumulate(self.costs)) if self.costs else ()

    @property
    def gain(self) -> float | None:
        """How many times as fast the best is as the schedule the search began with; None when either is
        missing."""
        return None if self.best is None or self.begun is None else self.begun / self.best.cost

    @property
    def gflops(self) -> float:
        """Billions of operations per second of the best."""
        return 0.0 if self.best is None else self.flops / self.best.cost / 1e9

    def report(self) -> TuneReport:
        """The whole story: curve, schedule, why it is fast, what failed; ``report.plot()``,
        ``report.save("tune.html")``."""
        return TuneReport(self)

    def __str__(self) -> str:
        lines = [
            f"{self.task.name}: {self.trials} trials, {self.measured} measured now, in {self.seconds:.1f} s "
            f"({self.measured / max(self.seconds, 1e-9):.1f} a second)"
        ]
        if self.best is None:
            lines.append("  no candidate worked")
        else:
            values = ", ".join(
                f"{k}={list(v) if len(v) > 1 else v[0]}" for k, v in self.best.trace().decisions.items()
            )
            gain = (
                ""
                if self.gain is None
                else f"  {self.gain:.2f}× as fast as the {seconds_text(self.begun or 0.0)} it began with"
            )
            lines += [f"  {best_text(self.best, self.flops)}{gain}", f"  {values}"]
        lines += [f"  {note}" for note in self.notes]
        lines += [
            f"  {n} × {status}: {self.reasons[status].partition(NEWLINE)[0]}"
            for status, n in sorted(self.failures.items())
        ]
        return "\n".join(lines)


def tune(
    task: SearchTask,
    trials: int = 64,
    records: str | Path | RecordLog | None = None,
    seed: int = 0,
    *,
    strategy: str | Strategy = "evolutionary",
    model: str | CostModel = "xgb",
    seconds: float | None = None,
    batch: int = 16,
    measurer: Measures | None = None,
    timeout: float = 20.0,
    progress: bool | Report | None = None,
) -> TuneResult:
    """Search for a fast schedule of ``task`` by measuring up to ``trials`` candidates.

    Measurements in ``records`` count as trials and are not repeated; new ones are appended. ``seconds`` after
    the first no more are begun. ``measurer`` replaces the worker process. Raises TensorLangError for a task
    that cannot be searched; what candidates do is never an error, but an outcome in the result. A file that
    cannot be written is an error before anything is measured; when it fails later, the result is whole and
    says so in ``notes``.
    """
    if trials < 1:
        raise tl.TensorLangError(
            f"tune(trials={trials}): at least one candidate is measured", try_="trials=64"
        )
    why_not = task.target.why_not_here() if measurer is None else None
    if why_not is not None:
        raise tl.TensorLangError(
            f"tune({task.name}): candidates for {task.target} cannot be measured here",
            because=why_not,
            try_="the target of this machine (target=None), or measurer= for one that measures elsewhere",
        )
    start = time.perf_counter()
    log = records if isinstance(records, RecordLog) else RecordLog(records)
    how = chosen("strategy", strategy, STRATEGIES)() if isinstance(strategy, str) else strategy
    learner = chosen("model", model, MODELS)(seed) if isinstance(model, str) else model
    log.open()
    loading = Preparing([learner])
    report = reporter(progress) if isinstance(progress, bool | None) else progress
    own = None if measurer is not None else Measurer()
    if own is not None:
        own.start()  # it imports while the space is made
    try:
        session = session_of(task, log, how, learner, seed, timeout)
        loading.join()  # what still loads would be in the way of the first kernels that are timed
        report.begin(task.name, trials, session.trials, seconds)
        meter: Measures = own if measurer is None else measurer  # type: ignore[assignment]
        new = 0
        until = float("inf") if seconds is None else time.perf_counter() + seconds
        for _, record in measured(meter, _batches(session, trials, batch, until)):
            new += 1
            report.round([record], session.fastest, session.flops)
        if new:
            for again in session.finals():
                for _ in measured(meter, [(session, again)], again=True):
                    pass
    except BaseException:
        report.end(None)
        raise
    finally:
        if own is not None:
            own.close()
    result = result_of(session, new, time.perf_counter() - start)
    report.end(result)
    return result


def _batches(session: Session, trials: int, batch: int, until: float) -> Iterator[tuple[Session, list[str]]]:
    """Proposals until there are enough, the space is exhausted, or it is too late."""
    while session.trials < trials and time.perf_counter() < until:
        traces = session.propose(min(batch, trials - session.trials))
        if not traces:
            return
        yield session, traces


def result_of(session: Session, new: int, seconds: float) -> TuneResult:
    """What is known of a task after ``new`` measurements."""
    mine = session.measured()
    failed = [r for r in mine if not r.ok]
    final = {r.steps: r.cost for r in ranked(mine, session.key, session.target)}
    costs = tuple(final.get(steps, float("inf")) for steps in dict.fromkeys(r.steps for r in mine))
    notes = session.notes()
    notes += (
        []
        if session.unsaved is None
        else [f"{len(session.log.unwritten)} records are in memory only: {session.unsaved}"]
    )
    bad = session.log.bad
    notes += (
        [f"{len(bad)} line{'s' if len(bad) > 1 else ''} of the records skipped, the first {bad[0]}"]
        if bad
        else []
    )
    return TuneResult(
        session.task,
        best_of(mine, session.key, session.target),
        session.tried,
        new,
        seconds,
        session.flops,
        costs,
        final.get(session.first),
        dict(Counter(r.status for r in failed)),
        {r.status: r.error for r in failed},
        tuple(notes),
        session.weights(),
    )
