"""What strategies and parts of the search are worth, on times that are predicted and not measured: twenty
tasks by several seeds by equal trials would take days of a quiet machine, whose drift would hide what is
looked for.

A world is a task with a time for each of its candidates: what the analysis says it ought to cost, times what
boosters that learnt of real kernels say that is off, times effects that nothing in the search knows of (waves
along random features, the same for all arms of a task and seed). Every look at a candidate is off by some
noise, as a measurement is. What is compared is the true time of the candidate that wins.

Knows autosched's parts by their options. What holds here must hold of real kernels before anything is
dropped; see ``ablation``.
"""

from __future__ import annotations

import json
import math
import time
import zlib
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import tensorlang as tl
from autosched import SearchTask, tune
from autosched.cost_model import RandomModel, XGBModel
from autosched.measure import Job, Outcome
from autosched.search import Annealing, Evolutionary, Random
from autosched.space import Variants, variants_of

from .ablation import Arm, Best
from .ansor_suite import TASKS
from .suites import declared

NOISE = 0.02  # of a time, the spread of measurements
# effects nobody knows, and how much each may change the logarithm of a time: real kernels are as far off
WAVES, HEIGHT = 12, 0.12
TARGET = "llvm -mcpu=znver3 -num-cores=2"  # the same worlds on every machine
LOOKS = (16, 32, 64)  # trials after which the winner is looked at
RESAMPLED = 2000  # times, for confidence intervals
Entry = dict[str, Any]

ARMS: dict[str, Arm] = {
    "evolution": Arm(lambda seed: {"model": XGBModel(seed)}),
    "annealing": Arm(lambda seed: {"model": XGBModel(seed), "strategy": Annealing()}),
    "best of random rows": Arm(lambda seed: {"model": XGBModel(seed), "strategy": Best()}),
    "random": Arm(lambda seed: {"model": RandomModel(seed), "strategy": Random()}),
    "no crossover": Arm(lambda seed: {"model": XGBModel(seed), "strategy": Evolutionary(crossover=0.0)}),
    "no shipped model": Arm(lambda seed: {"model": XGBModel(seed, start=None)}),
    "no analysis": Arm(lambda seed: {"model": XGBModel(seed, start=None, prior=None)}),
}


class World:
    """A task with a time for each candidate; measures jobs of it."""

    def __init__(self, name: str, seed: int) -> None:
        self.task = SearchTask.of(declared(name), TARGET, name=name)
        self.variants: Variants = variants_of(self.task)
        self.known = XGBModel(start=XGBModel().start)
        rng = np.random.default_rng([zlib.crc32(name.encode()), seed])
        width = len(self.variants[0].feature_set.names)
        self.columns = rng.integers(0, width, WAVES)
        self.pace, self.phase = rng.uniform(0.5, 2.0, WAVES), rng.uniform(0.0, 2 * math.pi, WAVES)
        self.rng = rng
        self.times: dict[str, float] = {}  # of the candidates in the order of their first measurements

    def true(self, trace: str) -> float:
        """Seconds of a candidate."""
        if trace not in self.times:
            steps = tl.Trace.from_json(trace)
            found = next(
                (v, row)
                for v in self.variants
                if v.trace.steps == steps.steps and (row := v.row(steps.decisions)) is not None
            )
            table = found[0].features(found[1][None, :])
            waves = HEIGHT * np.sin(self.pace * table[0, self.columns] + self.phase).sum()
            self.times[trace] = 1e-6 * math.exp(-float(self.known.predict(table)[0]) - self._level + waves)
        return self.times[trace]

    @cached_property
    def _level(self) -> float:
        """So that the default schedule takes about a microsecond."""
        first = self.variants[0]
        return -float(self.known.predict(first.features(first.present()))[0])

    def run(self, jobs: Iterable[Job]) -> Iterator[Outcome]:
        """The times of the jobs, with noise."""
        for job in jobs:
            times = self.true(job.trace) * np.exp(self.rng.normal(0.0, NOISE, 3))
            yield Outcome(job.id, "ok", times=tuple(map(float, times)))


def compare(tasks: Iterable[str], seeds: int, arms: Iterable[str], file: Path) -> list[Entry]:
    """The entries of a file of JSON lines, those that it did not have appended one by one: a run that was
    broken off goes on where it ended."""
    lines = file.read_text().splitlines() if file.exists() else []
    found: list[Entry] = [json.loads(line) for line in lines]
    have = {(e["task"], e["seed"], e["arm"]) for e in found}
    for name in tasks:
        for seed in range(seeds):
            for arm in arms:
                if (name, seed, arm) not in have:
                    found.append(searched(name, seed, arm))
                    with file.open("a") as out:
                        out.write(json.dumps(found[-1]) + "\n")
    return found


def searched(name: str, seed: int, arm: str) -> Entry:
    """The true seconds of the best by its first look after so many trials, and of the default schedule."""
    world, options = World(name, seed), ARMS[arm].options(seed)
    begin = time.process_time()
    tune(world.task, trials=max(LOOKS), seed=seed, measurer=world, progress=False, **options)
    spent = time.process_time() - begin
    times = list(world.times.values())
    best = {str(n): min(times[:n]) for n in LOOKS}
    return {"task": name, "seed": seed, "arm": arm, "default": times[0], "best": best, "processor": spent}


def table(found: list[Entry]) -> str:
    """How many times as long the winner of each arm takes as that of the first, the geometric mean with its
    95 % confidence interval over tasks and seeds; and the processor time of a search."""
    arms = list(dict.fromkeys(e["arm"] for e in found))
    costs = {(e["task"], e["seed"], e["arm"]): e for e in found}
    lines = [f"{'arm':<22}" + "".join(f"{f'after {n}':>24}" for n in LOOKS) + f"{'seconds':>9}"]
    rng = np.random.default_rng(0)
    for arm in arms:
        pairs = [
            (costs[t, s, arms[0]], e)
            for (t, s, a), e in costs.items()
            if a == arm and (t, s, arms[0]) in costs
        ]
        cells = ""
        for n in LOOKS:
            logs = np.log([e["best"][str(n)] / first["best"][str(n)] for first, e in pairs])
            means = logs[rng.integers(0, len(logs), (RESAMPLED, len(logs)))].mean(axis=1)
            low, high = np.exp(np.quantile(means, [0.025, 0.975]))
            cells += f"{math.exp(logs.mean()):>10.3f} {low:.3f}–{high:.3f}".rjust(24)
        lines.append(f"{arm:<22}{cells}{np.mean([e['processor'] for _, e in pairs]):>9.1f}")
    return "\n".join(lines)


__all__ = ["ARMS", "TASKS", "compare", "table"]
