"""Shares the candidates of a round out among the variants of a task. Knows variants, strategies and scores.

The very first candidate is the values the author of the first variant wrote, whatever the limits say: nothing
that is found may be slower. Where no model knows anything, the first candidate of every variant follows in
turn, then random ones. Else the variants that the model believes in propose, and the best-scored of all
proposals are taken, whatever variant they are of, but few of one of which nothing was measured. What it has
learnt of loops says little of another algorithm: of each the first variant is measured before all else, as
its author wrote it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..space import Variant
from .random import Random
from .strategy import Rows, Score, Seen, Strategy, known_score, known_scores

BEST = 8  # of the measured candidates of a variant tell what is hoped of it
SEARCHED = 5  # variants that are searched in a round
NEW = 2  # candidates of a round that one of several variants may have of which nothing was measured
GLANCE = 128  # random rows of which the best is taken
Proposals = list[tuple[int, Rows]]  # (number of the variant, one row)


def allocate(
    variants: Sequence[Variant],
    seen: Sequence[Seen],
    strategy: Strategy,
    n: int,
    rng: np.random.Generator,
    scores: Sequence[Score] | None,
) -> Proposals:
    """Up to ``n`` new candidates, each a variant's number and a row, the most promising first."""
    if scores is None:
        return _first(variants, seen, n, rng)
    pooled = [Seen(len(v.domains)) for v in variants]
    for s, p in zip(seen, pooled, strict=True):
        p.add(s.rows, s.costs)
    chosen: Proposals = []
    if not any(
        len(s.rows) for s in seen
    ):  # whatever a model believes, what its author wrote is where a search begins
        chosen = [(0, row) for row in variants[0].present()]
    if len(chosen) >= n:
        return chosen[:n]
    chosen += _of_new_algorithms(variants, seen)[: n - len(chosen)]
    for i, row in chosen:
        pooled[i].add(row[None, :], [0.0])
    found: list[tuple[float, int, Rows]] = []
    for i in _promising(variants, seen, scores):
        v = variants[i]
        rows = strategy.propose(v, n, rng, scores[i], seen[i])
        if len(rows):
            found += [(-float(x), i, row) for x, row in zip(known_score(scores[i], rows), rows, strict=True)]
    found.sort(key=lambda f: f[:2])  # stable: what a variant put first stays first
    left = [n if len(s.rows) or len(variants) == 1 else NEW for s in seen]
    for _, i, row in found:
        if len(chosen) < n and left[i] and len(pooled[i].fresh(row[None, :])):
            chosen.append((i, row))
            pooled[i].add(row[None, :], [0.0])
            left[i] -= 1
    # each round begins with another variant: the number of all candidates has grown
    begin = sum(len(s.rows) for s in seen)
    return chosen + _in_turn(variants, pooled, n - len(chosen), rng, begin, scores)


def _of_new_algorithms(variants: Sequence[Variant], seen: Sequence[Seen]) -> Proposals:
    """The values that were written for the first variant of each algorithm of which nothing was measured."""
    known = {
        variants[0].algorithm,
        *(v.algorithm for v, s in zip(variants, seen, strict=True) if len(s.rows)),
    }
    chosen: Proposals = []
    for i, v in enumerate(variants):
        if v.algorithm not in known:
            known.add(v.algorithm)
            rows = v.present()
            chosen += [(i, row) for row in rows[v.valid(rows)]]
    return chosen


def _promising(variants: Sequence[Variant], seen: Sequence[Seen], scores: Sequence[Score]) -> list[int]:
    """The variants with the best-scored of their measured rows, and of some others."""
    if len(variants) <= SEARCHED:
        return list(range(len(variants)))
    told = known_scores(
        scores, [np.concatenate([s.best(BEST), v.some]) for s, v in zip(seen, variants, strict=True)]
    )
    hopes = [float(x.max()) if len(x) else -np.inf for x in told]
    return sorted(range(len(variants)), key=lambda i: (-hopes[i], i))[:SEARCHED]


def _first(variants: Sequence[Variant], seen: Sequence[Seen], n: int, rng: np.random.Generator) -> Proposals:
    pooled = [Seen(len(v.domains)) for v in variants]
    chosen: Proposals = []
    for i, v in enumerate(variants):
        pooled[i].add(seen[i].rows, seen[i].costs)
        own = v.present()
        for row in pooled[i].fresh(own if i == 0 else own[v.valid(own)]):
            if len(chosen) < n:
                chosen.append((i, row))
                pooled[i].add(row[None, :], [0.0])
    return chosen + _in_turn(variants, pooled, n - len(chosen), rng)


def _in_turn(
    variants: Sequence[Variant],
    pooled: Sequence[Seen],
    n: int,
    rng: np.random.Generator,
    start: int = 0,
    scores: Sequence[Score] | None = None,
) -> Proposals:
    """One random row of each variant after the other, the best-scored of several where there are scores,
    until there are enough or nobody has any."""
    chosen: Proposals = []
    i, without = start, 0
    while len(chosen) < n and without < len(variants):
        k = i % len(variants)
        rows = Random().propose(variants[k], 1 if scores is None else GLANCE, rng, None, pooled[k])
        rows = rows if scores is None or not len(rows) else rows[[np.argmax(scores[k](rows))]]
        without = 0 if len(rows) else without + 1
        for row in rows:
            chosen.append((k, row))
            pooled[k].add(row[None, :], [0.0])
        i += 1
    return chosen
