"""The loop: propose, measure, remember, learn. Knows every room of the package by its protocol and none by
its inside."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import tensorlang as tl
from tensorlang.errors import counted

from .cost_model import MODELS, CostModel
from .measure import Measurer, Others
from .records import RecordLog, best_of
from .records.database import ranked
from .reporting.progress import Report, reporter
from .reporting.report import TuneResult
from .reporting.units import seconds_text
from .search import STRATEGIES, Strategy, current
from .task import SearchTask
from .tuning.budget import Budget, check_limits, check_seed
from .tuning.open_sizes import measured_at, note_of
from .tuning.program import session_of
from .tuning.session import Measures, Preparing, Session, chosen, measure_again, measured

NEWLINE = "\n"


def tune(
    task: SearchTask,
    trials: int = 64,
    records: str | Path | RecordLog | None = None,
    seed: int = 0,
    *,
    strategy: str | Strategy = "evolutionary",
    model: str | CostModel = "xgb",
    seconds: float | None = None,
    patience: int | None = None,
    batch: int = 16,
    measurer: Measures | None = None,
    timeout: float = 20.0,
    progress: bool | Report | None = None,
) -> TuneResult:
    """Search for a fast schedule of ``task`` by measuring up to ``trials`` candidates, as Zheng et al.,
    "Ansor: Generating High-Performance Tensor Programs for Deep Learning", OSDI 2020.

    Measurements in ``records`` count as trials and are not repeated; new ones are appended. The search ends
    in time for the call to return after ``seconds``, second measurements of the finalists included (one
    candidate is measured in any case, and none is interrupted), and when the last ``patience`` candidates
    have brought no gain; ``notes`` of the result say so. ``measurer`` replaces the worker processes;
    ``timeout`` is in seconds, of one candidate. Raises TensorLangError for a task that cannot be searched;
    what candidates do is never an error, but an outcome in the result. A file that cannot be written is an
    error before anything is measured; when it fails later, the result is whole and says so in ``notes``.
    """
    check_limits("tune", trials=trials, seconds=seconds, patience=patience, batch=batch, timeout=timeout)
    check_seed("tune", seed)
    if measurer is None:
        _check_here(task)
    start, budget, others = time.perf_counter(), Budget(trials, batch, seconds, patience), Others()
    log = records if isinstance(records, RecordLog) else RecordLog(records)
    how = chosen("strategy", current(strategy), STRATEGIES)() if isinstance(strategy, str) else strategy
    learner = chosen("model", model, MODELS)(seed) if isinstance(model, str) else model
    log.open()
    loading = Preparing([learner])
    report = reporter(progress)
    own = None if measurer is not None else Measurer()
    if own is not None:
        own.start()  # it imports while the space is made
    session, new = None, 0
    try:
        session = session_of(task, log, how, learner, seed, timeout)
        session.spend("space", time.perf_counter() - start)
        loading.join()  # what still loads would be in the way of the first kernels that are timed
        at = measured_at(task.tensors)
        report.begin(f"{task.name} at {at}" if at else task.name, trials, session.trials, seconds)
        meter: Measures = own if measurer is None else measurer  # type: ignore[assignment]
        for _, record in measured(meter, budget.batches(session), stop=budget.late):
            new += 1
            budget.note(session)
            report.round([record], session.fastest, session.flops)
        if new:
            with session.timed("finals"):
                measure_again(meter, session, budget.ended)
    except BaseException as e:
        report.end(None)
        if isinstance(e, KeyboardInterrupt) and session is not None:
            print(stopped_text(session, log, new), file=sys.stderr, flush=True)
        raise
    finally:
        if own is not None:
            own.close()
    result = result_of(
        session, new, time.perf_counter() - start, budget.notes(session), others.share() if own else None
    )
    if new:
        report.round([], result.best, result.flops)
    report.end(result)
    return result


def _check_here(task: SearchTask) -> None:
    """Raises TensorLangError for a task whose candidates this processor cannot run."""
    why_not = task.target.why_not_here()
    if why_not is not None:
        raise tl.TensorLangError(
            f"tune({task.name}): candidates for {task.target} cannot be measured here",
            because=why_not,
            try_="the target of this machine (target=None), or measurer= for one that measures elsewhere",
        )


def stopped_text(session: Session, log: RecordLog, new: int) -> str:
    """What a search that was stopped by hand has found, and how to go on."""
    best = best_of(session.measured(), session.key, session.target)
    found = "nothing worked yet" if best is None else f"the best takes {seconds_text(best.cost)}"
    on = (
        "nothing is kept: records='f.jsonl' keeps what is measured"
        if log.path is None
        else f"task.apply_best({str(log.path)!r}) uses it, and the same call goes on where this one ended"
    )
    return f"stopped: {counted(new, 'candidate')} measured, {found}; {on}"


def result_of(
    session: Session, new: int, seconds: float, said: Sequence[str] = (), others: float | None = None
) -> TuneResult:
    """What is known of a task after ``new`` measurements; ``said`` are notes of how it ended, ``others`` is
    the share of the machine that others took."""
    mine = session.measured()
    failed = [r for r in mine if not r.ok]
    order = ranked(mine, session.key, session.target)
    # who did not win is no faster than the winner, whatever a lucky moment said
    final = {r.steps: max(r.cost, order[0].cost) for r in order}
    costs = tuple(final.get(steps, float("inf")) for steps in dict.fromkeys(r.steps for r in mine))
    notes = [*said, *note_of(session.task.tensors), *session.notes()]
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
        order[0] if order else None,
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
        dict(session.parts()),
        tuple(session.sketches(final)),
        tuple(tuple(pairs) for pairs in session.ranks()),
        session.noise(),
        session.drift(),
        others,
        None if session.fastest is None else session.fastest.cost,
    )
