"""The search with a part of it left out or exchanged, an arm each: what ``strategies`` and ``ablation``
compare with the search as it is. Knows autosched's parts by their options, and a few by their inside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np

from autosched import SearchTask
from autosched.cost_model import CostModel, RandomModel, XGBModel
from autosched.search import Evolutionary, Random, Strategy, allocation
from autosched.space import Variant, variants_of

from .annealing import Annealing

LOOKED_AT = 4096  # random rows of which the best are taken, where there is no evolution


@dataclass(frozen=True)
class Arm:
    """Who proposes, who learns (of a seed), the variants of a task that are left (and how they are narrowed),
    how many candidates a round has, and what else is exchanged: values of attributes by their object."""

    strategy: Callable[[], Strategy] = Evolutionary
    model: Callable[[int], CostModel] = XGBModel
    space: Callable[[SearchTask], Sequence[Variant]] = variants_of
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


def _unpacked(task: SearchTask) -> list[Variant]:
    return [v for v in variants_of(task) if not any(p.name == "cache_read" for p in v.trace.steps)]


def _whole(task: SearchTask) -> Sequence[Variant]:
    """Only tile sizes that divide an extent of the computation, also where its author wrote others."""
    extents, open_, variants = set[int](), list(task.tensors), variants_of(task)
    while open_:
        op = open_.pop().op
        open_ += op.input_tensors
        extents |= {int(str(a.extent)) for a in (*getattr(op, "axis", ()), *getattr(op, "reduce_axis", ()))}
    for v in variants:
        for d in v.domains:
            whole = [n for n in d.values.tolist() if any(e % n == 0 for e in extents)]
            object.__setattr__(d, "values", np.array(whole or d.values, np.int64))
        row = v.adopt(v.decisions(v.present()[0]))
        setattr(v, "present", lambda row=row: row[None, :])  # noqa: B010
    return variants


ARMS: dict[str, Arm] = {
    "all": Arm(),
    # who proposes
    "annealing": Arm(Annealing),
    "best of random rows": Arm(Best),
    "random": Arm(Random, RandomModel),
    "twice as long": Arm(lambda: Evolutionary(generations=6)),
    "half as many": Arm(lambda: Evolutionary(population=64)),
    # what is known and learnt
    "no shipped model": Arm(model=lambda seed: XGBModel(seed, start=None)),
    "no analysis": Arm(model=lambda seed: XGBModel(seed, start=None, prior=None)),
    "learns nothing": Arm(model=Unlearning),
    # who gets the trials
    "three variants a round": Arm(patches={(allocation, "SEARCHED"): 3}),
    "no algorithm first": Arm(patches={(allocation, "_of_new_algorithms"): lambda variants, seen: []}),
    # what there is to try
    "no packing rule": Arm(space=_unpacked),
    "whole tiles only": Arm(space=_whole),
}
