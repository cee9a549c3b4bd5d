"""Runs of kernels without Python in between. Knows addresses and numbers; no graphs.

The native loop is ``native.table``; a table is made once for each set of sizes.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..native import table as native
from .loader import load_functions

_lock = threading.Lock()
_run: Any = None


class Step(NamedTuple):
    """A call of a kernel: its entry, its buffers as (number of a base, bytes behind it), its sizes."""

    entry: int
    buffers: Sequence[tuple[int, int]]
    slots: Sequence[int]


class Table:
    """Steps as the native loop reads them."""

    __slots__ = ("_slots", "_words", "address")

    def __init__(self, steps: Sequence[Step]) -> None:
        self._slots = np.array([n for s in steps for n in s.slots] or [0], np.int64)
        at = self._slots.ctypes.data
        words = [len(steps)]
        for s in steps:
            words += [s.entry, len(s.buffers), at, *(w for pair in s.buffers for w in pair)]
            at += 8 * len(s.slots)
        self._words = np.array(words, np.int64)
        self.address = self._words.ctypes.data

    def run(self, bases: np.ndarray) -> int:
        """Call the kernels. 0, or 256 * (number of the step from 1) + its status."""
        return int(_native()(self.address, bases.ctypes.data))


def _native() -> Any:
    global _run
    if _run is None:
        with _lock:
            if _run is None:
                code = load_functions({"tensorlang_table": native.run}, opt=1).keep()
                call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
                _run = call(code.address["tensorlang_table"])
    return _run
