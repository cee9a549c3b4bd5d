"""autosched: finds schedules for tensorlang by search, a learned cost model and measurement.

``tune(SearchTask(func, args, target, template=…), trials=64, records="f.jsonl")``, then ``task.apply_best("f.jsonl")``. Uses
tensorlang's public names only.
"""

from __future__ import annotations

from .records import Record, RecordLog
from .task import SearchTask, register_workload
from .tune import TuneResult, tune

__all__ = ["Record", "RecordLog", "SearchTask", "TuneResult", "register_workload", "tune"]
