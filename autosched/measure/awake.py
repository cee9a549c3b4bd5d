"""A clock that stands still while its process is stopped. Knows nothing of the rest."""

from __future__ import annotations

import time

# seconds: whoever waits looks at the clock as often; of a longer gap between two looks the rest did not count
TURN = 0.5


class Awake:
    """``clock()`` is seconds, of those in which the process could run.

    A limit in the time of the wall is over when a process and the one it waits for were both stopped (Ctrl-Z,
    a debugger, a scheduler that gives a machine to others for a while): whoever wakes up first would blame
    the other for it."""

    def __init__(self) -> None:
        self._seen = time.monotonic()
        self._asleep = 0.0

    def __call__(self) -> float:
        now = time.monotonic()
        # twice: a look that comes late on a busy machine is none that slept
        if now - self._seen > 2 * TURN:
            self._asleep += now - self._seen - TURN
        self._seen = now
        return now - self._asleep
