"""Seconds of one kernel over its open sizes, learnt from some measured shapes. Plain numbers; knows no
kernels and no plans.

A sum of terms with weights that are not negative, one for each product of sizes that the kernel's work is
made of (a call, a row, an element of a tile …), each also by the whole tiles it is computed in: what a
careful hand would write down as its cost. What that leaves of a measured time, log(measured / sum), is the
machine's own (caches, alignment, the vectors of a tail), and is alike for shapes that are near: a mean over
the measured ones, weighted by how near they are and drawn to none where there are few, corrects it.

Trees of XGBoost in its place were measured on unseen shapes and do not earn it: from some forty shapes, the
mean loss of the choice among all variants is, for (scores, weighted values, softmax, bias + gelu,
convolution), 4.3, 4.5, 2.3, 1.1, 0.3 % with the mean, 9.8, 7.9, 2.0, 1.3, 0.8 % with trees for each kernel,
5.8, 6.6, 2.6, 1.1, 0.6 % with trees over all of them, 6.2, 7.1, 2.1, 1.2, 0.6 % with the sum alone, and 8.7,
6.7, 5.3, 3.2, 0.4 % with the nearest three and the product of the sizes as work: some forty times are too few
for trees, which cannot say more than a step either.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

NEAR = 0.7  # the width of what is near, in logarithms of sizes: a factor of two
DRAW = 0.3  # measured shapes' worth of no correction
ROUNDS = 100  # of the solver, far more than there are terms

Term = tuple[int, ...]  # the sizes that are multiplied, by number, as often as they are
Step = tuple[int, int]  # a size, and the tile it is computed in


def terms_of(work: Iterable[Sequence[int]]) -> tuple[Term, ...]:
    """The products that make up work: those of the whole and of its parts, for what is done once a row is
    done less often than what is done once an element."""
    found = {
        part
        for term in work
        for n in range(1, len(term) + 1)
        for part in itertools.combinations(sorted(term), n)
    }
    return tuple(sorted(found, key=lambda t: (len(t), t)))


@dataclass(frozen=True)
class Growth:
    """What was learnt: ``weights`` of the terms, and the correction ``left`` at the measured ``shapes`` [n,
    dims]."""

    terms: tuple[Term, ...]
    steps: tuple[Step, ...]
    weights: Any
    shapes: Any
    left: Any

    @staticmethod
    def of(shapes: Any, seconds: Any, terms: Sequence[Term], steps: Sequence[Step] = ()) -> Growth:
        """From ``seconds`` [n] at ``shapes`` [n, dims]; relative errors count."""
        made = Growth(tuple(terms), tuple(steps), None, np.asarray(shapes), None)
        columns = made._columns(made.shapes)
        # divided by the measured time: each equation says 1, so that relative errors count
        weights = nonnegative(columns / np.asarray(seconds)[:, None], np.ones(len(columns)))
        return Growth(
            made.terms,
            made.steps,
            weights,
            made.shapes,
            np.log(seconds) - np.log(np.maximum(columns @ weights, 1e-12)),
        )

    def at(self, shapes: Any) -> Any:
        """Predicted seconds [n] of ``shapes`` [n, dims]."""
        sums = np.maximum(self._columns(shapes) @ self.weights, 1e-12)
        here, there = (np.log(np.maximum(np.asarray(s, dtype=np.float64), 1)) for s in (shapes, self.shapes))
        # in logarithms: 64 is as far from 128 as 512 from 1024
        near = np.exp(-((here[:, None] - there) ** 2).sum(axis=2) / (2 * NEAR**2))
        # with nothing near the correction fades to none, and the plain sum stands (Nadaraya and Watson's
        # mean, drawn to 0)
        return sums * np.exp(near @ self.left / (near.sum(axis=1) + DRAW))

    def _columns(self, shapes: Any) -> Any:
        """What each weight is multiplied with, [n, terms]: one, each term, each term with one of its sizes or
        all of them rounded up to tiles."""
        sizes = np.asarray(shapes, dtype=np.float64)
        over = [
            (dim, np.ceil(np.maximum(sizes[:, dim], 1) / step) * step / np.maximum(sizes[:, dim], 1))
            for dim, step in self.steps
        ]
        columns = [np.ones(len(sizes))]
        for term in self.terms:
            plain = sizes[:, list(term)].prod(axis=1)
            tiled = [factor for dim, factor in over if dim in term]
            columns += [
                plain,
                *(plain * t for t in tiled),
                *([plain * np.prod(tiled, axis=0)] if len(tiled) > 1 else []),
            ]
        return np.stack(columns, axis=1)


def nonnegative(a: Any, b: Any) -> Any:
    """The x without negative elements that makes ``a @ x`` nearest to ``b``: the active set method of Lawson
    and Hanson, "Solving least squares problems" (1974), chapter 23."""
    # columns differ by the products of sizes, ten orders and more
    scale = np.maximum(np.abs(a).max(axis=0), 1e-300)
    a = a / scale
    x, free = np.zeros(a.shape[1]), np.zeros(a.shape[1], dtype=bool)
    for _ in range(ROUNDS):
        gain = np.where(free, -np.inf, a.T @ (b - a @ x))
        best = int(gain.argmax())
        # no weight that is 0 would make the error less if it grew: Kuhn and Tucker's condition
        if gain[best] <= 1e-9:
            break
        free[best] = True
        while True:
            trial = np.zeros_like(x)
            trial[free] = np.linalg.lstsq(a[:, free], b, rcond=None)[0]
            below = free & (trial <= 0)
            if not below.any():
                break
            # as far towards the trial as no weight becomes negative; those that reach 0 leave
            step = (x[below] / np.maximum(x[below] - trial[below], 1e-300)).min()
            x = x + step * (trial - x)
            free &= x > 1e-12
            x[~free] = 0
        x = trial
    return x / scale
