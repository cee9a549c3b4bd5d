"""Which names of autosched are public: each is guarded, and answers for what is not there, as those of
tensorlang (see ``tensorlang.boundary``). Knows the public names."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import tensorlang as tl
from tensorlang.boundary import answer, guard, guard_class, signpost

from .dynamic import DynamicKernel, ShapeProfile
from .records import Record, RecordLog
from .reporting.objects import attach_everything
from .reporting.report import TuneReport, TuneResult
from .task import SearchTask
from .task_scheduler import TasksResult

_OPTIONS = "options are arguments; autosched.tune(task, trials=64, records='f.jsonl', seconds=…)"
_MEASURE = "worker processes build and measure; autosched.tune(task, measurer=…) replaces them"
_SEARCH = "autosched.tune(task, strategy='evolutionary', model='xgb')"
_BEST = "task.apply_best(records), task.print_best(records)"
_TEMPLATE = "templates are functions g(s, tensors); autosched.SearchTask(f, sizes, template=g)"

# TVM's auto_scheduler, autotvm and meta_schedule
GONE: Mapping[str, str] = {
    "TuningOptions": _OPTIONS,
    "TaskScheduler": "autosched.tune_tasks(tasks, weights, trials=256)",
    "RecordToFile": "autosched.tune(task, records='f.jsonl')",
    "RecordReader": "autosched.RecordLog(path)",
    "load_records": "autosched.RecordLog(path)",
    "load_best_record": _BEST,
    "save_records": "autosched.tune(task, records='f.jsonl')",
    "ApplyHistoryBest": _BEST,
    "apply_history_best": _BEST,
    "SketchPolicy": _SEARCH,
    "EmptyPolicy": "autosched.best_guess(task)",
    "XGBModel": _SEARCH,
    "RandomModel": "autosched.tune(task, model='random')",
    "LocalBuilder": _MEASURE,
    "LocalRunner": _MEASURE,
    "LocalRPCMeasureContext": _MEASURE,
    "RPCRunner": "a Dask cluster measures elsewhere; autosched.tune(task, measurer=…)",
    "ProgramMeasurer": _MEASURE,
    "measure_option": _OPTIONS,
    "HardwareParams": "the target knows cores and caches; tl.Target.host()",
    "ComputeDAG": "te.create_schedule(outputs), tl.lower(s, args)",
    "LayoutRewriteOption": "weights are packed by the build; tl.build(s, args, constants={W: array})",
    "MeasureInput": "one measurement is an autosched.Record",
    "MeasureResult": "one measurement is an autosched.Record",
    "auto_schedule": "autosched.tune(task)",
    "create_task": "autosched.SearchTask(func, sizes)",
    "template": _TEMPLATE,
    "get_config": _TEMPLATE,
    "ConfigSpace": _TEMPLATE,
    "tuner": _SEARCH,
    "XGBTuner": _SEARCH,
    "GATuner": _SEARCH,
    "GridSearchTuner": "autosched.tune(task, strategy='exhaustive')",
    "RandomTuner": "autosched.tune(task, strategy='random')",
    "callback": "autosched.tune(task, records='f.jsonl', progress=…)",
    "tune_tir": "autosched.tune(task)",
    "tune_te": "autosched.tune(task)",
    "Database": "autosched.RecordLog(path)",
    "JSONDatabase": "autosched.RecordLog(path)",
}
_TASK: Mapping[str, str] = {
    "tune": "autosched.tune(task, trials=64, records='f.jsonl')",
    "compute_dag": "task.tensors, task.schedule()",
    "apply_history_best": _BEST,
}
_FUNCTIONS = ("best_guess", "extract_tasks", "model_from", "register_workload", "tune", "tune_tasks")
_WORDED = ("compile", "specialise", "tune_dynamic")  # which look at their arguments themselves
_CLASSES: tuple[tuple[Any, Mapping[str, str]], ...] = (
    (SearchTask, _TASK),
    (RecordLog, {}),
    (TuneResult, {}),
    (TuneReport, {}),
    (TasksResult, {}),
    (DynamicKernel, {}),
    (ShapeProfile, {}),
)


def close_all(package: ModuleType) -> None:
    """Guard what there is, and let it show itself. Called once, when the package has been imported."""
    attach_everything()
    guard(package, _FUNCTIONS, "autosched", tl.TensorLangError, eager=True)
    guard(package, ("autotune",), "autosched", tl.TensorLangError, eager=("trials", "seed"))
    guard(package, _WORDED, "autosched", tl.TensorLangError)
    for cls, gone in _CLASSES:
        guard_class(cls, tl.TensorLangError, eager=cls in (SearchTask, RecordLog))
        answer(cls, cls.__name__, gone)
    answer(Record, "Record", {})  # its readers tell lines of others by plain exceptions
    signpost(package, "autosched", GONE)
