"""The tuner beside MetaSchedule and beside libraries: equal trials on one machine, then the best kernels of
all in turns in one process.

Knows the harness, cases, and how both tuners are called. MetaSchedule is left out with a note where it is not
installed, and a case of it that fails or takes too long has its reason in the table.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import tensorlang as tl
from autosched import tune
from autosched.measure import Measurer, Stages

from ..harness.case import problem
from ..harness.figures import geomean
from ..harness.measure import ratio, take_turns
from ..peers import PEERS
from . import metaschedule
from .cases import CASES, task_of
from .urgent import urgent

LIBRARIES = ("torch", "onnxruntime", "numpy")
BUDGET = 3.0  # seconds of timing a case


def compare(
    names: list[str], trials: int, seed: int, directory: Path, limit: float, tuners: list[str]
) -> list[dict[str, Any]]:
    """An entry for each case: seconds to tune, the median of each, how many times as fast ours is."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        if "ours" in tuners:
            _ours(name, trials, seed, directory)
        if "metaschedule" in tuners:
            _theirs(name, trials, seed, directory, limit)
    urgent()  # before any library starts its threads: all have the same priority
    return [_timed(name, trials, directory) for name in names]


def _ours(name: str, trials: int, seed: int, directory: Path) -> None:
    file = directory / f"{name}.{trials}.ours"
    if file.exists():
        return
    task, begin, busy = task_of(name), time.perf_counter(), _busy()
    with Measurer(Stages(run="benchmarks.autosched.urgent:run")) as measurer:
        result = tune(task, trials=trials, seed=seed, measurer=measurer, progress=False)
    told = {
        "status": "ok",
        "seconds": time.perf_counter() - begin,
        "cpu": _busy() - busy,
        "gain": result.gain,
    }
    print(result, flush=True)
    assert result.schedule is not None
    file.with_suffix(".ours.json").write_text(json.dumps(told))
    tl.build(result.schedule, task.tensors, target=task.target, name="best").save(file)


def _theirs(name: str, trials: int, seed: int, directory: Path, limit: float) -> None:
    file = directory / f"{name}.{trials}.so"
    if file.exists() or importlib.util.find_spec("tvm") is None:
        return
    command = [
        sys.executable,
        "-m",
        "benchmarks.autosched.metaschedule",
        name,
        str(trials),
        str(seed),
        str(file),
    ]
    begin, busy = time.perf_counter(), _busy()
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=limit,
            env={**os.environ, "TVM_NUM_THREADS": str(os.cpu_count())},
        )
        said = done.stdout.strip().splitlines()[-1:] or [""]
        found = (
            json.loads(said[0])
            if done.returncode == 0
            else {"status": "failed", "note": (done.stderr.strip().splitlines() or [""])[-1][:200]}
        )
    except subprocess.TimeoutExpired:
        found = {"status": "failed", "note": f"not done after {limit:g} s"}
    found.setdefault("seconds", time.perf_counter() - begin)
    found["cpu"] = _busy() - busy
    (directory / f"{name}.{trials}.so.json").write_text(json.dumps(found))


def _busy() -> float:
    """Seconds of processor time of this process and of all its children that ended: what a tune costs,
    whoever else the machine works for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def _timed(name: str, trials: int, directory: Path) -> dict[str, Any]:
    """The kernels of one case in turns; only right results are timed."""
    case = CASES[name]
    arrays = case.inputs()
    expected = case.reference(*arrays.values())
    entry: dict[str, Any] = {"case": name, "trials": trials, "flops": case.flops}
    runs: dict[str, Any] = {}
    kept: list[Any] = []
    out = case.empty()
    for who in ("ours", "so"):
        told = directory / f"{name}.{trials}.{who}.json"
        entry["ours" if who == "ours" else "metaschedule"] = (
            json.loads(told.read_text()) if told.exists() else {"status": "skipped"}
        )
    if (file := directory / f"{name}.{trials}.ours").exists():
        runs["ours"] = _ready(tl.load(file), case, arrays, expected, out)
    inputs = tl.compile(task_of(name).tensors, name="default")
    runs["default"] = _ready(inputs, case, arrays, expected, out)
    if (file := directory / f"{name}.{trials}.so").exists():
        run, result = metaschedule.kernel(str(file), case, arrays)
        wrong = problem(case, result(), expected)
        if wrong is None:
            runs["metaschedule"] = run
        else:
            entry["metaschedule"] = {"status": "wrong", "note": wrong}
    for library in LIBRARIES:
        try:
            peer = PEERS[library]()
            peer.start(os.cpu_count() or 1)
        except ImportError:
            continue
        if peer.unsupported(case) is None:
            prepared = peer.prepare(case, arrays)
            if problem(case, prepared.result(), expected) is None:
                runs[library] = prepared.run
                kept.append(prepared)
    samples = take_turns(runs, budget=BUDGET)
    entry["median"] = {who: s.median for who, s in samples.items()}
    if "ours" in samples:
        entry["ratio"] = {who: ratio(samples["ours"], s)[0] for who, s in samples.items() if who != "ours"}
    return entry


def _ready(kernel: Any, case: Any, arrays: dict[str, Any], expected: Any, out: Any) -> Any:
    """A call of one of our kernels; all of them write the same array, for where its pages lie makes a
    difference of 20 %."""
    args = [*arrays.values(), out]
    out.fill(math.nan)
    kernel(*args)
    wrong = problem(case, out, expected)
    if wrong is not None:
        raise tl.TensorLangError(f"{case.name}: {wrong}")
    return lambda: kernel(*args)


def table(entries: list[dict[str, Any]]) -> str:
    """The entries as lines of text, and the geometric means."""
    heads = ["default", "metaschedule", *LIBRARIES]
    columns = "".join(f"{h:>14}" for h in [*heads, "best library"]) + "".join(
        f"{h:>9}" for h in ("tune s", "theirs s", "cpu s", "theirs")
    )
    lines = [f"{'times as fast as':<18}" + columns]
    best: list[float] = []
    for e in entries:
        r = e.get("ratio", {})
        e["best library"] = min((r[x] for x in LIBRARIES if x in r), default=None)
        best += [e["best library"]] if e["best library"] else []
        lines.append(
            f"{e['case']:<18}"
            + "".join(f"{r[h]:>14.2f}" if h in r else f"{'–':>14}" for h in heads)
            + (f"{e['best library']:>14.2f}" if e["best library"] else f"{'–':>14}")
            + "".join(
                f"{e[who].get(of, math.nan):>9.1f}"
                for of in ("seconds", "cpu")
                for who in ("ours", "metaschedule")
            )
        )
    means = {h: [e["ratio"][h] for e in entries if h in e.get("ratio", {})] for h in heads} | {
        "best library": best
    }
    lines.append(
        f"{'geometric mean':<18}" + "".join(f"{geomean(means[h]):>14.2f}" for h in [*heads, "best library"])
    )
    lines += [
        f"{e['case']}: MetaSchedule {e['metaschedule']['status']} {e['metaschedule'].get('note', '')}"
        for e in entries
        if e["metaschedule"]["status"] != "ok"
    ]
    return "\n".join(lines)


def scratch() -> Path:
    """A place for kernels."""
    return Path(tempfile.mkdtemp(prefix="autosched-benchmark-"))
