"""P2 to P4: other operators with open sizes, beside the best of our own plans, kernels compiled for the exact
shape, the generic kernel, numpy, torch (where it is installed) and, for what moves memory, the bandwidth of
the machine.

The bandwidth is that of the level of the memory that the arrays fit in, for shapes whose arrays are ``LARGE``
bytes or more together: of smaller ones the call itself is a part, and they stay in the first cache.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import autosched
import tensorlang as tl
from tensorlang import ops, te

from ..harness import machine, peaks
from ..peers import numpy as in_numpy
from .figures import Figure, Table, pooled, wanted
from .turns import Call, in_turns

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    torch = None

ABOUT = {
    "P2": "batch_matmul of attention: 12 heads of 64, T in 1 … 512",
    "P3": "conv2d 3×3: batch 1 … 16, heights and widths up to 56",
    "P4": "softmax, layer norm, bias and gelu: 1 … 4096 rows of 1 … 4097",
}
SECONDS = 0.1
LARGE = 1 << 16
PEAK_ROUNDS = 7


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


def layer_norm(m: Any, n: Any) -> list[te.Tensor]:
    """Over rows, with scale and shift."""
    x, scale, shift = (
        te.placeholder((m, n), name="X"),
        te.placeholder((n,), name="scale"),
        te.placeholder((n,), name="shift"),
    )
    return [x, scale, shift, ops.layer_norm(x, weight=scale, bias=shift)]


def bias_gelu(m: Any, n: Any) -> list[te.Tensor]:
    """A bias and gelu, by tanh: numpy has no erf."""
    x, b = te.placeholder((m, n), name="X"), te.placeholder((n,), name="B")
    return [x, b, ops.gelu(te.compute((m, n), lambda i, j: x[i, j] + b[j], name="Z"), approximate="tanh")]


def conv(n: Any, h: Any, w: Any) -> list[te.Tensor]:
    """3 × 3, 64 to 64 channels."""
    x, k = te.placeholder((n, 64, h, w), name="X"), te.placeholder((64, 64, 3, 3), name="K")
    return [x, k, ops.conv2d(x, k, padding=1)]


def numpy_bias_gelu(x: Any, b: Any, *, out: Any) -> None:
    """In place in ``out``, with one array more."""
    z = x + b
    np.multiply(z, z, out=out)
    out *= np.float32(0.044715)
    out += np.float32(1)
    out *= z
    out *= np.float32(np.sqrt(2 / np.pi))
    np.tanh(out, out=out)
    out += np.float32(1)
    out *= z
    out *= np.float32(0.5)


@dataclass(frozen=True)
class Operator:
    """A declaration, its profile, the shapes to look at; what numpy and torch call, with the arrays and
    ``out`` (torch's may leave it)."""

    suite: str
    declare: Callable[..., list[te.Tensor]]
    profile: dict[str, tuple[int, int, int]]
    shapes: Sequence[tuple[int, ...]]
    numpy: Callable[..., Any] | None
    torch: Callable[..., Any]
    moves: bool = False  # whether it is measured against the bandwidth

    @property
    def name(self) -> str:
        """For people."""
        return self.declare.__name__


LENGTHS = [(t,) for t in (1, 2, 5, 8, 9, 17, 24, 33, 40, 64, 77, 101, 128, 200, 256, 333, 384, 511, 512)]
IMAGES = [
    (1, 7, 7),
    (1, 15, 15),
    (1, 28, 28),
    (1, 33, 17),
    (2, 15, 33),
    (2, 56, 56),
    (3, 27, 29),
    (4, 21, 21),
    (5, 13, 35),
    (8, 14, 14),
    (16, 7, 7),
    (16, 9, 11),
]
ROWS = [
    (1, 1),
    (1, 4097),
    (3, 17),
    (7, 100),
    (16, 768),
    (33, 4097),
    (64, 1000),
    (100, 333),
    (512, 128),
    (777, 50),
    (1000, 7),
    (2000, 300),
    (4096, 65),
    (4096, 1024),
    (1024, 4097),
]
TIMES = {"t": (1, 128, 512)}
PLANE = {"m": (1, 64, 4096), "n": (1, 512, 4097)}
IMAGE = {"n": (1, 1, 16), "h": (1, 28, 56), "w": (1, 28, 56)}
OPERATORS = [
    Operator(
        "P2",
        scores,
        TIMES,
        LENGTHS,
        lambda a, b, *, out: np.matmul(a, b.transpose(0, 2, 1), out=out),
        lambda a, b, *, out: torch.bmm(a, b.transpose(1, 2), out=out),
    ),
    Operator("P2", values, TIMES, LENGTHS, np.matmul, lambda a, b, *, out: torch.bmm(a, b, out=out)),
    Operator("P3", conv, IMAGE, IMAGES, None, lambda x, k, *, out: F.conv2d(x, k, padding=1)),
    Operator(
        "P4",
        softmax,
        PLANE,
        ROWS,
        functools.partial(in_numpy.softmax, axis=-1),
        lambda x, *, out: torch.softmax(x, -1, out=out),
        True,
    ),
    Operator(
        "P4",
        layer_norm,
        PLANE,
        ROWS,
        functools.partial(in_numpy.layer_norm, epsilon=1e-5),
        lambda x, scale, shift, *, out: F.layer_norm(x, scale.shape, scale, shift),
        True,
    ),
    Operator(
        "P4",
        bias_gelu,
        PLANE,
        ROWS,
        numpy_bias_gelu,
        lambda x, b, *, out: F.gelu(x + b, approximate="tanh"),
        True,
    ),
]


def run(suite: str, options: Any) -> Iterator[str | Figure]:
    """The lines of a suite."""
    mine = [op for op in OPERATORS if op.suite == suite and wanted(op.name, options)]
    peak = (
        peaks.measure(tl.num_threads(), machine.caches(), PEAK_ROUNDS)
        if any(op.moves for op in mine)
        else None
    )
    tables = []
    for op in mine:
        table = Table(op.name)
        yield from _lines(op, table, peak, options)
        yield from table.figures()
        tables.append(table)
    if len(tables) > 1:
        yield f"all of {suite}"
        yield from map(str, pooled([f for t in tables for f in t.figures()]))


def _lines(op: Operator, table: Table, peak: peaks.Peaks | None, options: Any) -> Iterator[str]:
    begin = time.perf_counter()
    args = tuple(te.dim(d, s[0], s[2]) for d, s in op.profile.items())
    kernel = autosched.tune_dynamic(autosched.SearchTask(op.declare, args), op.profile, cache=False)
    took = time.perf_counter() - begin
    generic = tl.compile(op.declare(*(te.dim(d, s[0], s[2], hint=s[1]) for d, s in op.profile.items())))
    made, kept = kernel.account, len(kernel.dispatcher.routes)
    yield f"{op.name}: {made.kernels} kernels, {kept} kept, {made.leaves} leaves, {took:.1f} s"
    for shape in op.shapes[::2] if options.quick else op.shapes:
        tensors = op.declare(*shape)
        exact = tl.compile(tensors)
        rng = np.random.default_rng(0)
        *inputs, out = arrays = [rng.random([int(str(n)) for n in t.shape], np.float32) for t in tensors]
        exact(*arrays)
        want = out.copy()
        kernel(*arrays)
        assert np.allclose(out, want, rtol=1e-3, atol=1e-4), (op.name, shape)
        calls: dict[str, Call] = {
            name: functools.partial(k.entry, *arrays)
            for name, k in (("ours", kernel), ("exact shape", exact), ("generic", generic))
        }
        calls.update(
            {
                f"plan {i}": functools.partial(r.entry, *arrays)
                for i, r in enumerate(kernel.dispatcher.routes)
                if _takes(r, shape)
            }
        )
        if op.numpy is not None:
            calls["numpy"] = functools.partial(op.numpy, *inputs, out=out)
        if torch is not None:
            torch.set_num_threads(tl.num_threads())
            torch.set_grad_enabled(False)
            calls["torch"] = functools.partial(
                op.torch, *map(torch.from_numpy, inputs), out=torch.from_numpy(out)
            )
        t = in_turns(calls, SECONDS, options.seed)
        slot = f"plan {kernel.dispatcher.slot(shape)}"
        ours = min(t["ours"], t.get(slot, t["ours"]))  # the same code, timed twice
        row = {
            "best of our plans": min([ours, *(s for name, s in t.items() if name.startswith("plan "))]) / ours
        }
        row.update(
            {name: t[name] / ours for name in ("exact shape", "generic", "numpy", "torch") if name in t}
        )
        if peak is not None and sum(a.nbytes for a in arrays) >= LARGE:
            level = peak.level(sum(a.nbytes for a in arrays))
            row["bandwidth"] = (
                sum(a.nbytes for a in inputs) / peak.read[level] + out.nbytes / peak.write[level]
            ) / ours
        yield (
            f"  {'×'.join(map(str, shape)):<12} {ours * 1e6:9.1f} µs   "
            f"{table.add('×'.join(map(str, shape)), row)}   {kernel.explain(shape).chosen}"
        )


def _takes(route: Any, shape: Sequence[int]) -> bool:
    """Whether a kernel can be called with these sizes: some take at least one tile."""
    return isinstance(route, tl.Module) and all(
        n >= (d.lo or 0) for d, n in zip(route.signature.dims, shape, strict=True)
    )
