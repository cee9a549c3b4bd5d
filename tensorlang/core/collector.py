"""Python's search for cycles, and when it is not worth its time. Knows nothing of the package."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """No search for cycles meanwhile: a compiler makes many small objects that stay, and looking through all
    of them again and again takes half of the time of a long program, or of a short one in a process that
    holds much else. Another thread that compiles may begin or end it; nothing but time hangs on it."""
    # nested, or off by the user's own wish: whoever switched it off switches it on again
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
