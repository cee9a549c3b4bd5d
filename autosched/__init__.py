"""autosched: finds schedules for tensorlang by search, a learned cost model and measurement.

``tune(SearchTask(func, args, target, template=…), trials=64, records="f.jsonl")``, then
``task.apply_best("f.jsonl")``. Uses tensorlang's public names only.
"""

from __future__ import annotations

import sys

from . import entries
from .autotune import autotune
from .dynamic import DynamicKernel, ShapeProfile, specialise, tune_dynamic
from .guess import best_guess, compile
from .records import Record, RecordLog
from .reporting.report import TuneResult
from .task import SearchTask, register_workload
from .task_scheduler import TasksResult, tune_tasks
from .tune import tune
from .tuning.extract import extract_tasks
from .tuning.warm_start import model_from

__all__ = [
    "DynamicKernel",
    "Record",
    "RecordLog",
    "SearchTask",
    "ShapeProfile",
    "TasksResult",
    "TuneResult",
    "autotune",
    "best_guess",
    "compile",
    "extract_tasks",
    "model_from",
    "register_workload",
    "specialise",
    "tune",
    "tune_dynamic",
    "tune_tasks",
]

entries.close_all(sys.modules[__name__])
