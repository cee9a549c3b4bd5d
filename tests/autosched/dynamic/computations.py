"""Computations with open sizes for these tests, and small-integer arrays for which every order of summation
gives the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensorlang as tl
from autosched import SearchTask
from autosched.dynamic import tune_dynamic
from tensorlang import ops, te

# Half of the registers where the host has 32: a fifth of its tiles, which take seconds to compile.
FEW_TILES = (
    tl.Target.parse("llvm -mcpu=x86-64-v3")
    if "avx512f" in tl.Target.host().instruction_sets
    else tl.Target.host()
)
QUICK: dict[str, Any] = {"seconds": 0.02, "cache": False}


def whole(rng: Any, *shape: int) -> Any:
    """Small whole numbers."""
    return rng.integers(-4, 5, shape).astype("float32")


def dense(m: Any, n: int, k: int) -> list[te.Tensor]:
    x, w = te.placeholder((m, k), name="X"), te.placeholder((k, n), name="W")
    r = te.reduce_axis((0, k), "k")
    return [x, w, te.compute((m, n), lambda i, j: te.sum(x[i, r] * w[r, j], axis=r), name="Y")]


def layer(m: Any, n: int, k: int) -> list[te.Tensor]:
    """A product with bias, residual and relu behind it."""
    x, w, res = (
        te.placeholder((m, k), name="X"),
        te.placeholder((n, k), name="W"),
        te.placeholder((m, n), name="R"),
    )
    b = te.placeholder((n,), name="b")
    y = ops.dense(x, w, b)
    return [
        x,
        w,
        b,
        res,
        te.compute(
            (m, n), lambda i, j: te.select(y[i, j] + res[i, j] > 0.0, y[i, j] + res[i, j], 0.0), name="Y"
        ),
    ]


def made(func: Any, args: tuple[Any, ...], profile: Any, target: Any = FEW_TILES, **more: Any) -> Any:
    """A DynamicKernel, made quickly: the times it goes by mean little."""
    return tune_dynamic(SearchTask(func, args, target), profile, **{**QUICK, **more})


def tiny_dense(n: int = 68, k: int = 16, most: int = 64, **more: Any) -> tuple[Any, Any]:
    """A kernel of ``x @ w`` with its weight."""
    w = whole(np.random.default_rng(0), k, n)
    return made(
        dense, (te.dim("m", 0, max(4096, most)), n, k), {"m": (0, 8, most)}, constants={"W": w}, **more
    ), w


def least_of(kernel: Any, dim: str) -> int:
    """The size of a dim that a kernel takes at least."""
    return next((d.lo or 0 for d in kernel.signature.dims if d.name == dim), 0)
