"""autosched: finds schedules for tensorlang by search, a learned cost model and measurement.

``tune(SearchTask(func, args, target, template=…), trials=64, records="f.jsonl")``, then
``task.apply_best("f.jsonl")``. Uses tensorlang's public names only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorlang.lazy import offer

if TYPE_CHECKING:  # the names below are loaded when they are asked for
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

# which file has which public names
_PLACES = {
    "autotune": ("autotune",),
    "dynamic": ("DynamicKernel", "ShapeProfile", "specialise", "tune_dynamic"),
    "guess": ("best_guess", "compile"),
    "records": ("Record", "RecordLog"),
    "reporting.report": ("TuneResult",),
    "task": ("SearchTask", "register_workload"),
    "task_scheduler": ("TasksResult", "tune_tasks"),
    "tune": ("tune",),
    "tuning.extract": ("extract_tasks",),
    "tuning.warm_start": ("model_from",),
}
# rooms that are not part of the promise, but are there
_ROOMS = """
cost_model dynamic entries guess measure records reporting search
space task task_scheduler tuning whole_files
"""
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

offer(__name__, _PLACES, _ROOMS.split())
