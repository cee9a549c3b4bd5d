"""The memory of the house: one JSON line a measurement, appended safely by several processes, read back
tolerantly.

Knows traces (to hand them back) and nothing of search or measurement. Loading never executes anything.
"""

from __future__ import annotations

from tensorlang.entries import share

from ..statuses import OK
from .database import BadLine, RecordLog, apply_best, best_of, load, merge
from .record import Record
from .replay import replay

__all__ = ["OK", "BadLine", "Record", "RecordLog", "apply_best", "best_of", "load", "merge", "replay"]

share(__name__)
