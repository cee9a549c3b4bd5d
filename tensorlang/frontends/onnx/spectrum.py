"""ONNX's discrete Fourier transforms: their inputs in the words of ``ops.dft`` and ``ops.stft``."""

from __future__ import annotations

from typing import Any

from ... import ops
from ...te import Tensor
from .table import one, te_op


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
    # the default of the attribute, and of the input that took its place
    usual = 1 if opset < 20 else -2
    d = next(a for a in (one(where), axis, usual) if a is not None)
    return ops.dft(x, one(length), d, bool(inverse), bool(onesided))


@te_op("STFT", values=(1, 3))
def stft(
    x: Tensor, step: Any, window: Tensor | None = None, length: Any = None, *, onesided: int = 1
) -> Tensor:
    """The transform of each frame, which begins ``step`` after the one before."""
    # a real signal may come without the dimension of its parts
    x = x if x.ndim == 3 else ops.expand_dims(x, -1)
    return ops.stft(x, one(step), window, one(length), bool(onesided))
