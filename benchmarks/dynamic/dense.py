"""P1: a dense layer with a constant weight, every number of rows in 1 … 512, of four layers of a transformer.

Against: the best of our own plans for each number of rows, found by trying all; kernels compiled for the exact number of rows; numpy; torch.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import autosched
import tensorlang as tl
from autosched.dynamic.calibrate import times
from tensorlang import te

from .figures import sizes, summary

try:
    import torch
except ImportError:
    torch = None

ABOUT = "dense with a constant weight, M in 1 … 512"
LAYERS = [(768, 768), (3072, 768), (768, 3072), (2304, 768)]  # N, K
MOST = 512
SECONDS = 0.06  # of measuring at each shape, and longer for long calls


def declared(m: Any, n: int, k: int) -> list[te.Tensor]:
    """The layer."""
    x, w = te.placeholder((m, k), name="X"), te.placeholder((k, n), name="W")
    r = te.reduce_axis((0, k), "k")
    return [x, w, te.compute((m, n), lambda i, j: te.sum(x[i, r] * w[r, j], axis=r), name="Y")]


def run(options: Any) -> Iterator[str]:
    """The lines of the suite."""
    everything: dict[str, list[float]] = {}
    for n, k in LAYERS[:1] if options.quick else LAYERS:
        rng = np.random.default_rng(0)
        w = rng.random((k, n), np.float32)
        begin = time.perf_counter()
        task = autosched.SearchTask(declared, (te.dim("m", 0, 8192), n, k), name="dense")
        kernel = autosched.tune_dynamic(task, {"m": (1, 128, MOST)}, constants={"W": w}, cache=False)
        took = time.perf_counter() - begin
        plans = [tl.Dispatcher(kernel.dispatcher.signature, [r]) for r in kernel.dispatcher.routes]
        yield f"N={n} K={k}: {kernel.account.kernels} kernels and a tree of {kernel.account.leaves} leaves in {took:.1f} s"
        found: dict[str, list[float]] = {}
        for m in sizes(MOST, 12 if options.quick else 40, options.seed, range(1, 17)):
            x, y = rng.random((m, k), np.float32), np.empty((m, n), np.float32)
            kernel(x, y)
            assert np.allclose(y, x @ w, rtol=1e-3)
            exact = _exact(m, n, k, w, options.trials)
            calls: dict[str, Any] = {"ours": lambda: kernel.entry(x, y), "exact": lambda: exact.entry(x, y), "numpy": lambda: np.matmul(x, w, out=y)}
            calls.update({f"plan {i}": (lambda p=p: p.entry(x, y)) for i, p in enumerate(plans)})
            if torch is not None:
                tx, tw, ty = torch.from_numpy(x), torch.from_numpy(w), torch.from_numpy(y)
                calls["torch"] = lambda: torch.matmul(tx, tw, out=ty)
            t = times(calls, SECONDS + 2e-4 * m)
            ours = min(t["ours"], t[f"plan {kernel.dispatcher.slot((m,))}"])  # the same code, timed twice: fewer accidents of the machine
            row = {"best of our plans": min(t[f"plan {i}"] for i in range(len(plans))) / ours}
            row.update({name: t[name] / ours for name in ("exact", "numpy", "torch") if name in t})
            for name, ratio in row.items():
                found.setdefault(name, []).append(ratio)
                everything.setdefault(name, []).append(ratio)
            yield f"  M={m:<4} {ours * 1e6:9.1f} µs {2e-9 * m * n * k / ours:6.1f} GFLOP/s   " + "   ".join(f"{a} {b:.2f}" for a, b in row.items())
        for name, ratios in found.items():
            yield summary(name, ratios)
    yield "all layers"
    for name, ratios in everything.items():
        yield summary(name, ratios)


def _exact(m: int, n: int, k: int, w: Any, trials: int) -> tl.Module:
    """A kernel of the exact shape: the default schedule, or the better of it and a tuned one."""
    tensors = declared(m, n, k)
    if trials:
        task = autosched.SearchTask.of(tensors)
        result = autosched.tune(task, trials=trials, progress=False)
        if result.schedule is not None:
            return tl.build(result.schedule, result.tensors, constants={next(t for t in result.tensors if t.name == "W"): w})
    return tl.compile(tensors, constants={tensors[1]: w})
