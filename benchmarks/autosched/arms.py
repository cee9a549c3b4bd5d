"""The search with a part of it left out or exchanged, an arm each: what ``strategies`` and ``ablation``
compare with the search as it is. Knows autosched's parts by their options, and a few by their inside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np

from autosched.cost_model import CostModel, RandomModel, XGBModel, xgb
from autosched.search import Evolutionary, Random, Strategy, allocation
from autosched.space import Variant

from .annealing import Annealing

LOOKED_AT = 4096  # random rows of which the best are taken, where there is no evolution


@dataclass(frozen=True)
class Arm:
    """Who proposes, who learns (of a seed), which variants are left of the space (and how they are narrowed),
    how many candidates a round has, and what else is exchanged: values of attributes by their object."""

    strategy: Callable[[], Strategy] = Evolutionary
    model: Callable[[int], CostModel] = XGBModel
    space: Callable[[Sequence[Variant]], Sequence[Variant]] = lambda variants: variants
    batch: int = 16
    patches: Mapping[tuple[Any, str], Any] = field(default_factory=dict)

    @contextmanager
    def made(self) -> Iterator[None]:
        """What is exchanged, for a while."""
        with ExitStack() as stack:
            for (where, name), value in self.patches.items():
                stack.enter_context(patch.object(where, name, value))
            yield


class Best:
    """The best-scored of random rows: a model without evolution."""

    def propose(self, variant: Variant, n: int, rng: np.random.Generator, score: Any, seen: Any) -> Any:
        """As many rows are looked at as evolution would."""
        if score is None:
            return Random().propose(variant, n, rng, None, seen)
        rows = seen.fresh(variant.sample_valid(rng, LOOKED_AT))
        return rows[np.argsort(-score(rows), kind="stable")[:n]]


class Unlearning(XGBModel):
    """Knows what it knew before, and learns nothing of the task at hand."""

    def fit(self, features: Any, costs: Any) -> None:
        """Nothing."""


def _unpacked(variants: Sequence[Variant]) -> list[Variant]:
    return [v for v in variants if not any(p.name == "cache_read" for p in v.trace.steps)]


def _divisors(variants: Sequence[Variant]) -> Sequence[Variant]:
    """Only tile sizes that divide the extent they are the tile of."""
    for v in variants:
        for d in v.domains:
            most = int(d.values.max())
            whole = [n for n in d.values.tolist() if most % n == 0]
            object.__setattr__(d, "values", np.array(whole or d.values, np.int64))
    return variants


ARMS: dict[str, Arm] = {
    "all": Arm(),
    # who proposes
    "annealing": Arm(Annealing),
    "best of random rows": Arm(Best),
    "random": Arm(Random, RandomModel),
    "twice as long": Arm(lambda: Evolutionary(generations=6)),
    "half as many": Arm(lambda: Evolutionary(population=64)),
    "no random share": Arm(lambda: Evolutionary(epsilon=0.0)),
    # what is known and learnt
    "no shipped model": Arm(model=lambda seed: XGBModel(seed, start=None)),
    "no analysis": Arm(model=lambda seed: XGBModel(seed, start=None, prior=None)),
    "learns nothing": Arm(model=Unlearning),
    "slow ones weigh as much": Arm(patches={(xgb, "_weight"): lambda costs: np.ones(len(costs))}),
    # who gets the trials
    "no turns": Arm(patches={(allocation, "EXPLORE"): 0.0}),
    "no half": Arm(patches={(allocation, "MOST"): 1.0}),
    "three variants a round": Arm(patches={(allocation, "SEARCHED"): 3}),
    "no algorithm first": Arm(patches={(allocation, "_of_new_algorithms"): lambda variants, seen: []}),
    "like ones too": Arm(patches={(allocation, "APART"): 0.0}),
    "none of four": Arm(
        lambda: Evolutionary(epsilon=0.0),
        patches={(allocation, "EXPLORE"): 0.0, (allocation, "APART"): 0.0, (allocation, "MOST"): 1.0},
    ),
    # what there is to try
    "no packing rule": Arm(space=_unpacked),
    "divisors only": Arm(space=_divisors),
}
