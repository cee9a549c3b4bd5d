"""``python -m benchmarks.models.memory [model …]``: the resident memory that an engine adds to a process,
beside onnxruntime, and how well its arena is used.

Fresh processes: each imports its runtime and numpy, notes its resident memory, loads the model (we from an
engine's file) and calls it a hundred times. The growth since is what is printed, in MiB; then the arena of
the engine over the largest sum of bytes that live at once.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import tensorlang as tl
from tensorlang import options
from tensorlang.runtime.arena import bound
from tensorlang.runtime.engine import Engine
from tensorlang.runtime.steps import Run

from .cases import CASES, inputs_of
from .fetch import path

CALLS = 100
COMMON = """
import sys
import numpy as np
def resident():
    with open("/proc/self/smaps_rollup") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("Rss:")) / 1024
inputs = dict(np.load(sys.argv[2]))
"""
OURS = """
import tensorlang as tl
tl.set_num_threads(1)
before = resident()
run = tl.Engine.load(sys.argv[1]).run
"""
THEIRS = """
import onnxruntime as rt
before = resident()
options = rt.SessionOptions()
options.intra_op_num_threads, options.log_severity_level = 1, 3
session = rt.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
run = lambda inputs: session.run(None, inputs)
"""
END = f"""
for _ in range({CALLS}):
    run(inputs)
print(resident() - before)
"""


def growth(runtime: str, file: str, inputs: str) -> float:
    """MiB of resident memory that loading and calling a model adds to a process."""
    done = subprocess.run(
        [sys.executable, "-c", COMMON + runtime + END, file, inputs],
        capture_output=True,
        text=True,
        check=True,
        env=options.of_children(str(Path(__file__).parents[2])),
    )
    return float(done.stdout.split()[-1])


def arena(engine: Engine, inputs: Mapping[str, Any]) -> tuple[int, int]:
    """The bytes of the arenas of a call, and the largest sums of bytes that live at once in them."""
    size = least = 0

    def watch(e: Engine, step: Any, arrays: Any, dims: dict[str, int], outs: Any) -> None:
        nonlocal size, least
        if isinstance(step, Run):
            key = tuple(dims[d] for d in step.dims)
            _, shapes = step.sized(key)
            size += step.planned(key).arena
            least += bound(step.own_lives(shapes))
        e.take(step, arrays, dims, outs)

    arrays, dims = engine.arguments((), inputs)
    engine.work(arrays, dims, {}, watch)
    return size, least


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.models.memory")
    parser.add_argument("models", nargs="*", help=f"of {', '.join(CASES)}; all by default")
    for model in parser.parse_args().models or CASES:
        file = path(model)
        if file is None:
            print(f"{model}: not fetched, python -m benchmarks.models.fetch")
            continue
        graph = tl.load_onnx(file)
        engine = graph.compile()
        with tempfile.TemporaryDirectory() as folder:
            saved, arrays = str(Path(folder, "model.engine")), str(Path(folder, "inputs.npz"))
            used = []
            for n, inputs in enumerate(inputs_of(model, graph)):
                engine.run(inputs)
                used.append(arena(engine, inputs))
                if n == 0:
                    engine.save(saved)
                    np.savez(arrays, **inputs)
            ours = growth(OURS, saved, arrays)
            text = f"{model:<14} {ours:6.1f} MiB"
            if importlib.util.find_spec("onnxruntime"):
                theirs = growth(THEIRS, str(file), arrays)
                text += f", onnxruntime {theirs:6.1f} MiB: {ours / theirs:.2f}×"
        sizes = " ".join(f"{size / least if least else 1:.2f}" for size, least in used)
        print(f"{text}; arena {used[0][0] / 2**20:.1f} MiB, ÷ live bytes at each size {sizes}", flush=True)


if __name__ == "__main__":
    main()
