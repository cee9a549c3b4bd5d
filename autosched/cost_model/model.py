"""What the search asks of a cost model. Knows matrices only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

Matrix = Any  # np.ndarray


class CostModel(Protocol):
    """Learns from measured candidates, scores others. Higher scores are faster. What is slow is loaded by
    its ``prepare()``, where it has one, in a thread of its own before anything else."""

    def fit(self, features: Matrix, costs: Matrix) -> None:
        """Learn from all that was measured so far: a row of features and the seconds of each candidate,
        infinite for one that failed."""

    def predict(self, features: Matrix) -> Matrix:
        """A score for each row."""


@runtime_checkable
class Informed(Protocol):
    """A model that may know something before the first measurement."""

    informed: bool


@runtime_checkable
class Explains(Protocol):
    """A model that can say what it goes by."""

    def weights(self, names: Sequence[str]) -> dict[str, float]:
        """The share of each feature in its decisions, heaviest first; ``names`` are those of the columns.
        Empty before it has learnt."""
