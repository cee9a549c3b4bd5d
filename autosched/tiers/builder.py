"""In a worker process: fix the sizes of a computation, compile or tune it, leave the kernel in its file.
Knows tensorlang's public names, tasks and tune.

A job's ``trace`` is a ``Request`` as JSON. The workers are those of measurement (``autosched.measure``): they
may crash, hang or run out of memory, and their outcome says so. They run at low priority on any processor
(pinned to one they would wait for whoever is served there), so that the caller goes first.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tensorlang as tl
from tensorlang import te

from ..measure import Job, Outcome
from ..measure.protocol import BUILT
from ..statuses import BUILD_ERROR, OK, OUT_OF_MEMORY
from ..task import SearchTask
from ..tune import tune
from .shelf import write

_families: dict[str, list[te.Tensor]] = {}
NICE = 10  # a tenth of a processor that others want too


@dataclass(frozen=True)
class Request:
    """Make the kernel ``name`` for these ``sizes`` in ``file``, with the ``parts`` of its key. ``constants``
    is a file of arrays by the name of their tensors, or empty; with ``trials`` the schedule is searched for
    and ``records`` keeps what was measured, with none it is the default schedule."""

    name: str
    file: str
    parts: dict[str, Any]
    sizes: dict[str, int]
    target: str
    constants: str = ""
    trials: int = 0
    records: str = ""

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def build(job: Job, directory: str, say: Callable[[str], None]) -> Outcome:
    """Compile or tune. Never raises for what a computation may do, except by dying."""
    start = time.perf_counter()

    def outcome(status: str, error: str = "") -> Outcome:
        return Outcome(job.id, status, error, build_seconds=time.perf_counter() - start)

    with contextlib.suppress(OSError, AttributeError):
        os.nice(max(0, NICE - os.nice(0)))
        os.sched_setaffinity(0, os.sched_getaffinity(os.getppid()))
    try:
        request = Request(**json.loads(job.trace))
        tensors = te.serialize.resized(_family(job), request.sizes)
        kernel = _tuned(request, tensors) if request.trials else _compiled(request, tensors)
        write(Path(request.file), kernel, request.parts, time.perf_counter() - start)
        return outcome(BUILT)
    except tl.TensorLangError as e:
        return outcome(BUILD_ERROR, str(e))
    except MemoryError as e:
        return outcome(OUT_OF_MEMORY, str(e) or "no memory")
    except Exception as e:
        return outcome(BUILD_ERROR, f"{type(e).__name__}: {e} (a bug of the compiler)")


def hand_over(job: Job, directory: str, say: Callable[[str], None]) -> Outcome:
    """The second half of a job: nothing is left to do."""
    return Outcome(job.id, OK)


def _family(job: Job) -> list[te.Tensor]:
    """The computation with its sizes left open, read once."""
    if job.key not in _families:
        _families[job.key] = te.serialize.from_json(job.graph)
    return _families[job.key]


def _compiled(request: Request, tensors: list[te.Tensor]) -> tl.Module:
    constants = _constants(request, tensors)
    args = [t for t in tensors if t not in constants]
    return tl.compile(args, target=request.target, name=request.name, constants=constants)


def _tuned(request: Request, tensors: list[te.Tensor]) -> tl.Module:
    """The search begins at the default schedule, which is that of the tier below."""
    task = SearchTask.of(tensors, request.target, name=request.name)
    tune(task, request.trials, request.records or None, progress=False)
    schedule, args = task.apply_best(request.records)
    constants = _constants(request, args)
    return tl.build(
        schedule,
        [t for t in args if t not in constants],
        target=request.target,
        name=request.name,
        constants=constants,
    )


def _constants(request: Request, tensors: list[te.Tensor]) -> dict[te.Tensor, Any]:
    if not request.constants:
        return {}
    with np.load(request.constants) as arrays:
        return {t: arrays[t.name].view(t.dtype.to_numpy()) for t in tensors if t.name in arrays.files}
