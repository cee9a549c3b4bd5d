"""Gradient-boosted trees on the features, learnt by xgboost (see ``boosters``). The trees are those of Chen
and Guestrin, "XGBoost: A Scalable Tree Boosting System", KDD 2016; that they rank candidates is section 5.2
of Ansor (OSDI 2020).

A model begins with what the analysis says a candidate ought to cost, a column of the features. Boosters
learn by how much that is off, as a factor: one from other tasks, a group of measurements each (``learn``), or
from a file; the package ships one, trained by ``python -m benchmarks.autosched model``, and most of what it
says is believed. A small one learns of the present task what is left then (``fit``), so that the first
rounds are informed, and every measurement makes it more the task's own. Scores are logarithms of speed. Fast
candidates weigh more: it matters which of the good ones is best, not how bad the bad ones are. Raising the
score where several small boosters disagree brought nothing (0.98 of the gain on real kernels, 1.00 to 1.01 on
predicted times; see ``benchmarks.autosched.strategies``), so there is one.

Measured on a Zen 4 and a Granite Rapids, candidates of a task timed in turns by several processes, each kind
of task held out in its turn: the sum that the analysis makes puts 66 % of pairs in order (73 % of those that
are 5 % apart), and its first guess is 91 % as fast as the best that was measured, the best of five 94 %; with
the boosters of other tasks 70 % (78 %), 92 % and 96 %. After 16 measurements it is 77 % (86 %) and 96 %, the
best of five 98 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from .boosters import Booster, library
from .features import PRIOR

SHIPPED = Path(__file__).with_name("shipped.json")
Group = tuple[Any, Any]  # the features and the costs of the candidates of one task


class XGBModel:
    """One thread and a fixed seed, so that the same measurements give the same model. ``start``: the file of
    what is known of other tasks, None for nothing; ``prior``: the column of what a candidate ought to cost,
    as the logarithm to base 2, None where there is none."""

    ROUNDS, OWN_ROUNDS = 300, 30
    BELIEVED = 0.85  # of what other tasks say: more helps on machines like theirs, and harms on others
    FAILED = 4.0  # times the slowest: what a candidate counts as that did not work
    PARAMETERS: ClassVar[dict[str, Any]] = {
        # interactions of many features tell candidates of one variant apart; leaves of some thirty candidates
        # keep such trees from learning single tasks
        "max_depth": 8,
        "eta": 0.06,
        "min_child_weight": 20,
        "subsample": 0.8,
        # many features say nearly the same: each split sees a few of them, so that what is said of other
        # kinds of tasks does not hang on one that told these apart by chance
        "colsample_bynode": 0.1,
        "lambda": 1.0,
        "tree_method": "hist",
        "max_bin": 64,
        "nthread": 1,
        "objective": "reg:squarederror",
        "base_score": 0.0,
        "verbosity": 0,
    }
    OWN: ClassVar[dict[str, Any]] = {
        # shallow and heavily regularised: it learns from 16 candidates at first
        "max_depth": 3,
        "eta": 0.2,
        "lambda": 3.0,
        "min_child_weight": 0.5,
        "subsample": 0.9,
        "colsample_bytree": 0.6,
        "colsample_bynode": 1.0,
    }

    def __init__(self, seed: int = 0, start: str | Path | None = SHIPPED, prior: int | None = PRIOR) -> None:
        self.seed, self.start, self.prior = seed, start, prior
        self.base: Booster | None = None
        self.own: Booster | None = None
        self.level = 0.0  # of the present task, against what was known before

    @property
    def informed(self) -> bool:
        """Whether it can tell candidates apart before any of the present task was measured."""
        return self.prior is not None or self.base is not None or self.start is not None

    def prepare(self) -> None:
        """Load xgboost and read the file."""
        library()
        self._load()

    def learn(self, groups: Sequence[Group]) -> None:
        """Start from the measurements of other tasks, a group each, in place of what it started from
        before."""
        groups = [(x, c) for x, c in groups if np.isfinite(c).sum() >= 2]
        tables = [np.asarray(x, np.float32) for x, _ in groups]
        weight = [_weight(c) for _, c in groups]
        off = [_seconds(c) - self._prior(x) for x, (_, c) in zip(tables, groups, strict=True)]
        # less the mean of each task: how fast a machine or a task is as a whole says nothing of which
        # candidate to take
        label = np.concatenate([o - np.average(o, weights=w) for o, w in zip(off, weight, strict=True)])
        how = {**self.PARAMETERS, "seed": self.seed}
        self.start = None
        self.base = Booster.learnt(how, np.concatenate(tables), label, np.concatenate(weight), self.ROUNDS)

    def save(self, file: str | Path) -> None:
        """Write what it knows of other tasks, for ``start``."""
        self._load()
        assert self.base is not None
        self.base.save(file)

    def fit(self, features: Any, costs: Any) -> None:
        """Learn from all rows of the present task."""
        costs = np.asarray(costs, np.float64)
        if np.isfinite(costs).sum() < 2:
            return
        table, weight = np.asarray(features, np.float32), _weight(costs)
        left = _seconds(costs) - self._known(table)
        # the constant apart, so that the trees need not spend their splits on it
        self.level = float(np.average(left, weights=weight))
        how = {**self.PARAMETERS, **self.OWN, "seed": self.seed}
        self.own = Booster.learnt(how, table, left - self.level, weight, self.OWN_ROUNDS)

    def predict(self, features: Any) -> Any:
        """The logarithm of the predicted speed; zeros when it knows nothing."""
        if not len(features):
            return np.zeros(0)
        table = np.asarray(features, np.float32)
        known = self._known(table) + self.level
        return -known if self.own is None else -known - self.own.predict(table).astype(np.float64)

    def weights(self, names: Sequence[str]) -> dict[str, float]:
        """The share of each feature in the gain of all splits, of what is known of other tasks and of this
        one alike."""
        total: dict[str, float] = {}
        for booster in (self.base, self.own):
            gains = {} if booster is None else booster.gains()
            whole = sum(gains.values()) or 1.0
            for k, v in gains.items():
                total[names[k]] = total.get(names[k], 0.0) + v / whole
        whole = sum(total.values()) or 1.0
        return {k: v / whole for k, v in sorted(total.items(), key=lambda kv: -kv[1])}

    def _prior(self, table: Any) -> Any:
        """The logarithm of the seconds that the analysis expects, but for a constant."""
        return (
            np.zeros(len(table)) if self.prior is None else np.log(2.0) * table[:, self.prior].astype(float)
        )

    def _known(self, table: Any) -> Any:
        """The same, with what other tasks say; without that when there are none, or when they were seen with
        other features."""
        self._load()
        known = self._prior(table)
        # a file of another version's features says nothing of these columns
        if self.base is not None and self.base.num_features() == table.shape[1]:
            known += self.BELIEVED * self.base.predict(table)
        return known

    def _load(self) -> None:
        if self.start is not None:
            self.base = Booster.read(self.start)
            self.start = None


def _seconds(costs: Any) -> Any:
    """The logarithm of the seconds, also of candidates that did not work."""
    costs = np.asarray(costs, np.float64)
    good = np.isfinite(costs)
    return np.log(np.where(good, costs, XGBModel.FAILED * costs[good].max(initial=1e-12)))


def _weight(costs: Any) -> Any:
    """More for fast ones: a fifth and the share of the best speed."""
    costs = np.asarray(costs, np.float64)
    return 0.2 + costs[np.isfinite(costs)].min(initial=np.inf) / costs
