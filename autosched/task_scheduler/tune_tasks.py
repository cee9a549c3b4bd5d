"""Tunes several tasks together, through one stream of measurements. Knows sessions, policies and measurement;
nothing of how a task is searched.

A task gets its trials in batches. It is closed when its space is exhausted, when its best did not get better
for ``patience`` batches, or when nothing of it worked for as many; a task that cannot be searched at all is
closed from the beginning and keeps its reason. The others go on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tensorlang as tl
from tensorlang import te
from tensorlang.entries import public

from ..cost_model import MODELS, CostModel
from ..measure import Measurer
from ..records import RecordLog
from ..reporting.progress import Report, reporter
from ..reporting.report import TuneResult
from ..reporting.units import counted
from ..search import STRATEGIES, Strategy, current
from ..task import SearchTask
from ..tune import result_of
from ..tuning.budget import check_limits, check_seed
from ..tuning.program import session_of
from ..tuning.session import Measures, Preparing, Session, chosen, measure_again, measured
from .policies import POLICIES
from .progress import Policy, Progress

BETTER = 0.995  # of the best before: less is no improvement


@public(tl.TensorLangError, "TasksResult", text="plain", page="autosched.reporting.objects:results_page")
@dataclass(frozen=True, eq=False)
class TasksResult:
    """``results`` in the order of the tasks, None for one that could not be searched; ``closed`` says, by the
    number of the task, why it got no more trials; ``order`` is the number of the task of each batch."""

    tasks: tuple[SearchTask, ...]
    results: tuple[TuneResult | None, ...]
    weights: tuple[float, ...]
    closed: dict[int, str]
    order: tuple[int, ...]
    seconds: float

    @property
    def total(self) -> float:
        """The weighted sum of the best times, in seconds; infinite when a task has none."""
        return sum(
            w * (r.best.cost if r is not None and r.best is not None else float("inf"))
            for w, r in zip(self.weights, self.results, strict=True)
        )

    def __str__(self) -> str:
        lines = [f"{counted(len(self.tasks), 'task')} in {self.seconds:.1f} s"]
        for i, (task, result) in enumerate(zip(self.tasks, self.results, strict=True)):
            lines += str(result).splitlines() if result is not None else [f"{task.name}: not searched"]
            if i in self.closed:
                lines.append(f"  closed: {self.closed[i]}")
        return "\n".join(lines)


@dataclass
class _Member:
    """A task on its way."""

    session: Session
    progress: Progress
    new: int = 0
    idle: int = 0  # batches without improvement
    batches: list[int] = field(default_factory=list)  # candidates of each batch that are still to be measured


def tune_tasks(
    tasks: Sequence[SearchTask],
    weights: Sequence[float] | None = None,
    trials: int = 256,
    records: str | Path | RecordLog | None = None,
    seed: int = 0,
    *,
    scheduler: str | Policy = "gradient",
    strategy: str | Callable[[], Strategy] = "evolutionary",
    model: str | Callable[[int], CostModel] = "xgb",
    batch: int = 16,
    patience: int = 8,
    measurer: Measures | None = None,
    timeout: float = 20.0,
    progress: bool | Report | None = None,
) -> TasksResult:
    """Search for fast schedules of several tasks with ``trials`` measurements in all, to minimise the sum of
    their best times, each weighted by how often a program runs it (1 unless given).

    ``scheduler`` shares the trials out: "gradient" (Ansor's equation 7), "round_robin", or an object with
    ``choose``. Measurements in ``records`` count and are not repeated; ``timeout`` is in seconds, of one
    candidate. Raises TensorLangError when there are no tasks,
    weights do not fit, or no task can be searched.
    """
    given = _weights(tasks, weights)
    check_limits("tune_tasks", trials=trials, patience=patience, batch=batch, timeout=timeout)
    check_seed("tune_tasks", seed)
    policy = _policy(scheduler, seed)
    start = time.perf_counter()
    log = records if isinstance(records, RecordLog) else RecordLog(records)
    log.open()
    own = None if measurer is not None else Measurer()
    if own is not None:
        own.start()
    try:
        learners = [
            # a model for each: features of one task say little of another's times
            chosen("model", model, MODELS)(seed) if isinstance(model, str) else model(seed)
            for _ in tasks
        ]
        loading = Preparing(learners)
        run = _Run(tasks, given, log, policy, min(batch, trials), patience)
        make = chosen("strategy", current(strategy), STRATEGIES) if isinstance(strategy, str) else strategy
        for i, task in enumerate(tasks):
            run.add(i, task, make(), learners[i], seed, timeout)
        loading.join()
        if not run.members:
            raise tl.TensorLangError(
                "tune_tasks: no task can be searched", because="\n".join(run.closed.values())
            )
        report = reporter(progress)
        report.begin(counted(len(tasks), "task"), trials, run.measured)
        meter: Measures = own if measurer is None else measurer  # type: ignore[assignment]
        for session, record in measured(meter, run.batches(trials)):
            run.note(session)
            report.round([record], session.fastest, session.flops)
        for m in run.members.values():
            if m.new:
                measure_again(meter, m.session)
    finally:
        if own is not None:
            own.close()
    seconds = time.perf_counter() - start
    results = _results(run, len(tasks), report, seconds)
    return TasksResult(tuple(tasks), results, given, run.closed, tuple(run.order), seconds)


def _weights(tasks: Sequence[SearchTask], weights: Sequence[float] | None) -> tuple[float, ...]:
    """A weight of each task. Raises TensorLangError where there are no tasks, or weights do not fit."""
    given = tuple(float(w) for w in weights) if weights is not None else (1.0,) * len(tasks)
    if not tasks:
        raise tl.TensorLangError(
            "tune_tasks: there are no tasks", try_="[SearchTask(matmul, (512, 512, 512)), …]"
        )
    if len(given) != len(tasks) or not all(0 < w < float("inf") for w in given):
        raise tl.TensorLangError(
            f"tune_tasks: weights={list(given)}",
            because=f"one positive number for each of {counted(len(tasks), 'task')} is needed",
        )
    return given


def _policy(scheduler: str | Policy, seed: int) -> Policy:
    if isinstance(scheduler, str) and scheduler not in POLICIES:
        raise tl.TensorLangError(f"tune_tasks(scheduler={scheduler!r})", legal=", ".join(POLICIES))
    return POLICIES[scheduler](seed) if isinstance(scheduler, str) else scheduler


def _results(run: _Run, count: int, report: Report, seconds: float) -> tuple[TuneResult | None, ...]:
    """The result of each of ``count`` tasks, reported as it ends; None of one that was never searched."""
    results = tuple(
        result_of(run.members[i].session, run.members[i].new, seconds) if i in run.members else None
        for i in range(count)
    )
    for i, r in enumerate(results):
        if r is not None:
            if run.members[i].new:
                report.round([], r.best, r.flops)
            report.end(r)
    return results


class _Run:
    """The state of one call."""

    def __init__(
        self,
        tasks: Sequence[SearchTask],
        weights: tuple[float, ...],
        log: RecordLog,
        policy: Policy,
        batch: int,
        patience: int,
    ) -> None:
        self.tasks, self.weights, self.log, self.policy, self.batch, self.patience = (
            tasks,
            weights,
            log,
            policy,
            batch,
            patience,
        )
        self.members: dict[int, _Member] = {}
        self.closed: dict[int, str] = {}
        self.order: list[int] = []

    @property
    def measured(self) -> int:
        """Trials spent, those on their way too."""
        return sum(m.session.trials for m in self.members.values())

    def add(
        self, i: int, task: SearchTask, strategy: Strategy, model: CostModel, seed: int, timeout: float
    ) -> None:
        """Begin a task, or close it with the reason why it cannot be searched."""
        # the same task twice would be searched twice, and its records be taken for each other's
        twin = next(
            (
                j
                for j, m in self.members.items()
                if (m.session.task.exact_key, m.session.target) == (task.exact_key, str(task.target))
            ),
            None,
        )
        if twin is not None:
            raise tl.TensorLangError(
                f"tune_tasks: tasks {twin} and {i} are the same",
                because=f"{task.name} twice",
                try_="one of them with the sum of their weights",
            )
        try:
            session = session_of(task, self.log, strategy, model, seed, timeout)
        except tl.TensorLangError as e:
            # the others go on: one computation without a space must not end the search of a model
            self.closed[i] = str(e)
            return
        progress = Progress(self.weights[i], session.flops, kind_of(task))
        if session.tried:
            # records of an earlier search count as a batch: the policy compares what tasks have gained
            progress.begun, progress.bests = 1, [session.best]
        self.members[i] = _Member(session, progress)

    def batches(self, trials: int) -> Iterator[tuple[Session, list[str]]]:
        """The task of each next batch, until the trials are spent or every task is closed."""
        every = [
            self.members[i].progress if i in self.members else Progress(0.0, 0.0)
            for i in range(len(self.tasks))
        ]
        while self.measured < trials:
            open_ = [i for i in self.members if i not in self.closed]
            if not open_:
                return
            i = self.policy.choose(every, open_)
            m = self.members[i]
            wanted, traces = min(self.batch, trials - self.measured), list[str]()
            while len(traces) < wanted and (new := m.session.propose(wanted - len(traces))):
                traces += new  # a program proposes candidates of one piece at a time
            if not traces:
                self.closed[i] = f"all {m.session.tried} candidates were measured"
                continue
            m.progress.begun += 1
            # several batches of a task may be under way; they end in the order in which they began
            m.batches.append(len(traces))
            self.order.append(i)
            yield m.session, traces

    def note(self, session: Session) -> None:
        """One more candidate was measured."""
        i = next(i for i, m in self.members.items() if m.session is session)
        m = self.members[i]
        m.new += 1
        m.batches[0] -= 1
        if m.batches[0]:
            return
        del m.batches[0]
        best, before = session.best, m.progress.best
        m.idle = 0 if best < BETTER * before else m.idle + 1
        m.progress.bests.append(best)
        if m.idle >= self.patience and i not in self.closed:
            self.closed[i] = (
                f"nothing worked in {m.idle} batches"
                if best == float("inf")
                else f"no improvement in {m.idle} batches"
            )


def kind_of(task: SearchTask) -> Any:
    """What tasks of the same structure share: axes, reduction axes and types of their stages, whatever the
    sizes."""
    return tuple(
        (len(s.op.axis), len(s.op.reduce_axis), str(s.op.outputs[0].dtype))
        for s in task.schedule().stages
        if isinstance(s.op, te.ComputeOp)
    )
