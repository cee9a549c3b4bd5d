"""Trains the cost model that the package ships, and says how good it is on tasks it has not seen. Knows
autosched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from autosched.cost_model import XGBModel, pairwise_accuracy, top_share
from autosched.cost_model.xgb import SHIPPED
from autosched.records.database import load
from autosched.tuning.warm_start import features_of

from . import cases, samples

MEASURED = (0, 16, 32)  # candidates of the held-out task that are known
APART = 0.05  # measurements repeat to within a few percent: pairs that are nearer are also left out
PARTS = 7

Groups = dict[str, tuple[Any, Any]]


def groups(records: Path, held_out: Path | None) -> tuple[Groups, Groups]:
    """Features and costs of the tasks to learn from, and of the cases that the tuner is judged by."""
    known, seen = load(records)[0], load(held_out)[0] if held_out is not None and held_out.exists() else []
    targets = dict.fromkeys(r.target for r in known)
    train = {
        f"{name} on {target}": features_of(samples.task_of(name, target), known)
        for name in samples.TASKS
        for target in targets
    }
    test = {name: features_of(cases.task_of(name), seen) for name in cases.CASES} if seen else {}
    enough = lambda found: {n: g for n, g in found.items() if np.isfinite(g[1]).sum() >= MEASURED[-1]}
    return enough(train), enough(test)


def train(learnt: Groups) -> None:
    """Write the file in the package."""
    model = XGBModel(0, start=None)
    model.learn(list(learnt.values()))
    model.save(SHIPPED)


def judge(learnt: Groups, test: Groups) -> list[dict[str, Any]]:
    """Accuracy on each held-out task: those of ``learnt`` by turns (trained on all others but a seventh),
    those of ``test`` by all of it."""
    names = list(learnt)
    found = []
    for part in [names[i::PARTS] for i in range(PARTS)]:
        model = XGBModel(0, start=None)
        model.learn([learnt[n] for n in names if n not in part])
        found += [{"task": n, "held out": "in turn"} | _score(model, *learnt[n]) for n in part]
    if test:
        model = XGBModel(0, start=None)
        model.learn(list(learnt.values()))
        found += [{"task": n, "held out": "case"} | _score(model, *g) for n, g in test.items()]
    return found


def _score(model: XGBModel, features: Any, costs: Any) -> dict[str, float]:
    order = np.random.default_rng(0).permutation(len(costs))
    found: dict[str, float] = {}
    base, model.own, model.level = model.base, None, 0.0
    for n in MEASURED:
        model.base, model.own = base, None
        if n:
            model.fit(features[order[:n]], costs[order[:n]])
        rest = [i for i in order[n:] if np.isfinite(costs[i])]
        scores, seconds = model.predict(features[rest]), costs[rest]
        found |= {
            f"pairs after {n}": pairwise_accuracy(scores, seconds),
            f"apart after {n}": pairwise_accuracy(scores, seconds, APART),
            f"best of 5 after {n}": top_share(scores, seconds, 5),
        }
    return found


def table(found: list[dict[str, Any]]) -> str:
    """Means over the tasks, and each task before anything of it was measured."""
    keys = [k for k in found[0] if k not in ("task", "held out")]
    lines = [f"{f['task']:<28}{f['held out']:<9}" + "".join(f"{f[k]:>8.3f}" for k in keys) for f in found]
    for kind in dict.fromkeys(f["held out"] for f in found):
        mine = [f for f in found if f["held out"] == kind]
        lines.append(
            f"{'mean':<28}{kind:<9}" + "".join(f"{np.mean([f[k] for f in mine]):>8.3f}" for k in keys)
        )
    return "\n".join([" " * 37 + " ".join(keys), *lines])
