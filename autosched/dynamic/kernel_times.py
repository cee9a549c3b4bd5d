"""Times of kernels measured side by side, and the tables of them on disk. Knows callables and seconds; not
what is timed.

All candidates are timed in turns, so that a slow spell of the machine meets them all alike, and the least
time of each counts: what disturbs only ever adds. A table carries what it depends on and a hash; one that is
torn, of another machine or of other sources is a miss with a reason, and of a good one a few entries are
measured again (sentinels) before it is believed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import tensorlang as tl
from tensorlang.boundary import check_path
from tensorlang.options import user_directory

from ..tiers.keys import Environment, combined
from ..whole_files import write_whole

SAMPLE = 40e-6  # seconds of one sample at least: the clock and the call are then below 1 %
ROUNDS = (5, 400)  # of all candidates, at least and at most
TRIED = 3  # rounds after which the slowest are told apart
FORMAT = 1
DRIFT = 1.35  # how much the times of sentinels may differ among themselves from the table's

Key = Any
Run = Callable[[], Any]


def times(candidates: Mapping[Key, Run], seconds: float, within: float = math.inf) -> dict[Key, float]:
    """Least seconds of a call of each, by about ``seconds`` of measuring in all. What takes more than
    ``within`` times as long as the fastest after ``TRIED`` rounds is not timed any more: its time stays a
    rough one."""
    clock = time.perf_counter
    repeats: dict[Key, int] = {}
    best: dict[Key, float] = {}
    for key, run in candidates.items():
        run()  # pages, caches, first sight of the code
        begin = clock()
        run()
        best[key] = clock() - begin
        repeats[key] = max(1, min(1000, round(SAMPLE / max(best[key], 1e-8))))
    end = clock() + seconds
    running = dict(candidates)
    for number in range(ROUNDS[1]):
        # at least some rounds of all, however little time there is: one round tells nothing of noise
        if number >= ROUNDS[0] and clock() >= end:
            break
        if number == TRIED:
            limit = within * min(best.values(), default=0.0)
            running = {key: run for key, run in candidates.items() if best[key] <= limit}
        for key, run in running.items():
            begin = clock()
            for _ in range(repeats[key]):
                run()
            best[key] = min(best[key], (clock() - begin) / repeats[key])
    return best


class Tables:
    """Tables of times on disk, one file for each key. ``misses`` says why a table was not there."""

    def __init__(self, directory: str | Path | bool | None, target: tl.Target) -> None:
        if isinstance(directory, str | Path):
            check_path(directory, "tune_dynamic(cache={})")
        where = (user_directory("cache") or False) if directory in (None, True) else directory
        self.directory = None if where is False else Path(str(where)) / "dynamic"
        self.environment = Environment.of(target)
        self.misses: list[str] = []

    def parts(self, what: Any) -> dict[str, Any]:
        """Everything a table depends on."""
        e = self.environment
        return {
            "format": FORMAT,
            "package": e.package,
            "sources": e.sources,
            "llvm": e.llvm,
            "cpu": e.cpu,
            "features": list(e.features),
            "flags": e.flags,
            "threads": tl.num_threads(),
            "what": what,
        }

    def read(self, what: Any) -> Any | None:
        """The table of that name, None when there is none to be believed."""
        if self.directory is None:
            return None
        wanted = self.parts(what)
        path = self._path(what)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return self._miss("there is no table yet")
        except OSError as e:
            return self._miss(e.strerror or str(e))
        digest, _, body = data.partition(b"\n")
        if hashlib.sha256(body).hexdigest().encode() != digest:
            return self._miss("its contents do not match its hash: the file is torn or was changed")
        try:
            document = json.loads(body)
            parts, table = dict(document["parts"]), document["table"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return self._miss("its contents make no sense")
        # through JSON as the file went: tuples are lists there
        known = json.loads(json.dumps(wanted))
        if parts != known:
            return self._miss(
                f"it was made for another {next((k for k in known if parts.get(k) != known[k]), 'format')}"
            )
        return table

    def write(self, what: Any, table: Any) -> None:
        """Leave a table for later runs; a directory that cannot be written is none of the user's concern."""
        if self.directory is None:
            return
        body = json.dumps({"parts": self.parts(what), "table": table}, separators=(",", ":")).encode()
        with contextlib.suppress(OSError):
            self.directory.mkdir(parents=True, exist_ok=True)
            write_whole(self._path(what), hashlib.sha256(body).hexdigest().encode() + b"\n" + body)

    def _path(self, what: Any) -> Path:
        assert self.directory is not None
        return self.directory / f"{combined([what, self.environment.cpu, tl.num_threads()])[:32]}.table"

    def _miss(self, why: str) -> Any:
        self.misses.append(why)
        return None


def holds(stored: Sequence[float], now: Sequence[float]) -> str:
    """Why sentinels refute a table; empty when they agree. Machines are faster one day than another, all
    kernels alike: only ratios count."""
    ratios = [n / s for n, s in zip(now, stored, strict=True)]
    # the machine as a whole may be faster or slower today; what differs from that is what counts
    middle = median(ratios)
    worst = max(max(r / middle, middle / r) for r in ratios)
    return f"its sentinels differ by {worst:.2f}×" if worst > DRIFT else ""


def are_seconds(values: Sequence[Any]) -> bool:
    """Whether a file's values are times: one or more, each a positive number."""
    return len(values) > 0 and all(type(s) in (int, float) and 0 < s < math.inf for s in values)
