"""The model that knows nothing: the baseline every other one must beat."""

from __future__ import annotations

from typing import Any

import numpy as np


class RandomModel:
    """Random scores; the same seed draws the same ones."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)

    def prepare(self) -> None:
        """Nothing to load."""

    def fit(self, features: Any, costs: Any) -> None:
        """Learns nothing."""

    def predict(self, features: Any) -> Any:
        """A random score for each row."""
        return self.rng.random(len(features))
