"""Models and metrics: what they promise, on numbers made up."""

from __future__ import annotations

import numpy as np

from autosched.cost_model import RandomModel, XGBModel, pairwise_accuracy, top_share


def _data(seed: int, n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.random((n, 12)).astype(np.float32)
    cost = 1e-3 * (1 + 3 * np.abs(x[:, 0] - 0.5) + x[:, 1] * x[:, 2])
    cost[x[:, 3] > 0.9] = np.inf
    return x, cost


def test_xgb_learns_an_order_and_repeats_itself() -> None:
    x, cost = _data(0)
    test_x, test_cost = _data(1)
    scores = []
    for _ in range(2):
        m = XGBModel(3)
        assert not m.predict(test_x).any()
        m.fit(x, cost)
        scores.append(m.predict(test_x))
    assert (scores[0] == scores[1]).all()
    good = np.isfinite(test_cost)
    assert pairwise_accuracy(scores[0][good], test_cost[good]) > 0.8
    assert pairwise_accuracy(RandomModel(0).predict(test_x)[good], test_cost[good]) < 0.7


def test_nothing_worked_is_no_reason_to_fall() -> None:
    m = XGBModel()
    m.fit(np.zeros((3, 4)), np.full(3, np.inf))
    assert (m.predict(np.zeros((2, 4))) == 0).all() and len(m.predict(np.zeros((0, 4)))) == 0


def test_metrics() -> None:
    assert pairwise_accuracy([3, 2, 1], [1, 2, 3]) == 1.0
    assert pairwise_accuracy([1, 2, 3], [1, 2, 3]) == 0.0
    assert pairwise_accuracy([0, 0], [1, 2]) == 0.5
    assert pairwise_accuracy([1], [1]) == 1.0
    assert top_share([1, 5, 2], [1.0, 2.0, 4.0], 1) == 0.5 and top_share([1, 5, 2], [1.0, 2.0, 4.0], 3) == 1.0
