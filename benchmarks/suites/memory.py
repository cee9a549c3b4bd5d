"""Operators bound by memory, each on data that stays in a core's second cache and on data far larger than any
cache."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..harness.case import Argument, Array, Case

PLANES = {"L2": (64, 768), "memory": (16384, 1024)}  # float32: 192 KiB and 64 MiB
IMAGES = {"L2": (1, 64, 28, 28), "memory": (16, 64, 128, 128)}
THREE = {"L2": (32, 768), "memory": (16384, 1024)}  # of each of three operands
SQUARES = {"L2": (224, 224), "memory": (4096, 4096)}
EPSILON = 1e-5
QUICK = {
    "L2": {"softmax", "layer_norm", "gelu", "sum_last", "sum_first", "transpose"},
    "memory": {"softmax", "sum_last", "transpose"},
}


def softmax(x: Array) -> Array:
    x = np.exp(x.astype("float64") - x.max(axis=-1, keepdims=True))
    return x / x.sum(axis=-1, keepdims=True)


def layer_norm(x: Array, scale: Array, shift: Array) -> Array:
    x = x.astype("float64")
    return (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(
        x.var(axis=-1, keepdims=True) + EPSILON
    ) * scale + shift


def batch_norm_relu(x: Array, mean: Array, variance: Array, scale: Array, shift: Array) -> Array:
    factor = scale / np.sqrt(variance.astype("float64") + EPSILON)
    return np.maximum(x * factor[:, None, None] + (shift - mean * factor)[:, None, None], 0)


def gelu(x: Array) -> Array:
    """By blocks, which stay in the caches."""
    out = np.empty(x.shape)
    for source, target in zip(
        np.array_split(x.ravel(), 1 + x.size // 8192),
        np.array_split(out.ravel(), 1 + x.size // 8192),
        strict=True,
    ):
        wide = source.astype("float64")
        target[...] = 0.5 * wide * (1 + _erf(wide / math.sqrt(2)))
    return out


def _erf(x: Array) -> Array:
    """The Maclaurin series: on -1 … 1 fourteen terms leave 1e-12."""
    term, total, square = x.copy(), x.copy(), x * x
    for n in range(1, 14):
        term *= square / -n
        total += term / (2 * n + 1)
    return total * 2 / math.sqrt(math.pi)


def _cases(
    name: str,
    where: str,
    shape: tuple[int, ...],
    reference: Callable[..., Array],
    *,
    others: tuple[Argument, ...] = (),
    result: tuple[int, ...] | None = None,
    params: dict[str, Any] | None = None,
    flops: float = 1,
    tolerance: float = 1e-5,
) -> Case:
    out = shape if result is None else result
    text = "x".join(map(str, shape))
    return Case(
        "memory",
        f"{name} {text}",
        name,
        (Argument("x", shape), *others),
        Argument("y", out),
        reference,
        flops=flops * math.prod(shape),
        params=params or {},
        tolerance=tolerance,
        note=where,
        quick=name in QUICK[where],
    )


def cases() -> list[Case]:
    found: list[Case] = []
    for where in ("L2", "memory"):
        plane, image, square = PLANES[where], IMAGES[where], SQUARES[where]
        rows, columns = plane
        per_column = tuple(Argument(n, (columns,)) for n in ("scale", "shift"))
        per_channel = tuple(
            Argument(n, (image[1],), low=0.5 if n == "variance" else -1.0)
            for n in ("mean", "variance", "scale", "shift")
        )
        found += [
            _cases("softmax", where, plane, softmax, flops=5, params={"axis": -1}),
            _cases(
                "layer_norm",
                where,
                plane,
                layer_norm,
                others=per_column,
                flops=7,
                params={"epsilon": EPSILON},
            ),
            _cases(
                "batch_norm_relu",
                where,
                image,
                batch_norm_relu,
                others=per_channel,
                flops=3,
                params={"epsilon": EPSILON},
            ),
            _cases("gelu", where, plane, gelu, flops=4),
            _cases(
                "sum_last",
                where,
                plane,
                lambda x: x.sum(axis=1, dtype="float64"),
                result=(rows,),
                params={"axis": 1},
            ),
            _cases(
                "sum_first",
                where,
                plane,
                lambda x: x.sum(axis=0, dtype="float64"),
                result=(columns,),
                params={"axis": 0},
                tolerance=1e-4,
            ),
            _cases("max_last", where, plane, lambda x: x.max(axis=1), result=(rows,), params={"axis": 1}),
            _cases("max_first", where, plane, lambda x: x.max(axis=0), result=(columns,), params={"axis": 0}),
            _cases("transpose", where, square, lambda x: x.T, flops=0),
            _cases(
                "chain",
                where,
                THREE[where],
                lambda x, a, b: np.maximum(x * a + b, 0) * np.float32(0.5),
                others=(Argument("a", THREE[where]), Argument("b", THREE[where])),
                flops=4,
            ),
            _cases("copy", where, plane, lambda x: x, flops=0),
        ]
    return found
