"""Names of kernels for ``perf``: with TENSORLANG_PERF_MAP=1 every loaded function is listed in the file
perf-PID.map, one line ``address size name`` in hexadecimal, where perf looks for the names of code made at
run time. Knows object code and addresses.

Lines are only added: code that was unloaded stays listed until other code takes its place. The file is never
written through a link, nor when it belongs to somebody else; what a dead process of the same number left
behind is removed. A forked child gets a file of its own.
"""

from __future__ import annotations

import os
import stat
import threading
import time
import warnings
from collections.abc import Mapping

from .. import options
from .elf import symbols

FOLDER = "/tmp"  # perf knows no other

_lock = threading.Lock()
_listed: list[str] = []
_writer: int | None = None  # the process that wrote last


def register(object_code: bytes, addresses: Mapping[str, int]) -> None:
    """List the functions of the object code, of which ``addresses`` tells where some were loaded. Warns when
    the file cannot be written."""
    if not options.perf_map():
        return
    functions = [s for s in symbols(object_code) if s.is_function and s.section and s.size]
    begins = {s.section: addresses[s.name] - s.value for s in functions if s.name in addresses}
    lines = [
        f"{begins[s.section] + s.value:x} {s.size:x} tensorlang:{s.name}\n"
        for s in functions
        if s.section in begins
    ]
    with _lock:
        if not _listed and lines and hasattr(os, "register_at_fork"):
            os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_in_child)
        _listed.extend(lines)
        _write(lines)


def path() -> str:
    """Where perf looks for the names of this process."""
    return os.path.join(FOLDER, f"perf-{os.getpid()}.map")


def _in_child() -> None:
    try:
        _write([])
    finally:
        _lock.release()


def _write(lines: list[str]) -> None:
    global _writer
    fresh = _writer != os.getpid()
    try:
        handle = os.open(
            path(),
            os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK,
            0o600,
        )
        try:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_nlink != 1:
                raise OSError(0, "it is not a file of this user alone")
            if fresh and found.st_mtime < _began() - 1:
                os.ftruncate(handle, 0)
            os.write(handle, "".join(_listed if fresh else lines).encode())
            _writer = os.getpid()
        finally:
            os.close(handle)
    except OSError as error:
        warnings.warn(
            f"TENSORLANG_PERF_MAP=1: cannot write {path()}: {error.strerror or error}",
            RuntimeWarning,
            stacklevel=2,
        )


def _began() -> float:
    """When this process began, in seconds of the clock of files; 0 where that is not known."""
    try:
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0
