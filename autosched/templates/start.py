"""Starting values of sampled sizes. Knows axes only."""

from __future__ import annotations

from tensorlang import te


def at_most(axis: te.IterVar, value: int) -> int:
    """``value``, or the whole axis when that is shorter (a run-time size counts as long enough)."""
    extent = getattr(axis.extent, "value", value)
    return max(1, min(value, int(extent)))
