"""The image pipelines and six operators beside Halide's autoschedulers (Adams et al., SIGGRAPH 2019;
Mullapudi et al., SIGGRAPH 2016), each in processes of its own, in turns. Halide is asked in an environment
that has it (``pip install halide==21.*``); answers are compared before anything is timed.

Knows autosched's public names, the pipelines and the question of ``halide_side``.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import tensorlang as tl
from autosched import SearchTask, tune
from tensorlang import te

from ..harness import machine
from .chains import elsewhere
from .suites import declared

SIDE = Path(__file__).with_name("halide_side.py")
SCHEDULERS = ("Adams2019", "Mullapudi2016")
Entry = dict[str, Any]


def beside(
    name: str, trials: int, seed: int, python: str, processes: int, threads: int | None = None
) -> Entry:
    """Tune a pipeline, and time it, the default schedule and Halide's in turns: median seconds over
    so many processes; a text where Halide fails or is wrong."""
    tensors = declared(name)
    rng = np.random.default_rng(0)
    inputs = [t for t in tensors if isinstance(t.op, te.PlaceholderOp)]
    values = [rng.random([int(str(e)) for e in t.shape], dtype=np.float32) for t in inputs]
    right = tl.compile(tensors)(*values)
    result = tune(SearchTask.of(tensors, name=name), trials=trials, seed=seed, progress=False)
    steps = "" if result.best is None else result.best.steps
    found: dict[str, list[float]] = {}
    failed: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as place:
        np.savez(Path(place) / "inputs.npz", *values)
        for _ in range(processes):
            ours = elsewhere(name, ["", "", steps], None)["times"]
            found.setdefault("default", []).append(ours[0])
            found.setdefault("tuned", []).append(ours[2])
            for s in [s for s in SCHEDULERS if s not in failed]:
                told = asked(python, name, s, threads or len(os.sched_getaffinity(0)), Path(place), right)
                if isinstance(told, str):
                    failed[s] = told
                else:
                    found.setdefault(s, []).append(told)
    return {
        "pipeline": name,
        "when": machine.now(),
        "trials": result.trials,
        "tune": result.seconds,
        "claimed": result.gain,
        "load": os.getloadavg()[0],
        "times": found,
        "median": {k: statistics.median(v) for k, v in found.items()},
        "failed": failed,
    }


def asked(python: str, name: str, scheduler: str, threads: int, place: Path, right: Any) -> float | str:
    """Seconds of one run of Halide's kernel, or why there are none."""
    output = place / "output.npy"
    command = [python, "-I", str(SIDE), name, scheduler, str(threads), str(place / "inputs.npz"), str(output)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["no reason"])[-1]
    got = np.load(output)
    if got.shape != right.shape or not np.allclose(got, right, rtol=1e-3, atol=1e-4):
        return "the answer is another one"
    return float(json.loads(done.stdout.splitlines()[-1])["median"])


def table(entries: list[Entry]) -> str:
    """Microseconds, and how many times as fast as the better of Halide's ours is."""
    columns = ("default", "tuned", *SCHEDULERS)
    lines = [f"{'pipeline':<24}" + "".join(f"{c + ' µs':>18}" for c in columns) + f"{'Halide ÷ ours':>15}"]
    ratios = []
    for e in entries:
        times = e["median"]
        cells = "".join(f"{times[c] * 1e6:>18.0f}" if c in times else f"{'–':>18}" for c in columns)
        theirs = min((times[s] for s in SCHEDULERS if s in times), default=None)
        ratio = None if theirs is None else theirs / min(times["default"], times["tuned"])
        ratios += [] if ratio is None else [ratio]
        lines.append(f"{e['pipeline']:<24}{cells}" + (f"{ratio:>15.2f}" if ratio else f"{'–':>15}"))
    if ratios:
        mean = statistics.geometric_mean(ratios)
        lines.append(f"geometric mean of {len(ratios)}: {mean:.2f}, least {min(ratios):.2f}")
    return "\n".join(lines)


def default_python() -> str:
    """Where Halide is: ``AUTOSCHED_HALIDE``, else this python."""
    return os.environ.get("AUTOSCHED_HALIDE", sys.executable)
