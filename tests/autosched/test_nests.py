"""Nests that candidates share: kept in the tuner's directory, found by every builder, gone when there are too
many, and not in the kernels by which a gain is told."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

import tensorlang as tl
from autosched import SearchTask, tune
from autosched.measure import Job, Measurer, Outcome, builder, runner
from autosched.measure.nests import Nests
from autosched.measure.protocol import BUILT
from autosched.tuning import session
from tensorlang import ops, te


def product() -> list[te.Tensor]:
    """A product whose weight is packed in a nest of its own."""
    x, w = te.placeholder((96, 256), name="x"), te.placeholder((256, 192), name="w")
    return [x, w, ops.relu(ops.matmul(x, w))]


def packed(row: int) -> tl.Schedule:
    """The weight is copied whole; ``row`` is how many rows a tile has."""
    _, w, y = product()
    s = te.create_schedule(y.op)
    c = y.op.input_tensors[0]
    copy = s.cache_read(w, "global", [c])
    i, j = y.op.axis
    outer, _, _, inner = s[y].tile(i, j, row, 16)
    s[y].vectorize(inner)
    s[c].compute_at(s[y], outer)
    s[copy].vectorize(s[copy].split(copy.op.axis[1], 16)[1])
    return s


def _job(task: SearchTask, schedule: tl.Schedule, number: int = 0) -> Job:
    trace = schedule.trace.to_json()
    return Job(number, task.graph, task.workload_key, str(task.target), trace, seconds=0.003)


def test_what_is_kept_is_there_until_it_is_removed(tmp_path: Path) -> None:
    mine, other = Nests(tmp_path), Nests(tmp_path)
    assert mine.get("a") is None
    mine.put("a", b"code")
    assert other.get("a") == mine.get("a") == b"code"
    assert mine.taken() == 4 and mine.taken() == other.taken() == 0
    (tmp_path / "a.nest").unlink()
    assert mine.get("a") is None and not list(tmp_path.iterdir())
    gone = Nests(tmp_path / "gone")
    gone.put("a", b"code")  # a directory that was swept is no error
    assert gone.get("a") is None and gone.taken() == 0


def test_what_is_used_is_young(tmp_path: Path) -> None:
    nests = Nests(tmp_path)
    nests.put("a", b"code")
    os.utime(tmp_path / "a.nest", (1, 1))
    assert nests.get("a") == b"code" and (tmp_path / "a.nest").stat().st_mtime > 1


def test_candidates_share_and_what_is_told_does_not(tmp_path: Path) -> None:
    task = SearchTask(product)
    schedules = [packed(4), packed(6)]
    jobs = [_job(task, s, i) for i, s in enumerate(schedules)]
    for job in jobs:
        assert builder.build(job, str(tmp_path), print).status == BUILT
        assert runner.run(job, str(tmp_path), lambda _: None).status == "ok"
    assert len(list(tmp_path.glob("nest_*.nest"))) == 3  # one of both, and the rest of each
    assert len(list(tmp_path.glob("whole_*.nest"))) == len(jobs)
    before = set(tmp_path.glob("*.nest"))
    whole = replace(jobs[0], whole=True)
    assert builder.build(whole, str(tmp_path), print).status == BUILT
    assert set(tmp_path.glob("*.nest")) == before
    one, other = (tl.load(builder.kernel_file(j, str(tmp_path)), mine=True) for j in (jobs[0], whole))
    assert one.object_code != other.object_code
    again = tl.create_schedule(task.tensors[-1]).replay(schedules[0].trace)
    built = tl.build(again, task.tensors, task.target, name=builder.NAME, load=False)
    assert other.object_code == built.object_code
    assert Job.from_json(whole.to_json()) == whole


def test_there_is_room_for_so_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builder, "LOOK", 0)
    task = SearchTask(product)
    old = tmp_path / "old.nest"
    old.touch()
    os.truncate(old, builder.KEPT)
    os.utime(old, (1, 1))
    assert builder.build(_job(task, packed(4)), str(tmp_path), print).status == BUILT
    assert not old.exists() and list(tmp_path.glob("*.nest"))
    assert sum(f.stat().st_size for f in tmp_path.iterdir()) <= builder.KEPT


def test_only_the_last_comparison_is_of_whole_kernels() -> None:
    """Candidates and looks at them only choose; who is told to be faster was built as users build."""
    seen: list[Job] = []

    class Pretend:
        def run(self, jobs):  # type: ignore[no-untyped-def]
            for job in jobs:
                seen.append(job)
                start = seen[0].traces[0]
                times = [(1e-3 / (1 if t == start else 2 + len(t) % 7),) * 3 for t in job.traces]
                yield Outcome(job.id, "ok", times=times[0], also=tuple(times[1:]))

    result = tune(SearchTask(product), trials=12, measurer=Pretend(), progress=False)
    last = [j for j in seen if j.seconds == session.CAREFUL]
    assert result.gain and result.gain > 1 and last and all(j.whole and j.also for j in last)
    assert not any(j.whole for j in seen if j.seconds != session.CAREFUL and not j.ahead)


def test_what_will_be_compared_is_built_while_others_are_looked_at() -> None:
    sent: list[list[Job]] = []

    class Pretend:
        """The first candidate takes ``slower`` times as long as all others."""

        def __init__(self, slower: float) -> None:
            self.first, self.slower = "", slower

        def run(self, jobs):  # type: ignore[no-untyped-def]
            if isinstance(jobs, list):  # at the end
                sent.append(jobs)
            for job in jobs:
                self.first = self.first or job.trace
                times = [(1e-3 * (self.slower if t == self.first else 1.0),) * 3 for t in job.traces]
                yield Outcome(job.id, "ok", times=times[0], also=tuple(times[1:]))

    tune(SearchTask(product), trials=12, measurer=Pretend(1.2), progress=False)
    looks = [jobs for jobs in sent if jobs[0].seconds == session.LOOK]
    last = next(jobs for jobs in sent if jobs[0].seconds == session.CAREFUL)
    assert [len(jobs) for jobs in looks] == [2, 2, 1, 1] and len(last) == 1
    ahead = [jobs[1] for jobs in looks if len(jobs) > 1]
    assert all(j.ahead and j.whole and not j.also for j in ahead)
    assert [j.trace for j in ahead] == list(last[0].traces)
    assert [builder.kernel_file(j, "/d") for j in ahead] == [
        builder.kernel_file(last[0], "/d", t) for t in last[0].traces
    ]
    sent.clear()
    tune(SearchTask(product), trials=12, measurer=Pretend(1.0), progress=False)
    assert sent and not any(j.ahead for jobs in sent for j in jobs)  # where nothing was gained


def test_what_is_built_ahead_is_not_run() -> None:
    task = SearchTask(product)
    jobs = [_job(task, packed(4)), replace(_job(task, packed(6), 1), whole=True, ahead=True)]
    with Measurer() as m:
        first, second = m.run(jobs)
        assert first.status == "ok" and second.status == BUILT and not second.times
        outcomes = m.run([replace(jobs[0], id=2), replace(jobs[1], id=3, whole=False)])
        assert next(outcomes).status == "ok"
        outcomes.close()  # nobody waits for the other
        later = m.measure(replace(jobs[1], id=4, ahead=False))
    assert later.status == "ok" and "LLVM" not in later.parts  # it was there
