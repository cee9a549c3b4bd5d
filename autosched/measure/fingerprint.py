"""What machine a measurement was made on, in one line of text. Knows the target of the host."""

from __future__ import annotations

import functools
import os
import platform

import tensorlang as tl


@functools.cache
def fingerprint() -> str:
    """Architecture, system, processor and how many of them this process may use."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{platform.machine()} {platform.system()} {tl.Target.host().mcpu} ×{count}"
