"""Whatever a candidate does to its worker is an outcome with a reason, and the next candidate is measured."""

from __future__ import annotations

import itertools
import json
import os
import select
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

import tensorlang as tl
from autosched import SearchTask
from autosched.measure import Job, Measurer, Outcome, Stages, awake, builder, cores, runner, turns
from autosched.measure.nursery import Lines
from autosched.measure.protocol import BUILT, GO, HOLD, TIMING
from autosched.measure.rounds import rounds
from autosched.measure.runner import Workbench
from autosched.measure.worker import Worker
from autosched.space import Variant, variants_of
from tensorlang import ops, te

from .workloads import LAST, matmul, scale, scale_template

HERE = "tests.autosched.workloads"


def _scale() -> tuple[SearchTask, Variant]:
    task = SearchTask(scale, (100,), template=scale_template)
    return task, variants_of(task)[0]


def _family(m: Measurer) -> list[psutil.Process]:
    assert m.process is not None
    nursery = psutil.Process(m.process.pid)
    return [nursery, *nursery.children(recursive=True)]


def _job(task: SearchTask, trace: str, number: int = 0, **more: float) -> Job:
    return Job(number, task.graph, task.workload_key, str(task.target), trace, seconds=0.003, **more)  # type: ignore[arg-type]


def _patience(number: int) -> float:
    """Seconds: few for the job that hangs, and more than enough for the others on a busy machine."""
    return 1.0 if number == 2 else 60.0


def test_disasters_are_outcomes() -> None:
    task, v = _scale()
    trace = v.trace.to_json()
    with Measurer(Stages(run=f"{HERE}:faulty")) as m:
        got = list(m.run(_job(task, trace, i, timeout=_patience(i), memory=1 << 30) for i in range(9)))
    assert [o.status for o in got] == [
        "ok",
        "crash",
        "timeout",
        "out_of_memory",
        "crash",
        "crash",
        "killed",
        "ok",
        "ok",
    ]
    assert (
        "SIGSEGV" in got[1].error
        and "not run after 1 s" in got[2].error
        and "status 7" in got[4].error
        and "SIGABRT" in got[5].error
    )
    assert "from outside" in got[6].error
    assert all(o.times and min(o.times) > 0 for o in got if o.status == "ok")
    assert m.restarts == 0


def test_disasters_of_the_compiler_are_outcomes_too() -> None:
    task, v = _scale()
    rows = v.sample(np.random.default_rng(0), 8)
    with Measurer(Stages(build=f"{HERE}:faulty_build")) as m:
        got = list(
            m.run(
                _job(task, v.trace_of(row).to_json(), i, timeout=_patience(i), memory=1 << 30)
                for i, row in enumerate(rows)
            )
        )
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
    assert "not built after 1 s" in got[2].error


def test_wrong_answer() -> None:
    task, v = _scale()
    with Measurer(Stages(run=f"{HERE}:wrong")) as m:
        o = m.measure(_job(task, v.trace.to_json()))
    assert o.status == "wrong_answer"
    assert "B: " in o.error and "should be" in o.error


def test_the_one_that_kills_the_nursery_is_found() -> None:
    task, v = _scale()
    rows = v.sample(np.random.default_rng(0), 8)
    with Measurer(Stages(build=f"{HERE}:kills_the_nursery")) as m:
        got = list(m.run(_job(task, v.trace_of(row).to_json(), i) for i, row in enumerate(rows)))
    assert [o.status for o in got] == ["ok", "ok", "ok", "crash", "ok", "ok", "ok", "ok"]
    assert "measuring process died" in got[3].error and m.restarts >= 1


def test_the_compiler_works_while_a_kernel_runs() -> None:
    """Building and running overlap: a run that goes on until the next job is being built comes to its end."""
    task, v = _scale()
    rows = v.sample(np.random.default_rng(0), LAST + 1)
    with Measurer(Stages(f"{HERE}:marking_build", f"{HERE}:awaiting_run")) as m:
        got = list(m.run(_job(task, v.trace_of(row).to_json(), i) for i, row in enumerate(rows)))
    assert [o.id for o in got] == list(range(8))
    assert [o.error for o in got] == ["true"] * 8


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
        family = _family(m)
        os.kill(family[0].pid, signal.SIGKILL)
        assert m.measure(_job(task, trace)).status == "ok"  # nobody was at work: nobody is to blame
        assert m.restarts == 1
        directory = m.directory
        _, alive = psutil.wait_procs(family[1:], timeout=5)
        assert not alive
    assert directory is not None and not os.path.exists(directory.path)


def test_nobody_is_left_behind() -> None:
    task, v = _scale()
    m = Measurer()
    m.measure(_job(task, v.trace.to_json()))
    family = _family(m)
    assert len(family) == 3  # the nursery, one builder, the runner
    m.close()
    _, alive = psutil.wait_procs(family, timeout=5)
    assert not alive


def test_a_tuner_that_is_killed_leaves_nobody_behind() -> None:
    code = (
        f"import sys, time; from {HERE} import *; from autosched import SearchTask; from autosched.measure import Job, Measurer, Stages\n"
        f"task = SearchTask(scale, (100,)); m = Measurer(Stages(run='{HERE}:slow_run'))\n"
        "m.measure(Job(0, task.graph, task.workload_key, str(task.target), task.schedule().trace.to_json()))\n"
        "print(m.process.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as tuner:
        assert tuner.stdout is not None
        nursery = psutil.Process(int(tuner.stdout.readline()))
        family = [nursery, *nursery.children(recursive=True)]
        tuner.kill()
    _, alive = psutil.wait_procs(family, timeout=5)
    assert len(family) == 3 and not alive


@pytest.mark.parametrize("text", ["", "{}", "nonsense"])
def test_a_graph_that_is_none(text: str) -> None:
    task, v = _scale()
    with Measurer() as m:
        o = m.measure(Job(1, text, "key", str(task.target), v.trace.to_json()))
    assert o.status in ("refused", "build_error", "crash") and o.error


def test_hopeless_ones_are_timed_once() -> None:
    task = SearchTask(matmul, (16, 16, 16))
    trace = task.schedule().trace.to_json()
    with Measurer() as m:
        assert len(m.measure(_job(task, trace, best=1e-12)).times) == 1
        assert len(m.measure(_job(task, trace, best=1.0)).times) >= 3


def test_who_is_stopped_with_its_worker_blames_it_for_nothing() -> None:
    """As by a debugger, or a machine that does something else for a while: longer than the job may take."""
    task, v = _scale()
    with Measurer(Stages(f"{HERE}:quick_build", f"{HERE}:short_steps")) as m, ThreadPoolExecutor(1) as other:
        job = _job(task, v.trace.to_json(), timeout=2.0)
        assert m.measure(job).status == "ok"
        assert m.directory is not None
        runs = Path(m.directory.path) / "runs"
        runs.unlink()
        found = other.submit(m.measure, job)
        while not runs.exists():
            time.sleep(0.001)
        family = _family(m)
        for p in family:
            p.suspend()
        time.sleep(2.5)
        for p in family:
            p.resume()
        m._say(GO)  # whatever it hears, it looks at the clock
        assert found.result().status == "ok"


def test_a_clock_counts_what_its_process_was_awake(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(awake.time, "monotonic", lambda: now[0])
    clock = awake.Awake()
    begin = clock()
    for seconds in (0.5, 0.0, 0.5, 60.0, 0.25):
        now[0] += seconds
        clock()
    assert clock() - begin == 0.5 + 0.5 + awake.TURN + 0.25


def test_lines_travel_over_any_pipe() -> None:
    task = SearchTask(matmul, (16, 16, 16))
    away = [
        "env",
        f"PYTHONPATH={os.pathsep.join(sys.path)}",
        sys.executable,
        "-m",
        "autosched.measure.nursery",
    ]
    with Measurer(command=away) as m:
        assert m.measure(_job(task, task.schedule().trace.to_json())).status == "ok"


def test_a_command_that_is_no_nursery() -> None:
    task = SearchTask(matmul, (16, 16, 16))
    with Measurer(command=["echo"]) as m:
        o = m.measure(_job(task, task.schedule().trace.to_json()))
    assert o.status == "crash" and "measuring process said 'autosched.measure.builder:build" in o.error


def test_nothing_is_timed_while_the_next_jobs_are_made() -> None:
    """Whoever makes a job may need the processors: no run overlaps it."""
    task, v = _scale()
    rows = v.sample(np.random.default_rng(0), 24)
    thinking: list[tuple[float, float]] = []

    def jobs() -> Iterator[Job]:
        for i, row in enumerate(rows):
            if i % 8 == 0:
                begin = time.monotonic()
                time.sleep(0.15)
                thinking.append((begin, time.monotonic()))
            yield _job(task, v.trace_of(row).to_json(), i)

    with Measurer(Stages(f"{HERE}:quick_build", f"{HERE}:slow_run")) as m:
        runs = [json.loads(o.error) for o in m.run(jobs())]
    assert len(runs) == 24
    assert not [(r, t) for r in runs for t in thinking if r[0] < t[1] and t[0] < r[1]]
    assert max(b[0] - a[0] for a, b in itertools.pairwise(runs)) > 0.15  # it was waited for


def test_the_first_jobs_are_taken_while_the_nursery_imports() -> None:
    """And a source that fails while others wait leaves nothing on hold."""
    task, v = _scale()
    rows = v.sample(np.random.default_rng(0), 12)
    said: list[str] = []

    def failing() -> Iterator[Job]:
        for i, row in enumerate(rows):
            if i == 10:
                raise ValueError("no more")
            said.append("taken")
            yield _job(task, v.trace_of(row).to_json(), i)

    with Measurer(Stages(f"{HERE}:quick_build", f"{HERE}:slow_run")) as m:
        say, m._say = m._say, lambda line: (said.append(line if line in (HOLD, GO) else "job"), say(line))[1]
        with pytest.raises(ValueError, match="no more"):
            list(m.run(failing()))
        # each is on its way before the next is thought of
        assert said[:16] == ["taken", "job"] * 8 and said.count(HOLD) == said.count(GO) > 0
        assert m.measure(_job(task, v.trace_of(rows[11]).to_json(), 99)).id == 99


def test_a_kernel_that_is_asked_for_again_is_not_the_next_to_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by a crash: one builder answered that a finalist was there, another removed it as the oldest
    before it was run."""
    monkeypatch.setattr(builder, "LOOK", 0)
    task, v = _scale()
    first, *others = [
        _job(task, v.trace_of(row).to_json(), i)
        for i, row in enumerate(v.sample_valid(np.random.default_rng(0), 4))
    ]
    assert builder.build(first, str(tmp_path), print).status == BUILT
    mine = builder.kernel_file(first, str(tmp_path))
    os.utime(mine, (1, 1))
    for i in range(2):  # with the first, too much
        old = tmp_path / f"{i}.kernel"
        old.touch()
        os.truncate(old, builder.KEPT // 2)
        os.utime(old, (2 + i, 2 + i))
    assert builder.build(first, str(tmp_path), print).status == BUILT  # for the second time: nothing is built
    assert all(builder.build(o, str(tmp_path), print).status == BUILT for o in others)
    assert mine.exists() and not (tmp_path / "0.kernel").exists() and (tmp_path / "1.kernel").exists()


def test_a_kernel_that_another_builder_has_just_removed_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builder, "LOOK", 0)
    task, v = _scale()
    (tmp_path / "gone.kernel").symlink_to(
        tmp_path / "nowhere"
    )  # what a file looks like that is listed and no longer there
    job = _job(task, v.trace.to_json())
    assert builder.build(job, str(tmp_path), print).status == BUILT
    kernel = builder.kernel_file(job, str(tmp_path))
    kernel.unlink()
    assert builder.build(job, str(tmp_path), print).status == BUILT and kernel.exists()


def test_builders_stand_still_while_a_parallel_kernel_is_timed() -> None:
    with Measurer(Stages(f"{HERE}:busy_build", f"{HERE}:timing_run")) as m:
        task, v = _scale()
        rows = v.sample(np.random.default_rng(0), 6)
        got = [
            json.loads(o.error)
            for o in m.run(_job(task, v.trace_of(row).to_json(), i) for i, row in enumerate(rows))
        ]
    assert got == [0] * 6


@pytest.mark.parametrize("cores_of_target", [1, 2])
def test_a_kernel_is_timed_on_as_many_threads_as_its_target_has_cores(
    cores_of_target: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A default schedule is parallel whatever the target: timed on two threads it was kept in a search for one
    core, whose candidates are serial, and of 1.88 that were told 1.18 was true."""

    def parallel() -> list[te.Tensor]:
        a = te.placeholder((64, 64), name="a")
        return [a, te.compute((64, 64), lambda i, j: a[i, j] + 1, name="b")]

    task = SearchTask(parallel, target=f"llvm -num-cores={cores_of_target}")
    s = tl.create_schedule(task.tensors[-1])
    s[task.tensors[-1]].parallel(task.tensors[-1].op.axis[0])
    job, seen = _job(task, s.trace.to_json()), list[int]()
    tl.set_num_threads(2)
    monkeypatch.setattr(runner, "timed", lambda *_: seen.append(tl.num_threads()) or (1e-6,))
    assert builder.build(job, str(tmp_path), print).status == BUILT
    assert runner.run(job, str(tmp_path), lambda _: None).status == "ok"
    assert set(seen) == {cores_of_target} and tl.num_threads() == 2
    tl.set_num_threads(None)


def test_jobs_of_a_name_run_in_a_process_that_has_run_nothing_else() -> None:
    """Where a process has its arrays after a search decides over a third of the time of many a kernel."""
    task, v = _scale()
    rows = v.sample(np.random.default_rng(0), 6)
    jobs = [_job(task, v.trace_of(row).to_json(), i) for i, row in enumerate(rows)]
    with Measurer(Stages(f"{HERE}:quick_build", f"{HERE}:who_run")) as m:
        got = list(m.run(jobs[:2]))
        got += m.run([replace(j, process="a") for j in jobs[2:4]])
        got += m.run([replace(j, process="b") for j in jobs[4:]])
    who = [o.error for o in got]
    assert who[0] == who[1] and who[2] == who[3] and who[4] == who[5] and len(set(who)) == 3
    assert all(o.parts == {"lower": 2.0, "run": 1.0} for o in got)


def test_kernels_are_timed_with_numbers_that_data_have() -> None:
    """Scores of the integers of the check differ by thousands, and their ``exp`` is subnormal, which no softmax
    of real data meets and which takes processors many times as long."""
    q, k, n = (
        te.placeholder((8, 64), name="q"),
        te.placeholder((32, 64), name="k"),
        te.placeholder((4,), "int32"),
    )
    bench = Workbench([q, k, n, ops.softmax(ops.matmul(q, k, transpose_b=True)), ops.relu(n)], None)

    def subnormal() -> bool:
        scores = bench.arrays[q] @ bench.arrays[k].T
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        return bool(((weights > 0) & (weights < np.finfo(np.float32).tiny)).any())

    before = [a.copy() for a in bench.arrays.values()]
    assert subnormal()
    with bench.ordinary():
        assert not subnormal() and (bench.arrays[n] == before[2]).all()
    assert all((a == b).all() for a, b in zip(bench.arrays.values(), before, strict=True))


@pytest.mark.parametrize("usual, samples", [(10e-6, runner.SAMPLES), (90e-6, 1)])
def test_a_short_kernel_is_not_given_up_because_threads_wake_up(
    monkeypatch: pytest.MonkeyPatch, usual: float, samples: int
) -> None:
    """After a pause the second run of a kernel of ten microseconds takes fifty or more: by that alone all but the
    first candidates of a softmax counted as hopeless."""
    now = [0.0]
    pace = iter([150e-6])

    def entry(*args: object) -> None:
        now[0] += next(pace, usual)

    kernel = SimpleNamespace(
        entry=entry, time_evaluator=lambda number, repeat: lambda *args: SimpleNamespace(min=usual)
    )
    monkeypatch.setattr(runner, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    found = runner.timed(kernel, [], 100e-6, 0.015, best=12e-6)  # type: ignore[arg-type]
    assert len(found) == samples and found == pytest.approx([usual] * samples)


@pytest.mark.parametrize("disturbed, samples", [(8, runner.SAMPLES), (16, 1)])
def test_a_moment_in_which_others_have_a_processor_condemns_nobody(
    monkeypatch: pytest.MonkeyPatch, disturbed: int, samples: int
) -> None:
    """A sixth of the good candidates on two threads counted as hopeless, at twice their time to the percent: a
    builder, not stopped yet, or the process that reads the outcomes kept the second thread waiting for as long
    as a look lasts."""
    now, usual = [0.0], 10e-6
    pace = iter([2.5 * usual] * disturbed)

    def entry(*args: object) -> None:
        now[0] += next(pace, usual)

    kernel = SimpleNamespace(
        entry=entry, time_evaluator=lambda number, repeat: lambda *args: SimpleNamespace(min=usual)
    )
    monkeypatch.setattr(runner, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    found = runner.timed(kernel, [], 2.5 * usual, 0.015, best=usual)  # type: ignore[arg-type]
    assert len(found) == samples


def test_a_worker_that_times_waits_until_it_is_told_that_others_are_stopped(tmp_path: Path) -> None:
    """It began at once, while a builder had its processor."""
    task, v = _scale()
    worker = Worker(timing_run_at_once, str(tmp_path), "runner")
    lines = Lines(worker.results)
    worker.give(_job(task, v.trace.to_json()))
    assert lines.read() == [TIMING]
    assert not select.select([worker.results], [], [], 0.1)[0]
    worker.answer(GO)
    assert '"ok"' in lines.read()[0]
    worker.end()


def timing_run_at_once(job: Job, directory: str, say: Callable[[str], None]) -> Outcome:
    """Says that it times, and is done."""
    say(TIMING)
    return Outcome(job.id, "ok", times=(1.0,))


def test_timing_takes_no_longer_than_its_precision_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is clearly slower than the best gets one sample, what is near it more; none begins more slices than
    the seconds hold."""
    taken: list[tuple[int, int]] = []

    def evaluator(number: int, repeat: int) -> object:
        taken.append((number, repeat))
        return lambda *args: SimpleNamespace(min=1e-5)

    kernel = SimpleNamespace(entry=lambda *args: None, time_evaluator=evaluator)
    monkeypatch.setattr(runner, "_fastest", lambda kernel, args, runs: 1e-5)
    assert runner.timed(kernel, [], 1e-4, 0.006, best=0.7e-5) == (1e-5,)  # type: ignore[arg-type]
    assert taken == [(25, 8)] and taken[0][0] * taken[0][1] * 1e-5 <= 0.006 / runner.SAMPLES
    taken.clear()
    assert len(runner.timed(kernel, [], 1e-4, 0.006, best=1e-5)) == runner.SAMPLES  # type: ignore[arg-type]
    assert taken == [(25, 8)] * runner.SAMPLES


def test_what_nobody_waits_for_is_not_run() -> None:
    """A tuner out of time waited for the candidates on their way, one of which may hang."""
    task, v = _scale()
    trace = v.trace.to_json()
    with Measurer(Stages(f"{HERE}:quick_build", f"{HERE}:listing_run")) as m:
        outcomes = m.run(_job(task, trace, i) for i in range(6))
        assert next(outcomes).id == 0
        outcomes.close()
        ran = m.measure(_job(task, trace, 9)).error.split()
        assert ran[-1] == "9" and ran.index("0") >= len(ran) - 3  # one more may have begun
        assert m.restarts == 0


def test_all_of_a_turn_find_their_arrays_in_the_same_places() -> None:
    """A start and a candidate that were timed in turns had their arrays in different places, which decides over
    a fifth of the time of a convolution of 50 µs."""
    x, w = te.placeholder((8, 64), name="x"), te.placeholder((8, 64), name="w")
    bench = Workbench([x, w, te.compute((8, 64), lambda i, j: x[i, j] + w[i, j], name="y")], None)
    before = [a.copy() for a in bench.arrays.values()]

    def starts(place: int) -> list[int]:
        bench.move(place)
        return [a.__array_interface__["data"][0] for a in bench.arrays.values()]

    alike, same, apart = starts(2), starts(2), starts(3)
    # as in a program: inputs as numpy's large ones, in a line, and the result on one
    assert alike == same and [a % runner.LINE for a in alike] == [16, 16, 0]
    assert len({a % runner.PAGE // runner.LINE for a in alike}) == 1
    assert len({a % runner.PAGE for a in apart}) == 3 and all(a % runner.LINE == 0 for a in apart)
    assert all((a == b).all() for a, b in zip(bench.arrays.values(), before, strict=True))


def test_several_candidates_are_timed_in_turns_in_one_process() -> None:
    """Each as often as the others; what one leaves behind is not in the way of the next; one that is wrong is
    found out."""
    task, v = _scale()
    a, b, c = [v.trace.to_json().replace('"v":[1]', f'"v":[{n}]') for n in (1, 8, 16)]
    with Measurer() as m:
        got = list(m.run(replace(_job(task, a, i, place=2 * i), also=(b, c)) for i in range(2)))
    assert [o.status for o in got] == ["ok"] * 2, got
    assert all(len(o.also) == 2 and len({len(t) for t in (o.times, *o.also)}) == 1 for o in got)
    with Measurer(Stages(run=f"{HERE}:wrong")) as m:
        assert m.measure(replace(_job(task, a, place=0), also=(b,))).status == "wrong_answer"


def test_the_right_answers_are_made_by_a_process_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The threads of numpy's products went on spinning: the first kernels were timed with one processor
    less."""
    here: list[int] = []

    def evaluate(outputs: object, inputs: object, real: object = te.reference.evaluate) -> object:
        here.append(os.getpid())
        return real(outputs, inputs)  # type: ignore[operator]

    monkeypatch.setattr(te.reference, "evaluate", evaluate)
    tensors = matmul(4, 5, 6)
    apart = Workbench(tensors, tmp_path / "k.npz")
    assert not here and apart.slack() == [0.0] and not here
    assert (apart.right[0] == Workbench(tensors, None).right[0]).all() and here == [os.getpid()]
    monkeypatch.setattr(runner, "in_child", lambda work: None)  # one that died
    assert (Workbench(tensors, tmp_path / "other.npz").right[0] == apart.right[0]).all() and len(here) == 2
