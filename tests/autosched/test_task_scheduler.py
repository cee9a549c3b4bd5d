"""Trials go where they help, and no task holds up the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from autosched import RecordLog, SearchTask, tune_tasks
from autosched.measure import Job, Outcome
from autosched.task_scheduler import Gradient, Progress, RoundRobin
from autosched.templates import matmul as template
from tensorlang.errors import TensorLangError

from .workloads import Pretend, matmul, scale, scale_template

INF = float("inf")


def _task(n: int) -> SearchTask:
    return SearchTask(matmul, (n, n, n), template=template)


def test_equation_seven() -> None:
    """The formula, with numbers worked out by hand."""
    a = Progress(2.0, 100.0, "x", [10.0, 8.0, 7.0, 4.0], begun=4)
    g = Gradient(alpha=0.2, beta=2.0, window=3)
    assert g.gradient([a], 0) == pytest.approx(2.0 * (0.2 * (4 - 10) / 3 + 0.8 * (-4 / 4)))
    kin = Progress(1.0, 100.0, "x", [0.5], begun=1)  # 200 operations a second: 2 · 100 / 200 - 4 = -3
    assert g.gradient([a, kin], 0) == pytest.approx(2.0 * (0.2 * (4 - 10) / 3 + 0.8 * -3))
    stranger = Progress(1.0, 100.0, "y", [0.5], begun=1)
    assert g.gradient([a, stranger], 0) == g.gradient([a], 0)


def test_choices() -> None:
    fresh, busy, dead = (
        Progress(1.0, 1.0),
        Progress(1.0, 1.0, None, [5.0, 4.0], 2),
        Progress(1.0, 1.0, None, [INF] * 9, 9),
    )
    greedy = Gradient(epsilon=0.0)
    assert greedy.choose([busy, fresh], [0, 1]) == 1  # each task once
    assert greedy.choose([dead, busy], [0, 1]) == 1
    assert greedy.choose([dead, busy], [0]) == 0
    slow = Progress(1.0, 1.0, None, [50.0, 40.0], 2)
    assert greedy.choose([busy, slow], [0, 1]) == 1
    assert greedy.choose([Progress(100.0, 1.0, None, [5.0, 4.0], 2), slow], [0, 1]) == 0  # weights count
    assert RoundRobin().choose([busy, fresh, Progress(1.0, 1.0, begun=1)], [0, 2]) == 2
    assert {Gradient(3, epsilon=1.0).choose([busy, slow], [0, 1]) for _ in range(1)} <= {0, 1}


class Slow(Pretend):
    """Pretends that one task is a hundred times as slow as the other, so that trials on it are worth more."""

    def __init__(self, key: str) -> None:
        super().__init__()
        self.key = key

    def run(self, jobs: Iterable[Job]) -> Iterator[Outcome]:
        for job in jobs:
            for o in super().run([job]):
                yield Outcome(
                    o.id, o.status, times=tuple(t * (100 if job.key == self.key else 1) for t in o.times)
                )


def test_trials_go_where_they_help() -> None:
    tasks = [_task(64), _task(96)]
    result = tune_tasks(
        tasks,
        trials=96,
        batch=8,
        measurer=Slow(tasks[1].exact_key),
        model="random",
        strategy="random",
        progress=False,
    )
    turns = Counter(result.order)
    assert sum(turns.values()) == 12 and turns[1] > 2 * turns[0] >= 2
    even = tune_tasks(
        tasks,
        trials=96,
        batch=8,
        scheduler="round_robin",
        measurer=Slow(tasks[1].exact_key),
        model="random",
        strategy="random",
        progress=False,
    )
    assert Counter(even.order) == {0: 6, 1: 6}
    assert result.total < INF and "2 tasks" in str(result)


class Dead(Pretend):
    """Nothing of one task works."""

    def __init__(self, key: str) -> None:
        super().__init__()
        self.key = key

    def run(self, jobs: Iterable[Job]) -> Iterator[Outcome]:
        for job in jobs:
            yield from (
                [Outcome(job.id, "crash", "the worker died of SIGSEGV")]
                if job.key == self.key
                else super().run([job])
            )


def test_the_dead_do_not_block_the_living() -> None:
    dead, nothing, small, good = (
        _task(64),
        SearchTask(scale, (8,), template=lambda s, t: None),
        SearchTask(scale, (12,), template=scale_template),
        _task(96),
    )
    result = tune_tasks(
        [dead, nothing, small, good],
        trials=400,
        batch=8,
        patience=3,
        measurer=Dead(dead.exact_key),
        model="random",
        strategy="random",
        progress=False,
    )
    assert result.results[1] is None and "samples nothing" in result.closed[1]
    assert "nothing worked in 3 batches" in result.closed[0] and result.order.count(0) <= 4
    assert "all 12 candidates" in result.closed[2]
    assert result.results[3] is not None and result.results[3].best is not None
    assert "no improvement" in result.closed[3]
    assert result.total == INF


def test_resumes_and_measures_nothing_twice(tmp_path: Path) -> None:
    tasks, path = [_task(64), _task(96)], tmp_path / "r.jsonl"
    first = Pretend()
    tune_tasks(tasks, trials=40, batch=8, records=path, measurer=first, model="random", progress=False)
    again = Pretend()
    result = tune_tasks(
        tasks, trials=64, batch=8, records=path, measurer=again, model="random", progress=False
    )
    new = set(again.traces) - set(first.traces)
    assert sum(r.trials for r in result.results if r) == 64 and len(new) <= 24
    assert len({(r.task, r.steps) for r in RecordLog(path)}) == 64


def test_a_real_one() -> None:
    tasks = [SearchTask(scale, (100,), template=scale_template), _task(24)]
    result = tune_tasks(tasks, [3, 1], trials=6, batch=3, progress=False)
    assert result.total < INF and not result.closed
    assert all(r is not None and r.trials == 3 and r.schedule is not None for r in result.results)


def test_errors() -> None:
    t = _task(16)
    for bad, words in (([], "no tasks"), ([t, t], "the same")):
        with pytest.raises(TensorLangError, match=words):
            tune_tasks(bad, measurer=Pretend(), progress=False)
    for weights in ([1, 2], [0], [-1], [INF]):
        with pytest.raises(TensorLangError, match="weights"):
            tune_tasks([t], weights, measurer=Pretend(), progress=False)
    with pytest.raises(TensorLangError, match="round_robin"):
        tune_tasks([t], scheduler="fair", measurer=Pretend(), progress=False)
    with pytest.raises(TensorLangError, match="at least one"):
        tune_tasks([t], trials=0, measurer=Pretend(), progress=False)
    with pytest.raises(TensorLangError, match="no task can be searched"):
        tune_tasks([SearchTask(scale, (8,), template=lambda s, t: None)], measurer=Pretend(), progress=False)
