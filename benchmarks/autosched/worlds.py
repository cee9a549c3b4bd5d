"""Tasks with a time for each of their candidates, learnt of pools of measured ones (see ``pools``): a search
of one is over in a second, and knows no drift.

The time of a candidate is what regressors say that learnt of the pool (boosters, on the features and the
knobs; the search's own model knows less and learns otherwise), times what they are off by: of a candidate
that was measured, what was seen of it by regressors that had not learnt of it, less the share that is noise;
of another one drawn at random, as far off as they are in the middle. Every look at a candidate is off by some
noise, as a measurement is. What is compared is the time of a candidate, not a look.

Knows autosched's parts.
"""

from __future__ import annotations

import json
import lzma
import math
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import tensorlang as tl
from autosched import Record, SearchTask
from autosched.cost_model import pairwise_accuracy
from autosched.measure import Job, Outcome
from autosched.space import Variant, variants_of

from .suites import declared

NOISE = 0.02  # of a time, the spread of measurements
FOLDS = 5
NEAR = 1.5  # times the best: how far the regressors are off is asked of candidates up to here
ROUNDS = 150  # of the regressors
LEARNT: dict[str, Any] = {
    "objective": "reg:absoluteerror",
    "max_depth": 6,
    "eta": 0.1,
    "subsample": 0.8,
    "colsample_bytree": 0.4,
    "max_bin": 64,
    "base_score": 0.0,
    "nthread": 1,
    "verbosity": 0,
}


@dataclass(frozen=True)
class Pool:
    """Measured candidates of a task: ``rows[n]`` of the variant ``variants[n]`` took ``seconds[n]``, and was
    the trial ``trials[n]`` of the search, counted from 0."""

    name: str
    target: str
    variants: list[int]
    rows: list[list[int]]
    seconds: list[float]
    trials: list[int]

    @staticmethod
    def of(name: str, records: Sequence[Record]) -> Pool:
        """Those that the task's space has, and that were right."""
        task = SearchTask.of(declared(name), records[0].target, name=name)
        pool = Pool(name, records[0].target, [], [], [], [])
        variants = variants_of(task)
        for n, r in enumerate(records):
            found = _place(variants, r.trace()) if r.ok else None
            if found is not None:
                pool.variants.append(found[0])
                pool.rows.append(found[1].tolist())
                pool.seconds.append(float(f"{r.cost:.5g}"))
                pool.trials.append(n)
        return pool


def save(pools: Iterable[Pool], file: Path) -> None:
    """A line of JSON each, packed."""
    file.write_bytes(lzma.compress("".join(json.dumps(vars(p)) + "\n" for p in pools).encode()))


def load(file: Path) -> dict[str, Pool]:
    """The pools of a file, by the names of their tasks."""
    lines = lzma.decompress(file.read_bytes()).decode().splitlines()
    return {p.name: p for p in (Pool(**json.loads(line)) for line in lines)}


def _place(variants: Sequence[Variant], trace: tl.Trace) -> tuple[int, Any] | None:
    """The variant of a trace, and the row."""
    for i, v in enumerate(variants):
        if v.trace.steps == trace.steps and (row := v.row(trace.decisions)) is not None:
            return i, row
    return None


class World:
    """A task whose candidates have times that are known."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.task = SearchTask.of(declared(pool.name), pool.target, name=pool.name)
        self.variants = variants_of(self.task)  # the regressors' own: nobody narrows them
        table = np.stack(
            [self._row(i, np.array(row)) for i, row in zip(pool.variants, pool.rows, strict=True)]
        )
        logs = np.log(pool.seconds)
        seen = np.empty(len(logs))
        fold = np.random.default_rng(0).integers(0, FOLDS, len(logs))
        for k in range(FOLDS):
            seen[fold == k] = _Regressors(table[fold != k], logs[fold != k])(table[fold == k])
        off = logs - seen
        near = logs < logs.min() + math.log(NEAR)
        spread = float(1.4826 * np.median(np.abs(off[near])))
        self.off = math.sqrt(max(0.0, spread**2 - NOISE**2))  # of that, what is no noise
        believed = self.off**2 / (self.off**2 + NOISE**2) if self.off else 0.0
        self.known = {
            (i, tuple(row)): float(s + believed * o)
            for i, row, s, o in zip(pool.variants, pool.rows, seen, off, strict=True)
        }
        self.regressors = _Regressors(table, logs)
        self.judged = {
            "candidates": float(len(logs)),
            "near": float(near.sum()),
            "off": spread,
            "pairs": pairwise_accuracy(-seen, pool.seconds),
            "near pairs": pairwise_accuracy(-seen[near], np.array(pool.seconds)[near]),
        }

    def _row(self, i: int, row: Any) -> Any:
        """What the regressors see: the features, the variant, and the knobs."""
        knobs = np.zeros(self._width)
        knobs[: len(row)] = np.log2(np.maximum(row, 1))
        which = np.eye(len(self.variants))[i]
        return np.concatenate([self.variants[i].features(row[None, :])[0], which, knobs]).astype(np.float32)

    @cached_property
    def _width(self) -> int:
        return max(len(v.domains) for v in self.variants)

    def true(self, trace: str, seed: int) -> float:
        """Seconds of a candidate, in the world of a seed."""
        steps = tl.Trace.from_json(trace)
        place = _place(self.variants, steps)
        assert place is not None
        i, row = place
        known = self.known.get((i, tuple(row.tolist())))
        if known is None:
            drawn = np.random.default_rng([zlib.crc32(trace.encode()), seed]).normal()
            known = float(self.regressors(self._row(i, row)[None, :])[0]) + self.off * drawn
        return math.exp(known)


class Looks:
    """Measures candidates of a world in the place of worker processes; ``times`` are those of the candidates
    in the order of their first measurements."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.seed = world, seed
        self.rng = np.random.default_rng([zlib.crc32(world.pool.name.encode()), seed])
        self.times: dict[str, float] = {}

    def run(self, jobs: Iterable[Job]) -> Iterator[Outcome]:
        """The times of the jobs, with noise."""
        for job in jobs:
            if job.trace not in self.times:
                self.times[job.trace] = self.world.true(job.trace, self.seed)
            seen = self.times[job.trace] * np.exp(self.rng.normal(0.0, NOISE, 3))
            yield Outcome(job.id, "ok", times=tuple(map(float, seen)))


class _Regressors:
    """Boosters that learn the logarithm of a time, of the columns that tell candidates apart.

    The middle, not the mean: of a hundred looks two are one and a half times off, as where processors shared
    a core for a moment, and all candidates around would be. Of two thousand candidates of three tasks the
    times of a fifth, held out, are off by 0.015 to 0.028 in the middle; by squares, and with a forest beside,
    which took ten times as long, by 0.021 to 0.042."""

    def __init__(self, table: Any, logs: Any) -> None:
        import xgboost

        # fast ones weigh more: it matters which of the good ones is best
        weight = 0.1 + np.exp(logs.min() - logs)
        telling = np.nonzero((table != table[0]).any(axis=0))[0]
        self.columns = telling[np.unique(table[:, telling], axis=1, return_index=True)[1]]
        self.level = float(np.average(logs, weights=weight))
        data = xgboost.DMatrix(table[:, self.columns], label=logs - self.level, weight=weight, nthread=1)
        self.boosters = xgboost.train(LEARNT, data, ROUNDS)

    def __call__(self, table: Any) -> Any:
        return self.level + self.boosters.inplace_predict(table[:, self.columns]).astype(np.float64)
