"""The thread that lets the rules step again and again while a kernel is being called. Knows the manager and
time; no rules."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

from .manager import Manager
from .stats import TierStats

SHORTEST, LONGEST = (
    0.02,
    1.0,
)  # seconds between two steps: while there are calls, and when there have been none for long


class Tiers:
    """A manager with its thread: ``start``, ``stop``, ``stats``. The thread ends when this object is gone.

    ``step`` may be called by hand as well, from any thread. After a fork nothing runs in the child until its
    own ``start``.
    """

    def __init__(self, manager: Manager) -> None:
        self.manager = manager
        self._lock = threading.Lock()
        self._wake: threading.Event | None = None
        self._thread: threading.Thread | None = None
        self._pid = 0

    def start(self) -> Tiers:
        """Begin to look after the kernel; nothing when that has begun."""
        if self._thread is None or self._pid != os.getpid():
            self._lock = threading.Lock() if self._pid != os.getpid() else self._lock
            self._pid = os.getpid()
            self._wake = threading.Event()
            self._thread = threading.Thread(
                target=_run, args=(weakref.ref(self), self._wake), name="tiers", daemon=True
            )
            self._thread.start()
        return self

    def stop(self) -> None:
        """End the thread and the making of code; what is published stays."""
        thread, self._thread = self._thread, None
        if self._wake is not None:
            self._wake.set()
        if thread is not None and thread is not threading.current_thread() and self._pid == os.getpid():
            thread.join(timeout=10)
        self.manager.makes.close()

    def step(self) -> int:
        """One step of the rules; how many calls there were since the last."""
        with self._lock:
            return self.manager.step()

    def stats(self) -> TierStats:
        """What has happened so far."""
        with self._lock:
            return self.manager.stats()

    def __enter__(self) -> Tiers:
        return self.start()

    def __exit__(self, *error: Any) -> None:
        self.stop()


def _run(tiers: weakref.ref[Tiers], wake: threading.Event) -> None:
    wait = SHORTEST
    while not wake.wait(wait):
        alive = tiers()
        if alive is None:
            return
        calls = alive.step()
        wait = SHORTEST if calls or alive.manager.makes.busy() else min(LONGEST, 2 * wait)
        del alive
