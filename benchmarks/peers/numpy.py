"""numpy with its BLAS: what it takes to write each case in a few lines of array code, results into given
arrays where numpy can."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from ..harness.case import Array, Case
from ..harness.peer import Peer, Prepared
from ..suites.images import margins, nearest


class Numpy(Peer):
    name = "numpy"
    package = "numpy"

    def start(self, threads: int) -> None:
        threadpool_limits(threads)

    def operators(self) -> dict[str, Callable[..., Any]]:
        """What computes a case, by its operator: called with its arrays, ``out`` and its parameters."""
        return OPERATORS

    def unsupported(self, case: Case) -> str | None:
        if case.packed:
            return "no packed weights"
        if case.op == "conv2d" and 1 < case.params["groups"] < case.arguments[0].shape[1]:
            return "no convolution in groups of several channels"
        return None if case.op in self.operators() else f"no {case.op}"

    def prepare(self, case: Case, arrays: dict[str, Array]) -> Prepared:
        out, inputs, params = case.empty(), list(arrays.values()), dict(case.params)
        compute = self.operators()[case.op]

        def run() -> Array:
            return compute(*inputs, out=out, **params)

        return Prepared(run, lambda: (run(), out)[1])


def conv2d(
    data: Array, weight: Array, bias: Array, *, out: Array, stride: int, padding: int, groups: int
) -> None:
    """Windows copied to a matrix and one product; for one channel a group, a sum of shifted images."""
    if padding:
        data = np.pad(data, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    filters, inner, height, width = weight.shape
    rows, columns = out.shape[2:]
    if groups == 1:
        windows = np.lib.stride_tricks.sliding_window_view(data, (height, width), axis=(2, 3))[
            :, :, ::stride, ::stride
        ]
        matrix = windows.transpose(0, 1, 4, 5, 2, 3).reshape(inner * height * width, rows * columns)
        np.matmul(weight.reshape(filters, -1), matrix, out=out.reshape(filters, -1))
    else:
        out.fill(0)
        for y in range(height):
            for x in range(width):
                out += (
                    data[:, :, y : y + stride * rows : stride, x : x + stride * columns : stride]
                    * weight[:, 0, y, x, None, None]
                )
    out += bias[:, None, None]
    np.maximum(out, 0, out=out)


def softmax(x: Array, *, out: Array, axis: int) -> None:
    np.subtract(x, x.max(axis=axis, keepdims=True), out=out)
    np.exp(out, out=out)
    out /= out.sum(axis=axis, keepdims=True)


def layer_norm(x: Array, scale: Array, shift: Array, *, out: Array, epsilon: float) -> None:
    np.subtract(x, x.mean(axis=-1, keepdims=True), out=out)
    variance = np.einsum("ij,ij->i", out, out)[:, None] / x.shape[-1]
    out *= 1 / np.sqrt(variance + np.float32(epsilon))
    out *= scale
    out += shift


def batch_norm_relu(
    x: Array, mean: Array, variance: Array, scale: Array, shift: Array, *, out: Array, epsilon: float
) -> None:
    factor = scale / np.sqrt(variance + np.float32(epsilon))
    np.multiply(x, factor[:, None, None], out=out)
    out += (shift - mean * factor)[:, None, None]
    np.maximum(out, 0, out=out)


def chain(x: Array, a: Array, b: Array, *, out: Array) -> None:
    np.multiply(x, a, out=out)
    out += b
    np.maximum(out, 0, out=out)
    out *= np.float32(0.5)


def attention(q: Array, k: Array, v: Array, *, out: Array) -> None:
    scores = q @ k.swapaxes(-1, -2)
    scores *= np.float32(1 / math.sqrt(q.shape[-1]))
    softmax(scores, out=scores, axis=-1)
    np.matmul(scores, v, out=out)


def attention_shared(q: Array, k: Array, v: Array, *, out: Array) -> None:
    """The heads of queries that read one head of keys as further rows of queries."""
    heads = k.shape[1]
    rows = q.reshape(q.shape[0], heads, -1, q.shape[-1])
    attention(rows, k, v, out=out.reshape(rows.shape))


def matmul_int8(a: Array, b: Array, *, out: Array) -> None:
    """Through float32 and the BLAS: exact while depth · 128² stays within 24 bits; integers have no BLAS."""
    if a.shape[1] << 14 > 1 << 24:
        np.matmul(a, b, out=out, dtype="int32")
    else:
        out[...] = a.astype("float32") @ b.astype("float32")


OPERATORS: dict[str, Callable[..., Any]] = {
    "matmul": np.matmul,
    "matmul_int8": matmul_int8,
    "batch_matmul_nt": lambda a, b, *, out: np.matmul(a, b.transpose(0, 2, 1), out=out),
    "conv2d": conv2d,
    "attention": attention,
    "softmax": softmax,
    "layer_norm": layer_norm,
    "batch_norm_relu": batch_norm_relu,
    "sum_last": np.sum,
    "sum_first": np.sum,
    "max_last": np.max,
    "max_first": np.max,
    "transpose": lambda x, *, out: np.copyto(out, x.T),
    "chain": chain,
    "copy": lambda x, *, out: np.copyto(out, x),
    "matmul_tn": lambda a, b, *, out: np.matmul(a.T, b, out=out),
    "matmul_nt": lambda a, b, *, out: np.matmul(a, b.T, out=out),
    "attention_shared": attention_shared,
    "einsum": lambda a, b, *, out, subscripts: np.einsum(subscripts, a, b, out=out, optimize=True),
    "tanh": np.tanh,
    "cbrt": np.cbrt,
    "cumsum": np.cumsum,
    "rfft": lambda x, *, out: np.fft.rfft(x, out=out.view("complex64")[..., 0]),
    "resize_nearest": lambda x, *, out: np.copyto(
        out.reshape(*x.shape[:3], 2, x.shape[3], 2), x[:, :, :, None, :, None]
    ),
    "pad_reflect": lambda x, *, out, margin: np.copyto(out, np.pad(x, margins(margin), "reflect")),
    "pad_edge": lambda x, *, out, margin: np.copyto(out, np.pad(x, margins(margin), "edge")),
    "resize_to": lambda x, *, out, size: np.copyto(out, nearest(x, size=size)),
    "concat_last": lambda x, y, *, out: np.concatenate([x, y], -1, out=out),
    "argmax": lambda x, *, out: np.argmax(x, -1, out=out),
}
