"""The memory of the house: one JSON line a measurement, appended safely by several processes, read back tolerantly.

Knows traces (to hand them back) and nothing of search or measurement. Loading never executes anything.
"""

from __future__ import annotations

from .database import RecordLog, best_of, load
from .record import OK, Record

__all__ = ["OK", "Record", "RecordLog", "best_of", "load"]
