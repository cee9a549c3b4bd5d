"""Schedules of records for whole models: what ``compile(records=…)`` of a graph asks, by the entry point
``tensorlang.makers``. Knows tasks and records; nothing of graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import tensorlang as tl
from tensorlang import te

from .records import Record, load
from .task import SearchTask


def schedules(
    records: str | Path | Sequence[Record],
) -> Callable[[Sequence[te.Tensor], tl.Target], str | None]:
    """A function that gives the trace of the best right record of a computation on a target, None where no
    record fits. Raises TensorLangError when the file cannot be read."""
    listed = load(records)[0] if isinstance(records, str | Path) else list(records)
    known = {r.task for r in listed}

    def best(tensors: Sequence[te.Tensor], target: tl.Target) -> str | None:
        try:
            task = SearchTask.of(tensors, target)
            if known.isdisjoint((task.workload_key, task.exact_key)):
                return None
            return task.apply_best(listed)[0].trace.to_json()
        except tl.TensorLangError:  # nothing of the kind was measured, or nothing replays
            return None

    return best
