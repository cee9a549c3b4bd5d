"""How good a model's scores are against measured times. Knows arrays only."""

from __future__ import annotations

from typing import Any

import numpy as np


def pairwise_accuracy(scores: Any, costs: Any, apart: float = 0.0, within: float = np.inf) -> float:
    """The share of pairs of different cost that the scores put in the right order; half for a tie in the
    scores. 1 when there is no pair. ``apart``: only pairs of which one takes so much longer count (0.05: 5
    %), where measurements repeat no better; ``within``: and no more than so much longer."""
    s, c = np.asarray(scores, np.float64), np.asarray(costs, np.float64)
    a, b = np.triu_indices(len(c), 1)
    longer, shorter = np.maximum(c[a], c[b]), np.minimum(c[a], c[b])
    differ = (longer > (1.0 + apart) * shorter) & (longer <= (1.0 + within) * shorter)
    a, b = a[differ], b[differ]
    if not len(a):
        return 1.0
    agreed = np.sign(s[a] - s[b]) * np.where(c[a] < c[b], 1, -1)
    return float(np.mean((agreed + 1) / 2))


def top_share(scores: Any, costs: Any, k: int = 5) -> float:
    """The best cost of all divided by the best among the ``k`` highest scores: 1 when the model finds the
    best."""
    s, c = np.asarray(scores, np.float64), np.asarray(costs, np.float64)
    # stable: ties keep their order, so that the figure is the same in every run
    chosen = np.argsort(-s, kind="stable")[:k]
    return float(c.min() / c[chosen].min())
