"""Evolutionary search over an integer matrix, guided by the cost model: crossover, mutation by role,
selection, a share of random rows.

Knows variants and scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..space import Variant
from .random import Random
from .roles import mutate_rows, trade
from .strategy import Rows, Score, Seen, distinct


@dataclass(frozen=True)
class Evolutionary:
    """``population`` rows through ``generations``; ``survivors`` of the measured best start it; a share
    ``epsilon`` of the proposals is random, so that the model sees what it does not believe in."""

    population: int = 512
    generations: int = 5
    survivors: int = 32
    epsilon: float = 0.1
    mutation: float = 1.2  # knobs changed in a child, on average
    crossover: float = 0.5
    trades: float = 0.1  # children whose tiles trade a factor of two instead

    def propose(
        self, variant: Variant, n: int, rng: np.random.Generator, score: Score | None, seen: Seen
    ) -> Rows:
        """The best-scored new rows, and a few random ones at the end."""
        if score is None:
            return self._first(variant, n, rng, seen)
        guests = seen.guests[variant.valid(seen.guests)] if len(seen.guests) else seen.guests
        people = np.concatenate(
            [seen.best(self.survivors), guests, variant.sample_valid(rng, self.population)]
        )[: self.population]
        if not len(people):
            return people
        fitness = score(people)
        for _ in range(self.generations):
            children = self.children(variant, people, fitness, rng)
            people = np.concatenate([people, children])
            fitness = np.concatenate([fitness, score(children)])
            people, fitness = _best(people, fitness, self.population)
        lots = round(n * self.epsilon)
        chosen = seen.fresh(people)[: n - lots]
        also = Seen(len(variant.domains))
        also.add(np.concatenate([seen.rows, chosen]), np.zeros(len(seen.rows) + len(chosen)))
        return np.concatenate([chosen, Random().propose(variant, n - len(chosen), rng, None, also)])

    def _first(self, variant: Variant, n: int, rng: np.random.Generator, seen: Seen) -> Rows:
        # what the author of the schedule wrote is a guess worth a trial
        own = variant.present()
        rows = seen.fresh(np.concatenate([own[variant.valid(own)], variant.sample_valid(rng, 4 * n)]))
        return rows[:n]

    def children(self, variant: Variant, people: Rows, fitness: Any, rng: np.random.Generator) -> Rows:
        """As many valid children as there are people, or fewer."""
        n, width = people.shape
        rank = np.empty(n)
        rank[np.argsort(-fitness, kind="stable")] = np.arange(n)
        weight = 1.0 / (8.0 + rank)
        edges = np.cumsum(weight)
        parents = np.searchsorted(edges, rng.random((2, n)) * edges[-1], side="right").clip(0, n - 1)
        mother, father = people[parents[0]], people[parents[1]]
        crossed = (rng.random(n) < self.crossover)[:, None] & (rng.random((n, width)) < 0.5)
        born = np.where(crossed, father, mother)
        traded = rng.random(n) < self.trades
        born = np.where(
            traded[:, None], trade(rng, variant, born), mutate_rows(rng, variant, born, self.mutation)
        )
        return born[variant.valid(born)]


def _best(rows: Rows, fitness: Any, n: int) -> tuple[Rows, Any]:
    first = distinct(rows)
    rows, fitness = rows[first], fitness[first]
    order = np.argsort(-fitness, kind="stable")[:n]
    return rows[order], fitness[order]
