"""Ratios as people want them: geometric mean, fifth percentile, worst. Knows numbers only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def summary(name: str, ratios: Sequence[float]) -> str:
    """One line."""
    r = np.array(ratios)
    mean, low = np.exp(np.log(r).mean()), np.percentile(r, 5)
    return f"  {name:<34} geometric mean {mean:.3f}   5th percentile {low:.3f}   worst {r.min():.3f}   ({len(r)} shapes)"


def sizes(most: int, count: int, seed: int, always: Sequence[int] = ()) -> list[int]:
    """Log-uniform sizes up to ``most``, and those that are always among them."""
    rng = np.random.default_rng(seed)
    return sorted({*always, *np.exp(rng.uniform(0, np.log(most), count)).astype(int).tolist()})
