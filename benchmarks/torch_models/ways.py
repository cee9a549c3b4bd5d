"""Ways to compile, each in a process of its own, which are asked in turn, one call each: whatever else the
machine does meets all of them. Their figures as a table. Knows nothing of what ways and calls are.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from typing import Any

from ..harness.figures import geomean
from .command import Rows, Table

WORKER = "benchmarks.torch_models.worker"


class Way:
    """A process that makes calls when it is asked."""

    def __init__(self, python: str, model: str, way: str, threads: int, clock: str, worker: str) -> None:
        self.process = subprocess.Popen(
            [python, "-m", worker, model, way, str(threads), clock],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.seconds: list[float] = []
        self.told: dict[str, float] = {}

    def line(self) -> str:
        assert self.process.stdout is not None
        found = self.process.stdout.readline()
        if not found:
            raise RuntimeError("the process has ended")
        return found

    def ready(self) -> None:
        self.told = json.loads(self.line())

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        self.seconds.append(float(self.line()))

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def measured(
    python: str,
    model: str,
    threads: int,
    ways: list[str],
    seconds: float,
    calls: int,
    clock: str = "wall",
    worker: str = WORKER,
) -> dict[str, Any]:
    """For each way what it told and the median of its calls, in seconds; None where it failed."""
    made = {}
    try:
        for way in ways:  # one after another: compilers are not to wait for each other
            made[way] = Way(python, model, way, threads, clock, worker)
            try:
                made[way].ready()
            except (RuntimeError, ValueError):
                made.pop(way).close()
        end = time.perf_counter() + seconds
        for turn in range(calls):
            for process in made.values():
                process.go()
            if turn >= 4 and time.perf_counter() > end:
                break
        return {
            w: {**made[w].told, "median": statistics.median(made[w].seconds), "least": min(made[w].seconds)}
            if w in made
            else None
            for w in ways
        }
    finally:
        for process in made.values():
            process.close()


def table(rows: Rows, ways: list[str]) -> Table:
    """The figures, and what is slower than the best of the others."""
    others = [w for w in ways if w != "tensorlang"]
    head = f"{'model, threads':26}" + "".join(f"{w:>17}" for w in ways) + "   ours ÷ best   compile, s"
    lines = []
    ratios: dict[str, list[float]] = {w: [] for w in others}
    slow = []
    for key, row in rows.items():
        text = "".join(f"{1e3 * row[w]['median']:14.2f} ms" if row.get(w) else f"{'–':>17}" for w in ways)
        ours = row.get("tensorlang")
        if ours:
            found = {w: row[w]["median"] / ours["median"] for w in others if row.get(w)}
            for w, ratio in found.items():
                ratios[w].append(ratio)
            text += f"{min(found.values(), default=1.0):10.2f}×" + f"{ours['compile']:14.1f}"
            slow += [f"{key} ({ratio:.2f}× {w})" for w, ratio in found.items() if ratio < 0.9]
        lines.append(f"{key:26}{text}")
    end = [f"geometric mean over {w}: {geomean(r):.2f}× of {len(r)}" for w, r in ratios.items() if r]
    return Table(head, lines, [*end, "below 0.9: " + (", ".join(slow) or "none")])
