"""Simulated annealing on the model's score (Kirkpatrick, Gelatt and Vecchi, "Optimization by Simulated
Annealing", Science 220, 1983; AutoTVM's choice, Chen et al., NeurIPS 2018, section 3.3): many walkers at
once, as rows of a matrix. The search had it until ``strategies`` said that it finds what evolution does, in
three times the processor time. Knows variants and scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autosched.search import Random, Seen
from autosched.search.roles import mutate_rows
from autosched.search.strategy import Rows, Score
from autosched.space import Variant


@dataclass(frozen=True)
class Annealing:
    """``walkers`` take ``steps`` while the temperature falls from ``hot`` to ``cold`` (in units of the
    score)."""

    walkers: int = 256
    steps: int = 40
    hot: float = 0.5
    cold: float = 0.01

    def propose(
        self, variant: Variant, n: int, rng: np.random.Generator, score: Score | None, seen: Seen
    ) -> Rows:
        """The best new rows that any walker stood on."""
        at = np.concatenate([seen.best(n), variant.sample_valid(rng, self.walkers)])[: self.walkers]
        if score is None or not len(at):
            return Random().propose(variant, n, rng, None, seen)
        now = score(at)
        visited, scores = [at], [now]
        # geometric cooling: as many steps for each factor of the temperature
        for t in np.geomspace(self.hot, self.cold, self.steps):
            there = mutate_rows(rng, variant, at, 1.0)
            new = score(there)
            # Metropolis' rule for all walkers at once; the minimum keeps the exponential of a better score
            # from overflowing
            go = variant.valid(there) & (rng.random(len(at)) < np.exp(np.minimum(0.0, (new - now) / t)))
            at, now = np.where(go[:, None], there, at), np.where(go, new, now)
            visited.append(at)
            scores.append(now)
        rows = np.concatenate(visited)[np.argsort(-np.concatenate(scores), kind="stable")]
        return seen.fresh(rows)[:n]
