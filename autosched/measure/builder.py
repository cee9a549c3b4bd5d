"""Inside a builder: replay the trace within bounds, compile, leave the kernel in a file. Knows tensorlang's
public names.

A kernel stays in the directory for a while, so that timing a finalist again builds nothing. So do the nests
of which it was made, for the next candidates (see ``tensorlang.piecewise``). What users build is not made of
nests; where a gain is to be told, it is timed as it is.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import tensorlang as tl
from tensorlang import piecewise, te

from ..records.replay import Replays
from ..statuses import BUILD_ERROR, OUT_OF_MEMORY, REFUSED
from .nests import SUFFIX, Nests
from .protocol import BUILT, Job, Outcome
from .small import quiet, small_job

KEPT = 8 << 20  # bytes of kernels and nests in the directory, which is in memory: some hundreds of them
NAME = "candidate"
LOOK = 1 << 20  # bytes written by one builder from one look at what is kept to the next
LOOPS = '["loops",'  # how a program of loops begins in the text of a computation
_computations: dict[str, list[te.Tensor]] = {}
_replays: dict[str, Replays] = {}
_written = 0  # since the last look


def kernel_file(job: Job, directory: str, trace: str | None = None) -> Path:
    """Where the kernel of a job is, or will be; ``trace`` is one of those in ``also``."""
    text = f"{job.key}\n{job.target}\n{job.whole}\n{job.trace if trace is None else trace}"
    name = hashlib.sha256(text.encode()).hexdigest()[:24]
    return Path(directory) / f"{name}.kernel"


def computation(job: Job) -> list[te.Tensor]:
    """The tensors of a job, read once. Raises DeclareError for a program of loops that is not known here."""
    result = _computations.get(job.key)
    if result is None:
        if LOOPS in job.graph:
            vars(
                tl.ops
            )  # its programs are known by name from when it is loaded, which candidates seldom need
        result = _computations[job.key] = te.serialize.from_json(job.graph)
    return result


def _replayed(job: Job, trace: str) -> tl.Schedule:
    """The schedule of a candidate. Raises ScheduleError."""
    known = _replays.get(job.key)
    if known is None:
        known = _replays[job.key] = Replays(tl.create_schedule(outputs_of(computation(job))))
    return known.replay(trace)


def outputs_of(tensors: list[te.Tensor]) -> list[te.Tensor]:
    """Those that are computed."""
    return [t for t in tensors if not isinstance(t.op, te.PlaceholderOp)]


def build(job: Job, directory: str, say: Callable[[str], None]) -> Outcome:
    """Compile the candidates of a job. Never raises for what a candidate may do, except by dying."""
    start, times, nests = time.perf_counter(), tl.TimeTable(), Nests(Path(directory))

    def outcome(status: str, error: str = "") -> Outcome:
        took = time.perf_counter() - start
        llvm = sum(seconds for name, seconds in times.seconds.items() if name.startswith("LLVM"))
        parts = {"lower": took - llvm, "LLVM": llvm} if times.seconds else {}
        return Outcome(job.id, status, error, build_seconds=took, parts=parts)

    try:
        for trace in job.traces:
            file = kernel_file(job, directory, trace)
            if _kept(file):
                continue
            try:
                tensors = computation(job)
            except tl.DeclareError as e:
                return outcome(BUILD_ERROR, str(e))
            try:
                schedule = _replayed(job, trace)
            except tl.ScheduleError as e:
                return outcome(REFUSED, str(e))
            try:
                kernel = _built(job, schedule, tensors, nests, times)
            except MemoryError:
                raise
            except tl.TensorLangError as e:
                return outcome(BUILD_ERROR, str(e))
            except Exception as e:
                return outcome(BUILD_ERROR, f"{type(e).__name__}: {e} (a bug of the compiler)")
            _make_room(Path(directory), len(kernel.object_code) + nests.taken())
            kernel.save(file)
        return outcome(BUILT)
    except MemoryError as e:
        return outcome(OUT_OF_MEMORY, str(e) or "no memory")


def _built(
    job: Job, schedule: tl.Schedule, tensors: list[te.Tensor], nests: Nests, times: tl.TimeTable
) -> tl.Module:
    """The kernel of a schedule."""
    if job.whole:
        return tl.build(schedule, tensors, target=job.target, name=NAME, times=times, load=False)
    return piecewise.build(schedule, tensors, job.target, NAME, nests, times)


def prepare(directory: str) -> None:
    """Build small kernels in the process of which builders are forked, so that they find the compiler loaded.
    What fails here fails again in a worker, where it is reported."""
    for parallel in (False, True):
        build(small_job(parallel), directory, quiet)


def _kept(file: Path) -> bool:
    """Whether the kernel is there still. It is the newest now, and not the next that another builder
    removes."""
    try:
        os.utime(file)
    except FileNotFoundError:
        return False
    return True


def _make_room(directory: Path, size: int) -> None:
    """Remove the oldest kernels where all of them take too much, looked at once in a while: with 400 of them
    a look takes two milliseconds. Another builder may be removing the same ones."""
    global _written
    _written += size
    if _written < LOOK:
        return
    _written, kernels = 0, []
    for file in (*directory.glob("*.kernel"), *directory.glob(f"*{SUFFIX}")):
        with contextlib.suppress(OSError):
            found = file.stat()
            kernels.append((found.st_mtime, found.st_size, file))
    size = sum(n for _, n, _ in kernels)
    for _, n, old in sorted(kernels) if size > KEPT else ():
        if size <= KEPT:
            return
        with contextlib.suppress(OSError):
            old.unlink()
        size -= n
