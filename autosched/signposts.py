"""Where the names of TVM's auto_scheduler, autotvm and meta_schedule went: from the name to what is there
instead, as in ``tensorlang.signposts``. Text only."""

from __future__ import annotations

from collections.abc import Mapping

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
    "create": _TEMPLATE,
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
    "compile_tir": _BEST,
    "Database": "autosched.RecordLog(path)",
    "JSONDatabase": "autosched.RecordLog(path)",
}
_OF_ONE = "one kernel of it at a size; tl.compile(f(77)), whose"
GONE_OF_DYNAMIC: Mapping[str, str] = {
    "profile": f"{_OF_ONE} profile(x) takes the time of its loops",
    "view": f"{_OF_ONE} view() is the page",
    "roofline": f"{_OF_ONE} view() has the roofline",
    "get_source": f"{_OF_ONE} get_source('asm') is the code",
    "tree": "d.explain(m=77) says what runs; te.create_schedule(outputs).tree()",
    **dict.fromkeys(
        ("plan", "kernels", "table", "report", "trace", "schedule"), "d.explain(m=77), d.account"
    ),
    "tune": "autosched.specialise(f, task) makes code for hot sizes",
    "flops": "task.flops at one size",
}
GONE_OF_TASK: Mapping[str, str] = {
    "tune": "autosched.tune(task, trials=64, records='f.jsonl')",
    "compute_dag": "task.tensors, task.schedule()",
    "apply_history_best": _BEST,
}
