"""Kernels compiled in other processes are those that are compiled here; failures and deaths are told."""

from __future__ import annotations

import gc
import io
import json
import os
import signal
from collections import deque
from dataclasses import replace
from types import SimpleNamespace

import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.runtime.codes import from_bytes, to_bytes
from tensorlang.te import serialize
from tensorlang.workers import Ahead, Job, compile_all, compiled, processes, worker
from tensorlang.workers.processes import _Helper


def job(width: int) -> Job:
    n = te.dim("n", 0, 1000)
    x, w = te.placeholder((n, width), name="x"), te.placeholder((width, 3), name="w")
    y = ops.matmul(x, w)
    return Job(serialize.to_json([x, w, y]), 1, 1, ("n",), (), str(tl.Target.host()), "default", f"k{width}")


def test_other_processes_make_the_same_code():
    jobs = [job(k) for k in (2, 3, 4)]
    found = {}
    compile_all(jobs, lambda i, code: found.setdefault(i, code), workers=2)
    assert sorted(found) == [0, 1, 2]
    for i, j in enumerate(jobs):
        here = compiled(j)
        assert (found[i].signature, found[i].places) == (here.signature, here.places)
        assert found[i].symbol == f"k{i + 2}" and len(found[i].packers) == len(here.packers) == 1


def test_another_process_knows_the_programs_of_loops_in_its_first_job():
    """Open rows of running sums: text names the program, which is in a module of operators."""
    x = te.placeholder((te.dim("n", 1, 1000), 16), "int64", name="x")
    j = Job(serialize.to_json([x, ops.cumsum(x, 1)]), 1, 0, ("n",), (), str(tl.Target.host()), "default", "k")
    assert '"running_rows"' in j.text
    helper = _Helper()
    try:
        helper.give(0, j)
        while not (made := helper.take([j])):
            pass
    finally:
        helper.close()
    assert made[0][1].symbol == "k"


@pytest.mark.parametrize(
    "kernels, workers, helpers", [(23, None, 0), (24, None, 1), (99, None, 1), (99, 1, 0)]
)
def test_as_many_processes_as_are_worth_it(
    kernels: int, workers: int | None, helpers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nobody says how many: one more for every so many kernels, and no more than processors."""

    class Begun(processes._Pool):
        def run(self) -> None:
            assert len(self.helpers) == helpers

    monkeypatch.setattr(
        processes, "_Helper", lambda: SimpleNamespace(results=os.pipe()[0], close=lambda: None)
    )
    monkeypatch.setattr(processes, "_Pool", Begun)
    monkeypatch.setattr(processes, "WORTH", 24)
    monkeypatch.setattr(processes, "processors", lambda: 2)
    compile_all([job(2)] * kernels, lambda i, code: None, workers)


def test_an_error_whose_text_is_made_when_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: Job) -> None:
        raise tl.ScheduleError(lambda: "asked", because=lambda: "of facts", try_="another way")

    monkeypatch.setattr(worker, "compiled", refused)
    head = json.loads(worker.answer(f"7 {job(2).to_json()}"))
    assert head == {"job": 7, "bytes": 0, "error": ["asked", "of facts", "another way"]}


def test_a_kernel_comes_back_from_its_bytes():
    code = compiled(job(5))
    assert from_bytes(to_bytes(code)) == code
    data = to_bytes(code)
    for wrong in (b"", data[:-1], data[:40] + b"x" + data[41:]):
        with pytest.raises(ValueError, match="hash"):
            from_bytes(wrong)


@pytest.mark.parametrize("workers", [1, 2])
def test_what_cannot_be_compiled_is_told(workers):
    with pytest.raises(tl.TensorLangError, match="math"):
        compile_all([replace(job(2), math="no such"), job(3)], lambda *_: None, workers)


def test_a_worker_that_dies_is_told():
    helper = _Helper()
    helper.give(0, job(2))
    os.kill(helper.process.pid, signal.SIGKILL)
    try:
        with pytest.raises(tl.CompileError, match="k2 was not compiled"):
            while True:
                helper.take([job(2)])
    finally:
        helper.close()


def test_a_worker_begins_before_the_jobs_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "WORTH", 2)
    monkeypatch.setattr(processes, "processors", lambda: 2)
    jobs = [job(k) for k in (2, 3, 4)]
    found = {}
    with Ahead(4) as ahead:
        (helper,) = ahead.helpers
        compile_all(jobs, lambda i, code: found.setdefault(i, code), None, ahead)
        assert not ahead.helpers and helper.process.poll() is not None
    assert found == {i: compiled(j) for i, j in enumerate(jobs)}


def test_a_worker_that_nobody_takes_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "WORTH", 2)
    monkeypatch.setattr(processes, "processors", lambda: 2)
    with Ahead(4) as ahead:
        (helper,) = ahead.helpers
    assert helper.process.poll() is not None
    assert not Ahead(3).helpers and not Ahead(4, workers=1).helpers


def test_what_a_worker_has_not_begun_is_compiled_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be waited for, one kernel after the other, while this process has nothing to do."""
    jobs, here, told = [job(k) for k in (2, 3, 4)], [], []
    results, end = os.pipe()
    os.write(end, b"12")  # it answers twice

    class Slow:
        def __init__(self) -> None:
            self.results, self.given = results, deque()

        def give(self, number: int, job: Job) -> None:
            self.given.append(number)

        def take(self, jobs: list[Job]) -> list:
            os.read(self.results, 1)
            number = self.given.popleft()
            return [(number, compiled(jobs[number]))]

        def close(self) -> None:
            os.close(end)
            os.close(self.results)

    monkeypatch.setattr(processes, "_Helper", Slow)
    monkeypatch.setattr(processes, "compiled", lambda j: (here.append(j.name), compiled(j))[1])
    compile_all(jobs, lambda i, code: told.append((i, code.symbol)), workers=2)
    assert here == ["k4"]
    assert sorted(told) == [(0, "k2"), (1, "k3"), (2, "k4")]


def test_a_worker_searches_for_cycles_only_when_there_is_much(monkeypatch):
    searches = []
    monkeypatch.setattr(worker.gc, "collect", lambda: searches.append(1))
    monkeypatch.setattr(worker, "answer", lambda line: b"")
    try:
        worker.serve(io.BytesIO(b"1\n2\n"), io.BytesIO())
        assert not gc.isenabled() and not searches
        monkeypatch.setattr(worker, "MANY", -1)
        worker.serve(io.BytesIO(b"1\n2\n"), io.BytesIO())
        assert len(searches) == 2
    finally:
        gc.enable()
