"""Random search: the baseline. Knows variants."""

from __future__ import annotations

import numpy as np

from ..space import Variant
from .strategy import Rows, Score, Seen


class Random:
    """Valid rows at random; scores are ignored."""

    def propose(
        self, variant: Variant, n: int, rng: np.random.Generator, score: Score | None, seen: Seen
    ) -> Rows:
        """New valid rows."""
        found = np.empty((0, len(variant.domains)), np.int64)
        # a small space may have fewer than n rows that were not seen: some rounds, then whatever was found
        for _ in range(10):
            found = seen.fresh(np.concatenate([found, variant.sample_valid(rng, 4 * n)]))
            if len(found) >= n:
                break
        return found[:n]
