"""The loop from end to end: finds, resumes, repeats itself with the same seed, outlives its candidates."""

from __future__ import annotations

import errno
import gc
import itertools
import json
import math
import os
import re
import statistics
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest

import autosched
import tensorlang as tl
from autosched import RecordLog, SearchTask, tune
from autosched.cost_model import XGBModel
from autosched.measure import Job, Measurer, Outcome, Stages
from autosched.records.record import canonical_trace
from autosched.templates import conv2d
from autosched.templates import matmul as matmul_template
from autosched.tuning import budget, session
from tensorlang import ops, te
from tensorlang.analysis import Limits, cost_of
from tensorlang.errors import TensorLangError

from .workloads import Pretend, conv, matmul, scale, scale_template, scripted_fate


def test_matmul_end_to_end(tmp_path: Path, measurer: Measurer) -> None:
    task = SearchTask(matmul, (48, 40, 32), template=matmul_template)
    path = tmp_path / "r.jsonl"
    result = tune(task, trials=12, records=path, seed=3, batch=6, progress=False)
    assert result.trials == 12 and result.best is not None and result.best.ok
    s, tensors = task.apply_best(path)
    f = tl.build(s, tensors)
    a, b = np.ones((48, 32), np.float32), np.arange(32 * 40, dtype=np.float32).reshape(32, 40) % 7
    assert (f(a, b) == a @ b).all()
    before = path.read_bytes()
    again = tune(task, trials=12, records=path, seed=3, measurer=measurer, progress=False)
    assert again.measured == 0 and path.read_bytes() == before
    assert again.best == result.best
    more = tune(task, trials=16, records=path, seed=3, measurer=measurer, progress=False)
    costs = cost_of(task.target).digest
    assert all(r.versions == {"tensorlang": tl.__version__, "costs": costs} for r in RecordLog(path))
    assert more.measured == 4 and len({r.steps for r in RecordLog(path)}) == 16


def test_conv_end_to_end(measurer: Measurer) -> None:
    task = SearchTask(conv, (5, 6, 9, 11), template=conv2d)
    result = tune(task, trials=6, seed=1, model="random", measurer=measurer, progress=False)
    assert result.best is not None and not result.failures, result
    assert result.schedule is not None


@pytest.mark.parametrize("strategy", ["random", "evolutionary"])
def test_no_candidate_twice_and_a_small_space_ends(strategy: str) -> None:
    task = SearchTask(scale, (20,), template=scale_template)
    pretend = Pretend()
    result = tune(task, trials=100, strategy=strategy, model="random", measurer=pretend, progress=False)
    assert result.trials == 20 == len(set(pretend.traces))
    assert result.best is not None and result.best.trace().decisions == {"v": (7,)}


def test_patience_ends_a_search_that_brings_no_gain() -> None:
    """The optimum of the space is known, so most candidates are no gain; the result says what ended it."""
    task = SearchTask(scale, (200,), template=scale_template)
    result = tune(task, trials=150, patience=5, model="random", measurer=Pretend(), progress=False)
    assert 6 <= result.trials < 150 and result.best is not None
    assert any("candidates brought no gain" in note for note in result.notes), result
    with pytest.raises(TensorLangError, match="patience=0"):
        tune(task, patience=0)


def test_where_there_is_no_time_one_candidate_is_measured() -> None:
    task = SearchTask(scale, (200,), template=scale_template)
    pretend = Pretend()
    result = tune(task, trials=100, seconds=1e-6, model="random", measurer=pretend, progress=False)
    assert result.trials == 1 == len(pretend.traces) and result.best is not None
    assert "ended after 1 of 100 trials: there was no more time" in result.notes
    assert {"space", "search", "model", "finals"} <= result.spent.keys()
    assert "space " in dict(result.report().facts)["time spent"]


def test_time_is_kept_whatever_is_on_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """``seconds=10`` took 27 on a busy machine: eight candidates on their way were waited for, and 51
    measurements of the finalists."""
    task = SearchTask(scale, (200,), template=scale_template)
    now = [0.0]
    monkeypatch.setattr(budget, "time", SimpleNamespace(perf_counter=lambda: now[0]))

    class Slow(Pretend):
        def run(self, jobs):  # type: ignore[no-untyped-def]
            taken = list(itertools.islice(jobs, 8))  # as a measurer does
            for job in itertools.chain(taken, jobs):
                now[0] += 0.5
                yield from super().run([job])

    result = tune(task, trials=100, seconds=10, model="random", measurer=Slow(), progress=False)
    assert 10 < result.trials < 20 and result.best is not None and 9.5 < now[0] <= 10.5
    assert any("there was no more time" in note for note in result.notes)


def test_evolution_finds_more_than_chance() -> None:
    """Over seeds: one alone may be lucky either way."""
    task = SearchTask(matmul, (512, 512, 512), template=matmul_template)

    def found(strategy: str, seed: int) -> float:
        best = tune(
            task,
            trials=64,
            strategy=strategy,
            model=XGBModel(5, start=None, prior=None),
            measurer=Pretend(),
            seed=seed,
            progress=False,
        ).best
        assert best is not None
        return best.cost

    evolved, random = ([found(s, seed) for seed in range(7)] for s in ("evolutionary", "random"))
    assert statistics.median(evolved) < 0.8 * statistics.median(random)


def test_a_search_begins_with_what_was_best_at_other_sizes() -> None:
    """The first candidate is the one as written, the next has the sizes that won for the neighbour."""
    log = RecordLog(None)
    near, task = (SearchTask(matmul, (n, 64, 64), template=matmul_template) for n in (64, 80))
    won = tune(near, trials=40, records=log, measurer=Pretend(), model="random", progress=False).best
    assert won is not None and not won.start
    known, pretend = len(log), Pretend()
    result = tune(task, trials=3, records=log, measurer=pretend, model="random", progress=False)
    first, second = [tl.Trace.from_json(t) for t in pretend.traces[:2]]
    assert canonical_trace(first) == next(r for r in log.records[known:] if r.start).steps
    assert second.decisions == won.trace().decisions
    assert "began with 1 that was best for like computations" in result.notes
    # of other functions nothing is taken
    other = tune(SearchTask(scale, (20,), template=scale_template), trials=2, records=log, measurer=Pretend())
    assert not any("like computations" in note for note in other.notes)


def test_trials_that_the_records_have_are_not_measured_and_it_says_so(tmp_path: Path) -> None:
    """Whoever comes from a tuner that measures as many more sees why nothing happens, and what to write."""
    task, log = SearchTask(matmul, (64, 64, 64), template=matmul_template), tmp_path / "r.jsonl"
    first = tune(task, trials=6, records=log, measurer=Pretend(), model="random", progress=False)
    again = tune(task, trials=4, records=log, measurer=Pretend(), model="random", progress=False)
    assert not any("nothing was measured" in n for n in first.notes) and again.measured == 0
    (why,) = [n for n in again.notes if n.startswith("nothing was measured")]
    assert why.endswith("trials=4 counts those of the records; trials=10 measures 4 more") and why in str(
        again
    )


def test_a_list_of_tensors_is_no_function() -> None:
    """Were it callable, to say so when it is called, it would be taken for a declaration and a template."""
    task = SearchTask(matmul, (8, 8, 8))
    for wrong in (
        lambda: SearchTask(task.tensors),
        lambda: SearchTask(matmul, (8, 8, 8), template=task.tensors),
    ):
        with pytest.raises(tl.TensorLangError, match="function"):
            wrong()


def test_sizes_and_counts_that_are_not_what_they_look_like() -> None:
    """numpy's float64 is a float of Python; operations are a number, no function."""
    with pytest.raises(tl.TensorLangError, match="is not a size"):
        SearchTask(matmul, (np.float64(8), 8, 8))
    task = SearchTask(matmul, (8, 8, np.int64(8)))
    assert task.flops == 1024 and repr(task.flops) == "1024.0"
    with pytest.raises(tl.TensorLangError, match="is a number, not a function"):
        task.flops()


def test_failures_are_counted_and_not_repeated(tmp_path: Path) -> None:
    task = SearchTask(matmul, (64, 64, 64), template=matmul_template)
    log = RecordLog(tmp_path / "r.jsonl")
    result = tune(task, trials=30, records=log, measurer=Pretend(fail=True), progress=False)
    assert result.failures == {"crash": 10} and "SIGSEGV" in result.reasons["crash"]
    assert "10 × crash" in str(result)
    pretend = Pretend()
    tune(task, trials=40, records=log, measurer=pretend, progress=False)
    assert not {r.steps for r in log.records[:30] if not r.ok} & set(pretend.traces)


def test_errors_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(TensorLangError, match="samples nothing"):
        tune(
            SearchTask(scale, (8,), template=lambda s, t: None), trials=1, measurer=Pretend(), progress=False
        )
    with pytest.raises(TensorLangError, match="outputs last"):
        SearchTask(lambda: [1], ())
    with pytest.raises(TensorLangError, match="outputs last"):
        SearchTask(lambda: scale(4)[:1], ())
    with pytest.raises(TensorLangError, match="no measured schedule"):
        SearchTask(scale, (8,)).apply_best([])
    with pytest.raises(TensorLangError, match="no workload"):
        SearchTask("nowhere", (8,))


def test_registered_workloads_by_name() -> None:
    autosched.register_workload("tests.scale")(scale)
    assert SearchTask("tests.scale", (8,)).workload_key == SearchTask(scale, (8,)).workload_key
    with pytest.raises(TensorLangError, match="taken"):
        autosched.register_workload("tests.scale")(matmul)


KINDS = {"crash", "timeout", "out_of_memory", "wrong_answer", "killed"}
FUZZ = pytest.mark.skipif("TENSORLANG_FUZZ_ROUNDS" not in os.environ, reason="make fuzz")


def _tuned_through_disasters(trials: int, path: Path) -> autosched.TuneResult:
    """One candidate in ten each crashes, hangs, eats memory, computes something wrong, or has its worker
    killed."""
    task = SearchTask(matmul, (31, 37, 29), template=matmul_template)
    before = set(psutil.Process().children(recursive=True))
    with Measurer(Stages(run="tests.autosched.workloads:scripted")) as m:
        result = tune(
            task, trials=trials, records=path, seed=2, model="random", measurer=m, timeout=1.0, progress=False
        )
        assert m.restarts == 0
    assert result.trials == trials and set(result.failures) <= KINDS
    assert all(result.reasons.values()) and all(
        f"{n} × {status}: " in str(result) for status, n in result.failures.items()
    )
    for r in RecordLog(path):
        assert r.ok or r.error
        assert not r.ok or scripted_fate(r.steps) == 0, "a candidate won that should have failed"
    assert result.schedule is not None and result.best is not None
    f = tl.build(result.schedule, result.tensors)
    a, b = (
        np.arange(31 * 29, dtype=np.float32).reshape(31, 29) % 7,
        np.arange(29 * 37, dtype=np.float32).reshape(29, 37) % 5,
    )
    assert (f(a, b) == a @ b).all()
    left = [p for p in set(psutil.Process().children(recursive=True)) - before if p.is_running()]
    assert not left
    return result


def test_a_tune_survives_every_disaster(tmp_path: Path) -> None:
    assert len(_tuned_through_disasters(20, tmp_path / "r.jsonl").failures) >= 3


@FUZZ
@pytest.mark.fuzz
def test_a_long_tune_survives_every_disaster(tmp_path: Path) -> None:
    failures = _tuned_through_disasters(200, tmp_path / "r.jsonl").failures
    assert set(failures) == KINDS and min(failures.values()) >= 8 and sum(failures.values()) >= 70


def test_a_read_only_file_is_an_error_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend, path, opened = Pretend(), tmp_path / "r.jsonl", os.open

    def read_only(file: str, flags: int, mode: int = 0o777) -> int:
        if str(file) == str(path):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(file))
        return opened(file, flags, mode)

    monkeypatch.setattr(os, "open", read_only)
    with pytest.raises(TensorLangError, match="cannot write records") as e:
        tune(
            SearchTask(matmul, (64, 64, 64), template=matmul_template),
            trials=4,
            records=path,
            measurer=pretend,
            progress=False,
        )
    assert "Read-only file system" in str(e.value) and not pretend.traces


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_device_that_is_always_full_loses_no_result() -> None:
    result = tune(
        SearchTask(matmul, (64, 64, 64), template=matmul_template),
        trials=6,
        records="/dev/full",
        measurer=Pretend(),
        model="random",
        progress=False,
    )
    assert result.trials == 6 and result.best is not None and result.schedule is not None
    assert "in memory only" in str(result) and "No space left" in str(result)


def test_the_target_of_another_architecture_is_refused_before_anything_starts() -> None:
    task = SearchTask(
        matmul, (64, 64, 64), "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72", template=matmul_template
    )
    with pytest.raises(TensorLangError, match="cannot be measured here"):
        tune(task, trials=2, progress=False)
    # somebody else may
    assert tune(task, trials=2, measurer=Pretend(), model="random", progress=False).trials == 2


def test_a_record_of_another_version_is_named_and_kept(tmp_path: Path) -> None:
    task, path = SearchTask(matmul, (64, 64, 64), template=matmul_template), tmp_path / "r.jsonl"
    tune(task, trials=4, records=path, measurer=Pretend(), model="random", progress=False)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:3], json.dumps({**json.loads(lines[3]), "version": 2})]) + "\n")
    log = RecordLog(path)
    assert [str(b).startswith(f"{path}:4: version 2") for b in log.bad] == [True]
    kept = path.read_text()
    result = tune(task, trials=6, records=log, measurer=Pretend(), model="random", progress=False)
    assert path.read_text().startswith(kept)
    assert [
        n
        for n in result.notes
        if n.startswith(f"1 line of the records skipped, the first {path}:4: version 2")
    ] and result.notes[0] in str(result)


def _running_sum(n: int, m: int) -> list[te.Tensor]:
    y, state = te.placeholder((n, m), name="Y"), te.placeholder((n, m), name="state")
    first = te.compute((1, m), lambda _, j: y[0, j], name="first")
    update = te.compute((n, m), lambda t, j: state[t - 1, j] + y[t, j], name="update")
    return [y, te.scan(first, update, state)]


def test_a_scan_is_tuned(measurer: Measurer) -> None:
    result = tune(
        SearchTask(_running_sum, (12, 40)), trials=4, model="random", measurer=measurer, progress=False
    )
    assert result.best is not None and not result.failures and result.schedule is not None
    y = np.arange(480, dtype=np.float32).reshape(12, 40) % 9
    assert (tl.build(result.schedule, result.tensors)(y) == np.cumsum(y, axis=0)).all()


def test_an_extern_says_why_not() -> None:
    a = te.placeholder((8,), name="A")
    doubled = te.extern(
        (8,), [a], lambda ins, outs: te.call_packed("tests.double", ins[0], outs[0]), name="doubled"
    )
    with pytest.raises(TensorLangError, match="doubled: an extern cannot be written as JSON"):
        SearchTask.of([a, doubled])


def test_the_search_goes_on_while_candidates_are_measured() -> None:
    """The next batch is proposed before the last outcomes of the one before, and nothing is proposed
    twice."""
    task = SearchTask(matmul, (64, 64, 64), template=matmul_template)

    class Ahead(Pretend):
        def run(self, jobs):  # type: ignore[no-untyped-def]
            taken = []
            for job in jobs:
                taken.append(job)
                if len(taken) > 5:
                    yield from super().run([taken.pop(0)])
            yield from super().run(taken)

    m = Ahead()
    result = tune(task, trials=48, batch=8, measurer=m, model="random", progress=False)
    assert result.trials == 48
    assert len(set(m.traces)) == 48


def test_a_flaky_winner_is_found_out() -> None:
    """A candidate that is right once and wrong when it is measured again does not win."""
    task = SearchTask(matmul, (64, 64, 64), template=matmul_template)

    class Flaky(Pretend):
        def run(self, jobs):  # type: ignore[no-untyped-def]
            for job in jobs:
                again = job.trace in self.traces
                for o in super().run([job]):
                    yield (
                        replace(o, times=(), status="wrong_answer", error="C: 1 of 9 elements differ")
                        if again and job.trace == self.fastest(o)
                        else o
                    )

        def fastest(self, o):  # type: ignore[no-untyped-def]
            costs = self.costs
            return min(costs, key=costs.__getitem__)

        @property
        def costs(self) -> dict[str, float]:
            return {
                t: next(iter(Pretend().run([Job(0, "", "", "", t)]))).times[0]
                for t in dict.fromkeys(self.traces)
            }

    m = Flaky()
    result = tune(task, trials=16, measurer=m, model="random", progress=False)
    costs = m.costs
    assert result.best is not None and result.best.steps != min(costs, key=costs.__getitem__)
    assert result.failures == {"wrong_answer": 1}


def test_what_is_searched_keeps_to_limits() -> None:
    """By the loop IR: no candidate but the default schedule asks for more memory than it may."""
    a, b = te.placeholder((64, 64), name="A"), te.placeholder((64, 64), name="B")
    tensors = [a, b, ops.matmul(a, b)]

    def most(limits: Limits | None) -> tuple[int, tuple[str, ...]]:
        task = SearchTask.of(tensors, limits=limits)
        pretend = Pretend()
        result = tune(task, trials=24, model="random", measurer=pretend, progress=False)
        asked = [0]
        for trace in dict.fromkeys(pretend.traces[1:24]):
            s = tl.Trace.from_json(trace).apply(task.schedule()).concrete()
            shapes = re.findall(r"float32\[([\d, ]+)\] global", str(tl.lower(s, task.tensors)))
            asked.append(sum(4 * math.prod(map(int, shape.split(", "))) for shape in shapes))
        return max(asked), result.notes

    assert most(None)[0] > 4096
    found, notes = most(Limits(workspace_bytes=4096))
    assert found <= 4096 and any("workspace_bytes=4096" in note for note in notes)
    with pytest.raises(TensorLangError, match="a Limits or None is needed"):
        SearchTask.of(tensors, limits=4096)  # type: ignore[arg-type]


def test_no_search_for_cycles_while_candidates_are_made() -> None:
    """Neither where variants are nor where they are proposed, and it goes on where they are measured."""
    thinking, measuring = [], []

    class Asked(Pretend):
        def run(self, jobs: Iterable[Job]) -> Iterator[Outcome]:
            for outcome in super().run(jobs):
                measuring.append(gc.isenabled())
                yield outcome

    class Model:
        def fit(self, features: Any, costs: Any) -> None:
            pass

        def predict(self, features: Any) -> Any:
            thinking.append(gc.isenabled())
            return np.zeros(len(features))

    def template(s: tl.Schedule, tensors: Any) -> None:
        thinking.append(gc.isenabled())
        scale_template(s, tensors)

    task = SearchTask(scale, (100,), template=template)
    tune(task, trials=24, batch=8, model=Model(), measurer=Asked(), progress=False)
    assert len(thinking) > 2 and not any(thinking)
    assert measuring and all(measuring) and gc.isenabled()


def test_a_task_goes_by_the_threads_there_are_as_compile_does():
    a = te.placeholder((64, 64), name="a")
    declared = [a, ops.matmul(a, a)]
    tl.set_num_threads(1)  # undone after each test
    task = SearchTask.of(declared)
    assert task.target.num_cores == 1
    assert str(task.target) == str(tl.compile(declared).target)
    assert SearchTask.of(declared, target="llvm -mcpu=znver3 -num-cores=4").target.num_cores == 4


def test_the_first_candidate_is_proposed_by_itself() -> None:
    """It is known without thinking, and is built while others are thought of."""
    asked: list[int] = []

    class Asked(SimpleNamespace):
        def propose(self, n: int) -> list[str]:
            asked.append(n)
            self.trials += n
            return ["trace"] * n

    assert len(list(budget.Budget(40, 16, None, None).batches(Asked(trials=0)))) == 40  # type: ignore[arg-type]
    assert asked == [1, 15, 16, 8]
    asked.clear()
    assert len(list(budget.Budget(3, 1, None, None).batches(Asked(trials=1)))) == 2  # type: ignore[arg-type]
    assert asked == [1, 1]


@pytest.mark.parametrize(
    ("seconds", "rounds"),
    [([0.99], 3), ([0.9], 5), ([0.89, 0.91], 7), ([0.95, 1.0, 1.0], 7), ([0.8, 0.9], 14)],
)
def test_who_is_not_worth_it_is_soon_known(seconds: list[float], rounds: int) -> None:
    """A rival that looked faster, and in the comparisons at the end is not by enough, is given up after a few
    of them; one that is goes on until it is known by how much, sooner where all of them say the same."""
    task = SearchTask(scale, (64,), template=scale_template)
    last: list[Job] = []

    class Flattering(Pretend):
        """Told to be twice as fast while it is chosen, and what it is afterwards."""

        def run(self, jobs: Iterable[Job]) -> Iterator[Outcome]:
            for job in jobs:
                if not job.also:
                    yield from super().run([job])
                    continue
                final = job.seconds == session.CAREFUL
                last.extend([job] * final)
                rival = seconds[len(last) % len(seconds)] if final else 0.5
                mine, *also = [(1.0 if t == self.traces[0] else rival,) * 3 for t in job.traces]
                yield Outcome(job.id, "ok", times=mine, also=tuple(also))

    tune(task, trials=16, model="random", measurer=Flattering(), progress=False)
    assert len(last) == rounds


@pytest.mark.parametrize(("rival", "looks"), [(1.0, 2), (0.98, 2), (0.96, 4)])
def test_where_nobody_is_worth_it_two_processes_look(rival: float, looks: int) -> None:
    jobs: list[Job] = []

    class Known(Pretend):
        """All but the first take ``rival`` times as long as that, whoever asks."""

        def run(self, jobs_: Iterable[Job]) -> Iterator[Outcome]:
            for job in jobs_:
                if not job.also:
                    yield from super().run([job])
                    continue
                jobs.append(job)
                mine, *also = [(1.0 if t == self.traces[0] else rival,) * 3 for t in job.traces]
                yield Outcome(job.id, "ok", times=mine, also=tuple(also))

    task = SearchTask(scale, (64,), template=scale_template)
    tune(task, trials=16, model="random", measurer=Known(), progress=False)
    assert [j.seconds for j in jobs].count(session.LOOK) == looks
