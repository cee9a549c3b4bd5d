"""Every task in turn: the baseline. Knows progress only."""

from __future__ import annotations

from .progress import Progress


class RoundRobin:
    """The task with the fewest batches, the first of those."""

    def __init__(self, seed: int = 0) -> None:
        pass

    def choose(self, tasks: list[Progress], open_: list[int]) -> int:
        """The next in turn."""
        return min(open_, key=lambda i: (tasks[i].begun, i))
