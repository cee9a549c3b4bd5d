"""What is done to images beside convolutions: margins, pools, other sizes, places that are data. Most of it
moves elements, by patterns that are known only in part when code is made."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..harness.case import Argument, Array, Case
from .floor import pooled

# image, margin
PADDED = (((1, 64, 56, 56), 1), ((3, 3, 512, 512), 3), ((1, 16, 100, 101), 5))
# image, window, stride, margin
POOLED = (
    ((1, 64, 112, 112), 3, 2, 1),
    ((1, 64, 112, 112), 3, 3, 0),
    ((1, 64, 112, 112), 3, 3, 1),
    ((1, 32, 57, 61), 3, 3, 1),
    ((1, 64, 56, 56), 5, 3, 0),
)
# image, size
RESIZED = (((1, 64, 56, 56), (100, 90)), ((1, 3, 480, 640), (240, 232)), ((1, 16, 57, 61), (120, 111)))
# image, places
SAMPLED = (((1, 64, 56, 56), (56, 56)), ((2, 16, 40, 40), (30, 33)))
QUICK = {"pad_reflect 1x64x56x56 by 1", "resize_linear 1x64x56x56 to 100x90", "max_pool 1x64x112x112 3 s3 p1"}


def margins(margin: int) -> list[tuple[int, int]]:
    """Those of the last two of four dimensions, for numpy."""
    return [(0, 0), (0, 0), (margin, margin), (margin, margin)]


def largest(x: Array, *, kernel: int, stride: int, padding: int) -> Array:
    """Maxima of windows, in which what is padded never wins."""
    x = np.pad(x, margins(padding), constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), axis=(2, 3))
    return windows[:, :, ::stride, ::stride].max(axis=(4, 5))


def nearest(x: Array, *, size: tuple[int, int]) -> Array:
    """The elements at ``floor(i n / size)``."""
    for d, to in enumerate(size, 2):
        x = np.take(x, np.arange(to) * x.shape[d] // to, d)
    return x


def linear(x: Array, *, size: tuple[int, int]) -> Array:
    """Between the neighbours of ``(i + 1/2) n / size - 1/2``, in float64."""
    x = x.astype("float64")
    for d, to in enumerate(size, 2):
        n = x.shape[d]
        at = np.maximum((np.arange(to) + 0.5) * n / to - 0.5, 0)
        low = np.floor(at).astype(int)
        part = (at - low).reshape([-1 if k == d else 1 for k in range(4)])
        x = np.take(x, low, d) * (1 - part) + np.take(x, np.minimum(low + 1, n - 1), d) * part
    return x


def sampled(x: Array, grid: Array) -> Array:
    """Linear between the four elements around each place; beyond the border zeros. In float64."""
    batch, channels, *extents = x.shape
    out = np.zeros((batch, channels, *grid.shape[1:3]))
    where = [((grid[..., 1 - d].astype("float64") + 1) * n - 1) / 2 for d, n in enumerate(extents)]
    low = [np.floor(w).astype(int) for w in where]
    for sides in np.ndindex(2, 2):
        at = [f + s for f, s in zip(low, sides, strict=True)]
        shares = [w - f if s else 1 - (w - f) for w, f, s in zip(where, low, sides, strict=True)]
        inside = np.logical_and.reduce([(a >= 0) & (a < n) for a, n in zip(at, extents, strict=True)])
        kept = [np.clip(a, 0, n - 1) for a, n in zip(at, extents, strict=True)]
        for b in range(batch):
            out[b] += x[b][:, kept[0][b], kept[1][b]] * (shares[0] * shares[1] * inside)[b]
    return out


def _case(
    op: str,
    detail: str,
    shape: tuple[int, ...],
    result: tuple[int, ...],
    reference: Callable[..., Array],
    params: dict[str, Any],
    flops: float,
    *others: Argument,
) -> Case:
    name = f"{op} {'x'.join(map(str, shape))} {detail}"
    arguments = (Argument("x", shape), *others)
    out = Argument("out", result)
    quick = name in QUICK
    return Case(
        "images", name, op, arguments, out, reference, flops=flops, params=params, tolerance=1e-3, quick=quick
    )


def cases() -> list[Case]:
    found: list[Case] = []
    for shape, margin in PADDED:
        result = (*shape[:2], *[n + 2 * margin for n in shape[2:]])
        for mode in ("reflect", "edge"):
            padded = lambda x, mode=mode, margin=margin: np.pad(x, margins(margin), mode)
            found.append(_case(f"pad_{mode}", f"by {margin}", shape, result, padded, {"margin": margin}, 0))
    for shape, kernel, stride, margin in POOLED:
        params = {"kernel": kernel, "stride": stride, "padding": margin}
        result = (*shape[:2], *[(n + 2 * margin - kernel) // stride + 1 for n in shape[2:]])
        for op, reference in (("max_pool", largest), ("avg_pool", pooled)):
            computed = lambda x, reference=reference, params=params: reference(x, **params)
            detail, flops = f"{kernel} s{stride} p{margin}", math.prod(result) * kernel**2
            found.append(_case(op, detail, shape, result, computed, params, flops))
    for shape, size in RESIZED:
        result, detail = (*shape[:2], *size), f"to {'x'.join(map(str, size))}"
        for op, reference in (("resize_to", nearest), ("resize_linear", linear)):
            computed = lambda x, reference=reference, size=size: reference(x, size=size)
            flops = 0 if reference is nearest else 9 * math.prod(result)
            found.append(_case(op, detail, shape, result, computed, {"size": size}, flops))
    for shape, size in SAMPLED:
        grid, result = Argument("grid", (shape[0], *size, 2)), (*shape[:2], *size)
        detail, flops = f"at {'x'.join(map(str, size))}", 8 * math.prod(result)
        found.append(_case("grid_sample", detail, shape, result, sampled, {}, flops, grid))
    return found
