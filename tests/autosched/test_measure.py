"""Whatever a candidate does to its worker is an outcome with a reason, and the next candidate is measured."""

from __future__ import annotations

import json
import os
import signal

import psutil
import pytest

from autosched import SearchTask
from autosched.measure import Job, Measurer
from autosched.space import Variant, variants_of

from .workloads import matmul, scale, scale_template

HERE = "tests.autosched.workloads"


def _scale() -> tuple[SearchTask, Variant]:
    task = SearchTask(scale, (100,), template=scale_template)
    return task, variants_of(task)[0]


def _job(task: SearchTask, trace: str, number: int = 0, **more: float) -> Job:
    return Job(number, task.graph, task.workload_key, str(task.target), trace, seconds=0.003, **more)  # type: ignore[arg-type]


def test_disasters_are_outcomes() -> None:
    task, v = _scale()
    trace = v.trace.to_json()
    with Measurer(f"{HERE}:faulty") as m:
        got = list(m.run(_job(task, trace, i, timeout=2.0, memory=1 << 30) for i in range(8)))
    assert [o.status for o in got] == ["ok", "crash", "timeout", "out_of_memory", "crash", "crash", "ok", "ok"]
    assert "SIGSEGV" in got[1].error and "2 s" in got[2].error and "status 7" in got[4].error and "SIGABRT" in got[5].error
    assert all(o.times and min(o.times) > 0 for o in got if o.status == "ok")
    assert m.restarts == 0


def test_wrong_answer() -> None:
    task, v = _scale()
    with Measurer(f"{HERE}:swap_operands") as m:
        o = m.measure(_job(task, v.trace.to_json()))
    assert o.status == "wrong_answer"
    assert "B: " in o.error and "should be" in o.error


def test_refused_and_not_a_trace() -> None:
    task, v = _scale()
    trace = json.loads(v.trace.to_json())
    trace["steps"][-1][1]["loop"] = "nowhere"
    with Measurer() as m:
        o = m.measure(_job(task, json.dumps(trace)))
        assert o.status == "refused" and "nowhere" in o.error
        assert m.measure(_job(task, "[]")).status == "refused"


def test_the_nursery_itself_may_die() -> None:
    task, v = _scale()
    trace = v.trace.to_json()
    with Measurer() as m:
        assert m.measure(_job(task, trace)).status == "ok"
        assert m.process is not None
        children = psutil.Process(m.process.pid).children(recursive=True)
        os.kill(m.process.pid, signal.SIGKILL)
        o = m.measure(_job(task, trace))
        assert o.status == "crash" and "measuring process" in o.error
        assert m.measure(_job(task, trace)).status == "ok"
        assert m.restarts == 1
        _, alive = psutil.wait_procs(children, timeout=5)
        assert not alive


def test_nobody_is_left_behind() -> None:
    task, v = _scale()
    m = Measurer()
    m.measure(_job(task, v.trace.to_json()))
    assert m.process is not None
    family = [psutil.Process(m.process.pid), *psutil.Process(m.process.pid).children(recursive=True)]
    assert len(family) == 2
    m.close()
    _, alive = psutil.wait_procs(family, timeout=5)
    assert not alive


@pytest.mark.parametrize("text", ["", "{}", "nonsense"])
def test_a_graph_that_is_none(text: str) -> None:
    task, v = _scale()
    with Measurer() as m:
        o = m.measure(Job(1, text, "key", str(task.target), v.trace.to_json()))
    assert o.status in ("refused", "build_error", "crash") and o.error


def test_hopeless_ones_are_timed_once() -> None:
    task = SearchTask(matmul, (16, 16, 16))
    with Measurer() as m:
        assert len(m.measure(_job(task, task.schedule().trace.to_json(), hopeless=1e-12)).times) == 1
