"""P2 to P4: other operators with open sizes, against kernels of the exact shape, the generic kernel, and numpy."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import autosched
import tensorlang as tl
from autosched.dynamic.calibrate import times
from tensorlang import ops, te

from .figures import summary

ABOUT = "batch_matmul of attention, softmax, bias and gelu, convolutions, beside exact shapes and the generic kernel"
SECONDS = 0.1


def scores(t: Any) -> list[te.Tensor]:
    """Queries times keys, 12 heads of 64."""
    a, b = te.placeholder((12, t, 64), name="A"), te.placeholder((12, t, 64), name="B")
    return [a, b, ops.batch_matmul(a, b, transpose_b=True)]


def values(t: Any) -> list[te.Tensor]:
    """Weights times values, 12 heads of 64."""
    a, b = te.placeholder((12, t, t), name="A"), te.placeholder((12, t, 64), name="B")
    return [a, b, ops.batch_matmul(a, b)]


def softmax(m: Any, n: Any) -> list[te.Tensor]:
    """Over rows."""
    x = te.placeholder((m, n), name="X")
    return [x, ops.softmax(x)]


def bias_gelu(m: Any, n: Any) -> list[te.Tensor]:
    """A bias and gelu."""
    x, b = te.placeholder((m, n), name="X"), te.placeholder((n,), name="B")
    return [x, b, ops.gelu(te.compute((m, n), lambda i, j: x[i, j] + b[j], name="Z"))]


def conv(n: Any, h: Any, w: Any) -> list[te.Tensor]:
    """3 × 3, 64 to 64 channels."""
    x, k = te.placeholder((n, 64, h, w), name="X"), te.placeholder((64, 64, 3, 3), name="K")
    return [x, k, ops.conv2d(x, k, padding=1)]


ROWS = [(1, 1), (3, 17), (7, 100), (64, 1000), (33, 4097), (512, 128), (1000, 7), (2000, 300)]
LENGTHS = [(1,), (5,), (9,), (17,), (33,), (40,), (64,), (101,), (200,), (333,), (512,)]
IMAGES = [(1, 7, 7), (1, 15, 15), (1, 28, 28), (2, 15, 33), (4, 21, 21), (16, 9, 11)]
CASES: list[tuple[Callable[..., Any], dict[str, Any], list[tuple[int, ...]]]] = [
    (scores, {"t": (1, 128, 512)}, LENGTHS), (values, {"t": (1, 128, 512)}, LENGTHS), (softmax, {"m": (1, 64, 4096), "n": (1, 512, 4097)}, ROWS),
    (bias_gelu, {"m": (1, 64, 4096), "n": (1, 512, 4097)}, ROWS), (conv, {"n": (1, 1, 16), "h": (1, 28, 56), "w": (1, 28, 56)}, IMAGES)]


def run(options: Any) -> Iterator[str]:
    """The lines of the suite."""
    for func, profile, shapes in CASES:
        begin = time.perf_counter()
        args = tuple(te.dim(d, s[0], s[2]) for d, s in profile.items())
        kernel = autosched.tune_dynamic(autosched.SearchTask(func, args), profile, cache=False)
        generic = tl.compile(func(*(te.dim(d, s[0], s[2], hint=s[1]) for d, s in profile.items())))
        made, kept = kernel.account, len(kernel.dispatcher.routes)
        yield f"{func.__name__}: {made.kernels} kernels, {kept} kept, {made.leaves} leaves, {time.perf_counter() - begin:.1f} s"
        found: dict[str, list[float]] = {"exact shape": [], "generic": []}
        for shape in shapes[::2] if options.quick else shapes:
            tensors = func(*shape)
            exact = tl.compile(tensors)
            rng = np.random.default_rng(0)
            arrays = [rng.random([int(str(n)) for n in t.shape], np.float32) for t in tensors]
            exact(*arrays)
            want = arrays[-1].copy()
            kernel(*arrays)
            assert np.allclose(arrays[-1], want, rtol=1e-3, atol=1e-4), (func.__name__, shape)
            rivals = {"ours": kernel, "exact shape": exact, "generic": generic}
            t = times({name: functools.partial(k.entry, *arrays) for name, k in rivals.items()}, SECONDS)
            for name in found:
                found[name].append(t[name] / t["ours"])
            told = "   ".join(f"{name} {r[-1]:.2f}" for name, r in found.items())
            yield f"  {'×'.join(map(str, shape)):<12} {t['ours'] * 1e6:9.1f} µs   {told}   {kernel.explain(shape).chosen}"
        for name, ratios in found.items():
            yield summary(name, ratios)
