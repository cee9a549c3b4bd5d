"""Where a compiler that is fast on famous shapes falls behind: transposed convolutions, decoding with one
query, activations, moves, joins and scans, images of odd sizes, products of few rows or with a transposed
operand. What counts here is the worst case, not the mean."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..harness.case import Argument, Array, Case
from . import matmul
from .attention import attention_case
from .conv import conv_case

# channels in, size, channels out, kernel, stride, padding, groups
TRANSPOSED = (
    (128, 32, 64, 4, 2, 1, 1),
    (64, 56, 32, 2, 2, 0, 1),
    (256, 16, 128, 3, 2, 1, 1),
    (64, 28, 64, 4, 4, 0, 1),
    (64, 28, 64, 4, 2, 1, 8),
    (24, 19, 10, 5, 3, 2, 1),
)
# heads, queries, keys, width, heads of queries that read one of keys
ATTENTION = (
    (32, 1, 2048, 128, 1),
    (32, 1, 2048, 128, 4),
    (8, 1024, 77, 40, 1),
    (12, 197, 197, 64, 1),
    (12, 9, 9, 64, 1),
)
# channels in, size, channels out, kernel, stride, groups, padding
CONVOLUTIONS: tuple[tuple[int, int | tuple[int, int], int, int, int, int, int | None], ...] = (
    (17, (37, 41), 23, 5, 1, 1, None),
    (64, 256, 64, 3, 1, 1, None),
    (3, 224, 768, 16, 16, 1, 0),
    (128, 28, 128, 3, 1, 32, None),
    (256, 14, 256, 5, 2, 256, None),
    (32, 28, 48, 3, 1, 1, None),
    (19, (23, 31), 29, 3, 2, 1, None),
)
PACKED_PRODUCTS = ((33, 768, 768), (64, 3000, 64), (8, 4096, 4096), (1, 4096, 4096), (500, 1000, 3))
PRODUCTS = (
    (300, 300, 300),
    (511, 513, 517),
    (384, 1024, 4096),
    (13, 100, 50),
    (500, 1000, 2),
    (777, 333, 6),
    (1000, 1, 1000),
)
QUICK = {
    "conv_transpose2d 4x4 s2 128>64 @32",
    "32/8 heads, 1 of 2048 tokens, 128",
    "tanh 1000x1000",
    "cumsum 512x1000",
    "5x5 17>23 @37x41",
    "33x768x768",
}


def _case(
    op: str,
    arguments: tuple[Argument, ...],
    result: tuple[int, ...],
    reference: Callable[..., Array],
    flops: float,
    *,
    detail: str = "",
    params: dict[str, Any] | None = None,
    dtype: str = "float32",
    tolerance: float = 1e-4,
) -> Case:
    name = f"{op} {detail or 'x'.join(map(str, arguments[0].shape))}"
    return Case(
        "floor",
        name,
        op,
        arguments,
        Argument("out", result, dtype),
        reference,
        flops=flops,
        params=params or {},
        tolerance=tolerance,
        quick=name in QUICK,
    )


def spread(data: Array, weight: Array, *, stride: int, padding: int, groups: int) -> Array:
    """The transposed convolution in float64: every element of ``data`` adds its window to the result."""
    inner, per_group, kernel, _ = weight.shape
    batch, _, height, width = data.shape
    parts = data.reshape(batch, groups, inner // groups, height, width).astype("float64")
    taps = weight.reshape(groups, inner // groups, per_group, kernel, kernel).astype("float64")
    sizes = [(n - 1) * stride + kernel for n in (height, width)]
    full = np.zeros((batch, groups, per_group, *sizes))
    for y, x in np.ndindex(kernel, kernel):
        rows = slice(y, y + (height - 1) * stride + 1, stride)
        columns = slice(x, x + (width - 1) * stride + 1, stride)
        full[..., rows, columns] += np.einsum("ngihw,gio->ngohw", parts, taps[..., y, x], optimize=True)
    inside = full[..., padding : sizes[0] - padding, padding : sizes[1] - padding]
    return inside.reshape(batch, groups * per_group, *inside.shape[3:])


def gelu_tanh(x: Array) -> Array:
    """The approximation by tanh, in float64."""
    x = x.astype("float64")
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def pooled(x: Array, *, kernel: int, stride: int, padding: int) -> Array:
    """Averages of windows, what is padded counted as zeros."""
    x = np.pad(x.astype("float64"), ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), axis=(2, 3))
    return windows[:, :, ::stride, ::stride].mean(axis=(4, 5))


def along(data: Array, weight: Array, bias: Array, *, stride: int, padding: int) -> Array:
    """A convolution along one dimension, in float64."""
    x = np.pad(data.astype("float64"), ((0, 0), (0, 0), (padding, padding)))
    windows = np.lib.stride_tricks.sliding_window_view(x, weight.shape[2], axis=2)[:, :, ::stride]
    return np.einsum("nctk,ock->not", windows, weight, optimize=True) + bias[:, None]


def _transposed(channels: int, size: int, out: int, kernel: int, stride: int, pad: int, groups: int) -> Case:
    after = (size - 1) * stride + kernel - 2 * pad
    shared = f" groups {groups}" if groups > 1 else ""
    params = {"stride": stride, "padding": pad, "groups": groups}
    return _case(
        "conv_transpose2d",
        (
            Argument("data", (1, channels, size, size)),
            Argument("weight", (channels, out // groups, kernel, kernel)),
        ),
        (1, out, after, after),
        lambda d, w: spread(d, w, **params),
        2.0 * channels * size * size * out // groups * kernel * kernel,
        detail=f"{kernel}x{kernel} s{stride} {channels}>{out}{shared} @{size}",
        params=params,
    )


def _along(channels: int, length: int, out: int, kernel: int, stride: int) -> Case:
    params = {"stride": stride, "padding": kernel // 2}
    after = (length + 2 * (kernel // 2) - kernel) // stride + 1
    return _case(
        "conv1d",
        (
            Argument("data", (1, channels, length)),
            Argument("weight", (out, channels, kernel)),
            Argument("bias", (out,)),
        ),
        (1, out, after),
        lambda d, w, b: along(d, w, b, **params),
        2.0 * out * after * channels * kernel,
        detail=f"{kernel} s{stride} {channels}>{out} @{length}",
        params=params,
    )


def _pixels_of_volumes(channels: int, size: tuple[int, int, int], out: int) -> Case:
    return _case(
        "conv3d",
        (
            Argument("data", (1, channels, *size)),
            Argument("weight", (out, channels, 1, 1, 1)),
            Argument("bias", (out,)),
        ),
        (1, out, *size),
        lambda d, w, b: (
            np.einsum("nczyx,oc->nozyx", d, w[:, :, 0, 0, 0], dtype="float64") + b[:, None, None, None]
        ),
        2.0 * out * channels * math.prod(size),
        detail=f"1x1x1 {channels}>{out} @{'x'.join(map(str, size))}",
    )


def _elementwise() -> list[Case]:
    def plain(op: str, shape: tuple[int, ...], reference: Callable[[Array], Array], flops: int) -> Case:
        return _case(op, (Argument("x", shape, low=-4.0),), shape, reference, flops * math.prod(shape))

    return [
        plain("tanh", (1000, 1000), lambda x: np.tanh(x.astype("float64")), 10),
        plain("sigmoid", (384, 1536), lambda x: 1 / (1 + np.exp(-x.astype("float64"))), 10),
        plain("gelu_tanh", (512, 3072), gelu_tanh, 15),
        plain("cbrt", (333, 301), lambda x: np.cbrt(x.astype("float64")), 20),
    ]


def _moves() -> list[Case]:
    pool = {"kernel": 3, "stride": 2, "padding": 1}
    found = [
        _case("transpose", (Argument("x", s),), s[::-1], lambda x: x.T, 0) for s in ((1000, 3000), (63, 1025))
    ]
    for shape, axis in (((512, 1000), 1), ((512, 1000), 0), ((64, 64, 64), 2)):
        found.append(
            _case(
                "cumsum",
                (Argument("x", shape),),
                shape,
                lambda x, axis=axis: np.cumsum(x, axis, dtype="float64"),
                math.prod(shape),
                params={"axis": axis},
                detail=f"{'x'.join(map(str, shape))}{'' if axis else ' axis 0'}",
            )
        )
    return [
        *found,
        _case(
            "resize_nearest",
            (Argument("x", (1, 64, 56, 56)),),
            (1, 64, 112, 112),
            lambda x: x.repeat(2, axis=2).repeat(2, axis=3),
            0,
        ),
        _case(
            "concat_last",
            (Argument("x", (256, 512)), Argument("y", (256, 300))),
            (256, 812),
            lambda x, y: np.concatenate([x, y], axis=1),
            0,
        ),
        _case(
            "argmax",
            (Argument("x", (128, 32000)),),
            (128,),
            lambda x: x.argmax(axis=1),
            128 * 32000,
            dtype="int64",
        ),
        _case(
            "avg_pool",
            (Argument("x", (1, 64, 56, 56)),),
            (1, 64, 28, 28),
            lambda x: pooled(x, **pool),
            9 * 64 * 28 * 28,
            params=pool,
        ),
    ]


def _spectra() -> list[Case]:
    found = []
    for rows, length in ((512, 60), (64, 400), (32, 2048), (8, 16384), (100, 101)):
        kept = length // 2 + 1
        found.append(
            _case(
                "rfft",
                (Argument("x", (rows, length)),),
                (rows, kept, 2),
                lambda x: np.fft.rfft(x.astype("float64")).view("float64").reshape(*x.shape[:-1], -1, 2),
                2.5 * rows * length * math.log2(length),
            )
        )
    return found


def _products() -> list[Case]:
    left, right = (512, 640, 768), (7, 2000, 1000)
    m, k, n = left
    found = [
        _case(
            "matmul_tn",
            (Argument("A", (k, m)), Argument("B", (k, n))),
            (m, n),
            lambda a, b: matmul.product(a.T, b),
            2.0 * m * k * n,
            detail="x".join(map(str, left)),
        )
    ]
    m, k, n = right
    found.append(
        _case(
            "matmul_nt",
            (Argument("A", (m, k)), Argument("B", (n, k))),
            (m, n),
            lambda a, b: matmul.product(a, b.T),
            2.0 * m * k * n,
            detail="x".join(map(str, right)),
        )
    )
    batch, m, k, n = 12, 197, 64, 197
    found.append(
        _case(
            "batch_matmul_nt",
            (Argument("A", (batch, m, k)), Argument("B", (batch, n, k))),
            (batch, m, n),
            lambda a, b: matmul.product(a, b.swapaxes(1, 2)),
            2.0 * batch * m * k * n,
        )
    )
    for sizes, packed in ((PRODUCTS, False), (PACKED_PRODUCTS, True)):
        found += [matmul.case(*s, packed, "floor", "x".join(map(str, s)) in QUICK) for s in sizes]
    return found


def cases() -> list[Case]:
    found = [_transposed(*shape) for shape in TRANSPOSED]
    for heads, queries, keys, width, shared in ATTENTION:
        case = attention_case("floor", heads, queries, keys, width, shared=shared, quick=shared > 1)
        found.append(case)
    for packed in (False, True):
        for channels, size, out, kernel, stride, groups, padding in CONVOLUTIONS:
            found.append(
                conv_case(
                    "floor",
                    channels,
                    size,
                    out,
                    kernel,
                    stride,
                    groups=groups,
                    padding=padding,
                    packed=packed,
                    quick=channels == 17 and not packed,
                )
            )
    return [
        *found,
        _along(80, 3000, 512, 3, 1),
        _along(48, 1001, 64, 7, 2),
        _pixels_of_volumes(16, (4, 20, 20), 24),
        *_elementwise(),
        *_moves(),
        *_spectra(),
        *_products(),
    ]
