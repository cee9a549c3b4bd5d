"""What random programs draw. Knows numpy's generators only."""

from __future__ import annotations

from typing import Any

import numpy as np


class Chance:
    """Draws from the generator of a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def choice(self, of: Any) -> Any:
        return of[int(self.rng.integers(len(of)))]

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def number(self, low: int, high: int) -> int:
        """From ``low`` up to but not with ``high``."""
        return int(self.rng.integers(low, high))
