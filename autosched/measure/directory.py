"""The directory that a tuner and its workers share, in memory where the system has such a place. It is
removed by whoever ends last; when all were killed together, the next tuner sweeps it. Knows files only.

Whoever uses a directory holds a shared lock on the file ``in use`` in it, which the kernel drops when the
process dies, however it dies.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

_SHARED_MEMORY = "/dev/shm"
_NAME, _UNBORN = "autosched-", "autosched.new-"
_LOCK = "in use"
_OLD = 24 * 3600.0  # seconds after which a directory without a lock is nobody's


class Directory:
    """``path``, held until ``remove`` or the end of the process."""

    def __init__(self, path: str, lock: int) -> None:
        self.path = path
        self._lock = lock

    @staticmethod
    def new() -> Directory:
        """A directory of one's own; those of tuners that were killed are swept before. Raises OSError."""
        place = _SHARED_MEMORY if os.access(_SHARED_MEMORY, os.W_OK) else tempfile.gettempdir()
        sweep(place)
        unborn = tempfile.mkdtemp(prefix=_UNBORN, dir=place)
        lock = _locked(unborn)  # before it has the name that others sweep
        path = os.path.join(place, _NAME + os.path.basename(unborn).removeprefix(_UNBORN))
        os.rename(unborn, path)
        return Directory(path, lock)

    @staticmethod
    def join(path: str) -> Directory:
        """The directory that another process has made. Raises OSError when that is gone."""
        return Directory(path, _locked(path))

    def remove(self) -> None:
        """Remove it, whoever else uses it."""
        shutil.rmtree(self.path, ignore_errors=True)
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)


def sweep(place: str) -> None:
    """Remove the directories that are this user's and used by nobody any more."""
    for found in [*Path(place).glob(f"{_NAME}*"), *Path(place).glob(f"{_UNBORN}*")]:
        with contextlib.suppress(OSError):
            if (
                found.lstat().st_uid == os.geteuid()
                and found.is_dir()
                and not found.is_symlink()
                and _left(found)
            ):
                shutil.rmtree(found, ignore_errors=True)


def _left(directory: Path) -> bool:
    """Whether nobody uses it. One that is just being made, or of a release that had no locks, is known by its
    age."""
    old = time.time() - directory.stat().st_mtime > _OLD
    try:
        fd = (
            -1
            if directory.name.startswith(_UNBORN)
            else os.open(directory / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
        )
    except FileNotFoundError:
        fd = -1
    if fd < 0:
        return old
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(fd)


def _locked(directory: str) -> int:
    fd = os.open(os.path.join(directory, _LOCK), os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(fd, fcntl.LOCK_SH)
    return fd
