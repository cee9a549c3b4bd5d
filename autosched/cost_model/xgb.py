"""Gradient-boosted trees on the features: the only file that imports xgboost, and only when a model is first used (it takes
seconds).

Learns ``best time / time``, 0 for failures, and weighs fast candidates more: it matters which of the good ones is best, not how
bad the bad ones are. Trained anew on everything at each call: a few hundred rows take some tens of milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np


class XGBModel:
    """One thread and a fixed seed, so that the same measurements give the same model."""

    ROUNDS = 80
    PARAMETERS: ClassVar[dict[str, Any]] = {
        "max_depth": 6,
        "eta": 0.15,
        "min_child_weight": 0.5,
        "subsample": 0.9,
        "colsample_bytree": 0.6,
        "lambda": 1.0,
        "tree_method": "hist",
        "max_bin": 64,
        "nthread": 1,
        "objective": "reg:squarederror",
        "verbosity": 0,
    }

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.booster: Any = None

    def prepare(self) -> None:
        """Import xgboost."""
        _library()

    def fit(self, features: Any, costs: Any) -> None:
        """Learn from all rows."""
        costs = np.asarray(costs, np.float64)
        good = np.isfinite(costs)
        if good.sum() < 2:
            return
        score = np.where(good, costs[good].min() / np.where(good, costs, 1.0), 0.0)
        xgboost = _library()
        data = xgboost.DMatrix(np.asarray(features, np.float32), label=score, weight=0.2 + score, nthread=1)
        self.booster = xgboost.train({**self.PARAMETERS, "seed": self.seed}, data, self.ROUNDS)

    def predict(self, features: Any) -> Any:
        """The predicted share of the best speed; zeros before anything was learnt."""
        if self.booster is None or not len(features):
            return np.zeros(len(features))
        return self.booster.inplace_predict(np.asarray(features, np.float32)).astype(np.float64)

    def weights(self, names: Sequence[str]) -> dict[str, float]:
        """The share of each feature in the gain of all splits."""
        if self.booster is None:
            return {}
        gains = self.booster.get_score(importance_type="total_gain")
        total = sum(gains.values()) or 1.0
        return {names[int(k[1:])]: v / total for k, v in sorted(gains.items(), key=lambda kv: -kv[1])}


def _library() -> Any:
    import xgboost

    return xgboost
