"""What each part of the search is worth on real kernels: the same trials without it, several seeds; the
winners of all arms timed in turns by processes that know nothing of the searches. It takes a quiet machine,
so a few arms on a few tasks: what ``strategies`` says in worlds is made sure of here. Knows autosched's parts
by their options."""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from autosched import SearchTask, tune
from autosched.measure import Measurer, Stages

from .arms import ARMS, Arm
from .chains import said
from .suites import declared

PROCESSES = 3
RESAMPLED = 2000  # times, for confidence intervals
Entry = dict[str, Any]


def ablate(
    names: Iterable[str], trials: int, seeds: Iterable[int], arms: list[str], file: Path
) -> list[Entry]:
    """How many times as fast as the default schedule the winner of each arm is, for each task and seed.
    Entries that the file had are kept."""
    found: list[Entry] = json.loads(file.read_text())["runs"] if file.exists() else []
    have = {(e["task"], e["seed"]) for e in found}
    for name in names:
        task = SearchTask.of(declared(name), name=name)
        for seed in seeds:
            if (name, seed) in have:
                continue
            won, spent = {}, {}
            for arm in arms:
                begin = time.perf_counter()
                steps = _winner(task, ARMS[arm], trials, seed)
                spent[arm] = round(time.perf_counter() - begin, 2)
                if steps is not None:
                    won[arm] = steps
            told, _ = said(name, ["", *won.values()], None, PROCESSES)
            gains = {a: statistics.median(t["ratios"][i + 1] for t in told) for i, a in enumerate(won)}
            found.append({"task": name, "seed": seed, "gains": gains, "seconds": spent})
            print(found[-1], flush=True)
    return found


def _winner(task: SearchTask, arm: Arm, trials: int, seed: int) -> str | None:
    """The steps of the best; None where the arm has no space."""
    if not arm.space(task):
        return None
    with (
        Measurer(Stages(run="benchmarks.autosched.urgent:run")) as measurer,
        arm.made(),
        patch("autosched.tuning.session.variants_of", arm.space),
    ):
        result = tune(
            task,
            trials=trials,
            seed=seed,
            measurer=measurer,
            progress=False,
            strategy=arm.strategy(),
            model=arm.model(seed),
            batch=arm.batch,
        )
    return None if result.best is None else result.best.steps


def table(found: list[Entry]) -> str:
    """How many times slower the winner is without each part, by task, and the geometric mean with its 95 %
    confidence interval over tasks and seeds."""
    tasks = list(dict.fromkeys(e["task"] for e in found))
    arms = list(dict.fromkeys(a for e in found for a in e["gains"]))
    lines = [f"{'slower without':<24}" + "".join(f"{t:>14}" for t in tasks) + f"{'mean':>22}"]
    rng = np.random.default_rng(0)
    for arm in arms:
        logs = {t: [] for t in tasks}  # type: dict[str, list[float]]
        for e in found:
            if arm in e["gains"]:
                logs[e["task"]].append(math.log(e["gains"][arms[0]] / e["gains"][arm]))
        cells = [f"{math.exp(np.mean(x)):>14.3f}" if x else f"{'–':>14}" for x in logs.values()]
        every = np.array([x for of in logs.values() for x in of])
        means = every[rng.integers(0, len(every), (RESAMPLED, len(every)))].mean(axis=1)
        low, high = np.exp(np.quantile(means, [0.025, 0.975]))
        mean = f"{math.exp(every.mean()):.3f} {low:.3f}–{high:.3f}"
        lines.append(f"{arm:<24}{''.join(cells)}{mean:>22}")
    return "\n".join(lines)
