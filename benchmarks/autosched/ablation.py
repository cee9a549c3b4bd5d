"""What each part of the search is worth: the same trials without it, several seeds. Knows autosched's parts
by their options."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np

from autosched import SearchTask, tune
from autosched.cost_model import RandomModel, XGBModel
from autosched.measure import Measurer, Stages
from autosched.search import Evolutionary, Random
from autosched.space import Variant, variants_of

from .cases import task_of

Options = dict[str, Any]


@dataclass(frozen=True)
class Arm:
    """Options of ``tune`` for a seed, and which variants are left of the space (and how they are
    narrowed)."""

    options: Callable[[int], Options]
    space: Callable[[list[Variant]], list[Variant]] = lambda variants: variants


def _unpacked(variants: list[Variant]) -> list[Variant]:
    return [v for v in variants if not any(p.name == "cache_read" for p in v.trace.steps)]


def _divisors(variants: list[Variant]) -> list[Variant]:
    """Only tile sizes that divide the extent they are the tile of."""
    for v in variants:
        for d, kept in zip(v.domains, _dividing(v), strict=True):
            object.__setattr__(d, "values", kept)
    return variants


def _dividing(v: Variant) -> list[Any]:
    found = []
    for d in v.domains:
        most = int(d.values.max())
        whole = [n for n in d.values.tolist() if most % n == 0]
        found.append(np.array(whole or d.values, np.int64))
    return found


ARMS: dict[str, Arm] = {
    "all": Arm(lambda seed: {"model": XGBModel(seed)}),
    "no shipped model": Arm(lambda seed: {"model": XGBModel(seed, start=None)}),
    "no model": Arm(lambda seed: {"model": RandomModel(seed)}),
    "no evolution": Arm(lambda seed: {"model": XGBModel(seed), "strategy": Best()}),
    "no crossover": Arm(lambda seed: {"model": XGBModel(seed), "strategy": Evolutionary(crossover=0.0)}),
    "no packing rule": Arm(lambda seed: {"model": XGBModel(seed)}, _unpacked),
    "divisors only": Arm(lambda seed: {"model": XGBModel(seed)}, _divisors),
}


class Best:
    """The best-scored of random rows: a model without evolution."""

    def propose(self, variant: Variant, n: int, rng: np.random.Generator, score: Any, seen: Any) -> Any:
        """As many rows are looked at as evolution would."""
        if score is None:
            return Random().propose(variant, n, rng, None, seen)
        rows = seen.fresh(variant.sample_valid(rng, 4096))
        return rows[np.argsort(-score(rows), kind="stable")[:n]]


def ablate(names: list[str], trials: int, seeds: int, arms: list[str]) -> list[dict[str, Any]]:
    """The best cost of each arm on each case with each seed, and, against all parts together, the geometric
    mean of the slowdown."""
    found = []
    with Measurer(Stages(run="benchmarks.autosched.urgent:run")) as measurer:
        for name in names:
            possible = [
                arm for arm in arms if ARMS[arm].space(variants_of(task_of(name)))
            ]  # where every variant packs there is nothing without
            for seed in range(seeds):
                for arm in possible:
                    found.append(
                        {
                            "case": name,
                            "seed": seed,
                            "arm": arm,
                            "cost": _best(task_of(name), ARMS[arm], trials, seed, measurer),
                        }
                    )
                    print(found[-1], flush=True)
    return found


def _best(task: SearchTask, arm: Arm, trials: int, seed: int, measurer: Measurer) -> float:
    left = lambda t: arm.space(variants_of(t))
    with patch("autosched.tuning.session.variants_of", left):
        result = tune(task, trials=trials, seed=seed, measurer=measurer, progress=False, **arm.options(seed))
    return result.best.cost if result.best is not None else math.inf


def table(found: list[dict[str, Any]]) -> str:
    """How many times slower the best kernel is without each part, by case, and the geometric mean."""
    cases = list(dict.fromkeys(f["case"] for f in found))
    arms = list(dict.fromkeys(f["arm"] for f in found))
    cost = {
        (f["case"], f["arm"]): [g["cost"] for g in found if (g["case"], g["arm"]) == (f["case"], f["arm"])]
        for f in found
    }
    mean = {at: math.exp(np.mean(np.log(costs))) for at, costs in cost.items()}
    lines = [f"{'slower without':<18}" + "".join(f"{c:>18}" for c in cases) + f"{'mean':>8}"]
    for a in arms:
        slower = {c: mean[c, a] / mean[c, arms[0]] for c in cases if (c, a) in mean}
        cells = [f"{slower[c]:>18.3f}" if c in slower else f"{'–':>18}" for c in cases]
        lines.append(
            f"{a:<18}" + "".join(cells) + f"{math.exp(np.mean(np.log(list(slower.values())))):>8.3f}"
        )
    return "\n".join(lines)
