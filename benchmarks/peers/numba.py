"""numba: plain loops with ``njit(fastmath=True)``, over threads with ``prange`` along the outer loop, as its
manual advises."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import prange

from ..harness.case import Array, Case
from ..harness.peer import Peer, Prepared

LARGEST = 3e8  # operations of a matrix product or convolution: loops without tiles take seconds above it


class Numba(Peer):
    name = "numba"
    package = "numba"

    def start(self, threads: int) -> None:
        numba.config.THREADING_LAYER = "workqueue"
        self.parallel = threads > 1
        numba.set_num_threads(threads)

    def unsupported(self, case: Case) -> str | None:
        if case.packed:
            return "no packed weights"
        if case.op not in OPERATORS:
            return f"no {case.op}"
        if case.op == "conv2d" and case.params["groups"] < case.arguments[0].shape[1]:
            return "plain loops for depthwise only"
        return "plain loops would take seconds" if case.flops > LARGEST else None

    def prepare(self, case: Case, arrays: dict[str, Array]) -> Prepared:
        out, inputs = case.empty(), list(arrays.values())
        compute = _compiled(case.op, self.parallel)
        params = [case.params[p] for p in PARAMETERS.get(case.op, ())]

        def run() -> None:
            compute(*inputs, out, *params)

        run()
        return Prepared(run, lambda: (run(), out)[1])


@functools.cache
def _compiled(op: str, parallel: bool) -> Any:
    """One function for all shapes: numba compiles for types."""
    return numba.njit(OPERATORS[op], fastmath=True, parallel=parallel)


def matmul(a: Array, b: Array, out: Array) -> None:
    for i in prange(a.shape[0]):
        out[i, :] = 0
        for k in range(a.shape[1]):
            x = a[i, k]
            for j in range(b.shape[1]):
                out[i, j] += x * b[k, j]


def matmul_int8(a: Array, b: Array, out: Array) -> None:
    for i in prange(a.shape[0]):
        out[i, :] = 0
        for k in range(a.shape[1]):
            x = np.int32(a[i, k])
            for j in range(b.shape[1]):
                out[i, j] += x * np.int32(b[k, j])


def depthwise(
    data: Array, weight: Array, bias: Array, out: Array, stride: int, padding: int, groups: int
) -> None:
    """One channel a group; the columns inside, so that they are vectorised."""
    height, width = weight.shape[2:]
    for c in prange(out.shape[1]):
        for i in range(out.shape[2]):
            out[0, c, i, :] = bias[c]
            for y in range(height):
                row = i * stride + y - padding
                if 0 <= row < data.shape[2]:
                    for x in range(width):
                        w, shift = weight[c, 0, y, x], x - padding
                        first = max(0, -(shift // stride))
                        last = min(out.shape[3], (data.shape[3] - 1 - shift) // stride + 1)
                        for j in range(first, last):
                            out[0, c, i, j] += w * data[0, c, row, j * stride + shift]
            for j in range(out.shape[3]):
                out[0, c, i, j] = max(out[0, c, i, j], np.float32(0))


def softmax(x: Array, out: Array) -> None:
    for i in prange(x.shape[0]):
        highest = x[i, 0]
        for j in range(x.shape[1]):
            highest = max(highest, x[i, j])
        total = np.float32(0)
        for j in range(x.shape[1]):
            out[i, j] = math.exp(x[i, j] - highest)
            total += out[i, j]
        for j in range(x.shape[1]):
            out[i, j] /= total


def layer_norm(x: Array, scale: Array, shift: Array, out: Array, epsilon: float) -> None:
    for i in prange(x.shape[0]):
        total = np.float32(0)
        for j in range(x.shape[1]):
            total += x[i, j]
        mean = total / np.float32(x.shape[1])
        squares = np.float32(0)
        for j in range(x.shape[1]):
            squares += (x[i, j] - mean) ** 2
        factor = np.float32(1 / math.sqrt(squares / np.float32(x.shape[1]) + epsilon))
        for j in range(x.shape[1]):
            out[i, j] = (x[i, j] - mean) * factor * scale[j] + shift[j]


def batch_norm_relu(
    x: Array, mean: Array, variance: Array, scale: Array, shift: Array, out: Array, epsilon: float
) -> None:
    for nc in prange(x.shape[0] * x.shape[1]):
        n, c = nc // x.shape[1], nc % x.shape[1]
        factor = np.float32(scale[c] / math.sqrt(variance[c] + epsilon))
        offset = shift[c] - mean[c] * factor
        for i in range(x.shape[2]):
            for j in range(x.shape[3]):
                out[n, c, i, j] = max(x[n, c, i, j] * factor + offset, np.float32(0))


def gelu(x: Array, out: Array) -> None:
    for i in prange(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = (
                np.float32(0.5) * x[i, j] * (np.float32(1) + math.erf(x[i, j] * np.float32(0.70710678)))
            )


def sum_last(x: Array, out: Array) -> None:
    for i in prange(x.shape[0]):
        total = np.float32(0)
        for j in range(x.shape[1]):
            total += x[i, j]
        out[i] = total


def max_last(x: Array, out: Array) -> None:
    for i in prange(x.shape[0]):
        highest = x[i, 0]
        for j in range(x.shape[1]):
            highest = max(highest, x[i, j])
        out[i] = highest


def sum_first(x: Array, out: Array) -> None:
    block = 256
    for b in prange((x.shape[1] + block - 1) // block):
        begin, end = b * block, min(x.shape[1], (b + 1) * block)
        out[begin:end] = 0
        for i in range(x.shape[0]):
            for j in range(begin, end):
                out[j] += x[i, j]


def max_first(x: Array, out: Array) -> None:
    block = 256
    for b in prange((x.shape[1] + block - 1) // block):
        begin, end = b * block, min(x.shape[1], (b + 1) * block)
        out[begin:end] = x[0, begin:end]
        for i in range(x.shape[0]):
            for j in range(begin, end):
                out[j] = max(out[j], x[i, j])


def transpose(x: Array, out: Array) -> None:
    tile = 16
    for b in prange((x.shape[0] + tile - 1) // tile):
        for c in range((x.shape[1] + tile - 1) // tile):
            for j in range(c * tile, min(x.shape[1], (c + 1) * tile)):
                for i in range(b * tile, min(x.shape[0], (b + 1) * tile)):
                    out[j, i] = x[i, j]


def chain(x: Array, a: Array, b: Array, out: Array) -> None:
    for i in prange(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = max(x[i, j] * a[i, j] + b[i, j], np.float32(0)) * np.float32(0.5)


def copy(x: Array, out: Array) -> None:
    for i in prange(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = x[i, j]


OPERATORS: dict[str, Callable[..., Any]] = {
    f.__name__: f
    for f in (
        matmul,
        matmul_int8,
        softmax,
        layer_norm,
        batch_norm_relu,
        gelu,
        sum_last,
        sum_first,
        max_last,
        max_first,
        transpose,
        chain,
        copy,
    )
} | {"conv2d": depthwise}
PARAMETERS = {
    "layer_norm": ("epsilon",),
    "batch_norm_relu": ("epsilon",),
    "conv2d": ("stride", "padding", "groups"),
}
