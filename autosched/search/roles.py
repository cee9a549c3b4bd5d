"""How knobs of each role are changed by a mutation: one function a role, on whole columns. Knows domains
only.

Places (role ``location``) are structure: they make variants.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..space import Variant

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


def neighbour(rng: np.random.Generator, values: Any, at: Column) -> Column:
    """The next or the one before: unrolled copies and vectors change by one."""
    return (at + rng.choice(np.array([-1, 1]), len(at))).clip(0, len(values) - 1)


def share(rng: np.random.Generator, values: Any, at: Column) -> Column:
    """Half or double: how much work is in one parallel iteration matters by its order of magnitude."""
    wanted = np.where(rng.random(len(at)) < 0.5, values[at] * 2, values[at] // 2)
    return np.searchsorted(values, wanted).clip(0, len(values) - 1)


def choice(rng: np.random.Generator, values: Any, at: Column) -> Column:
    """Any other value."""
    return (at + rng.integers(1, max(2, len(values)), len(at))) % len(values)


def either(first: Mutation, second: Mutation) -> Mutation:
    """One of two, at random for each row."""
    return lambda rng, values, at: np.where(
        rng.random(len(at)) < 0.5, first(rng, values, at), second(rng, values, at)
    )


MUTATIONS: dict[str, Mutation] = {
    "tile": tile,
    "unroll": either(neighbour, tile),
    "parallel": share,
    "vector": either(neighbour, choice),
    "categorical": choice,
}


def mutate(rng: np.random.Generator, role: str, values: Any, column: Any) -> Any:
    """New values for a column of one knob."""
    at = np.searchsorted(values, column).clip(0, len(values) - 1)
    return values[MUTATIONS.get(role, tile)(rng, values, at)]


def mutate_rows(rng: np.random.Generator, variant: Variant, rows: Any, knobs: float) -> Any:
    """A copy of the rows with ``knobs`` of the knobs of each changed, on average; limits are not checked."""
    changed = rng.random(rows.shape) < knobs / max(1, rows.shape[1])
    born = rows.copy()
    for k, d in enumerate(variant.domains):
        which = np.nonzero(changed[:, k])[0]
        if len(which) and len(d.values) > 1:
            born[which, k] = mutate(rng, d.role, d.values, rows[which, k])
    return born
