"""How many processors this process may use: its affinity, and the share of time its control groups grant.
Knows no threads.

Control groups are read as the Linux kernel documents them: version 2 has ``cpu.max`` ("quota period" or "max
period") in the directory of the group and of each group above it, version 1 ``cpu.cfs_quota_us`` (-1: none)
and ``cpu.cfs_period_us``.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath


def processors() -> int:
    """Processors this process may run on at the same time, at least 1. A granted share of 1.5 processors is
    two for half of the time."""
    return max(1, math.ceil(min(_affinity(), granted())))


def whole_processors() -> int:
    """Processors this process may keep busy all the time, at least 1: a waiting thread that spins uses up
    what is granted."""
    return max(1, math.floor(min(_affinity(), granted())))


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def granted(groups: Path = Path("/proc/self/cgroup"), mounted: Path = Path("/sys/fs/cgroup")) -> float:
    """Processors' worth of time that the control groups grant, the least of all levels; infinite without a
    limit."""
    try:
        lines = groups.read_text().splitlines()
    except OSError:
        return math.inf
    return min((share for line in lines for share in _shares(line, mounted)), default=math.inf)


def _shares(line: str, mounted: Path) -> Iterator[float]:
    """The limits that bind a process in the group of a line ``number:controllers:path``."""
    number, _, rest = line.partition(":")
    controllers, _, path = rest.partition(":")
    files: tuple[str, ...]
    if number == "0":
        roots, files = [mounted, mounted / "unified"], ("cpu.max",)
    elif "cpu" in controllers.split(","):
        roots, files = [mounted / controllers, mounted / "cpu"], ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    else:
        return
    # In a container the path may be that of the host: then the directory is not there, and the root is what
    # is mounted.
    steps = PurePosixPath(path).parts[1:]
    for root in roots:
        for depth in range(len(steps) + 1):
            share = _share([root.joinpath(*steps[:depth], f) for f in files])
            if share is not None:
                yield share


def _share(files: list[Path]) -> float | None:
    try:
        words = " ".join(f.read_text() for f in files).split()
        quota, period = int(words[0]), int(words[1])
    except (OSError, ValueError, IndexError):  # no such group, "max", or no such controller
        return None
    return quota / period if quota > 0 and period > 0 else None
