"""``python -m benchmarks.models.times [model …]``: seconds until a model answers, and what a call costs when
it computes next to nothing.

For each model, in fresh processes that have imported everything: from the file to the first answer with an
empty cache of kernels, the same again with the cache filled, the first call at each of its other sizes beside
the second one there (and kernels compiled for it, of which there should be none), and ``Engine.load`` of the
saved engine with a first answer. Then, in this process, a chain of operators on small arrays.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import tensorlang as tl
from tensorlang import ops, options

from .cases import CASES, inputs_of
from .fetch import path

OPERATORS, ELEMENTS = 200, 16
COMMON = """
import json, sys, time
from pathlib import Path
import numpy as np
import tensorlang as tl
import tensorlang.frontends.onnx, onnx
file, folder = sys.argv[1], Path(sys.argv[2])
cases = [dict(np.load(p)) for p in sorted(folder.glob("*.npz"))]
made, clock = {}, time.perf_counter
def seconds(f, *given):
    start = clock()
    f(*given)
    return clock() - start
"""
COMPILE = """
start = clock()
engine = tl.load_onnx(file).compile()
engine.run(cases[0])
made["first"] = clock() - start
kernels = lambda: sum(1 for _ in (folder / "cache").rglob("*.kernel"))
made["kernels"] = kernels()
made["sizes"] = [[seconds(engine.run, c), seconds(engine.run, c)] for c in cases[1:]]
made["more"] = kernels() - made["kernels"]
engine.save(folder / "model.engine")
print(json.dumps(made))
"""
LOAD = """
start = clock()
engine = tl.Engine.load(folder / "model.engine")
made["load"] = clock() - start
made["answer"] = seconds(engine.run, cases[0])
print(json.dumps(made))
"""


def child(code: str, file: Path, folder: Path) -> dict[str, Any]:
    """What a fresh process measured; its cache of kernels is in the folder."""
    environment = {
        **options.of_children(str(Path(__file__).parents[2])),
        "TENSORLANG_CACHE": f"{folder}/cache",
    }
    command = [sys.executable, "-c", COMMON + code, str(file), str(folder)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def row(name: str) -> str:
    """What one model needs."""
    file = path(name)
    if file is None:
        return f"{name}: not fetched, python -m benchmarks.models.fetch"
    cases = inputs_of(name, tl.load_onnx(file))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for n, case in enumerate(cases):
            np.savez(folder / f"{n}.npz", **case)
        cold, warm, load = (child(code, file, folder) for code in (COMPILE, COMPILE, LOAD))
    sizes = " ".join(f"{1e3 * first:.1f}/{1e3 * second:.1f}" for first, second in warm["sizes"])
    return (
        f"{name:<14} {cold['first']:6.2f} s to the first answer, {cold['kernels']} kernels; cached "
        f"{warm['first']:.2f} s; loaded {1e3 * load['load']:.0f} ms, answer {1e3 * load['answer']:.1f} ms; "
        f"other sizes, first/second ms: {sizes or 'none'}, {cold['more']} kernels more"
    )


def chain(rounds: int = 300) -> str:
    """Operators on small arrays, one kernel each."""
    g = tl.Graph("chain")
    x, y = (g.input((ELEMENTS,), "float32", n) for n in "xy")
    v = x
    for _ in range(OPERATORS):
        v = g.call(ops.add, v, y)
    g.output(v, "z")
    engine = g.compile(level=0)
    a, b = (np.ones(ELEMENTS, np.float32) for _ in range(2))
    out, times = np.empty(ELEMENTS, np.float32), []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(100):
            engine(a, b, out=out)
        times.append((time.perf_counter() - start) / 100)
    assert np.array_equal(out, a + OPERATORS * b)
    median, wanted = 1e6 * statistics.median(times), 1 + 0.1 * OPERATORS
    return f"{OPERATORS} operators on {ELEMENTS} elements: {median:.2f} µs a call; wanted {wanted:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.models.times")
    parser.add_argument("models", nargs="*", help=f"of {', '.join(CASES)}, chain; all by default")
    for name in parser.parse_args().models or (*CASES, "chain"):
        print(chain() if name == "chain" else row(name), flush=True)


if __name__ == "__main__":
    main()
