"""Measurement elsewhere: over a command as ``ssh`` would run it, and over a Dask cluster."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autosched import RecordLog, SearchTask, tune
from autosched.measure import Fleet, Job, Measurer, Stages, fingerprint
from autosched.templates import matmul as template
from tensorlang.errors import TensorLangError

from .workloads import matmul, scale, scale_template

HERE = "tests.autosched.workloads"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    distributed = pytest.importorskip("dask.distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as made:
        yield made


def _jobs(task: SearchTask, n: int) -> Iterator[Job]:
    for i in range(n):
        yield Job(
            i,
            task.graph,
            task.workload_key,
            str(task.target),
            task.schedule().trace.to_json(),
            timeout=4.0,
            memory=1 << 30,
            seconds=0.003,
        )


def test_a_tune_over_a_command(tmp_path: Path) -> None:
    """``ssh host command`` hands its command to a shell there: so does ``sh -c``."""
    there = f"cd / && PYTHONPATH={shlex.quote(os.pathsep.join(p or os.getcwd() for p in sys.path))} exec {shlex.quote(sys.executable)} -m autosched.measure.nursery"
    with Measurer(command=["sh", "-c", f'{there} "$@"', "ssh"]) as m:
        result = tune(
            SearchTask(matmul, (24, 24, 24), template=template),
            trials=6,
            records=tmp_path / "r.jsonl",
            measurer=m,
            model="random",
            progress=False,
        )
    assert result.best is not None and result.trials == 6 and not result.failures
    assert {r.machine for r in RecordLog(tmp_path / "r.jsonl")} == {fingerprint()}


def test_a_tune_over_a_cluster(cluster: Any) -> None:
    task = SearchTask(matmul, (24, 24, 24), template=template)
    with Fleet(cluster) as fleet:
        result = tune(task, trials=8, measurer=fleet, model="random", batch=8, progress=False)
    assert result.trials == 8 and result.best is not None and not result.failures


def test_disasters_on_a_cluster_are_outcomes(cluster: Any) -> None:
    task = SearchTask(scale, (100,), template=scale_template)
    with Fleet(cluster, Stages(run=f"{HERE}:faulty")) as fleet:
        got = list(fleet.run(_jobs(task, 8)))
        again = list(fleet.run(_jobs(task, 1)))
    assert [o.status for o in got] == [
        "ok",
        "crash",
        "timeout",
        "out_of_memory",
        "crash",
        "crash",
        "killed",
        "ok",
    ]
    assert [o.id for o in got] == list(range(8)) and again[0].status == "ok"


def test_a_worker_that_is_lost(cluster: Any) -> None:
    """Its jobs are measured by another, or given up with a reason; the fleet goes on."""
    task = SearchTask(scale, (100,), template=scale_template)
    with Fleet(cluster) as fleet:
        run = fleet.run(_jobs(task, 16))
        first = next(run)
        os.kill(next(iter(fleet.client.run(os.getpid).values())), signal.SIGKILL)
        rest = list(run)
    assert [o.id for o in (first, *rest)] == list(range(16))
    assert all(o.status == "ok" or "cluster" in o.error for o in rest) and rest[-1].status == "ok"


def test_no_cluster_and_no_workers() -> None:
    distributed = pytest.importorskip("dask.distributed")
    with pytest.raises(TensorLangError, match="no cluster answers"):
        Fleet("tcp://127.0.0.1:9", timeout=0.2)
    with (
        distributed.LocalCluster(
            n_workers=0, processes=False, dashboard_address=None, silence_logs=50
        ) as empty,
        pytest.raises(TensorLangError, match="no workers"),
    ):
        Fleet(empty)


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dask.distributed", None)
    with pytest.raises(TensorLangError, match="tensorlang\\[fleet\\]"):
        Fleet("tcp://127.0.0.1:9")
