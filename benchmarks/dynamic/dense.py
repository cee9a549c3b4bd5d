"""P1: a dense layer with a constant weight, every number of rows in 1 … 512, of four layers of a transformer.

Against: the best of our own plans for each number of rows, found by trying all; kernels compiled for the
exact number of rows, with ``--trials`` some that were searched for; numpy; torch. The weight of ours and of
the exact kernels is packed beforehand, as that of a layer can be; numpy and torch take it as it is
(torch.compile packs it too: see P8).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import autosched
import tensorlang as tl
from tensorlang import te

from .figures import Figure, Table, pooled, sizes, wanted
from .peers import Peers
from .turns import in_turns

ABOUT = "dense with a constant weight, M in 1 … 512"
LAYERS = [(768, 768), (3072, 768), (768, 3072), (2304, 768)]  # N, K
MOST = 512
TUNED = (7, 77, 333)  # sizes whose exact kernels are searched for, with --trials
SECONDS = 0.06  # of measuring at each shape, and longer for long calls


def declared(m: Any, n: int, k: int) -> list[te.Tensor]:
    """The layer."""
    x, w = te.placeholder((m, k), name="X"), te.placeholder((k, n), name="W")
    r = te.reduce_axis((0, k), "k")
    return [x, w, te.compute((m, n), lambda i, j: te.sum(x[i, r] * w[r, j], axis=r), name="Y")]


def layers(options: Any) -> list[tuple[int, int]]:
    """Those to look at: a quick look is at one."""
    found = [(n, k) for n, k in LAYERS if wanted(f"N={n} K={k}", options)]
    return found[:1] if options.quick else found


def run(options: Any) -> Iterator[str | Figure]:
    """The lines of the suite."""
    found: list[Figure] = []
    for n, k in layers(options):
        table = Table(f"N={n} K={k}")
        yield from _layer(n, k, table, options)
        found += table.figures()
        yield from table.figures()
    if len({f.case for f in found}) > 1:
        yield "all layers"
        yield from map(str, pooled(found))


def _layer(n: int, k: int, table: Table, options: Any) -> Iterator[str]:
    rng = np.random.default_rng(0)
    w = rng.random((k, n), np.float32)
    begin = time.perf_counter()
    task = autosched.SearchTask(declared, (te.dim("m", 0, 8192), n, k), name="dense")
    kernel = autosched.tune_dynamic(task, {"m": (1, 128, MOST)}, constants={"W": w}, cache=False)
    took = time.perf_counter() - begin
    peers = Peers(w, compiled=False)
    plans = [tl.Dispatcher(kernel.dispatcher.signature, [r]) for r in kernel.dispatcher.routes]
    yield (
        f"{table.case}: {kernel.account.kernels} kernels and a tree of {kernel.account.leaves} leaves in "
        f"{took:.1f} s"
    )
    for m in sizes(MOST, 12 if options.quick else 40, options.seed, [*range(1, 17), *TUNED]):
        x, y = rng.random((m, k), np.float32), np.empty((m, n), np.float32)
        kernel(x, y)
        assert np.allclose(y, x @ w, rtol=1e-3)
        exact = compiled(m, n, k, w)
        calls: dict[str, Any] = {"ours": lambda: kernel.entry(x, y), "exact shape": lambda: exact.entry(x, y)}
        calls.update({f"plan {i}": (lambda p=p: p.entry(x, y)) for i, p in enumerate(plans)})
        if options.trials and m in TUNED:
            best = tuned(m, n, k, w, options.trials)
            calls["exact shape, tuned"] = lambda best=best: best.entry(x, y)
        calls.update(peers.calls(x, y))
        t = in_turns(calls, SECONDS + 2e-4 * m, options.seed)
        ours = min(
            t["ours"], t[f"plan {kernel.dispatcher.slot((m,))}"]
        )  # the same code, timed twice: fewer accidents of the machine
        row = {"best of our plans": min(t[f"plan {i}"] for i in range(len(plans))) / ours}
        row.update(
            {
                name: t[name] / ours
                for name in ("exact shape", "exact shape, tuned", "numpy", "torch")
                if name in t
            }
        )
        yield f"  M={m:<4} {ours * 1e6:9.1f} µs {2e-9 * m * n * k / ours:6.1f} GFLOP/s   {table.add(m, row)}"


def compiled(m: Any, n: int, k: int, w: Any) -> tl.Module:
    """The default schedule of a size, or of any."""
    tensors = declared(m, n, k)
    return tl.compile(tensors, constants={tensors[1]: w})


def tuned(m: int, n: int, k: int, w: Any, trials: int) -> tl.Module:
    """A kernel whose schedule was searched for."""
    result = autosched.tune(autosched.SearchTask.of(declared(m, n, k)), trials=trials, progress=False)
    if result.schedule is None:
        return compiled(m, n, k, w)
    return tl.build(
        result.schedule, result.tensors, constants={next(t for t in result.tensors if t.name == "W"): w}
    )
