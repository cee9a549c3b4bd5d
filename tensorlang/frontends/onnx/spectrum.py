"""ONNX's discrete Fourier transforms, as products with waves. Knows te and ops."""

from __future__ import annotations

import math
from typing import Any

from ... import ops, te
from ...te import Tensor
from .table import one, te_op


def _waves(n: Any) -> tuple[Tensor, Tensor]:
    """Cosine and sine at each n-th of a circle."""
    angle = lambda i: te.cast("float64", i) * (2 * math.pi) / te.cast("float64", n)
    return (
        te.compute((n,), lambda i: te.cos(angle(i)), name="cosine"),
        te.compute((n,), lambda i: te.sin(angle(i)), name="sine"),
    )


def _transformed(x: Tensor, axis: int, n: Any, bins: Any, inverse: bool) -> Tensor:
    """Complex numbers (the last dimension holds one or two parts) for ``bins`` frequencies, of ``n`` points:
    what ``x`` lacks of them is 0."""
    cosine, sine = _waves(n)
    real = te.whole.is_one(x.shape[-1])
    points = te.reduce_axis((0, te.min(x.shape[axis], n)), name="point")
    sign = 1.0 if inverse else -1.0
    scale = 1.0 / te.cast("float64", n) if inverse else te.const(1.0, "float64")

    def term(at: tuple[Any, ...], k: Any, part: Any) -> Any:
        turn = te.floormod(te.cast("int64", points) * k, n)
        read = lambda p: te.cast("float64", x(*at[:axis], points, *at[axis + 1 :], p))
        c, s = cosine(turn), sine(turn) * sign
        if real:
            return read(0) * te.select(part == 0, c, s)
        return te.select(part == 0, read(0) * c - read(1) * s, read(0) * s + read(1) * c)

    shape = [*(bins if d == axis else m for d, m in enumerate(x.shape[:-1])), 2]
    total = te.compute(
        shape, lambda *i: te.sum(term(i[:-1], i[axis], i[-1]) * scale, axis=points), name="transform"
    )
    return ops.cast(total, x.dtype)


def _from_half(x: Tensor, axis: int, n: Any) -> Tensor:
    """Real points from the lower half of their frequencies; the others are their conjugates."""
    cosine, sine = _waves(n)
    bins = te.reduce_axis((0, te.min(x.shape[axis], te.floordiv(n, 2) + 1)), name="bin")

    def term(*i: Any) -> Any:
        turn = te.floormod(te.cast("int64", bins) * i[axis], n)
        re, im = (te.cast("float64", x(*i[:axis], bins, *i[axis + 1 : -1], p)) for p in (0, 1))
        once = te.any(bins == 0, bins * 2 == n)
        value = re * cosine(turn) - im * sine(turn)
        return te.sum(te.select(once, value, value * 2.0) / te.cast("float64", n), axis=bins)

    shape = [*(n if d == axis else m for d, m in enumerate(x.shape[:-1])), 1]
    return ops.cast(te.compute(shape, term, name="points"), x.dtype)


@te_op("DFT", values=(1, 2))
def dft(
    x: Tensor,
    length: Any = None,
    where: Any = None,
    *,
    axis: int | None = None,
    inverse: int = 0,
    onesided: int = 0,
    opset: int = 20,
) -> Tensor:
    """The axis is an input since opset 20."""
    usual = 1 if opset < 20 else -2
    d = next(a for a in (one(where), axis, usual) if a is not None) % x.ndim
    n = one(length)
    if inverse and onesided:
        return _from_half(x, d, (x.shape[d] - 1) * 2 if n is None else n)
    n = x.shape[d] if n is None else n
    return _transformed(x, d, n, te.floordiv(n, 2) + 1 if onesided else n, bool(inverse))


@te_op("STFT", values=(1, 3))
def stft(
    x: Tensor, step: Any, window: Tensor | None = None, length: Any = None, *, onesided: int = 1
) -> Tensor:
    """The transform of each frame, which begins ``step`` after the one before."""
    step, length = one(step), one(length)
    n = window.shape[0] if length is None and window is not None else length
    count = te.floordiv(x.shape[1] - n, step) + 1

    def element(b: Any, f: Any, i: Any, part: Any) -> Any:
        value = x(b, f * step + i, part) if x.ndim == 3 else x(b, f * step + i)
        return value if window is None else value * te.cast(x.dtype, window(i))

    parts = x.shape[2] if x.ndim == 3 else 1
    frames = te.compute((x.shape[0], count, n, parts), element, name="frames")
    return _transformed(frames, 2, n, te.floordiv(n, 2) + 1 if onesided else n, False)
