"""ATen's convolutions, pools and what changes the size of images. Knows ops."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import ops, te
from ...core.dtype import INT64
from ...expr.nodes import const_int
from ...te import Tensor
from ..words import times
from .table import aten, known, needs
from .types import as_type, rounded_once

_CONV = {1: ops.conv1d, 2: ops.conv2d, 3: ops.conv3d}
_TRANSPOSE = {1: ops.conv_transpose1d, 2: ops.conv_transpose2d, 3: ops.conv_transpose3d}
_MAX = {1: ops.max_pool1d, 2: ops.max_pool2d, 3: ops.max_pool3d}
_AVG = {1: ops.avg_pool1d, 2: ops.avg_pool2d, 3: ops.avg_pool3d}


def each(x: Any, n: int) -> tuple[Any, ...]:
    """A number for each of the dimensions."""
    listed = list(x) if isinstance(x, list | tuple) else [x]
    return tuple(listed * n if len(listed) == 1 else listed)


def batched(f: Callable[..., Any], x: Tensor, rank: int) -> Any:
    """``f`` of a tensor with a batch; one is put before what has none."""
    if x.ndim == rank + 2:
        return f(x)
    made = f(ops.expand_dims(x, (0,)))
    return tuple(ops.squeeze(y, (0,)) for y in made) if isinstance(made, tuple) else ops.squeeze(made, (0,))


@aten("convolution", "_convolution")
def convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    *_: Any,
) -> Tensor:
    n = weight.ndim - 2
    stride, padding, dilation = each(stride, n), each(padding, n), each(dilation, n)
    if transposed:
        extra = each(output_padding, n)
        narrow = x.dtype.is_float and x.dtype.bits == 16
        large = any(e >= s for e, s in zip(extra, stride, strict=True))
        needs(
            not (narrow and large), "16-bit floats with output_padding from the stride on, rounded by columns"
        )

        def back(t: Tensor) -> Tensor:
            return _TRANSPOSE[n](t, weight, bias, stride, padding, extra, groups, dilation)

        return batched(back, x, n)
    return batched(lambda t: _CONV[n](t, weight, bias, stride, padding, dilation, groups), x, n)


@aten("conv1d", "conv2d", "conv3d", "conv1d.padding", "conv2d.padding", "conv3d.padding")
def conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    n = weight.ndim - 2
    if padding == "valid":
        padding = 0
    elif padding == "same":
        spans = [
            d * (known(k, "a window") - 1) for d, k in zip(each(dilation, n), weight.shape[2:], strict=True)
        ]
        # an odd margin is one larger behind: operators take even ones, so that row is padded here
        more = [(0, s % 2) for s in spans]
        if any(b for _, b in more):
            x = ops.pad(x, [(0, 0)] * (x.ndim - n) + more)
        padding = [s // 2 for s in spans]
    return convolution(x, weight, bias, stride, padding, dilation, False, 0, groups)


@aten("conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input")
def conv_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    return convolution(x, weight, bias, stride, padding, dilation, True, output_padding, groups)


# -- pools


def _max_pool(n: int, pool: Callable[..., Any]) -> Callable[..., Any]:
    def of(
        x: Tensor, size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
    ) -> Any:
        step = each(stride, n) if stride else None
        return batched(
            lambda t: pool(t, each(size, n), step, each(padding, n), each(dilation, n), ceil_mode), x, n
        )

    of.__name__ = f"max_pool{n}d"
    return of


def _max_pool_with_indices(n: int) -> Callable[..., Any]:
    pool = _max_pool(n, ops.max_pool_with_indices)

    def of(*args: Any) -> Any:
        y, places = pool(*args)
        return y, as_type(places, INT64)

    of.__name__ = f"max_pool{n}d_with_indices"
    return of


def _avg_pool(n: int) -> Callable[..., Tensor]:
    def of(
        x: Tensor,
        size: Any,
        stride: Any = (),
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor: int | None = None,
    ) -> Tensor:
        needs(divisor is None or not ceil_mode, "a divisor of its own and windows that are not whole")
        step = each(stride, n) if stride else None

        def pooled(t: Tensor) -> Tensor:
            margins = count_include_pad or divisor is not None  # a sum is the same with them
            return _AVG[n](t, each(size, n), step, each(padding, n), ceil_mode, margins)

        if divisor is None:
            return batched(pooled, x, n)
        share = math.prod(known(k, "a window") for k in each(size, n)) / divisor
        return rounded_once(lambda t: times(batched(pooled, t, n), share))(x)

    of.__name__ = f"avg_pool{n}d"
    return of


for _n in (1, 2, 3):
    aten(f"max_pool{_n}d")(_max_pool(_n, _MAX[_n]))
    aten(f"max_pool{_n}d_with_indices")(_max_pool_with_indices(_n))
    aten(f"avg_pool{_n}d")(_avg_pool(_n))


def _window(i: Any, n: Any, out: Any) -> tuple[Any, Any]:
    """Where window ``i`` of ``out`` over ``n`` elements begins and ends."""
    return te.floordiv(i * n, out), te.ceildiv((i + 1) * n, out)


@aten("adaptive_avg_pool2d", "_adaptive_avg_pool2d", "adaptive_avg_pool1d", "_adaptive_avg_pool3d")
def adaptive_avg_pool(x: Tensor, size: Any) -> Tensor:
    """Torch sums 16-bit floats in their own type where windows have three dimensions."""
    whole = isinstance(size, list | tuple) and all(isinstance(s, int) and s == 1 for s in size)
    if isinstance(size, list | tuple) and len(size) == 3 and x.dtype.bits == 16 and not whole:
        return _averaged_at_once(x, size)
    return rounded_once(_adaptive)(x, size)  # type: ignore[no-any-return]


# a sum in the order of its elements, each rounded; te.sum of 16 bits is free to be exact for longer
_one_by_one = te.comm_reducer(lambda a, b: a + b, lambda t: te.const(0, t), name="one_by_one")


def _averaged_at_once(x: Tensor, size: Sequence[Any]) -> Tensor:
    """Means of windows, every sum and quotient rounded."""
    first = x.ndim - len(size)
    pairs = [(known(x.shape[first + d], "an image"), known(out, "a result")) for d, out in enumerate(size)]
    ks = [te.reduce_axis((0, _widest(n, out)), name=f"k{d}") for d, (n, out) in enumerate(pairs)]

    def windows(i: Sequence[Any]) -> list[Any]:
        return [_window(j, *pair) for j, pair in zip(i[first:], pairs, strict=True)]

    def element(*i: Any) -> Any:
        ends = windows(i)
        at = [begin + k for (begin, _), k in zip(ends, ks, strict=True)]
        inside = te.all(*(a < end for a, (_, end) in zip(at, ends, strict=True)))
        return _one_by_one(te.if_then_else(inside, x(*i[:first], *at), te.const(0, x.dtype)), axis=ks)

    shape: list[Any] = [*x.shape[:first], *size]
    total: Any = te.compute(shape, element, name="windows")

    def mean(*i: Any) -> Any:
        found = total(*i)
        for begin, end in windows(i):
            found = found / te.cast(x.dtype, end - begin)
        return found

    made: Tensor = te.compute(shape, mean, name="adaptive")  # type: ignore[assignment]
    return made


def _widest(n: int, out: int) -> int:
    """The size of the largest of ``out`` windows over ``n`` elements."""
    return max(-(-(i + 1) * n // out) - i * n // out for i in range(out))


def _adaptive(x: Tensor, size: Any) -> Tensor:
    sizes = list(size) if isinstance(size, list | tuple) else [size]
    n = len(sizes)
    axes = tuple(range(x.ndim - n, x.ndim))
    if all(isinstance(s, int) and s == 1 for s in sizes):
        return ops.mean(x, axes, True)
    if n == 2:
        return batched(lambda t: ops.adaptive_avg_pool2d(t, tuple(sizes)), x, 2)
    for d, out in zip(axes, sizes, strict=True):
        x = _averaged(x, d, out)
    return x


def _averaged(x: Tensor, d: int, out: int) -> Tensor:
    """Means of ``out`` windows along a dimension."""
    n = known(x.shape[d], "an image")
    k = te.reduce_axis((0, _widest(n, out)), name="k")

    def element(*i: Any) -> Any:
        first, last = _window(i[d], n, out)
        inside = first + k < last
        return te.sum(
            te.if_then_else(inside, x(*i[:d], first + k, *i[d + 1 :]), te.const(0, x.dtype)), axis=k
        )

    shape: list[Any] = [*x.shape[:d], out, *x.shape[d + 1 :]]
    total: Any = te.compute(shape, element, name="windows")

    def mean(*i: Any) -> Any:
        first, last = _window(i[d], n, out)
        return total(*i) / te.cast(x.dtype, last - first)

    found: Tensor = te.compute(shape, mean, name="adaptive")  # type: ignore[assignment]
    return found


@aten("adaptive_max_pool2d", "adaptive_max_pool3d")
def adaptive_max_pool(x: Tensor, size: Sequence[Any]) -> Any:
    """With places within an image."""
    n = len(size)
    pairs = [
        (known(m, "an image"), known(out, "a result")) for m, out in zip(x.shape[-n:], size, strict=True)
    ]
    if all(out and m % out == 0 for m, out in pairs):  # windows do not overlap
        windows = [m // out for m, out in pairs]
        return _max_pool_with_indices(n)(x, windows, windows)
    needs(all(out for _, out in pairs), "windows of nothing")
    return _largest_of_windows(x, pairs)


def _largest_of_windows(x: Tensor, pairs: Sequence[tuple[int, int]]) -> tuple[Tensor, Tensor]:
    """Of windows of different sizes: all are as wide as the widest, and begin no later than it may, so that
    every element is in the image. What another window has is not looked at."""
    first = x.ndim - len(pairs)

    def within(i: Sequence[Any], ks: Sequence[Any]) -> tuple[list[Any], Any]:
        ends = [_window(j, *pair) for j, pair in zip(i[first:], pairs, strict=True)]
        at = [
            te.min(begin, n - _widest(n, out)) + k
            for (begin, _), k, (n, out) in zip(ends, ks, pairs, strict=True)
        ]
        inside = [te.all(a >= begin, a < end) for a, (begin, end) in zip(at, ends, strict=True)]
        return at, te.all(*inside)

    return _largest(x, [out for _, out in pairs], [_widest(*pair) for pair in pairs], within)


def _largest(
    x: Tensor, outs: Sequence[int], widths: Sequence[int], within: Callable[..., tuple[list[Any], Any]]
) -> tuple[Tensor, Tensor]:
    """The largest of each window, and its place within an image. ``within`` gives, for the indices of a
    result and of an element of its window, the place of that element and whether it is one."""
    first = x.ndim - len(outs)
    sizes = x.shape[first:]
    shape: list[Any] = [*x.shape[:first], *outs]
    own, again = (
        [te.reduce_axis((0, width), name=f"{word}{d}") for d, width in enumerate(widths)]
        for word in ("k", "r")
    )

    lowest = -te.infinity(x.dtype) if x.dtype.is_float else te.min_value(x.dtype)

    def element(*i: Any) -> Any:
        at, inside = within(i, own)
        return te.max(te.select(inside, x(*i[:first], *at), lowest), axis=own)

    best: Any = te.compute(shape, element, name="windows")

    def place(*i: Any) -> Any:
        at, inside = within(i, again)
        flat = te.const(0, INT64)
        for a, n in zip(at, sizes, strict=True):
            flat = flat * n + te.cast(INT64, a)
        value = x(*i[:first], *at)
        key = te.select(value == best(*i), flat, te.max_value(INT64))
        if x.dtype.is_float:
            # of what is no number, which is the largest, torch names the last: below 0 that is the least
            key = te.select(te.isnan(value), -1 - flat, key)
        return te.min(te.select(inside, key, te.max_value(INT64)), axis=again)

    found: Any = te.compute(shape, place, name="found")

    def of_key(*i: Any) -> Any:
        return te.select(found(*i) < 0, -1 - found(*i), found(*i))

    return best, te.compute(shape, of_key, name="places")  # type: ignore[return-value]


def _fractional(n: int) -> None:
    @aten(f"fractional_max_pool{n}d")
    def of(x: Tensor, size: Any, out: Any, samples: Tensor) -> Any:
        """Windows of one size that begin where a number drawn for each channel says."""
        outs = [known(k, "a result") for k in each(out, n)]
        widths = [known(k, "a window") for k in each(size, n)]
        images = [known(k, "an image") for k in x.shape[-n:]]
        fit = all(o > 0 and w + o - 1 <= m for o, w, m in zip(outs, widths, images, strict=True))
        needs(fit and x.dtype is samples.dtype and x.dtype.bits > 16, "windows that do not fit the image")
        # of a picture the number for its rows is the second, of a volume all are in their order
        order = [1, 0] if n == 2 else [0, 1, 2]

        def within(i: Sequence[Any], ks: Sequence[Any]) -> tuple[list[Any], Any]:
            lead = i[:-n] if x.ndim == n + 2 else (0, i[0])
            at = []
            for d, k in enumerate(ks):
                room, last = images[d] - widths[d], outs[d] - 1
                j, number = i[d - n], samples(*lead, order[d])
                # as torch computes it, in the type of the image
                step = te.const(room, x.dtype) / te.const(max(last, 1), x.dtype)
                begin = te.cast("int32", (te.cast(x.dtype, j) + number) * step) - te.cast(
                    "int32", number * step
                )
                # the last ends where the image does; a number beyond 0 to 1 reads nothing outside
                at.append(te.select(j == last, room, te.max(te.min(begin, room), 0)) + k)
            return at, te.const(True, "bool")

        return _largest(x, outs, widths, within)


for _n in (2, 3):
    _fractional(_n)


# -- sizes of images


def _resized(mode: str, n: int) -> Callable[..., Tensor]:
    """``upsample_*`` by its parameters: sizes, align_corners unless nearest, then factors."""

    def of(x: Tensor, size: Sequence[Any], *args: Any) -> Tensor:
        align, *factors = (False, *args) if mode.startswith("nearest") else args
        # the ``.vec`` overloads have a list, the others a number for each dimension
        if len(factors) == 1 and isinstance(factors[0], list | tuple):
            (factors,) = factors
        given = [float(f) for f in factors if isinstance(f, int | float)]
        return _sampled(x, size, given, mode, bool(align))

    of.__name__ = f"upsample_{mode}{n}d"
    return of


def _sampled(x: Tensor, size: Any, given: Sequence[float], mode: str, align: bool) -> Tensor:
    """Torch rounds weights to the type of the image, but for two dimensions of ``bilinear``. By a factor that
    does not give the size it reads where the factor says: the size is cut."""
    own = x.shape[2:]
    if size is None:
        size = [_grown(n, f) for n, f in zip(own, given, strict=True)]
    by_factor = not align and not all(_gives(n, s, f) for n, s, f in zip(own, size, given, strict=False))
    if by_factor:
        fits = all(
            const_int(s) == int(known(n, "an image") * f) for n, s, f in zip(own, size, given, strict=True)
        )
        needs(fits, "factors beside sizes that they do not give")
        nearest = mode.startswith("nearest")
        needs(
            not nearest or all(_exact(n, f, mode) for n, f in zip(own, given, strict=True)), "rounded factors"
        )
    exact = mode == "nearest_exact"
    where = "align_corners" if align else "asymmetric" if mode == "nearest" else "half_pixel"
    kind = {"nearest": "nearest", "nearest_exact": "nearest", "bicubic": "cubic"}.get(mode, "linear")
    narrow = x.dtype.bits == 16 and mode in ("linear", "bicubic")
    needs(x.dtype.is_float or kind == "nearest", "weights of whole numbers")
    needs(not (x.dtype.bits == 16 and mode == "trilinear"), "weights of 16 bits in three dimensions")
    return ops.resample(
        x,
        None if by_factor else list(size),
        list(given) if by_factor else None,
        list(range(2, x.ndim)),
        kind,
        where,
        "round_prefer_ceil" if exact else "floor",
        cubic_coeff=-0.75,
        weights_in=x.dtype if narrow else None,
    )


def _exact(n: Any, factor: float, mode: str) -> bool:
    """Whether torch, which computes places in float32, names the same elements as numbers of 64 bits do."""
    i = np.arange(int(known(n, "an image") * factor))
    half = 0.5 if mode == "nearest_exact" else 0
    short = (i.astype("float32") + np.float32(half)) * np.float32(1 / factor)
    return bool(np.array_equal(np.floor(short), np.floor((i + half) / factor)))


def _grown(n: Any, factor: float) -> Any:
    return n * int(factor) if factor.is_integer() else int(known(n, "an image") * factor)


def _gives(n: Any, size: Any, factor: float) -> bool:
    """Whether a size is just that many times another; of open ones nothing else is known."""
    have, wanted = const_int(n), const_int(size)
    return have is None or wanted is None or wanted == have * factor


for _mode, _n in (
    ("nearest", 1),
    ("nearest", 2),
    ("nearest", 3),
    ("bilinear", 2),
    ("linear", 1),
    ("bicubic", 2),
    ("trilinear", 3),
):
    aten(f"upsample_{_mode}{_n}d", f"upsample_{_mode}{_n}d.vec")(_resized(_mode, _n))


for _n in (1, 2, 3):
    aten(f"_upsample_nearest_exact{_n}d", f"_upsample_nearest_exact{_n}d.vec")(_resized("nearest_exact", _n))


def _antialiased(mode: str, coefficient: float) -> None:
    @aten(f"_upsample_bi{mode}2d_aa", f"_upsample_bi{mode}2d_aa.vec")
    def of(x: Tensor, size: Any, align: bool, *factors: Any) -> Tensor:
        given = factors[0] if len(factors) == 1 else factors
        given = [f for f in given or () if f is not None]
        own = x.shape[2:]
        if size is None:
            size = [_grown(n, f) for n, f in zip(own, given, strict=True)]
        needs(x.dtype.is_float and x.dtype.bits > 16, "weights of 16 bits, or of whole numbers")
        needs(not align, "weights that are widened between corners")
        same = all(_gives(n, s, f) for n, s, f in zip(own, size, given, strict=False))
        needs(same, "factors beside sizes that they do not give")
        return ops.resample(
            x,
            list(size),
            None,
            [2, 3],
            mode,
            "half_pixel",
            cubic_coeff=coefficient,
            exclude_outside=True,
            antialias=True,
        )


_antialiased("linear", -0.75)
_antialiased("cubic", -0.5)


@aten("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")
def grid_sampler(x: Tensor, grid: Tensor, mode: int, padding: int, align_corners: bool) -> Tensor:
    needs(x.dtype is grid.dtype, "places of another type than the image")
    words = ("linear", "nearest", "cubic")[mode], ("zeros", "border", "reflection")[padding]
    return ops.grid_sample(x, grid, *words, align_corners)
