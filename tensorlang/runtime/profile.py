"""Where the time of a kernel goes: runs a copy of it that takes the time of its loop nests, and shows the
shares as a table.

Knows nothing of loops: the copy and the names of its rows are handed in (``interface.timed_nests``). The cost
of looking at the clock is measured and taken off. Of a parallel loop, the nests inside it are measured by
every thread, and share its time in the proportion of their sums.
"""

from __future__ import annotations

import ctypes
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.text import columns
from ..entries import public
from ..errors import TensorLangError
from ..interface.timed_nests import START, STOP, Nest
from ..native import clock as native
from .loader import Code, load_functions
from .timing import seconds_text

RUNS = 3, 200  # least and most
SLOW = 1.25  # a copy that takes so much longer than the kernel tells too little of it

_lock = threading.Lock()
_clock: Code | None = None


@dataclass(frozen=True)
class Instrumented:
    """A copy of a kernel that takes times: its object code, and its rows, of which the first is the whole."""

    object_code: bytes
    nests: tuple[Nest, ...]


@dataclass(frozen=True)
class Row:
    """One loop nest: the ``share`` (0 to 1) and the ``seconds`` of one run that it takes, how often a run
    comes to it (``calls``), and how deep it stands (0, or 1 for a nest within the last row of depth 0).
    ``loop`` is "elsewhere" for what no nest of that depth explains."""

    loop: str
    writes: tuple[str, ...]
    share: float
    seconds: float
    calls: float
    depth: int


@public(TensorLangError, "Profile", text="plain", page="profile", made="f.profile(a, b)")
@dataclass(frozen=True)
class Profile:
    """The rows in the order of the kernel; those of depth 0 add up to the whole, those of depth 1 to the row
    above them. ``seconds`` is one run, the mean of the faster half of ``runs`` runs; prints as a table."""

    rows: tuple[Row, ...]
    seconds: float
    runs: int
    copy_seconds: float  # with the looks at the clock

    def __str__(self) -> str:
        lines = [("loop nest", "writes", "share", "time", "calls")]
        for r in self.rows:
            calls = f"{r.calls:.0f}" if r.calls else ""
            lines.append(
                (
                    "  " * r.depth + r.loop,
                    ", ".join(r.writes),
                    f"{100 * r.share:.1f} %",
                    seconds_text(r.seconds),
                    calls,
                )
            )
        end = f"one run {seconds_text(self.seconds)}, of {self.runs} runs"
        return f"{columns(lines, right=(2, 3, 4))}\n{end}"


def clock() -> dict[str, int]:
    """Addresses of what instrumented kernels call."""
    return {name: _ready().address[name] for name in (START, STOP)}


def _ready() -> Code:
    global _clock
    with _lock:
        if _clock is None:
            _clock = load_functions({START: native.start, STOP: native.stop, "cost": native.cost})
        return _clock


def _cost(times: int = 2000) -> tuple[float, float]:
    """Nanoseconds that a pair of looks at the clock adds to its own row, and to the rows around it."""
    began, table = np.zeros(2, np.int64), np.zeros((2, 2), np.int64)
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(_ready().address["cost"])
    least = (float("inf"), float("inf"))
    for _ in range(5):
        table[:] = 0
        run(began.ctypes.data, table.ctypes.data, times)
        least = min(least[0], float(table[1, 0]) / times), min(least[1], float(table[0, 0]) / times)
    return least


def measure(run: Callable[[bytes], None], buffers: bytes, nests: Sequence[Nest], seconds: float) -> Profile:
    """Run a copy for about ``seconds``. ``run(buffers)`` runs it once; the address of the table is added to
    ``buffers``."""
    table = np.zeros((len(nests), 2), np.int64)
    buffers = buffers + struct.pack("=q", table.ctypes.data)
    run(buffers)
    taken: list[Any] = []
    end = time.perf_counter() + seconds
    while len(taken) < RUNS[1] and (len(taken) < RUNS[0] or time.perf_counter() < end):
        table[:] = 0
        run(buffers)
        taken.append(table.astype(np.float64))
    taken.sort(key=lambda t: float(t[0, 0]))
    return summarise(
        np.mean(taken[: (len(taken) + 1) // 2], axis=0), nests, _cost(), len(taken)
    )  # the slower half met other work


def summarise(table: Any, nests: Sequence[Nest], cost: tuple[float, float], runs: int) -> Profile:
    """The rows of a table of nanoseconds and counts; ``cost`` is that of the clock, for its own row and for
    those around it."""
    inner, outer = cost
    spent = [float(t) - inner * float(n) for t, n in table]
    for i, nest in enumerate(nests[1:], 1):
        looks = outer * float(table[i, 1])
        above = nest.within
        while above is not None:
            spent[above] -= looks
            if not nests[above].shown:  # the sum of all threads; the rows around it see the time of one
                looks *= min(
                    1.0, float(table[nests[above].within or 0, 0]) / max(1.0, float(table[above, 0]))
                )
            above = nests[above].within
        spent[0] -= looks
    spent = [max(0.0, t) for t in spent]
    tops = [i for i, n in enumerate(nests) if n.shown and n.within is None]
    whole = max(spent[0], sum(spent[i] for i in tops), 1e-9)
    rows: list[Row] = []
    for i in tops:
        share = spent[i] / whole
        rows.append(Row(nests[i].loop, nests[i].writes, share, spent[i] * 1e-9, float(table[i, 1]), 0))
        rows += _within(i, share, spent, table, nests)
    rest = whole - sum(spent[i] for i in tops)
    return Profile(
        (*rows, Row("elsewhere", (), rest / whole, rest * 1e-9, 0.0, 0)),
        whole * 1e-9,
        runs,
        float(table[0, 0]) * 1e-9,
    )


def _within(top: int, share: float, spent: Sequence[float], table: Any, nests: Sequence[Nest]) -> list[Row]:
    """The rows inside a nest: its share, divided like the times of all threads."""
    divided = next((i for i, n in enumerate(nests) if n.within == top), None)
    if divided is None:
        return []
    parts = [i for i, n in enumerate(nests) if n.within == divided]
    whole = max(spent[divided], sum(spent[i] for i in parts), 1e-9)
    part = [spent[i] / whole for i in parts]
    scale = share, spent[top] * 1e-9
    rows = [
        Row(nests[i].loop, nests[i].writes, scale[0] * p, scale[1] * p, float(table[i, 1]), 1)
        for i, p in zip(parts, part, strict=True)
    ]
    rest = max(0.0, 1.0 - sum(part))
    return [*rows, Row("elsewhere", (), scale[0] * rest, scale[1] * rest, 0.0, 1)]
