"""Fourier transforms of one dimension and of windows that slide: dft and stft. Knows the checks of arguments;
no other operator.

A transform is a product with a matrix of cosines and sines, which is made from one table of a period: n² work
for n elements. One of a known length a b is made in two steps, of n (a + b) work. Complex numbers are pairs
in the last dimension.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from .. import te
from ..core.dtype import FLOAT64, INT32, DType
from ..errors import DeclareError
from ..expr import make
from ..expr.make import ExprLike
from ..expr.nodes import Expr, const_int
from ..te import Tensor
from . import inputs, tags

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
    return _transform("dft", x.shape, d, x, length, inverse, onesided)


def _transform(
    op: str,
    shape: Sequence[Expr],
    d: int,
    x: Callable[..., Expr],
    length: Expr,
    inverse: bool,
    onesided: bool,
) -> Tensor:
    """The transform of the elements ``x(*i)`` of that shape along dimension ``d``."""
    two = _two_steps(length)
    if two is not None and not (inverse and onesided):
        return _in_two_steps(op, shape, d, x, two, inverse, onesided)
    parts = const_int(shape[-1])
    half = make.add(make.floordiv(length, 2), 1)
    real_result = inverse and onesided
    # a longer signal is cut off, a shorter one padded with zeros, which need not be summed
    given = make.min_(shape[d], half) if real_result else make.min_(shape[d], length)
    given = shape[d] if inputs.equal(given, shape[d]) else given
    size = half if onesided and not inverse else length
    kind = x(*[0] * len(shape)).dtype
    inside = inputs.wide(kind)
    cos, sin = _tables(op, given, size, length, inside)

    def element(i: Sequence[Any], t: Any, part: int) -> Expr:
        return te.cast(inside, x(*i[:d], t, *i[d + 1 :], part))

    def twice(t: Any) -> Expr:  # of a onesided spectrum all but the ends stand for two
        # the mean, and of an even length the last one, which are their own conjugates
        alone = te.any(make.eq(t, 0), make.eq(make.mul(t, 2), length))
        return te.select(alone, make.const(1.0, inside), make.const(2.0, inside))

    outer = [size if k == d else m for k, m in enumerate(shape[:-1])]

    def total(name: str, imaginary: bool) -> Tensor:
        # real and imaginary parts are stages of their own: one reduction has one result
        t = te.reduce_axis((0, given), "t")

        def body(*i: Any) -> Expr:
            im = element(i, t, 1) if parts == 2 else None
            e = _turned(element(i, t, 0), im, cos(t, i[d]), sin(t, i[d]), int(imaginary), inverse)
            return te.sum(e * twice(t.var) if real_result else e, axis=t)

        return inputs.stage(name, tags.REDUCE, outer, body)

    real = total(f"{op}.real", False)
    imaginary = None if real_result else total(f"{op}.imaginary", True)
    scale = te.cast(inside, length)

    def result(*i: Any) -> Expr:
        e: Expr = real(*i[:-1])
        if imaginary is not None:
            e = te.if_then_else(make.eq(i[-1], 0), e, imaginary(*i[:-1]))
        return te.cast(kind, e / scale if inverse else e)

    return inputs.stage(op, tags.INJECTIVE, [*outer, 1 if real_result else 2], result)


def _two_steps(length: Expr) -> tuple[int, int] | None:
    """The factors of a length with the least sum, where two steps are less than half of the work."""
    n = const_int(length)
    # the divisor nearest the root, below it
    small = max((b for b in range(1, math.isqrt(n) + 1) if n % b == 0), default=1) if n else 1
    return (n // small, small) if n and 2 * (n // small + small) <= n else None


def _in_two_steps(
    op: str,
    shape: Sequence[Expr],
    d: int,
    x: Callable[..., Expr],
    factors: tuple[int, int],
    inverse: bool,
    onesided: bool,
) -> Tensor:
    """The transform of a length ``a b`` (Cooley and Tukey 1965): of every b-th element a transform of a,
    turned by an angle for each, and of those with the same number a transform of b."""
    a, b = factors
    n, parts, given = a * b, const_int(shape[-1]), shape[d]
    kind = x(*[0] * len(shape)).dtype
    inside = inputs.wide(kind)
    before, after = shape[:d], shape[d + 1 : -1]

    def element(at: Sequence[Any], t: Any, rest: Sequence[Any], part: int) -> Expr:
        e = te.cast(inside, x(*at, t, *rest, part))
        # not a select, which would read behind the end of a shorter signal
        return e if inputs.at_most(n, given) else te.if_then_else(t < given, e, make.const(0.0, inside))

    def split(i: Sequence[Any]) -> tuple[Sequence[Any], Any, Any, Sequence[Any]]:
        return i[:d], i[d], i[d + 1], i[d + 2 :]

    cos, sin = _tables(f"{op}.first", a, a, a, inside)

    def first(part: int) -> Callable[..., Expr]:
        t = te.reduce_axis((0, a), "t")

        def body(*i: Any) -> Expr:
            at, low, k, rest = split(i)
            re = element(at, t * b + low, rest, 0)
            im = element(at, t * b + low, rest, 1) if parts == 2 else None
            return te.sum(_turned(re, im, cos(t, k), sin(t, k), part, inverse), axis=t)

        return body

    inner: list[ExprLike] = [*before, b, a, *after]
    names = ("real", "imaginary")
    once = [inputs.stage(f"{op}.first.{names[p]}", tags.REDUCE, inner, first(p)) for p in (0, 1)]
    between = _tables(f"{op}.angle", b, a, n, inside)

    def angle(part: int) -> Callable[..., Expr]:
        def body(*i: Any) -> Expr:
            _, low, k, _ = split(i)
            return _turned(once[0](*i), once[1](*i), between[0](low, k), between[1](low, k), part, inverse)

        return body

    seen = [inputs.stage(f"{op}.angle.{names[p]}", tags.LINES, inner, angle(p)) for p in (0, 1)]
    cos_b, sin_b = _tables(f"{op}.second", b, b, b, inside)

    def second(part: int) -> Callable[..., Expr]:
        t = te.reduce_axis((0, b), "t")

        def body(*i: Any) -> Expr:
            at, k, low, rest = split(i)
            re, im = (v(*at, t, low, *rest) for v in seen)
            return te.sum(_turned(re, im, cos_b(t, k), sin_b(t, k), part, inverse), axis=t)

        return body

    both = [inputs.stage(f"{op}.second.{names[p]}", tags.REDUCE, inner, second(p)) for p in (0, 1)]
    size = n // 2 + 1 if onesided and not inverse else n
    scale = make.const(float(n), inside)

    def result(*i: Any) -> Expr:
        # the second step leaves element k1 + a k2 at [k2, k1]
        place = (*i[:d], i[d] // a, i[d] % a, *i[d + 1 : -1])
        e = te.if_then_else(make.eq(i[-1], 0), both[0](*place), both[1](*place))
        return te.cast(kind, e / scale if inverse else e)

    return inputs.stage(op, tags.INJECTIVE, [*before, make.as_expr(size), *after, 2], result)


def _turned(re: Expr, im: Expr | None, c: Expr, s: Expr, part: int, inverse: bool) -> Expr:
    """A part of a complex number, turned by an angle; backwards unless ``inverse``. Without ``im`` it is
    real."""
    if part:
        e = re * s if inverse else make.neg(re * s)
        return e if im is None else e + im * c
    return re * c if im is None else re * c - im * s if inverse else re * c + im * s


def _tables(
    name: str, rows: Expr | int, columns: Expr | int, length: Expr | int, inside: DType
) -> tuple[Tensor, Tensor]:
    """The cosines and the sines."""
    m, n, size = make.as_expr(rows), make.as_expr(columns), make.as_expr(length)
    return (
        _table(f"{name}.cos", te.cos, m, n, size, inside),
        _table(f"{name}.sin", te.sin, m, n, size, inside),
    )


def _table(
    name: str, f: Callable[[Expr], Expr], rows: Expr, columns: Expr, length: Expr, inside: DType
) -> Tensor:
    """``f(2 pi t k / length)`` [t, k], from one period in float64: no angle grows."""
    turn = make.const(2 * math.pi, FLOAT64)
    one = inputs.stage(
        f"{name}.period",
        tags.TABLE,
        [length],
        lambda j: te.cast(inside, f(te.cast(FLOAT64, j) * turn / te.cast(FLOAT64, length))),
    )
    n = const_int(length)

    def rest(t: Any, k: Any) -> Expr:
        # the product of two indices fits 32 bits
        if n is not None and n * n < 1 << 31:
            return make.floormod(make.mul(te.cast(INT32, t), te.cast(INT32, k)), make.const(n, INT32))
        # a quotient of integers is rounded to the next one only from 2**53 on, and floats divide in vectors
        whole, by = te.cast(FLOAT64, t) * te.cast(FLOAT64, k), te.cast(FLOAT64, length)
        return te.cast(INT32, whole - te.floor(whole / by) * by)

    return inputs.stage(name, tags.TABLE, [rows, columns], lambda t, k: one(rest(t, k)))


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
            f"ops.{op}: {inputs.named(x)} has {x.ndim} dimensions, 3 are needed", because="it is [B, L, 1]"
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

    framed = inputs.stage(f"{op}.frames", tags.BROADCAST, shape, weighted)
    return _transform(op, shape, 2, framed, length, False, onesided)
