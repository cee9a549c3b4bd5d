"""What the processes that build and run candidates are given: their turn at the processors, and an
environment in which nobody writes code."""

from __future__ import annotations

import gc
import os

import pytest

from autosched import SearchTask
from autosched.measure import Job, Measurer, Outcome, Stages
from autosched.measure.nursery import BEHIND, Bench, Nursery
from autosched.measure.protocol import BUILT
from tensorlang import te
from tensorlang.options import of_workers

from .workloads import scale, telling_run

HERE = "tests.autosched.workloads"


def test_builders_stand_behind_and_nobody_writes_code_in_workers() -> None:
    task = SearchTask(scale, (100,))
    job = Job(0, task.graph, task.workload_key, str(task.target), task.schedule().trace.to_json())
    with Measurer(Stages(build=f"{HERE}:telling_build", run=f"{HERE}:telling_run")) as m:
        outcome = m.measure(job)
    here = os.nice(0)
    assert outcome.parts == {"builder": min(here + BEHIND, 19), "hints": False, "runner": here}
    assert hasattr(type(te.var("n") + 1), "__getattr__")  # somebody may do so here


def test_what_a_user_says_of_threads_holds_in_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENBLAS_THREAD_TIMEOUT", raising=False)
    assert of_workers()["OPENBLAS_THREAD_TIMEOUT"] == "4"
    monkeypatch.setenv("OPENBLAS_THREAD_TIMEOUT", "20")
    assert of_workers("/there")["OPENBLAS_THREAD_TIMEOUT"] == "20"
    assert of_workers("/there")["PYTHONPATH"].startswith("/there")


def test_builders_begin_while_what_runners_need_is_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[str, int]] = []

    class Idle(Bench):
        def give(self, job: Job) -> None:
            given.append((self.name, job.id))
            self.job = job

    first, second = (Job(i, "", "key", "llvm", "trace") for i in range(2))
    builder_, runner_ = (Idle(telling_run, "", name, None) for name in ("builder", "runner"))
    nursery = Nursery([builder_], runner_, 1, preparing=iter([None, None]))
    monkeypatch.setattr(gc, "freeze", lambda: None)
    nursery.built.append((first, Outcome(first.id, BUILT)))
    nursery.waiting.append(second)
    for _ in range(2):
        nursery.assign()
        nursery.prepare()
        assert given == [("builder", second.id)]
    nursery.prepare()
    nursery.assign()
    assert given == [("builder", second.id), ("runner", first.id)]
