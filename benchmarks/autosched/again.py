"""Measures records once more, and candidates that a search would propose now, those of a task beside each
other, in several processes that do nothing else. Knows autosched.

What a search writes down of a candidate is what it took in a few milliseconds, while builders ran on another
processor; the same candidate a minute later is off by a fifth. The order of two candidates is more certain
when they are timed in turns, each process with the arrays in another place: of a task's candidates the
fastest of some turns counts in each process, and the median of the processes in all.
"""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np

import tensorlang as tl
from autosched import RecordLog
from autosched.cost_model import XGBModel
from autosched.measure import Outcome, cores
from autosched.measure.runner import Workbench
from autosched.records import Record
from autosched.records.replay import replay
from autosched.statuses import OK
from autosched.tuning.adopted import Adopted
from autosched.tuning.session import Session
from tensorlang import te

from . import samples
from .sprinkled import Sprinkled

SEED = 3
MOST, PROCESSES = 40, 3  # candidates of a task; processes that time them all
KNOWN, RANDOM = 0.5, 0.3  # of them: at most so many that were measured before; by chance, of the others
BATCH, TIMEOUT = 16, 20.0  # of a round of proposals; what a search would give a candidate
ROUNDS = 5  # of turns in a process
TURN = 6e-4  # seconds of a turn that count, after half as many that do not
Times = dict[str, list[float]]  # seconds by the name of a kernel's file, one of each process


def measured(records: Iterable[Record], directory: Path, most: int, processes: int) -> list[Record]:
    """The records of ``most`` candidates of each task with the times they have now, by so many processes more
    than have left theirs in ``directory``. Kernels are kept there too: a run that was broken off builds none
    again."""
    of = build(records, directory, most)
    begun = len(list(directory.glob("*.times.json")))
    for place in range(begun, begun + processes):
        done = subprocess.run(
            [sys.executable, "-m", __name__, str(directory), str(place)],
            capture_output=True,
            text=True,
            check=True,
        )
        (directory / f"{place}.times.json").write_text(done.stdout)
    times: Times = {}
    for kept in sorted(directory.glob("*.times.json")):
        for file, seconds in json.loads(kept.read_text()).items():
            times.setdefault(file, []).append(seconds)
    now = time.time()
    return [replace(r, times=tuple(times[f]), when=now, turn="") for f, r in of.items() if f in times]


def build(records: Iterable[Record], directory: Path, most: int) -> dict[str, Record]:
    """Kernels of ``most`` candidates of each task on one and on all threads of this machine, in files by the
    name of the task; the record of each, whose times do not count."""
    known: dict[str, list[Record]] = {}
    for r in records:
        if r.ok and r.name in samples.TASKS:
            known.setdefault(r.name, []).append(r)
    host, found = tl.Target.host(), {}
    with ProcessPoolExecutor(host.num_cores) as builders:
        asked = []
        for name in samples.TASKS:
            for cores_used in (1, host.num_cores):
                target = f"llvm -mcpu={host.mcpu} -num-cores={cores_used}"
                mine = [
                    replace(r, target=target)
                    for r in known.get(name, [])
                    if tl.Target(r.target).num_cores == cores_used
                ]
                asked.append(builders.submit(built, name, target, mine, directory, most))
        for one in asked:
            found |= one.result()
    return found


def built(name: str, target: str, records: list[Record], directory: Path, most: int) -> dict[str, Record]:
    """Kernels of some candidates that the task's space has, in files by the name of the task; the record of
    each."""
    task = samples.task_of(name, target)
    records = [replace(r, target=str(task.target)) for r in records]
    session = Session(task, RecordLog(None), Sprinkled(RANDOM), XGBModel(SEED), SEED, TIMEOUT)
    traces = [v.trace for v in session.variants]
    own = Adopted(task, traces).own(records)
    every = sorted({r.steps for r in own if _is_in(r.trace(), traces)})
    random.Random(SEED).shuffle(every)
    # a search learns from the times of one round what to propose in the next; here rounds differ by what was
    # proposed before
    chosen = dict.fromkeys(every[: round(most * KNOWN)])
    while len(chosen) < most and (new := session.propose(min(BATCH, most - len(chosen)))):
        chosen |= dict.fromkeys(new)
    found: dict[str, Record] = {}
    for steps in chosen:
        digest = hashlib.sha256(f"{task.target}\n{steps}".encode()).hexdigest()[:24]
        file = directory / task.name / f"{digest}.kernel"
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            try:
                schedule = replay(steps, tl.create_schedule(task.outputs))
                tl.build(schedule, task.tensors, task.target, "candidate", load=False).save(file)
            except tl.TensorLangError:  # a search would write down that it was refused
                continue
        found[f"{task.name}/{digest}"] = _record(session, steps)
    return found


def _record(session: Session, steps: str) -> Record:
    """A candidate as it is written down, with a time that is to be replaced."""
    return session.record(steps, Outcome(0, OK, times=(1.0,)))


def _is_in(trace: tl.Trace, space: list[tl.Trace]) -> bool:
    return any(trace.steps == other.steps for other in space)


def timed(directory: Path, place: int) -> dict[str, float]:
    """Seconds of each kernel: the fastest of some turns, those of the candidates of a task after one another
    and in another order each round."""
    cores.prepare()
    found: dict[str, float] = {}
    for name in sorted(p.name for p in directory.iterdir() if p.is_dir()):
        bench = _Unchecked(list(samples.TASKS[name]()), None)
        bench.move(place)
        files = sorted((directory / name).glob("*.kernel"))
        kernels = [tl.load(f, mine=True) for f in files]
        with bench.ordinary():
            turns: list[list[float]] = [[] for _ in files]
            for n in range(ROUNDS):
                for i in np.random.default_rng(n).permutation(len(files)):
                    turns[i].append(_turn(kernels[i], bench))
        found |= {f"{name}/{f.stem}": min(t) for f, t in zip(files, turns, strict=True)}
    return found


class _Unchecked(Workbench):
    """Without the right answers: the candidates gave them when they were first measured."""

    def _made(self, cache: object, make: object) -> list[te.Tensor]:
        return [np.zeros([int(str(e)) for e in t.shape], t.dtype.to_numpy()) for t in self.outputs]


def _turn(kernel: tl.Module, bench: Workbench) -> float:
    """Seconds of a run, the mean of a turn; another one where two processors shared a core meanwhile."""
    with cores.threads_of(kernel.target) as most:
        return _timed(kernel, bench, most if b"tensorlang_parallel" in kernel.object_code else 1)


def _timed(kernel: tl.Module, bench: Workbench, threads: int) -> float:
    call, arguments, clock = kernel.entry, bench.arguments, time.perf_counter

    def run(times: int) -> float:
        begin = clock()
        for _ in range(times):
            call(*arguments)
        return (clock() - begin) / times

    n = max(1, round(TURN / min(run(1), run(1))))
    before = cores.apart(threads)
    run(max(1, n // 2))
    taken = run(n)
    if before and cores.apart(threads):
        return taken
    run(max(1, n // 2))
    return run(n)


if __name__ == "__main__":
    print(json.dumps(timed(Path(sys.argv[1]), int(sys.argv[2]))))
