"""The lines that have to be passed, and whether they were. Knows figures; measures nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .figures import Figure, pooled

OURS_AHEAD = (
    "DietCode",
    "DietCode with room",
    "residue kernels",
    "buckets",
    "buckets with room",
    "always generic",
    "blocks not balanced",
    "no tree: the plan of 128",
    "no tree: the highest blocks",
    "weight not packed",
)
PEERS = ("numpy", "torch", "torch.compile, dynamic", "onnxruntime, dynamic axes")


@dataclass(frozen=True)
class Line:
    """The geometric mean or the worst of what a suite found by a name has to be at least ``bound``, or at
    most where less is better."""

    suite: str
    name: str
    statistic: str  # "mean" or "worst"
    bound: float

    def found(self, figures: Iterable[Figure]) -> float | None:
        """The number that counts; None when nothing was measured."""
        mine = [f for f in figures if f.name == self.name]
        if not mine:
            return None
        (pool,) = pooled(mine)
        return pool.mean if self.statistic == "mean" else pool.worst[0]


LINES = (
    Line("P1", "best of our plans", "mean", 0.97),
    Line("P1", "best of our plans", "worst", 0.85),
    Line("P1", "exact shape, tuned", "mean", 0.95),
    Line("P1", "exact shape, tuned", "worst", 0.85),
    Line("P1", "numpy", "mean", 1.2),
    Line("P1", "torch", "mean", 1.0),
    Line("P2", "best of our plans", "mean", 0.93),
    Line("P2", "best of our plans", "worst", 0.75),
    Line("P2", "exact shape", "mean", 0.93),
    Line("P2", "exact shape", "worst", 0.75),
    Line("P2", "numpy", "mean", 1.2),
    Line("P2", "torch", "mean", 1.0),
    Line("P3", "exact shape", "mean", 0.92),
    Line("P3", "exact shape", "worst", 0.75),
    Line("P3", "torch", "mean", 1.0),
    Line("P4", "numpy", "mean", 2.0),
    Line("P4", "bandwidth", "mean", 0.8),
    Line("P5", "nanoseconds of a call", "worst", 150),
    Line("P5", "numpy", "worst", 1.0),
    Line("P6", "rows right, of all", "worst", 1.0),
    Line("P7", "seconds of tuning 8 shapes", "mean", 20),
    Line("P7", "seconds of tuning 512 shapes", "mean", 500),
    *(Line("P8", name, "mean", 1.0) for name in (*OURS_AHEAD, *PEERS)),
    Line("P9", "oracle", "mean", 1.1),
    Line("P9", "stalls beyond the oracle's", "worst", 0.0),
)


@dataclass(frozen=True)
class Verdict:
    """A line, what was found, and whether that is enough."""

    line: Line
    threads: int
    found: float
    passed: bool

    def __str__(self) -> str:
        line, word = self.line, "passed" if self.passed else "MISSED"
        return (
            f"  {line.suite} {self.threads} thread(s)  {line.name:<34} {line.statistic:<5} "
            f"{self.found:9.3f}   wanted {line.bound:g}: {word}"
        )

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "suite": self.line.suite,
            "threads": self.threads,
            "name": self.line.name,
            "statistic": self.line.statistic,
            "bound": self.line.bound,
            "found": self.found,
            "passed": self.passed,
        }


def judged(entries: Sequence[dict[str, Any]]) -> Iterator[Verdict]:
    """All lines of which something was measured, for each number of threads, by the entries of a result."""
    for line in LINES:
        mine = [e for e in entries if e["suite"] == line.suite]
        for threads in sorted({e["threads"] for e in mine}):
            figures = [Figure.of(e) for e in mine if e["threads"] == threads]
            found = line.found(figures)
            if found is not None:
                more = next(f.more for f in figures if f.name == line.name)
                yield Verdict(line, threads, found, found >= line.bound if more else found <= line.bound)
