"""Evolutionary search over an integer matrix, guided by the cost model: mutation by role and selection (after
Zheng et al., "Ansor: Generating High-Performance Tensor Programs for Deep Learning", OSDI 2020, section 5.1,
without its crossover and its share of random rows: nothing better was found with them).

Knows variants and scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..space import Variant
from .random import Random
from .roles import mutate_rows
from .strategy import Rows, Score, Seen, distinct


@dataclass(frozen=True)
class Evolutionary:
    """``population`` rows through ``generations``; ``survivors`` of the measured best start it."""

    population: int = 128
    generations: int = 3
    survivors: int = 32
    mutation: float = 1.2  # knobs changed in a child, on average

    def propose(
        self, variant: Variant, n: int, rng: np.random.Generator, score: Score | None, seen: Seen
    ) -> Rows:
        """The best-scored new rows; fewer than ``n`` where the population has no more."""
        if score is None:
            return Random().propose(variant, n, rng, None, seen)
        # the measured best first: what is cut off are random ones
        population = np.concatenate([seen.best(self.survivors), variant.sample_valid(rng, self.population)])
        population = population[: self.population]
        if not len(population):
            return population
        fitness = score(population)
        for _ in range(self.generations):
            offspring = self.offspring(variant, population, fitness, rng)
            population = np.concatenate([population, offspring])
            fitness = np.concatenate([fitness, score(offspring)])
            population, fitness = _best(population, fitness, self.population)
        return seen.fresh(population)[:n]

    def offspring(self, variant: Variant, population: Rows, fitness: Any, rng: np.random.Generator) -> Rows:
        """As many valid offspring as the population has individuals, or fewer."""
        n = len(population)
        rank = np.empty(n)
        rank[np.argsort(-fitness, kind="stable")] = np.arange(n)
        # by rank and not by score: scores of a model trained on few trials differ by too little or too much.
        # The 8 keeps the first few from being parents of all
        weight = 1.0 / (8.0 + rank)
        edges = np.cumsum(weight)
        # one draw for all parents, by the running sum of the weights
        parents = np.searchsorted(edges, rng.random(n) * edges[-1], side="right").clip(0, n - 1)
        bred = mutate_rows(rng, variant, population[parents], self.mutation)
        # those that are not are left out and not mended: mending favours what is near the limits
        return bred[variant.valid(bred)]


def _best(rows: Rows, fitness: Any, n: int) -> tuple[Rows, Any]:
    first = distinct(rows)
    rows, fitness = rows[first], fitness[first]
    order = np.argsort(-fitness, kind="stable")[:n]
    return rows[order], fitness[order]
