"""Programs in which reductions feed each other, tuned; then the default kernel and the found one timed again
by other processes, in turns.

The tuner's own times choose the winner and so may flatter it: the gain that counts is that of processes that
know nothing of the search. Each of them builds the default kernel twice and the found one, and times the
three in short turns, the arrays in several places of memory: where a hypervisor puts two processors, or what
others do, changes the time of a kernel by a third within seconds, and with a process for each kernel, a
kernel beside itself came out between 0.94 and 1.07. The two builds of the default kernel say what is left of
that: ``self``. A hypervisor also lets two processors share a core for some seconds, where gains of several
threads are others altogether: what counts is what was timed while each had a core, as in the tuner (see
``autosched.measure.cores``), where there is such a time; ``anyhow`` is the gain of all turns.

Default schedules get better too, and leave less to find. So the schedule that ``tl.compile`` gave a task
when the suite was drawn up is timed where its trace was kept (``first_defaults.json``): ``since`` is how many
times as fast as that the found kernel is. It takes turns of its own with the found one, after the others:
what runs before a kernel may leave its data in another state, which lasts longer than a turn. After the first
default of the perceptron its present one takes 89 µs, which go back to the usual 97 in the course of 300
runs; among the same turns, that made a gain of 1.11 one of 1.06.

Knows autosched's public names and the programs.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import tensorlang as tl
from autosched import SearchTask, tune
from autosched.measure import Measurer, Stages, cores
from autosched.measure.rounds import rounds
from autosched.measure.runner import LINE, MALLOC, PAGE, placed
from autosched.records.record import median_interval
from autosched.space.rules import Where
from autosched.space.sketch import derive
from autosched.tuning.extract import pieces_of
from tensorlang import te
from tensorlang.roofline import peak_flops

from ..harness import machine
from .suites import declared
from .urgent import urgent

PROCESSES, MORE = 10, 2  # on processors that are cores; others are replaced, by so many times as many in all
NEAR = 0.03  # what was told of a gain may be this far from what is true
FIRST = Path(__file__).with_name("first_defaults.json")  # traces by "task|threads", of an AVX-512 machine
PLACES, ROUNDS = 4, 12  # of the arrays in a process; of turns in each place
ENOUGH = 12  # turns on processors that are cores, for the others not to count
TURN = 2e-3  # seconds of a kernel in a turn, after half as many that do not count
Entry = dict[str, Any]


def tuned(name: str, trials: int, seed: int, threads: int | None = None) -> Entry:
    """Derive, tune, and time both kernels in fresh processes. ``load`` is that of the machine when timing
    begins: what others ran; ``share`` is how much of the peak of multiply-adds the default kernel reaches;
    ``threads`` that the kernels may use (None: all)."""
    target = target_of(threads)
    task = SearchTask.of(declared(name), target, name=name)
    begin = time.perf_counter()
    pieces = pieces_of(task, finely=True)
    sketches = [len(derive(t.schedule(), Where(t.target))) for t in dict.fromkeys([task, *pieces.tasks])]
    derived = time.perf_counter() - begin
    begin = time.perf_counter()
    with Measurer(Stages(run="benchmarks.autosched.urgent:run")) as measurer:
        result = tune(task, trials=trials, seed=seed, measurer=measurer, progress=False)
    spent = time.perf_counter() - begin
    entry: Entry = {
        "program": name,
        "when": machine.now(),
        "stages": len(task.schedule().stages),
        "tasks": len(pieces),
        "sketches": sketches,
        "derive": derived,
        "tune": spent,
        "trials": result.trials,
        "spent": dict(result.spent),
        "interval": result.gain_interval,
        "failures": result.failures,
        "claimed": result.gain,
        "load": os.getloadavg()[0],
    }
    if result.best is None:
        return entry
    kernels, first = ["", "", result.best.steps], first_default(name, threads)
    told, every = said(name, kernels, target, PROCESSES, first)
    default, found = (statistics.median(t["times"][i] for t in told) for i in (0, 2))
    since = [t["since"] for t in told if "since" in t]
    return {
        **entry,
        "kept": result.best.start,
        "times": [t["times"] for t in told],
        "default": default,
        "found": found,
        "share": task.flops / default / max(t["peak"] for t in told),
        "self": statistics.median(t["ratios"][1] for t in told),
        "gains": [t["ratios"][2] for t in told],
        "gain": statistics.median(t["ratios"][2] for t in told),
        "anyhow": statistics.median(t["anyhow"][2] for t in every),
        "shared": sum(t["shared"] for t in every),
        "since": statistics.median(since) if since else None,
    }


def first_default(name: str, threads: int | None) -> list[str]:
    """The steps of the schedule that the task had by default at first, if they were kept."""
    known = json.loads(FIRST.read_text())
    return [s for k, s in known.items() if k == f"{name}|{threads or len(os.sched_getaffinity(0))}"]


def agrees(entry: Entry) -> str:
    """Whether what was told is true: "within" so much, or as far as both are known ("interval"); else "no". A
    default schedule that was kept is told to gain nothing."""
    told, true = entry["claimed"] or 1.0, entry["gain"]
    if abs(told / true - 1.0) <= NEAR:
        return "within"
    low, high = entry.get("interval") or (told, told)
    least, most = median_interval(entry["gains"])
    return "interval" if low <= most and least <= high else "no"


def target_of(threads: int | None) -> str | None:
    """This machine with so many of its processors; None, as the default, for all."""
    return None if threads is None else f"llvm -mcpu={tl.Target.host().mcpu} -num-cores={threads}"


def said(
    name: str, kernels: list[str], target: str | None, processes: int, first: Sequence[str] = ()
) -> tuple[list[Entry], list[Entry]]:
    """What fresh processes say of kernels (see ``timed``): the ones that count, and all. One in which two
    processors shared a core is replaced, as long as there are not MORE times as many as asked for."""
    every: list[Entry] = []
    while sum(not t["shared"] for t in every) < processes and len(every) < MORE * processes:
        every.append(elsewhere(name, kernels, target, first))
    told = [t for t in every if not t["shared"]]
    return told if len(told) > processes // 2 else every, every


def elsewhere(name: str, kernels: list[str], target: str | None, first: Sequence[str] = ()) -> Entry:
    """What a fresh process says of kernels (see ``timed``)."""
    asked = json.dumps({"name": name, "kernels": kernels, "target": target, "first": list(first)})
    command = [sys.executable, "-m", __name__]
    done = subprocess.run(command, input=asked, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def timed(name: str, kernels: list[str], target: str | None = None, first: Sequence[str] = ()) -> Entry:
    """Kernels made with these steps or, without any, as ``tl.compile`` makes them: ``times`` of one run of
    each in seconds; ``ratios``, how many times as fast each is as the first, the median over the turns that
    count; ``anyhow``, over all; ``shared``, whether all had to count; ``peak`` operations a second of
    multiply-adds; ``since``, how many times as fast the last is as that of the steps in ``first``, if there
    are any, in other turns."""
    with cores.threads_of(target):
        return _timed(name, kernels, target, first)


def _timed(name: str, kernels: list[str], target: str | None, first: Sequence[str]) -> Entry:
    tensors = declared(name)
    inputs = [t for t in tensors if isinstance(t.op, te.PlaceholderOp)]
    rng = np.random.default_rng(0)
    values = [_array(rng, t) for t in inputs]
    built = [_kernel(tensors, steps, target) for steps in kernels]
    outputs = built[0](*values)
    arrays = [*values, *(outputs if isinstance(outputs, tuple) else (outputs,))]
    counted, samples, shared = _in_turns(built, arrays, len(values))
    found = {
        "times": [statistics.median(s) for s in zip(*counted, strict=True)],
        "ratios": _ratios(counted),
        "anyhow": _ratios(samples),
        "shared": shared,
        "peak": peak_flops(),
    }
    if first:
        both = [_kernel(tensors, first[0], target), built[-1]]
        found["since"] = _ratios(_in_turns(both, arrays, len(values))[0])[1]
    return found


Turns = list[tuple[float, ...]]


def _in_turns(built: list[tl.Module], arrays: list[Any], inputs: int) -> tuple[Turns, Turns, bool]:
    """The seconds of each kernel in the turns that count, in all, and whether all had to count. In every
    second place the first so many arrays, the ``inputs``, begin in a line, as numpy's do."""
    parallel = any(b"tensorlang_parallel" in k.object_code for k in built)
    threads = tl.num_threads() if parallel else 1
    samples: Turns = []
    good: Turns = []
    here: list[Any] = []
    going = rounds([partial(_turn, k, here) for k in built], lambda: cores.apart(threads))
    for place in range(PLACES):
        here[:] = [
            placed(a, (place * 7 + n) * 11 * LINE % PAGE + (0 if place % 2 or n >= inputs else MALLOC))
            for n, a in enumerate(arrays)
        ]
        for taken, alone in itertools.islice(going, ROUNDS):
            samples.append(taken)
            if alone:
                good.append(taken)
    shared = len(good) < ENOUGH
    return samples if shared else good, samples, shared


def _ratios(turns: Turns) -> list[float]:
    """How many times as fast each kernel is as the first, the median of the turns."""
    return [statistics.median(t[0] / t[i] for t in turns) for i in range(len(turns[0]))]


def _kernel(tensors: list[te.Tensor], steps: str, target: str | None) -> tl.Module:
    if not steps:
        return tl.compile(tensors, target)
    s = tl.create_schedule([t for t in tensors if not isinstance(t.op, te.PlaceholderOp)])
    return tl.build(tl.Trace.from_json(steps).apply(s).concrete(), tensors, target)


def _turn(kernel: tl.Module, arrays: list[Any]) -> float:
    """Seconds of a run: the mean of a turn."""
    call, clock = kernel.entry, time.perf_counter
    begin = clock()
    call(*arrays)
    n = max(1, round(TURN / (clock() - begin)))
    for _ in range(n // 2):
        call(*arrays)
    begin = clock()
    for _ in range(n):
        call(*arrays)
    return (clock() - begin) / n


def _array(rng: np.random.Generator, t: te.Tensor) -> Any:
    shape = [int(str(e)) for e in t.shape]
    if t.dtype.code == "int":
        return rng.integers(0, 5, shape).astype("int32")
    return rng.random(shape, dtype=np.float32)


def merged(file: Path, entries: list[Entry]) -> list[Entry]:
    """The programs of a result file with those measured now in their places: a long run may be made in
    parts."""
    known = {e["program"]: e for e in json.loads(file.read_text())["programs"]} if file.exists() else {}
    return list({**known, **{e["program"]: e for e in entries}}.values())


def table(entries: list[Entry]) -> str:
    """A line a program, and the geometric mean of the gains."""
    heads = (
        "stages",
        "tasks",
        "derive s",
        "tune s",
        "default µs",
        "of peak",
        "found µs",
        "told",
        "true",
        "self",
        "since",
    )
    lines = [f"{'program':<22}" + "".join(f"{h:>11}" for h in heads)]
    for e in entries:
        cells = [str(e["stages"]), str(e["tasks"]), f"{e['derive']:.2f}", f"{e['tune']:.1f}"]
        if "gain" in e:
            told = f"{e['claimed']:.2f}" if e["claimed"] is not None else "–"
            cells += [f"{e['default'] * 1e6:.0f}", f"{e['share']:.0%}", f"{e['found'] * 1e6:.0f}", told]
            cells += [f"{e['gain']:.2f}", f"{e['self']:.2f}"]
            cells += [f"{e['since']:.2f}" if e.get("since") else "–"]
        else:
            cells.append(f"  nothing worked: {e['failures']}")
        lines.append(f"{e['program']:<22}" + "".join(f"{c:>11}" for c in cells))
    gains = [e["gain"] for e in entries if "gain" in e]
    if gains:
        mean = statistics.geometric_mean(gains)
        lines.append(f"geometric mean of {len(gains)}: {mean:.2f}, least {min(gains):.2f}")
    since = [e["since"] for e in entries if e.get("since")]
    if since:
        mean = statistics.geometric_mean(since)
        lines.append(f"over the first defaults, of {len(since)}: {mean:.2f}, least {min(since):.2f}")
    found = [agrees(e) for e in entries if "gains" in e]
    if found:
        counts = ", ".join(f"{found.count(k)} {k}" for k in ("within", "interval", "no"))
        lines.append(f"told and true of {len(found)}, within {NEAR:.0%} or both intervals: {counts}")
    return "\n".join(lines)


if __name__ == "__main__":
    urgent()
    question = json.loads(sys.stdin.read())
    print(json.dumps(timed(**question)))
