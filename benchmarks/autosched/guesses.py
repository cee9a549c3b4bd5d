"""What a guess without any measurement is worth beside the best that is known of a task: the one that 200
trials found, by the suite's file. Knows autosched's public names and the suite.

Guess and default schedule are timed in turns by processes that know nothing of either (see ``chains``). The
suite's file says how many times as fast as the default schedule the best known one is, so the share of a
guess is the quotient of two ratios, each of kernels timed in turns.
"""

from __future__ import annotations

import json
import statistics
import time
from pathlib import Path
from typing import Any

from autosched import SearchTask, best_guess
from autosched.records.record import canonical_trace

from .chains import said, target_of
from .suites import declared

PROCESSES = 3
Entry = dict[str, Any]


def guessed(name: str, best: float, threads: int | None = None) -> Entry:
    """The guess for a task: ``seconds`` it took, ``ratio``, how many times as fast it is as the default
    schedule, and ``share`` of the best known speed, which is ``best`` times that of the default schedule."""
    target = target_of(threads)
    task = SearchTask.of(declared(name), target, name=name)
    begin = time.perf_counter()
    schedule = best_guess(task)
    seconds = time.perf_counter() - begin
    steps = canonical_trace(schedule.trace)
    told, _ = said(name, ["", steps], target, PROCESSES)
    ratio = statistics.median(t["ratios"][1] for t in told)
    return {
        "program": name,
        "seconds": seconds,
        "ratio": ratio,
        "best": best,
        "share": ratio / max(1.0, best),
    }


def best_known(file: Path) -> dict[str, float]:
    """How many times as fast as its default schedule the best known schedule of each task is."""
    return {e["program"]: e["gain"] for e in json.loads(file.read_text())["programs"] if "gain" in e}


def table(entries: list[Entry]) -> str:
    """A line a task, and the geometric mean of the shares."""
    lines = [f"{'program':<22}{'seconds':>9}{'of default':>12}{'best known':>12}{'share':>8}"]
    for e in entries:
        cells = f"{e['seconds']:>9.2f}{e['ratio']:>12.2f}{e['best']:>12.2f}{e['share']:>8.2f}"
        lines.append(f"{e['program']:<22}{cells}")
    shares, seconds = [e["share"] for e in entries], [e["seconds"] for e in entries]
    mean = statistics.geometric_mean(shares)
    lines.append(
        f"geometric mean of {len(shares)}: {mean:.2f}, least {min(shares):.2f}; "
        f"{statistics.median(seconds):.2f} s each, {max(seconds):.2f} at most"
    )
    return "\n".join(lines)
