"""What strategies and parts of the search are worth, in worlds that were learnt of measured candidates (see
``worlds``): tasks by seeds by arms with equal trials on a machine would take days of it, and its drift would
hide what is looked for.

An arm is worth two figures, each with a confidence interval over tasks and seeds: how many times as long its
winner takes, and how many trials the whole search needs for as good a one. What holds here must hold of real
kernels before anything is dropped; see ``ablation``. Knows autosched's parts by their options.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from autosched import RecordLog
from autosched.tuning.budget import Budget
from autosched.tuning.session import Session, measured

from .arms import ARMS
from .worlds import Looks, World
from .worlds import load as pools_of

LOOKS = (16, 32, 64)  # trials after which the winner is looked at
RESAMPLED = 2000  # times, for confidence intervals
TIMEOUT = 20.0
Entry = dict[str, Any]


def compare(
    tasks: Iterable[str], seeds: int, arms: Iterable[str], pools: Path, file: Path, trials: int = LOOKS[-1]
) -> list[Entry]:
    """The entries of a file of JSON lines, those that it did not have appended one by one: a run that was
    broken off goes on where it ended."""
    lines = file.read_text().splitlines() if file.exists() else []
    found: list[Entry] = [json.loads(line) for line in lines]
    have = {(e["task"], e["seed"], e["arm"]) for e in found}
    known = pools_of(pools)
    for name in tasks or known:
        wanted = [(s, a) for s in range(seeds) for a in arms if (name, s, a) not in have]
        world = World(known[name]) if wanted else None
        for seed, arm in wanted:
            assert world is not None
            new = searched(world, seed, arm, trials)
            found += new
            with file.open("a") as out:
                out.writelines(json.dumps(e) + "\n" for e in new)
    return found


def searched(world: World, seed: int, arm: str, trials: int) -> list[Entry]:
    """The seconds of the best after each trial, of the world; nothing where an arm has no space."""
    how = ARMS[arm]
    variants = how.space(world.task)
    if not variants:
        return []
    looks = Looks(world, seed)
    begin = time.process_time()
    with how.made():
        model = how.model(seed)
        session = Session(world.task, RecordLog(None), how.strategy(), model, seed, TIMEOUT, variants)
        for _ in measured(looks, Budget(trials, how.batch, None, None).batches(session)):
            pass
    spent = time.process_time() - begin
    best = np.minimum.accumulate(list(looks.times.values()))
    curve = [float(f"{t:.5g}") for t in best]
    return [{"task": world.pool.name, "seed": seed, "arm": arm, "best": curve, "processor": round(spent, 2)}]


def judged(found: list[Entry]) -> list[Entry]:
    """For each arm: how many times as long its winner takes as that of the first arm after so many trials,
    the geometric mean over tasks and seeds with its 95 % confidence interval (tasks, then seeds are drawn
    anew); how many trials of the first arm give as good a winner, as a share of the trials, likewise; and the
    processor time of a search."""
    every = {(e["arm"], e["task"], e["seed"]): e for e in found}
    arms = list(dict.fromkeys(e["arm"] for e in found))
    return [{"arm": arm, **_judged(every, arms[0], arm), "processor": _seconds(found, arm)} for arm in arms]


def _judged(every: dict[tuple[str, str, int], Entry], first: str, arm: str) -> Entry:
    pairs: dict[str, list[tuple[Any, Any]]] = {}
    for (a, task, seed), e in every.items():
        if a == arm and (first, task, seed) in every:
            pairs.setdefault(task, []).append((_logs(every[first, task, seed]), _logs(e)))
    rng, groups = np.random.default_rng(0), [np.array(p) for p in pairs.values()]
    curves = [_means(groups)]
    for _ in range(RESAMPLED):
        drawn = [groups[i] for i in rng.integers(0, len(groups), len(groups))]
        curves.append(_means([g[rng.integers(0, len(g), len(g))] for g in drawn]))
    slower = {n: np.exp([c[1][n - 1] - c[0][n - 1] for c in curves]) for n in LOOKS}
    trials = np.array([_reached(*c) for c in curves])
    interval = lambda x: [float(v) for v in (x[0], *np.quantile(x[1:], [0.025, 0.975]))]
    by_task = {t: float(np.exp(np.mean([b[-1] - a[-1] for a, b in p]))) for t, p in pairs.items()}
    return {
        "tasks": len(groups),
        "runs": sum(len(g) for g in groups),
        "slower": {str(n): interval(x) for n, x in slower.items()},
        "trials": interval(trials),
        "by task": by_task,
    }


def _logs(e: Entry) -> Any:
    """The logarithm of the best after each trial; a space that was exhausted has no better one."""
    logs = np.log(e["best"])[: LOOKS[-1]]
    return np.pad(logs, (0, LOOKS[-1] - len(logs)), mode="edge")


def _means(groups: list[Any]) -> Any:
    """The mean curves of the first arm and of another one, each task as much as any other."""
    return np.mean([g.mean(axis=0) for g in groups], axis=0)


def _reached(first: Any, other: Any) -> float:
    """The share of the trials after which the first arm is as good as the other one at the end; above 1 where
    it never is, by the slope of the later half."""
    there = np.nonzero(first <= other[-1])[0]
    if len(there):
        return float(there[0] + 1) / len(first)
    half = len(first) // 2
    slope = (first[half - 1] - first[-1]) / math.log(2.0)
    return min(2.0, math.exp((first[-1] - other[-1]) / slope)) if slope > 0 else 1.0


def _seconds(found: list[Entry], arm: str) -> float:
    return float(np.mean([e["processor"] for e in found if e["arm"] == arm]))


def merged(file: Path, section: str, rows: list[Entry]) -> dict[str, list[Entry]]:
    """The sections of a file of results with these rows in one of them: in the place of rows of their arms,
    or behind those of others. What was not measured now is kept, other sections whole: of searches as they
    were before, say, whose code is gone and whose runs were judged from ``--records``."""
    known = json.loads(file.read_text()) if file.exists() else {}
    kept = {name: found for name, found in known.items() if isinstance(found, list)}
    new = {r["arm"]: r for r in rows}
    old = {r["arm"]: r for r in kept.get(section, [])}
    return {**kept, section: list({**old, **new}.values())}


def table(rows: list[Entry]) -> str:
    """A line an arm."""
    cell = lambda x: f"{x[0]:.3f} {x[1]:.3f}–{x[2]:.3f}".rjust(22)
    head = "".join(f"{f'slower after {n}':>22}" for n in LOOKS)
    lines = [f"{'arm':<24}{head}{'as good after':>22}{'tasks':>6}{'seconds':>8}"]
    for r in rows:
        cells = "".join(cell(r["slower"][str(n)]) for n in LOOKS) + cell(r["trials"])
        lines.append(f"{r['arm']:<24}{cells}{r['tasks']:>6}{r['processor']:>8.2f}")
    return "\n".join(lines)
