"""``python -m benchmarks.models [model …]``: real models beside onnxruntime, on two threads.

For each size: the largest difference over the scale of the answer, kernels compiled for that size alone
(none is wanted), and medians of calls in turns.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import onnxruntime

import tensorlang as tl
from tensorlang.graph.engine import compiled
from tensorlang.graph.kernels import Compiler

from .cases import CASES
from .fetch import path

TURNS = 9


def medians(*functions: Callable[[], Any]) -> list[float]:
    """Milliseconds of each, called in turns."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(TURNS):
        for f, found in zip(functions, times, strict=True):
            begin = time.perf_counter()
            f()
            found.append(time.perf_counter() - begin)
    return [1e3 * statistics.median(t) for t in times]


def peer(file: str, threads: int) -> Any:
    """onnxruntime's session."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])


def compare(model: str, threads: int, level: int) -> None:
    """The rows of one model."""
    file = path(model)
    if file is None:
        print(f"{model}: not fetched, python -m benchmarks.models.fetch")
        return
    begin = time.perf_counter()
    graph, compiler = tl.load_onnx(file), Compiler()
    engine = compiled(graph, compiler, level)
    took = time.perf_counter() - begin
    names, session = {v.name for v in graph.inputs}, peer(str(file), threads)
    print(
        f"{model}: {len(graph.nodes)} operators, compiled in {took:.1f} s"
        + (" for some" * (graph.rest is not None))
    )
    for inputs in CASES[model]():
        given = {k: a for k, a in inputs.items() if k in names}
        before, begin = len(compiler.made), time.perf_counter()
        got = engine.run(given).values()
        first = time.perf_counter() - begin
        differ = max(
            float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-9))
            for a, b in zip(got, session.run(None, given), strict=True)
        )
        shape = " ".join(str(a.shape) for a in given.values())
        ours, theirs = medians(partial(engine.run, given), partial(session.run, None, given))
        print(
            f"  {shape:<44} difference {differ:.0e}, {len(compiler.made) - before} kernels, "
            f"first {first:.3f} s, {ours:8.3f} ms, onnxruntime {theirs:8.3f} ms, {theirs / ours:.2f}×",
            flush=True,
        )


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=list(CASES))
    parser.add_argument(
        "--threads", type=int, default=2, help="of onnxruntime; ours by TENSORLANG_NUM_THREADS"
    )
    parser.add_argument("--level", type=int, default=2)
    asked = parser.parse_args()
    for model in asked.models:
        compare(model, asked.threads, asked.level)


if __name__ == "__main__":
    main()
