"""Small computations and templates, and fake measurement, for the tests of the tuner."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterable, Iterator, Sequence

import tensorlang as tl
from autosched.measure import Job, Outcome, runner
from autosched.measure.runner import measure
from tensorlang import te


def matmul(m: int, n: int, k: int) -> list[te.Tensor]:
    """C = A B."""
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), "k")
    return [a, b, te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")]


def conv(c: int, f: int, h: int, w: int) -> list[te.Tensor]:
    """3 x 3, same padding."""
    data, weight = te.placeholder((1, c, h, w), name="data"), te.placeholder((f, c, 3, 3), name="weight")
    padded = te.compute((1, c, h + 2, w + 2), lambda n, q, y, x: te.if_then_else(
        (y >= 1) & (y <= h) & (x >= 1) & (x <= w), data[n, q, y - 1, x - 1], te.const(0.0)), name="padded")  # type: ignore[operator]
    rc, ry, rx = te.reduce_axis((0, c), "rc"), te.reduce_axis((0, 3), "ry"), te.reduce_axis((0, 3), "rx")
    return [data, weight, te.compute((1, f, h, w), lambda n, q, y, x: te.sum(
        padded[n, rc, y + ry, x + rx] * weight[q, rc, ry, rx], axis=[rc, ry, rx]), name="out")]


def scale(n: int) -> list[te.Tensor]:
    """The smallest task: one loop."""
    a = te.placeholder((n,), name="A")
    return [a, te.compute((n,), lambda i: a[i] * 2.0, name="B")]


def scale_template(s: tl.Schedule, tensors: Sequence[te.Tensor]) -> None:
    """One knob."""
    b = tensors[-1]
    _, inner = s[b].split(s[b].op.axis[0], s.sample_tile(s[b].op.axis[0], max_factor=32, name="v"))
    s[b].vectorize(inner)


class Pretend:
    """Measures nothing: the cost is a fixed function of the sampled values. Every third candidate fails in some way."""

    def __init__(self, fail: bool = False) -> None:
        self.fail = fail
        self.traces: list[str] = []

    def run(self, jobs: Iterable[Job]) -> Iterator[Outcome]:
        for job in jobs:
            self.traces.append(job.trace)
            values = [v for vs in json.loads(job.trace)["decisions"].values() for v in vs]
            cost = 1e-3 * (1 + sum((v - 7) ** 2 / (i + 3) for i, v in enumerate(values)))
            if self.fail and len(self.traces) % 3 == 0:
                yield Outcome(job.id, "crash", "the worker died of SIGSEGV")
            else:
                yield Outcome(job.id, "ok", times=(cost,))


def faulty(job: Job, directory: str | None = None) -> Outcome:
    """A worker's entry that misbehaves by the number of the job: each kind of disaster, between good ones."""
    kind = job.id % 8
    if kind == 1:
        os.kill(os.getpid(), signal.SIGSEGV)
    if kind == 2:
        time.sleep(60)
    if kind == 3:
        return Outcome(job.id, "ok" if len(bytearray(8 << 30)) < 0 else "lost")
    if kind == 4:
        os._exit(7)
    if kind == 5:
        os.abort()
    return measure(job, directory)


def swap_operands(job: Job, directory: str | None = None) -> Outcome:
    """A worker whose compiler is wrong: it builds another computation than the one whose answers it holds."""
    other = job.graph.replace("2.0", "3.0")
    first = measure(Job(0, job.graph, job.key, job.target, job.trace), directory)
    assert first.status == "ok"
    runner._workbenches[job.key].tensors = runner.Workbench(other, None).tensors
    bench = runner._workbenches[job.key]
    bench.outputs = [bench.tensors[-1]]
    bench.arrays = dict(zip(bench.tensors, bench.arrays.values(), strict=True))
    return measure(job, directory)
