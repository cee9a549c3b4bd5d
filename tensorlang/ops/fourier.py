"""Fourier transforms of one dimension and of windows that slide: dft and stft. Knows the checks of arguments
and the ways to compute one; no other operator.

A transform of a known length with small factors is made in steps of one or two of them (``fourier_steps``),
one with large factors as a convolution by such (``fourier_chirps``); short ones, and those of open lengths,
are a product with a matrix of cosines and sines, or two (``fourier_matrix``), whichever takes the fewest
operations. Complex numbers are pairs in the last dimension.
"""

from __future__ import annotations

from typing import Any

from .. import te
from ..errors import DeclareError, counted
from ..expr import make
from ..expr.make import ExprLike
from ..expr.nodes import Expr, const_int
from ..te import Tensor
from . import inputs
from .fourier_known import in_steps
from .fourier_matrix import Transform, by_matrix

__all__ = ["dft", "stft"]


def _complex(op: str, x: Any) -> Tensor:
    """A tensor of complex numbers, or of real ones with a last dimension of 1. Raises DeclareError."""
    x = inputs.floating(op, x)
    if x.ndim < 2 or const_int(x.shape[-1]) not in (1, 2):
        raise DeclareError(
            f"ops.{op}: {inputs.named(x)}",
            because="its last dimension holds a number: 1 element of a real one, 2 of a complex one",
            try_="ops.expand_dims(x, -1) for real numbers",
        )
    return x


def dft(
    x: Tensor,
    dft_length: ExprLike | None = None,
    axis: int = -2,
    inverse: bool = False,
    onesided: bool = False,
) -> Tensor:
    """The discrete Fourier transform along ``axis`` of x [..., n, ..., 2] (complex) or [..., n, ..., 1]
    (real): [..., m, ..., 2].

    ``dft_length`` cuts x or fills it with zeros, n when left out; ``onesided`` gives the first
    ``m // 2 + 1`` results, which tell the others of a real x. ``inverse`` divides by the length; with
    ``onesided`` x are such results, ``2 (n - 1)`` real numbers [..., m, ..., 1] when no length is given. m
    may be symbolic. As numpy's fft, rfft, ifft and irfft. Raises DeclareError for a last dimension that is
    neither 1 nor 2, and an axis that is it.

    Sums are in x's type, in float32 for float16, of angles that were computed in float64. Of a known length
    the error is that of torch's: 1.5e-7 of the norm for 2048 numbers in float32, twice that where a factor is
    larger than 13. Of open ones, a product with a matrix, it grows with the root of the length.
    """
    x = _complex("dft", x)
    d = inputs.axis_of("dft", axis, x.ndim)
    if d == x.ndim - 1:
        raise DeclareError("ops.dft: axis is the last dimension", because="it holds the parts of a number")
    n = x.shape[d]
    if dft_length is None:
        # half a spectrum has n // 2 + 1 elements; of the two lengths that gives, the even one, as numpy's
        # irfft
        length = make.mul(make.sub(n, 1), 2) if inverse and onesided else n
    else:
        length = make.as_expr(dft_length)
    known = const_int(length)
    if known is not None and known < 1:
        raise DeclareError(f"ops.dft: a length of {length}", legal="1 or more")
    return _transform(Transform("dft", tuple(x.shape), d, x, length, inverse, onesided))


def _transform(t: Transform) -> Tensor:
    """By the way that takes the fewest operations."""
    made = in_steps(t)
    return by_matrix(t) if made is None else made


def stft(
    x: Tensor,
    frame_step: int,
    window: Tensor | None = None,
    frame_length: ExprLike | None = None,
    onesided: bool = True,
) -> Tensor:
    """The Fourier transforms of the frames of signals x [B, L, 1] (real) or [B, L, 2] (complex), a frame
    every ``frame_step`` elements: [B, frames, m, 2] with m = ``frame_length // 2 + 1``, or without
    ``onesided`` the frame's length.

    A frame is multiplied with ``window`` [frame_length], all ones when left out; one of both is needed. There
    are ``1 + (L - frame_length) // frame_step`` frames. Raises DeclareError for shapes that do not fit.
    """
    op = "stft"
    x = _complex(op, x)
    if x.ndim != 3:
        raise DeclareError(
            f"ops.{op}: {inputs.named(x)} has {counted(x.ndim, 'dimension')}, 3 are needed",
            because="it is [B, L, 1]",
        )
    step = inputs.integer(op, "frame_step", frame_step)
    if step < 1:
        raise DeclareError(f"ops.{op}: frame_step={step}, 1 is the least")
    if window is None and frame_length is None:
        raise DeclareError(f"ops.{op}: neither window nor frame_length is given", try_="frame_length=256")
    if window is not None:
        window = inputs.floating(op, window, "window")
        if window.ndim != 1:
            raise DeclareError(f"ops.{op}: window {inputs.named(window)}", because="it has one dimension")
        if frame_length is not None:
            inputs.same_size(
                op, f"the size of window {window.name}", window.shape[0], frame_length, "it is a frame's"
            )
    length = window.shape[0] if window is not None else make.as_expr(frame_length or 0)
    inside = inputs.wide(x.dtype)
    # whole frames only: the rest of the signal is not read
    frames = make.add(make.floordiv(make.sub(x.shape[1], length), step), 1)
    shape = [x.shape[0], frames, length, x.shape[2]]

    def weighted(b: Any, f: Any, t: Any, part: Any) -> Expr:
        e = te.cast(inside, x(b, make.add(make.mul(f, step), t), part))
        return te.cast(x.dtype, e if window is None else e * te.cast(inside, window(t)))

    return _transform(Transform(op, tuple(shape), 2, weighted, length, False, onesided))
