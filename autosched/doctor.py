"""Whether this machine can tune, and how well: what is installed, whether a measurement works, how steady its
times are. Knows the rooms of the package by their public names.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import tensorlang as tl
from tensorlang import te
from tensorlang.analysis import costs_text, saved_at
from tensorlang.errors import counted
from tensorlang.options import settings
from tensorlang.roofline import peaks

from .autotune import cache_directory
from .measure import Job, Measurer
from .records import RecordLog
from .statuses import OK
from .task import SearchTask

NEEDED = ("numpy", "llvmlite", "rich", "filelock", "platformdirs")
OPTIONAL = {"matplotlib": "report.plot()", "dask": "measuring on a cluster"}
UNSTEADY = 0.1  # of the median


@dataclass(frozen=True)
class Finding:
    """One line of the examination; ``advice`` is what to do when it is not ``good``."""

    good: bool
    what: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{'ok' if self.good else '!!':<4}{self.what}" + (
            f"\n    {self.advice}" if self.advice else ""
        )


def examine(records: Sequence[str] = ()) -> Iterator[Finding]:
    """The findings one after the other, quick ones first; ``records`` are files to check too."""
    yield Finding(True, f"tensorlang {tl.__version__}, Python {sys.version.split()[0]} on {sys.platform}")
    yield from _packages()
    yield from (Finding(True, f"{name}={value}, from the environment") for name, value in settings().items())
    host = tl.Target.host()
    here = (
        # what this process may use, not what the machine has: a container may have two of sixty-four
        sorted(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else list(range(os.cpu_count() or 1))
    )
    yield Finding(
        len(here) > 1,
        f"target {host}, processors {here}",
        "" if len(here) > 1 else "with one processor, nothing is compiled while a candidate is timed",
    )
    yield _load(len(here))
    yield _costs(host)
    yield _cache()
    for path in records:
        yield _records(path)
    for check in (_measurement, _peaks):
        # slow ones last, and an error of one is a finding like others
        yield _guarded(check)


def _packages() -> Iterator[Finding]:
    for name in NEEDED:
        there = importlib.util.find_spec(name) is not None
        yield Finding(
            there,
            f"{name} {importlib.metadata.version(name) if there else 'is missing'}",
            "" if there else f"pip install {name}",
        )
    there = importlib.util.find_spec("xgboost") is not None
    yield Finding(
        there,
        "xgboost is there" if there else "xgboost is missing",
        "" if there else 'pip install xgboost-cpu, or tune(model="random")',
    )
    for name, what in OPTIONAL.items():
        if importlib.util.find_spec(name) is None:
            yield Finding(True, f"{name} is not installed: no {what}")


def _load(processors: int) -> Finding:
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    busy = load > 0.5 * processors
    return Finding(
        not busy,
        f"load {load:.1f} on {processors} processors",
        "others are at work: times will be unsteady" if busy else "",
    )


def _costs(host: tl.Target) -> Finding:
    try:
        text = costs_text(host)
    except tl.TensorLangError as e:
        return Finding(False, "no costs", str(e))
    offer = (
        ""
        if os.path.exists(saved_at(host.mcpu) or "")
        else "; python -m tensorlang calibrate measures this machine's"
    )
    return Finding(True, text + offer)


def _cache() -> Finding:
    try:
        place = cache_directory()
    except tl.TensorLangError as e:
        return Finding(False, "no cache", str(e))
    try:
        place.mkdir(parents=True, exist_ok=True)
        ok, why = os.access(place, os.W_OK), "it cannot be written"
    except OSError as e:
        ok, why = False, str(e)
    return Finding(
        ok,
        f"cache {place}",
        "" if ok else f"{why}: @autotune(cache=…) takes another directory, XDG_CACHE_HOME moves all caches",
    )


def _records(path: str) -> Finding:
    try:
        log = RecordLog(path)
    except tl.TensorLangError as e:
        return Finding(False, str(e))
    if not os.path.exists(path):
        return Finding(False, f"{path}: no such file")
    return Finding(
        not log.bad,
        f"{path}: {counted(len(log), 'record')}, {counted(len(log.bad), 'line')} skipped",
        "\n    ".join(str(b) for b in log.bad[:5]),
    )


def _guarded(check: Callable[[], Finding]) -> Finding:
    try:
        return check()
    except (tl.TensorLangError, OSError) as e:
        return Finding(False, f"{check.__name__.strip('_')}: {e}")


def _measurement() -> Finding:
    """A kernel measured as a candidate would be, several times."""
    n = 1 << 14
    a = te.placeholder((n,), name="a")
    task = SearchTask.of([a, te.compute((n,), lambda i: a[i] * 2.0, name="b")], name="doctor")
    trace = task.schedule().trace.to_json()
    with Measurer() as m:
        # by way of workers, as in a search: what they need is examined with it
        got = list(m.run(Job(i, task.graph, task.exact_key, str(task.target), trace) for i in range(5)))
    failed = next((o for o in got if o.status != OK), None)
    if failed is not None:
        return Finding(False, f"a measurement: {failed.status}", failed.error)
    medians = [statistics.median(o.times) for o in got]
    spread = (max(medians) - min(medians)) / statistics.median(medians)
    return Finding(
        spread <= UNSTEADY,
        f"measurement works; {len(got)} of the same kernel differ by {spread:.0%}",
        "" if spread <= UNSTEADY else "a quieter machine finds better schedules",
    )


def _peaks() -> Finding:
    p = peaks()
    return Finding(
        True,
        f"peaks with {p.threads} threads: {p.flops / 1e9:.0f} GFLOP/s float32, {p.bandwidth / 1e9:.1f} GB/s "
        "from memory",
    )
