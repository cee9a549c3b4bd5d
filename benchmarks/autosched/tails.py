"""What another tail of a split would be worth: the best schedules found for sizes that nothing divides, each
with every other ``tail=`` at every split, in turns. Knows autosched's public names and the harness.

It is why the search does not sample tails: ``auto`` chooses for each tile, and what it chooses is as fast as
the best of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import tensorlang as tl
from autosched import SearchTask, tune
from autosched.measure import Measurer, Stages
from tensorlang import ops, te

from ..harness.measure import ratio, take_turns
from .urgent import urgent

TAILS = ("guard", "mask", "peel", "shift")
BUDGET = 4.0  # seconds of timing a task
Trace = Any


def _matmul(m: int, n: int, k: int) -> list[te.Tensor]:
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    return [a, b, ops.matmul(a, b)]


def _conv(c: int, size: int, f: int) -> list[te.Tensor]:
    x, w, b = (
        te.placeholder((1, c, size, size), name="x"),
        te.placeholder((f, c, 3, 3), name="w"),
        te.placeholder((f,), name="b"),
    )
    return [x, w, b, ops.relu(ops.conv2d(x, w, b, padding=1))]


def _row(op: Callable[[te.Tensor], te.Tensor], m: int, n: int) -> list[te.Tensor]:
    x = te.placeholder((m, n), name="x")
    return [x, op(x)]


TASKS: dict[str, Callable[[], Sequence[te.Tensor]]] = {
    "matmul 251 251 251": lambda: _matmul(251, 251, 251),
    "matmul 131 1009 67": lambda: _matmul(131, 1009, 67),
    "conv 31 37 29 3": lambda: _conv(31, 37, 29),
    "softmax 199 1009": lambda: _row(lambda x: ops.softmax(x, -1), 199, 1009),
    "gelu 199 1009": lambda: _row(ops.gelu, 199, 1009),
}


def compare(trials: int, seed: int) -> list[dict[str, Any]]:
    """For each task, how long its best kernel takes with each tail at each split, as a multiple of ``auto``
    everywhere; and the bytes of code."""
    with Measurer(Stages(run="benchmarks.autosched.urgent:run")) as measurer:
        found = []
        for name, tensors in TASKS.items():
            task = SearchTask.of(tensors(), name=name)
            best = tune(task, trials=trials, seed=seed, measurer=measurer, progress=False).best
            assert best is not None
            found.append((task, best.trace()))
    urgent()
    return [_timed(task, trace) for task, trace in found]


def _timed(task: SearchTask, trace: Trace) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    arrays = [
        rng.integers(-4, 5, [int(str(e)) for e in t.shape]).astype(t.dtype.to_numpy()) for t in task.tensors
    ]
    kernels: dict[str, Any] = {}
    expected = None
    for what, other in [("auto", trace), *_others(trace)]:
        try:
            kernel = tl.build(other.apply(task.schedule()), task.tensors, target=task.target)
        except tl.TensorLangError:
            continue  # not every loop can have every tail
        kernel(*arrays)
        expected = arrays[-1].copy() if expected is None else expected
        np.testing.assert_allclose(arrays[-1], expected, rtol=1e-4, atol=1e-4)
        kernels[what] = kernel
    samples = take_turns({what: (lambda k=k: k(*arrays)) for what, k in kernels.items()}, budget=BUDGET)
    times = {what: ratio(samples["auto"], s)[0] for what, s in samples.items()}
    return {
        "task": task.name,
        "auto": samples["auto"].median,
        "times": times,
        "bytes": {what: len(k.object_code) for what, k in kernels.items()},
    }


def _others(trace: Trace) -> Iterator[tuple[str, Trace]]:
    for i, p in enumerate(trace.steps):
        if p.name == "split" and p.arguments()["tail"] == "auto":
            for tail in TAILS:
                changed = type(p)(**{**p.arguments(), "tail": tail})
                yield (
                    f"{p.stage}.{p.loop} {tail}",
                    tl.Trace((*trace.steps[:i], changed, *trace.steps[i + 1 :]), trace.decisions),
                )


def table(found: list[dict[str, Any]]) -> str:
    """The best and the worst tail of each kind, over all splits but those whose code is what ``auto``
    makes."""
    lines = [f"{'times as long as auto':<24}" + "".join(f"{tail:>16}" for tail in TAILS)]
    for f in found:
        cells = []
        for tail in TAILS:
            mine = [
                t
                for what, t in f["times"].items()
                if what.endswith(f" {tail}") and f["bytes"][what] != f["bytes"]["auto"]
            ]
            cells.append(f"{min(mine):.2f} to {max(mine):.2f}" if mine else "–")
        lines.append(f"{f['task']:<24}" + "".join(f"{c:>16}" for c in cells))
    return "\n".join(lines)
