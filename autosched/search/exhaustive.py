"""Every candidate in the order of its numbers: for small spaces, and to know what a search missed. Knows
variants."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..space import Variant
from .strategy import Rows, Score, Seen

LARGEST = 1 << 22  # rows of a variant that are looked through; of a larger one the first ones


@dataclass(frozen=True)
class Exhaustive:
    """All valid rows, ``block`` at a time; scores are ignored."""

    block: int = 1 << 14

    def propose(
        self, variant: Variant, n: int, rng: np.random.Generator, score: Score | None, seen: Seen
    ) -> Rows:
        """The next new valid rows."""
        sizes = np.array([len(d.values) for d in variant.domains], np.int64)
        total = int(min(variant.size, LARGEST))
        found = np.empty((0, len(variant.domains)), np.int64)
        for at in range(0, total, self.block):
            number = np.arange(at, min(at + self.block, total), dtype=np.int64)
            columns = []
            for d, size in zip(
                variant.domains[::-1], sizes[::-1], strict=True
            ):  # the last knob turns fastest
                number, digit = np.divmod(number, size)
                columns.append(d.values[digit])
            rows = np.stack(columns[::-1], axis=1) if columns else np.empty((len(number), 0), np.int64)
            found = np.concatenate([found, seen.fresh(rows[variant.valid(rows)])])
            if len(found) >= n:
                break
        return found[:n]
