"""Programs in which reductions feed each other, tuned; then the default kernel and the found one timed again
by other processes, in turns.

The tuner's own times choose the winner and so flatter it: the gain that counts is that of processes that know
nothing of the search, each of which builds one of the two kernels anew. Knows autosched's public names and
the programs.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import tensorlang as tl
from autosched import SearchTask, extract_tasks, tune
from autosched.space.rules import Where
from autosched.space.sketch import derive
from tensorlang import te

from .programs import program

TURNS = 5
SECONDS = 0.3  # of timing in a turn
Entry = dict[str, Any]


def tuned(name: str, trials: int, seed: int) -> Entry:
    """Derive, tune, and time both kernels in fresh processes. ``load`` is that of the machine when timing
    begins: what others ran."""
    task = SearchTask.of(program(name), name=name)
    begin = time.perf_counter()
    pieces = extract_tasks(task)
    sketches = [len(derive(t.schedule(), Where(t.target))) for t in pieces.tasks]
    derived = time.perf_counter() - begin
    begin = time.perf_counter()
    result = tune(task, trials=trials, seed=seed, progress=False)
    spent = time.perf_counter() - begin
    entry: Entry = {
        "program": name,
        "stages": len(task.schedule().stages),
        "tasks": len(pieces),
        "sketches": sketches,
        "derive": derived,
        "tune": spent,
        "trials": result.trials,
        "failures": result.failures,
        "claimed": result.gain,
        "load": os.getloadavg()[0],
    }
    if result.best is None:
        return entry
    times = _in_turns(name, {"default": "", "found": result.best.steps})
    medians = {what: statistics.median(t) for what, t in times.items()}
    ratios = [d / f for d, f in zip(times["default"], times["found"], strict=True)]
    return {
        **entry,
        "times": times,
        "default": medians["default"],
        "found": medians["found"],
        "gain": statistics.median(ratios),
    }


def _in_turns(name: str, kernels: dict[str, str]) -> dict[str, list[float]]:
    """Seconds of each kernel in each turn, a fresh process for every one; the order changes from turn to
    turn."""
    times: dict[str, list[float]] = {what: [] for what in kernels}
    for turn in range(TURNS):
        order = list(kernels) if turn % 2 == 0 else list(reversed(kernels))
        for what in order:
            asked = json.dumps({"program": name, "steps": kernels[what]})
            done = subprocess.run(
                [sys.executable, "-m", __name__], input=asked, capture_output=True, text=True, check=True
            )
            times[what].append(float(done.stdout))
    return times


def timed(name: str, steps: str) -> float:
    """Seconds of one run of a program's kernel, with these steps or as ``tl.compile`` makes it."""
    tensors = program(name)
    inputs = [t for t in tensors if isinstance(t.op, te.PlaceholderOp)]
    if steps:
        s = tl.Trace.from_json(steps).apply(tl.create_schedule([t for t in tensors if t not in inputs]))
        kernel = tl.build(s.concrete(), tensors)
    else:
        kernel = tl.compile(tensors)
    rng = np.random.default_rng(0)
    arrays = [_array(rng, t) for t in inputs]
    kernel(*arrays)
    return float(kernel.benchmark(*arrays, seconds=SECONDS).median)


def _array(rng: np.random.Generator, t: te.Tensor) -> Any:
    shape = [int(str(e)) for e in t.shape]
    return (
        rng.integers(0, 5, shape).astype("int32")
        if t.dtype.code == "int"
        else rng.random(shape, dtype=np.float32)
    )


def merged(file: Path, entries: list[Entry]) -> list[Entry]:
    """The programs of a result file with those measured now in their places: a long run may be made in
    parts."""
    known = {e["program"]: e for e in json.loads(file.read_text())["programs"]} if file.exists() else {}
    return list({**known, **{e["program"]: e for e in entries}}.values())


def table(entries: list[Entry]) -> str:
    """A line a program, and the geometric mean of the gains."""
    lines = [
        f"{'program':<22}{'stages':>7}{'tasks':>6}{'derive s':>10}{'tune s':>8}{'default µs':>12}{'found µs':>10}{'claimed':>9}{'gain':>7}"  # noqa: E501
    ]
    for e in entries:
        head = f"{e['program']:<22}{e['stages']:>7}{e['tasks']:>6}{e['derive']:>10.2f}{e['tune']:>8.1f}"
        if "gain" not in e:
            lines.append(f"{head}  nothing worked: {e['failures']}")
            continue
        claimed = f"{e['claimed']:.2f}" if e["claimed"] is not None else "–"
        lines.append(
            f"{head}{e['default'] * 1e6:>12.0f}{e['found'] * 1e6:>10.0f}{claimed:>9}{e['gain']:>7.2f}"
        )
    gains = [e["gain"] for e in entries if "gain" in e]
    if gains:
        mean = math.exp(statistics.mean(math.log(g) for g in gains))
        lines.append(f"geometric mean of {len(gains)}: {mean:.2f}, least {min(gains):.2f}")
    return "\n".join(lines)


if __name__ == "__main__":
    question = json.loads(sys.stdin.read())
    print(timed(question["program"], question["steps"]))
