"""How much memory this process may still take. Knows Linux's files; nothing of torch."""

from __future__ import annotations

import re
from pathlib import Path

MEMINFO = Path("/proc/meminfo")
GROUP = Path("/sys/fs/cgroup")


def available() -> int | None:
    """Bytes that are free, for the machine and for the group of processes; None where nobody tells."""
    found = [n for n in (_machine(), _group()) if n is not None]
    # a container sees the memory of the whole machine, and is killed by its own limit
    return min(found) if found else None


def _machine() -> int | None:
    try:
        line = re.search(r"^MemAvailable:\s+(\d+) kB", MEMINFO.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(line[1]) << 10 if line else None


def _group() -> int | None:
    """What the limit of a container leaves; of what is used, files that are cached can go."""
    try:
        most = (GROUP / "memory.max").read_text().strip()
        used = int((GROUP / "memory.current").read_text())
        cached = re.search(r"^inactive_file (\d+)", (GROUP / "memory.stat").read_text(), re.MULTILINE)
    except (OSError, ValueError):
        return None
    return None if most == "max" else int(most) - used + (int(cached[1]) if cached else 0)
