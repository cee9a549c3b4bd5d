"""A cost model that begins with what was measured of other tasks. Knows tasks, spaces, records and models;
nothing of search or measurement.

Features are in the same units for every task, so their candidates can be learnt from together: each task's
times count relative to its own best.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tensorlang as tl
from tensorlang.boundary import shown
from tensorlang.errors import counted

from ..cost_model import XGBModel
from ..records import Record
from ..records.database import load, ranked
from ..space import variants_of
from ..task import SearchTask
from .adopted import Adopted
from .budget import check_seed


def model_from(
    tasks: Sequence[SearchTask], records: str | Path | Iterable[Record], seed: int = 0
) -> XGBModel:
    """A model for ``tune(task, model=…)`` that has learnt from the records of ``tasks``, in place of the one
    in the package.

    Raises TensorLangError when the records hold nothing of these tasks.
    """
    if not isinstance(records, str | Path | Iterable):
        raise tl.TensorLangError(
            f"model_from(records={shown(records)}): neither a file nor records",
            try_="autosched.model_from(tasks, 'f.jsonl'), or autosched.RecordLog('f.jsonl')",
        )
    check_seed("model_from", seed)
    listed = load(records)[0] if isinstance(records, str | Path) else list(records)
    groups = [features_of(task, listed) for task in tasks]
    if not any(np.isfinite(costs).sum() >= 2 for _, costs in groups):
        raise tl.TensorLangError(
            "model_from: nothing to learn from",
            because=f"{counted(len(listed), 'record')}, and of no task two that are right",
            try_="the records of a tune of these tasks, with the same sizes and target",
        )
    model = XGBModel(seed, start=None)
    model.learn(groups)
    return model


def features_of(task: SearchTask, records: Iterable[Record]) -> tuple[Any, Any]:
    """A row of features for each candidate of the task's space that was measured, and its seconds, infinite
    for one that failed. Records of other tasks, and of candidates that the space does not have, are passed
    over."""
    variants = variants_of(task)
    own = Adopted(task, [v.trace for v in variants]).own(records)
    mine = {r.steps: r for r in own}
    mine |= {r.steps: r for r in ranked(own, task.workload_key, str(task.target))}
    rows: list[list[Any]] = [[] for _ in variants]
    costs: list[list[float]] = [[] for _ in variants]
    for r in mine.values():
        trace = r.trace()
        for i, v in enumerate(variants):
            row = v.row(trace.decisions) if trace.steps == v.trace.steps else None
            if row is not None:
                rows[i].append(row)
                costs[i].append(r.cost)
                break
    found = [v.features(np.stack(x)) for v, x in zip(variants, rows, strict=True) if x]
    table = np.concatenate(found) if found else np.empty((0, len(variants[0].feature_names)), np.float32)
    return table, np.array([c for part in costs for c in part])
