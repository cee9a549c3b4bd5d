"""Measures records once more, candidates of a task beside each other, in several processes that do nothing
else. Knows autosched.

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
from dataclasses import replace
from pathlib import Path

import numpy as np

import tensorlang as tl
from autosched import SearchTask
from autosched.measure import cores
from autosched.measure.runner import Workbench
from autosched.records import Record
from autosched.records.replay import replay
from autosched.space import variants_of
from autosched.tuning.adopted import Adopted
from tensorlang import te

from . import samples

SEED = 3
MOST, PROCESSES = 44, 3  # candidates of a task; processes that time them all
ROUNDS = 5  # of turns in a process
TURN = 6e-4  # seconds of a turn that count, after half as many that do not
Times = dict[str, list[float]]  # seconds by the name of a kernel's file, one of each process


def measured(records: Iterable[Record], directory: Path, most: int, processes: int) -> list[Record]:
    """The records of at most ``most`` candidates of each task, chosen by chance, with the times they have
    now. Kernels are kept in ``directory``: a run that was broken off builds none again."""
    known: dict[tuple[str, str], list[Record]] = {}
    for r in records:
        if r.ok and r.name in samples.TASKS:
            known.setdefault((r.name, r.target), []).append(r)
    of: dict[str, Record] = {}
    for (name, target), mine in known.items():
        of |= built(samples.task_of(name, target), mine, directory, most)
    times: Times = {}
    for place in range(processes):
        done = subprocess.run(
            [sys.executable, "-m", __name__, str(directory), str(place)],
            capture_output=True,
            text=True,
            check=True,
        )
        for file, seconds in json.loads(done.stdout).items():
            times.setdefault(file, []).append(seconds)
    now = time.time()
    return [replace(r, times=tuple(times[f]), when=now, turn="") for f, r in of.items() if f in times]


def built(task: SearchTask, records: list[Record], directory: Path, most: int) -> dict[str, Record]:
    """Kernels of some candidates that the task's space has, in files by the name of the task; the record of
    each."""
    variants = variants_of(task)
    own = Adopted(task, [v.trace for v in variants]).own(records)
    every = {r.steps: r for r in own if _is_in(r.trace(), [v.trace for v in variants])}
    chosen = sorted(every)
    random.Random(SEED).shuffle(chosen)
    found: dict[str, Record] = {}
    for steps in chosen[:most]:
        digest = hashlib.sha256(f"{task.target}\n{steps}".encode()).hexdigest()[:24]
        file = directory / task.name / f"{digest}.kernel"
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            schedule = replay(steps, tl.create_schedule(task.outputs))
            tl.build(schedule, task.tensors, task.target, "candidate", load=False).save(file)
        found[f"{task.name}/{digest}"] = every[steps]
    return found


def _is_in(trace: tl.Trace, space: list[tl.Trace]) -> bool:
    return any(trace.steps == other.steps for other in space)


def timed(directory: Path, place: int) -> dict[str, float]:
    """Seconds of each kernel: the fastest of some turns, those of the candidates of a task after one another
    and in another order each round."""
    cores.prepare()
    found: dict[str, float] = {}
    for name in sorted(p.name for p in directory.iterdir()):
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
    threads = tl.num_threads() if b"tensorlang_parallel" in kernel.object_code else 1
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
