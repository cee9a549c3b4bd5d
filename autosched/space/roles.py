"""How knobs of each role are changed by a mutation: one function a role, on whole columns. Knows domains only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Column = Any  # np.ndarray of int64: positions in the domain's values
Mutation = Callable[[np.random.Generator, Any, Column], Column]


def tile(rng: np.random.Generator, values: Any, at: Column) -> Column:
    """A neighbour, half or double, or anything."""
    n = len(at)
    now = values[at]
    kind = rng.integers(0, 4, n)
    wanted = np.select(
        [kind == 0, kind == 1, kind == 2],
        [now + rng.choice(np.array([-1, 1]), n), now * 2, now // 2],
        values[rng.integers(0, len(values), n)],
    )
    return np.searchsorted(values, wanted).clip(0, len(values) - 1)


def choice(rng: np.random.Generator, values: Any, at: Column) -> Column:
    """Any other value."""
    return (at + rng.integers(1, max(2, len(values)), len(at))) % len(values)


MUTATIONS: dict[str, Mutation] = {
    "tile": tile,
    "unroll": tile,
    "parallel": tile,
    "vector": choice,
    "categorical": choice,
    "location": choice,
}


def mutate(rng: np.random.Generator, role: str, values: Any, column: Any) -> Any:
    """New values for a column of one knob."""
    at = np.searchsorted(values, column).clip(0, len(values) - 1)
    return values[MUTATIONS.get(role, tile)(rng, values, at)]
