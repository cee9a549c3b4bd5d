"""Evolution with random rows among its proposals: for collections of measurements, which are to show what is
slow as well. A search that only looks for the best gains nothing by them. Knows variants and scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autosched.search import Evolutionary, Random, Seen
from autosched.search.strategy import Rows, Score
from autosched.space import Variant


@dataclass(frozen=True)
class Sprinkled:
    """A ``share`` of the rows is random."""

    share: float

    def propose(
        self, variant: Variant, n: int, rng: np.random.Generator, score: Score | None, seen: Seen
    ) -> Rows:
        """The best-scored new rows, and some random ones at the end."""
        best = Evolutionary().propose(variant, n - round(n * self.share), rng, score, seen)
        # the random ones must not repeat what was just chosen
        also = Seen(len(variant.domains))
        also.add(np.concatenate([seen.rows, best]), np.zeros(len(seen.rows) + len(best)))
        return np.concatenate([best, Random().propose(variant, n - len(best), rng, None, also)])
