"""Schedules of records for whole models: what ``compile(records=…)`` and ``tune`` of a graph ask, by the
entry points ``tensorlang.makers`` and ``tensorlang.tuners``. Knows tasks and records; nothing of graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tensorlang as tl
from tensorlang import te
from tensorlang.boundary import shown

from .records import Record, RecordLog, load
from .task import SearchTask
from .task_scheduler import tune_tasks


def schedules(
    records: str | Path | Sequence[Record],
) -> Callable[[Sequence[te.Tensor], tl.Target], str | None]:
    """A function that gives the trace of the best right record of a computation on a target, None where no
    record fits. Raises TensorLangError when the file cannot be read."""
    listed = _records(records)
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


def _records(records: Any) -> list[Record]:
    """Records as they were given. Raises TensorLangError for anything else."""
    if isinstance(records, str | Path):
        listed, bad = load(records)
        if bad and not listed:
            raise tl.TensorLangError(
                f"compile(records={str(records)!r}): not a file of records",
                because=f"none of its {len(bad)} lines is a record",
                try_="the file that autosched.tune(task, records='f.jsonl') or g.tune('f.jsonl') wrote",
            )
        return listed
    if not isinstance(records, RecordLog | Sequence) or not all(isinstance(r, Record) for r in records):
        raise tl.TensorLangError(
            f"compile(records={shown(records)}): no records",
            try_="records='f.jsonl', the file that autosched.tune(task, records='f.jsonl') wrote",
        )
    return list(records)


def tune(
    kernels: Sequence[tuple[Sequence[te.Tensor], int]],
    target: tl.Target,
    records: str | Path,
    trials: int,
    progress: Any = False,
) -> None:
    """Search for schedules of kernels, with how often each is called, by ``trials`` measurements for each on
    the average; what is measured is in the file ``records``. Raises TensorLangError when none can be
    searched."""
    tasks = [SearchTask.of(tensors, target, name=tensors[-1].name) for tensors, _ in kernels]
    tune_tasks(tasks, [count for _, count in kernels], trials * len(tasks), records, progress=progress)
