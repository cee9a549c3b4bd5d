"""Gradient-boosted trees on the features: the only file that imports xgboost, and only when a model is first
used (it takes seconds).

A model has two parts. What it knows of other tasks is one booster, learnt from groups of measurements
(``learn``) or read from a file; the package ships one, trained by ``python -m benchmarks.autosched model``.
What it learns of the present task are a few small boosters of what the first leaves unexplained (``fit``), so
that the first rounds are informed, and every measurement makes it more the task's own. Both predict ``best
time / time``, 0 for failures, and weigh fast candidates more: it matters which of the good ones is best, not
how bad the bad ones are. Measured on tasks held out: squared error puts 77 % of pairs in order, a pairwise
ranking objective 73 %. Where the small boosters disagree nobody has looked yet, and the score is raised by a
part of their spread (the upper confidence bound of Srinivas et al., ICML 2010).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

SHIPPED = Path(__file__).with_name("shipped.json")
Group = tuple[Any, Any]  # the features and the costs of the candidates of one task


class XGBModel:
    """One thread and a fixed seed, so that the same measurements give the same model. ``start``: the file of
    what is known of other tasks, None for nothing; ``optimism``: by how much of the spread of its members the
    score is raised."""

    ROUNDS, OWN_ROUNDS, MEMBERS = 100, 30, 2
    PARAMETERS: ClassVar[dict[str, Any]] = {
        "max_depth": 4,
        "eta": 0.12,
        "min_child_weight": 4,
        "subsample": 0.8,
        "colsample_bytree": 0.3,
        "lambda": 1.0,
        "tree_method": "hist",
        "max_bin": 64,
        "nthread": 1,
        "objective": "reg:squarederror",
        "base_score": 0.0,
        "verbosity": 0,
    }
    OWN: ClassVar[dict[str, Any]] = {
        "max_depth": 5,
        "eta": 0.2,
        "min_child_weight": 0.5,
        "subsample": 0.9,
        "colsample_bytree": 0.6,
    }

    def __init__(self, seed: int = 0, start: str | Path | None = SHIPPED, optimism: float = 0.25) -> None:
        self.seed, self.start, self.optimism = seed, start, optimism
        self.base: Any = None
        self.members: list[Any] = []
        self.level = 0.0  # of the present task, against what the base says

    @property
    def informed(self) -> bool:
        """Whether it can tell candidates apart before any of the present task was measured."""
        return self.base is not None or self.start is not None

    def prepare(self) -> None:
        """Import xgboost and read the file."""
        _library()
        self._load()

    def learn(self, groups: Sequence[Group]) -> None:
        """Start from the measurements of other tasks, a group each, in place of what it started from
        before."""
        xgboost = _library()
        groups = [(x, c) for x, c in groups if np.isfinite(c).sum() >= 2]
        label = np.concatenate([_share(c) for _, c in groups])
        table = np.concatenate([np.asarray(x, np.float32) for x, _ in groups])
        data = xgboost.DMatrix(table, label=label, weight=0.2 + label, nthread=1)
        self.start, self.base = None, xgboost.train({**self.PARAMETERS, "seed": self.seed}, data, self.ROUNDS)

    def save(self, file: str | Path) -> None:
        """Write what it knows of other tasks, for ``start``."""
        self._load()
        self.base.save_model(str(file))

    def fit(self, features: Any, costs: Any) -> None:
        """Learn from all rows of the present task."""
        costs = np.asarray(costs, np.float64)
        if np.isfinite(costs).sum() < 2:
            return
        xgboost = _library()
        table, label = np.asarray(features, np.float32), _share(costs)
        weight = 0.2 + label
        left = label - self._known(table)
        self.level = float(np.average(left, weights=weight))
        data = xgboost.DMatrix(table, label=left - self.level, weight=weight, nthread=1)
        every = {**self.PARAMETERS, **self.OWN}
        self.members = [
            xgboost.train({**every, "seed": self.seed + 1000 * i}, data, self.OWN_ROUNDS)
            for i in range(self.MEMBERS)
        ]

    def predict(self, features: Any) -> Any:
        """The predicted share of the best speed, raised where the model is unsure; zeros when it knows
        nothing."""
        if not len(features):
            return np.zeros(0)
        table = np.asarray(features, np.float32)
        known = self._known(table) + self.level
        if not self.members:
            return known
        said = np.stack([m.inplace_predict(table).astype(np.float64) for m in self.members])
        return known + said.mean(axis=0) + self.optimism * said.std(axis=0)

    def weights(self, names: Sequence[str]) -> dict[str, float]:
        """The share of each feature in the gain of all splits, of what is known of other tasks and of this
        one alike."""
        total: dict[str, float] = {}
        for booster, part in [(self.base, 1.0), *[(m, 1.0 / len(self.members)) for m in self.members]]:
            gains = {} if booster is None else booster.get_score(importance_type="total_gain")
            whole = sum(gains.values()) or 1.0
            for k, v in gains.items():
                total[names[int(k[1:])]] = total.get(names[int(k[1:])], 0.0) + part * v / whole
        whole = sum(total.values()) or 1.0
        return {k: v / whole for k, v in sorted(total.items(), key=lambda kv: -kv[1])}

    def _known(self, table: Any) -> Any:
        """What other tasks say; zeros when there are none, or when they were seen with other features."""
        self._load()
        if self.base is None or self.base.num_features() != table.shape[1]:
            return np.zeros(len(table))
        return self.base.inplace_predict(table).astype(np.float64)

    def _load(self) -> None:
        if self.start is not None:
            self.base = _library().Booster(model_file=str(self.start), params={"nthread": 1})
            self.start = None


def _share(costs: Any) -> Any:
    """``best / cost``, 0 for failures."""
    costs = np.asarray(costs, np.float64)
    good = np.isfinite(costs)
    return np.where(good, costs[good].min(initial=np.inf) / np.where(good, costs, 1.0), 0.0)


def _library() -> Any:
    import xgboost

    return xgboost
