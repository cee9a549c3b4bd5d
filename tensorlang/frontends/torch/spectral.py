"""ATen's Fourier transforms, of whole tensors and of the frames of a signal. Knows ``ops.dft`` and
``ops.stft``, and complex numbers as pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ... import ops, te
from ...expr import make
from ...te import Tensor
from .shape import pad
from .table import Complex, known, needs, of_complex
from .types import as_type

_BY = (lambda n: 1.0, lambda n: 1 / math.sqrt(n), lambda n: 1 / n)  # torch's numbers of normalisations


def _scaled(x: Tensor, lengths: Sequence[Any], mode: int, divided: int = 1) -> Tensor:
    """By what a normalisation asks for, where it is divided by a length already."""
    if mode == 0 and divided == 1:
        return x
    n = math.prod(known(k, "a transform that is scaled") for k in lengths)
    factor = _BY[mode](n) * divided
    return x if factor == 1 else ops.multiply(x, as_type(factor, x.dtype))


def _along(pairs: Tensor, dims: Sequence[int], forward: bool) -> Tensor:
    """Transforms of complex numbers along each of these dimensions, divided by their lengths unless
    ``forward``."""
    for d in dims:
        pairs = ops.dft(pairs, axis=d, inverse=not forward)
    return pairs


@of_complex("_fft_c2c")
def fft_c2c(x: Complex, dim: Sequence[int], normalization: int, forward: bool) -> Complex:
    ndim = x.pairs.ndim - 1
    dims = [d % ndim for d in dim]
    lengths = [x.pairs.shape[d] for d in dims]
    made = _along(x.pairs, dims, forward)
    return Complex(_undivided(made, lengths, normalization, forward))


def _undivided(made: Tensor, lengths: Sequence[Any], mode: int, forward: bool) -> Tensor:
    """``ops.dft`` divides backwards by the length, as one of torch's normalisations does."""
    if forward:
        return _scaled(made, lengths, mode)
    if mode == 2:
        return made
    whole = math.prod(known(k, "a transform that is scaled") for k in lengths)
    return _scaled(made, lengths, mode, whole)


@of_complex("_fft_r2c")
def fft_r2c(x: Tensor, dim: Sequence[int], normalization: int, onesided: bool) -> Complex:
    """Along the last of the dimensions first, whose half tells the rest."""
    *dims, last = [d % x.ndim for d in dim]
    lengths = [x.shape[d] for d in (*dims, last)]
    made = ops.dft(ops.expand_dims(x, (x.ndim,)), axis=last, onesided=onesided)
    return Complex(_scaled(_along(made, dims, True), lengths, normalization))


@of_complex("_fft_c2r")
def fft_c2r(x: Complex, dim: Sequence[int], normalization: int, last_dim_size: Any) -> Tensor:
    ndim = x.pairs.ndim - 1
    *dims, last = [d % ndim for d in dim]
    lengths = [*(x.pairs.shape[d] for d in dims), last_dim_size]
    made = _along(x.pairs, dims, False)
    made = ops.dft(made, last_dim_size, last, inverse=True, onesided=True)
    return _undivided(ops.squeeze(made, (ndim,)), lengths, normalization, False)


@of_complex("stft", "stft.center")
def stft(x: Tensor, n_fft: int, *args: Any) -> Any:
    """[…, frequency, frame] of real signals […, time]; centred ones have margins of half a frame."""
    center, mode = False, "reflect"
    if len(args) == 9:  # of the overload that centres
        hop, win, window, center, mode, normalized, onesided, as_complex, align = args
    else:
        hop, win, window, normalized, onesided, as_complex, align = args
    needs(isinstance(x, Tensor), "stft of complex signals")
    needs(not align, "stft with align_to_window")
    signal = x if x.ndim == 2 else ops.expand_dims(x, (0,))
    if center:
        signal = _with_margins(signal, n_fft // 2, mode)
    weights = _window(window, win or n_fft, n_fft, x)
    length = None if weights is not None else n_fft
    made = ops.stft(ops.expand_dims(signal, (2,)), hop or n_fft // 4, weights, length, onesided is not False)
    made = _scaled(made, [n_fft], 1 if normalized else 0)
    made = ops.transpose(made, [0, 2, 1, 3])
    made = made if x.ndim == 2 else ops.squeeze(made, (0,))
    return Complex(made) if as_complex else made


def _with_margins(x: Tensor, n: int, mode: str) -> Tensor:
    made = pad(ops.expand_dims(x, (0,)), [n, n], mode)
    return ops.squeeze(made, (0,))


def _window(window: Tensor | None, length: int, n_fft: int, x: Tensor) -> Tensor | None:
    """Of a whole frame: a shorter window is in its middle."""
    if window is None and length == n_fft:
        return None
    if window is None:
        window = ops.full((length,), 1.0, x.dtype)
    left = (n_fft - length) // 2
    return window if length == n_fft else pad(window, [left, n_fft - length - left])


@of_complex("istft")
def istft(
    x: Complex,
    n_fft: int,
    hop: int | None = None,
    win: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: Any = None,
    as_complex: bool = False,
) -> Tensor:
    """The signal whose frames are nearest: the sum of all frames, each weighted by the window, over the sum
    of the squares of the windows (Griffin and Lim 1984)."""
    needs(not as_complex, "istft with return_complex")
    step = hop or n_fft // 4
    pairs = x.pairs if x.pairs.ndim == 4 else ops.expand_dims(x.pairs, (0,))
    pairs = ops.transpose(pairs, [0, 2, 1, 3])  # [batch, frame, frequency, 2]
    if onesided is False:
        pairs = ops.strided_slice(pairs, [0], [n_fft // 2 + 1], [1], [2])
    frames = ops.squeeze(ops.dft(pairs, n_fft, 2, inverse=True, onesided=True), (3,))
    frames = _scaled(frames, [n_fft], 1 if normalized else 0, n_fft if normalized else 1)
    kind = frames.dtype
    weights = _window(window, win or n_fft, n_fft, frames)
    count, first = frames.shape[1], n_fft // 2 if center else 0
    whole = make.add(make.mul(make.sub(count, 1), step), n_fft)
    if length is None:
        length = make.sub(whole, 2 * first) if center else whole
    many = -(-n_fft // step)  # frames over one time, at most

    def over(name: str, shape: Sequence[Any], of: Any) -> Tensor:
        """The sum of what frames have at a time, the last axis."""
        j = te.reduce_axis((0, many), "j")

        def body(*i: Any) -> Any:
            time = i[-1] + first
            frame, place = te.floordiv(time, step) - j, te.floormod(time, step) + j * step
            inside = te.all(frame >= 0, frame < count, place < n_fft)
            return te.sum(te.if_then_else(inside, of(i[:-1], frame, place), te.const(0, kind)), axis=j)

        return te.compute([*shape, length], body, name=name)  # type: ignore[no-any-return]

    def weighted(at: Any, frame: Any, place: Any) -> Any:
        return frames(*at, frame, place) * (1 if weights is None else te.cast(kind, weights(place)))

    def square(at: Any, frame: Any, place: Any) -> Any:
        w = te.const(1, kind) if weights is None else te.cast(kind, weights(place))
        return w * w

    total, envelope = over("istft.sum", frames.shape[:1], weighted), over("istft.window", (), square)
    # behind the last frame there is nothing
    made = te.compute(
        total.shape,
        lambda b, t: te.if_then_else(t.var + first < whole, total(b, t) / envelope(t), te.const(0, kind)),
        name="istft",
    )
    return made if x.pairs.ndim == 4 else ops.squeeze(made, (0,))
