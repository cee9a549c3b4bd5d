"""A model in several runtimes, each in a process of its own, called in turns: A, B, C, A, B, C. Knows workers
and figures; nothing of models."""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .. import options
from ..errors import TensorLangError
from .runtimes import OURS

# seconds in which threads of the one before fall asleep: onnxruntime's spin for 47 ms
ASLEEP = 0.06


@dataclass
class Row:
    """What became of one runtime: seconds from file to first answer, then of a call in each turn; or why
    there is nothing."""

    name: str
    version: str = ""
    ready: float = 0.0
    turns: list[float] = field(default_factory=list)
    counted: list[bool] = field(default_factory=list)  # whether a turn was in a round that counts
    error: str = ""

    @property
    def median(self) -> float:
        """Seconds of a call: the median of the medians of the turns that count; of all, where none does."""
        counted = [t for t, counts in zip(self.turns, self.counted, strict=True) if counts]
        return statistics.median(counted or self.turns)


def race(
    model: str,
    inputs: Mapping[str, np.ndarray],
    names: Sequence[str],
    threads: int | None = None,
    rounds: int = 9,
    seconds: float = 0.1,
    counts: Callable[[], bool] = lambda: True,
    cold: bool = False,
) -> list[Row]:
    """A row for each runtime. In each of ``rounds`` every one is called for about ``seconds``, once at
    least; the others wait. What a runtime refuses is in its row. ``counts`` is asked before and after a round
    whether the machine is as it should be; as many rounds more, at most, take the place of those that do not
    count. ``cold``: the caches are emptied before each call."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "inputs.npz")
        with data.open("wb") as f:
            np.savez(f, **dict(inputs))  # type: ignore[arg-type]
        with contextlib.ExitStack() as stack:
            processes = [stack.enter_context(_Process(name, model, str(data), threads)) for name in names]
            good = 0
            for _ in range(2 * rounds):
                begins = counts()
                for p in processes:
                    time.sleep(ASLEEP)
                    p.turn(seconds, cold)
                time.sleep(ASLEEP)
                good += _count(processes, begins and counts())
                if good >= rounds:
                    break
            return [p.row for p in processes]


def _count(processes: Sequence[_Process], counts: bool) -> bool:
    """Note for the last turn of each whether its round counts, and return it."""
    for p in processes:
        p.row.counted += [counts] * (len(p.row.turns) - len(p.row.counted))
    return counts


class _Process:
    """A worker, started and ready when it is entered."""

    def __init__(self, name: str, model: str, inputs: str, threads: int | None) -> None:
        self.row = Row(name)
        wanted = [name, model, inputs, *([] if threads is None else [str(threads)])]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tensorlang.peers.worker", *wanted],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=options.of_children(str(Path(__file__).parents[2])),
            text=True,
        )

    def __enter__(self) -> _Process:
        said = self._hear()
        self.row.ready, self.row.version = said.get("ready", 0.0), said.get("version", "")
        return self

    def turn(self, seconds: float, cold: bool = False) -> None:
        """Call it for so long, with empty caches or as it comes."""
        if not self.row.error:
            assert self.process.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # the end of what it says tells
                print(seconds, *["cold"] * cold, file=self.process.stdin, flush=True)
            times = self._hear().get("times")
            if times:
                self.row.turns.append(statistics.median(times))

    def _hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        said = json.loads(line) if line else {"error": f"its process ended with {self.process.wait()}"}
        self.row.error = said.get("error", "")
        return said

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def table(rows: Sequence[Row]) -> str:
    """The figures as text: milliseconds, and how many times as long as ours a runtime takes. Raises
    TensorLangError when our own row has none."""
    ours = next(r for r in rows if r.name == OURS)
    if ours.error:
        raise TensorLangError(f"{OURS} did not run the model", because=ours.error)
    lines = [["", "file to answer", "a call", "turns from … to", "÷ ours"]]
    for r in rows:
        name = f"{r.name} {r.version}"
        if r.error:
            lines.append([name, " ".join(r.error.split())[:160]])
            continue
        span = f"{1e3 * min(r.turns):.3f} … {1e3 * max(r.turns):.3f}"
        median = f"{1e3 * r.median:.3f} ms"
        lines.append([name, f"{r.ready:.2f} s", median, span, f"{r.median / ours.median:.2f}×"])
    return aligned(lines)


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Columns, the first to the left and others to the right; a row that has fewer cells is not padded."""
    whole = [line for line in lines if len(line) == len(lines[0])]
    widths = [max(len(line[i]) for line in whole) for i in range(len(lines[0]))]
    widths[0] = max(len(line[0]) for line in lines)
    text = []
    for line in lines:
        cells = [c.rjust(w) if len(line) == len(widths) else c for c, w in zip(line, widths, strict=False)]
        text.append("  ".join([line[0].ljust(widths[0]), *cells[1:]]).rstrip())
    return "\n".join(text)
