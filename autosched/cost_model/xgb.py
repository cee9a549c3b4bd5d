"""Gradient-boosted trees on the features, learnt by xgboost (see ``boosters``). The trees are those of Chen
and Guestrin, "XGBoost: A Scalable Tree Boosting System", KDD 2016; that they rank candidates is section 5.2
of Ansor (OSDI 2020).

Boosters learn from other tasks, a group of measurements each (``learn``), or are read from a file; the
package ships one, trained by ``python -m benchmarks.autosched model``. What they learn is no time but a
candidate's place among those of its task: the share of the others that are faster less the share that are
slower. So a task whose candidates take between one and thirty times as long as the best counts no more than
one where all is decided by five per cent. A small booster learns of the present task what is left then
(``fit``), as logarithms of seconds: places become those by the line through what was measured, so that the
first rounds are informed, and every measurement makes it more the task's own. Without a file, and with
features that it does not know, a model begins with what the analysis says a candidate ought to cost, a
column of the features. Scores are logarithms of speed. Neither fast candidates that weigh more than slow
ones nor a higher score where several small boosters disagree brought anything (see
``benchmarks.autosched.strategies``), so all weigh the same, and there is one.

A tenth of what the analysis expects is added to what they say: trees say the same of all that lies beyond
what they have seen, and places of all that are clearly slower. Without it 70.7 % of pairs of kinds held out
are in order instead of 71.4 (79.4 instead of 80.5 of those that are 5 % apart), and 72.1 instead of 73.8 of
nineteen operators on a Zen 5, of which and where nothing was learnt; two tenths are no better than one.

Measured on a Zen 4 and a Granite Rapids, candidates of a task timed in turns by several processes, each kind
of task held out in its turn: the sum that the analysis makes puts 65 % of pairs in order (72 % of those that
are 5 % apart), and its first guess is 90 % as fast as the best that was measured, the best of five 94 %; with
the boosters of other tasks 71 % (81 %), 94 % and 97 %. After 16 measurements it is 78 % (88 %) and 96 %, the
best of five 98 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from .boosters import Booster, library
from .features import PRIOR

SHIPPED = Path(__file__).with_name("shipped.json")
Group = tuple[Any, Any]  # the features and the costs of the candidates of one task


class XGBModel:
    """One thread and a fixed seed (xgboost takes 63 bits of it), so that the same measurements give the same
    model. ``start``: the file of what is known of other tasks, None for nothing; ``prior``: the column of
    what a candidate ought to cost, as the logarithm to base 2, None where there is none."""

    ROUNDS, OWN_ROUNDS = 300, 30
    CLEAR = 0.1  # by what share of its time one candidate is clearly before another
    SPREAD = 0.2  # the logarithm of seconds from the middle place of a task to the last, as long as unknown
    # the share of what the analysis expects that is added to what other tasks say: places tell what is
    # clearly slower no more apart, and trees say the same of all that lies beyond what they have seen
    SUMMED = 0.1
    SHRUNK = 40.0  # measurements that speak for that
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
        # what the former said of rows: a search asks of most again in every round, and only the latter learns
        self._said: dict[bytes, float] = {}
        # of the present task, against what was known before
        self.steep, self.level = 1.0, 0.0

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
        table = np.concatenate([np.asarray(x, np.float32) for x, _ in groups])
        label = np.concatenate([_places(_seconds(c)) for _, c in groups])
        how = {**self.PARAMETERS, "seed": self.seed % 2**63}
        self.start = None
        self.base, self._said = Booster.learnt(how, table, label, self.ROUNDS), {}

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
        table = np.asarray(features, np.float32)
        seconds, known = _seconds(costs), self._known(table)
        self.steep = _steep(known, seconds) if self._told(table) else 1.0
        left = seconds - self.steep * known
        # the constant apart, so that the trees need not spend their splits on it
        self.level = float(left.mean())
        how = {**self.PARAMETERS, **self.OWN, "seed": self.seed % 2**63}
        self.own = Booster.learnt(how, table, left - self.level, self.OWN_ROUNDS)

    def predict(self, features: Any) -> Any:
        """The logarithm of the predicted speed; zeros when it knows nothing."""
        if not len(features):
            return np.zeros(0)
        table = np.asarray(features, np.float32)
        known = self.steep * self._known(table) + self.level
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
        """What other tasks say, about as logarithms of seconds; what the analysis says where there are none,
        or where they were seen with other features."""
        if not self._told(table):
            return self._prior(table)
        assert self.base is not None
        prior = self.SUMMED * self._prior(table)
        keys = [blake2b(row, digest_size=16).digest() for row in np.ascontiguousarray(table)]
        new = {key: n for n, key in enumerate(keys) if key not in self._said}
        if new:
            said = self.base.predict(table[list(new.values())])
            self._said.update(zip(new, map(float, said), strict=True))
        return prior + self.SPREAD * np.array([self._said[key] for key in keys])

    def _told(self, table: Any) -> bool:
        """Whether other tasks say something of these columns: those of another version's features do not."""
        self._load()
        return self.base is not None and self.base.num_features() == table.shape[1]

    def _load(self) -> None:
        if self.start is not None:
            self.base, self._said = Booster.read(self.start), {}
            self.start = None


def _seconds(costs: Any) -> Any:
    """The logarithm of the seconds, also of candidates that did not work."""
    costs = np.asarray(costs, np.float64)
    good = np.isfinite(costs)
    return np.log(np.where(good, costs, XGBModel.FAILED * costs[good].max(initial=1e-12)))


def _places(seconds: Any) -> Any:
    """For each candidate the share of others that are faster less the share that are slower, where those
    hardly apart count little."""
    return np.tanh((seconds[:, None] - seconds) / XGBModel.CLEAR).mean(axis=1)


def _steep(known: Any, seconds: Any) -> float:
    """How many times as far apart the candidates of this task are as was expected of them: the slope of the
    line through what was measured, nearer to 1 the less that is."""
    x, y = known - known.mean(), seconds - seconds.mean()
    usual = XGBModel.SHRUNK * XGBModel.SPREAD**2 / 3  # the square of a place, on the average
    return max(0.1, (float((x * y).sum()) + usual) / (float((x * x).sum()) + usual))
