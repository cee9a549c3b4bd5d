"""How busy others keep the machine meanwhile: a time taken on a busy machine is worth less. Knows the
counters of the system (Linux's ``/proc/stat``; elsewhere nothing is known)."""

from __future__ import annotations

import os
import resource
from pathlib import Path

_STAT = Path("/proc/stat")
_IDLE = (3, 4)  # of the columns: idle, and idle while a disk works
_COLUMNS = 8  # those after count guests, which are counted before already


class Others:
    """From its making on, the share of all processors' time that other processes take."""

    def __init__(self) -> None:
        self._begin = _now()

    def share(self) -> float | None:
        """From 0 to 1; None where the system does not say, or no time has gone by. Processes of ours count
        as ours once they have ended."""
        now = _now()
        if now is None or self._begin is None:
            return None
        every, busy, own = (b - a for a, b in zip(self._begin, now, strict=True))
        return min(1.0, max(0.0, (busy - own) / every)) if every > 0 else None


def _now() -> tuple[float, float, float] | None:
    """Seconds of all processors since the start of the system, those of them that were used, and ours."""
    try:
        columns = [int(x) for x in _STAT.read_text().split("\n", 1)[0].split()[1 : 1 + _COLUMNS]]
        tick = os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError):
        return None
    if len(columns) <= max(_IDLE):
        return None
    own = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        used = resource.getrusage(who)
        own += used.ru_utime + used.ru_stime
    return sum(columns) / tick, (sum(columns) - sum(columns[i] for i in _IDLE)) / tick, own
