"""What a policy sees of a task: how its best time fell with the batches spent on it. Knows numbers only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass
class Progress:
    """``bests[i]`` is the best time in seconds after batch i, infinite while nothing works; ``begun`` counts
    batches that were begun, of which the last may still be on its way. ``kind`` is equal for tasks of the
    same structure."""

    weight: float
    flops: float
    kind: Any = None
    bests: list[float] = field(default_factory=list)
    begun: int = 0

    @property
    def best(self) -> float:
        """The best time so far."""
        return self.bests[-1] if self.bests else float("inf")


class Policy(Protocol):
    """Chooses whose turn it is."""

    def choose(self, tasks: list[Progress], open_: list[int]) -> int:
        """The number of one of the tasks in ``open_``, which is not empty."""
