"""The protocol of strategies, and the memory of what was proposed. Knows variants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from ..space import Variant

Rows = Any  # np.ndarray of int64, [candidates, knobs]
Score = Callable[[Rows], Any]


class ByFeatures:
    """A score that a model gives by the features of a variant's rows."""

    def __init__(self, predict: Callable[[Any], Any], variant: Variant) -> None:
        self.predict, self.variant = predict, variant

    def __call__(self, rows: Rows) -> Any:
        return self.predict(self.variant.features(rows))


def known_score(score: Score, rows: Rows) -> Any:
    """The score of rows that are asked about in every round: their features are made once."""
    return score.predict(score.variant.remembered(rows)) if isinstance(score, ByFeatures) else score(rows)


def known_scores(scores: Sequence[Score], rows: Sequence[Rows]) -> list[Any]:
    """The same of rows of several variants, for each those of its score. One model is asked once: a call of
    it takes a millisecond however few rows it has."""
    models = [s.predict for s in scores if isinstance(s, ByFeatures)]
    if len(models) < len(scores) or any(m != models[0] for m in models):
        return [known_score(s, r) if len(r) else np.empty(0) for s, r in zip(scores, rows, strict=True)]
    tables = [s.variant.remembered(r) for s, r in zip(scores, rows, strict=True) if isinstance(s, ByFeatures)]
    ends = np.cumsum([len(r) for r in rows])
    return np.split(np.asarray(models[0](np.concatenate(tables))), ends[:-1]) if ends[-1] else list(rows)


class Strategy(Protocol):
    """Proposes candidates of a variant."""

    def propose(
        self, variant: Variant, n: int, rng: np.random.Generator, score: Score | None, seen: Seen
    ) -> Rows:
        """Up to ``n`` valid rows that were not seen, the most promising first. ``score`` is None until
        something was learnt."""


class Seen:
    """The rows of one variant that were measured, with their costs, and the test for new ones."""

    def __init__(self, width: int) -> None:
        self.rows = np.empty((0, width), np.int64)
        self.costs = np.empty(0)

    def add(self, rows: Rows, costs: Any) -> None:
        """Remember measured rows."""
        self.rows = np.concatenate(
            [self.rows, np.asarray(rows, np.int64).reshape(len(rows), self.rows.shape[1])]
        )
        self.costs = np.concatenate([self.costs, np.asarray(costs, np.float64)])

    def fresh(self, rows: Rows) -> Rows:
        """The rows that were not seen, each once, in their order."""
        if not len(rows):
            return rows
        rows = rows[distinct(rows)]
        if not rows.shape[1]:
            return rows[: 0 if len(self.rows) else 1]
        return rows[~np.isin(_keys(rows), _keys(self.rows))] if len(self.rows) else rows

    def best(self, n: int) -> Rows:
        """The fastest rows that gave the right answer."""
        order = np.argsort(self.costs, kind="stable")[:n]
        return self.rows[order[np.isfinite(self.costs[order])]]


def distinct(rows: Rows) -> Any:
    """The numbers of the first of all equal rows, ascending."""
    if not rows.shape[1]:
        return np.arange(min(1, len(rows)))
    _, first = np.unique(_keys(rows), return_index=True)
    return np.sort(first)


def _keys(rows: Rows) -> Any:
    rows = np.ascontiguousarray(rows)
    return rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
