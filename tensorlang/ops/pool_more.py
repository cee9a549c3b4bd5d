"""Pools beside the largest element and the mean: power means, the place of the largest element and the way
back from it, and pools of all of an image, over one, two and three dimensions by the rank of the image.

Images have their channels first, [N, C, …]. Knows windows and what pools share; no other operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import te
from ..core.dtype import INT64
from ..errors import DeclareError
from ..expr import make
from ..expr.make import ExprLike
from ..expr.nodes import Expr
from ..te import Tensor
from . import inputs, tags
from .pool import lowest, pooled, reach, windows
from .reduce import max as maximum
from .reduce import mean, norm
from .shape import reshape
from .take import indices_of
from .window import SPATIAL, Padding, Sizes, padded, spatial_rank, taps

__all__ = [
    "global_avg_pool",
    "global_lp_pool",
    "global_max_pool",
    "lp_pool",
    "max_pool_with_indices",
    "max_unpool",
]


def lp_pool(
    data: Tensor,
    kernel_size: Sizes,
    p: float = 2,
    stride: Sizes | None = None,
    padding: Padding = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """``sum(|x| ** p) ** (1 / p)`` of each window of [N, C, …]; windows as for ``ops.max_pool2d``, what is
    padded counts as 0. Of floats.

    Raises DeclareError unless ``p`` is positive. ``ops.lp_pool(x, 3, p=2, stride=2, padding=1)``.
    """
    n, power = spatial_rank("lp_pool", data), inputs.number("lp_pool", "p", p)
    inputs.floating("lp_pool", data, "data")
    if not power > 0:
        raise DeclareError(f"ops.lp_pool: p={p}", because="the root is taken of a sum of powers", try_="p=2")
    data, lay, w, out = pooled(
        "lp_pool", n, data, kernel_size, stride, padding, dilation, ceil_mode, f"NC{SPATIAL[n]}"
    )
    behind = reach(w, [data.shape[d] for d in lay.spatial], out, ceil_mode)
    source = padded("lp_pool.pad", data, lay.spatial, w.before, behind, 0)
    axes, inside = taps(w.kernel), inputs.wide(data.dtype)

    def raised(e: Expr) -> Expr:
        return (
            e * e
            if power == 2
            else te.abs(e)
            if power == 1
            else te.power(te.abs(e), make.const(power, inside))
        )

    total = windows(
        "lp_pool.sum",
        source,
        lay,
        out,
        lambda place: w.reads(place, axes),
        axes,
        lambda e, axis, where: te.sum(raised(e), axis=axis, where=where),
        inside,
        tags.POOL_SUM,
    )

    def root(*i: Any) -> Expr:
        e = total(*i)
        taken = te.sqrt(e) if power == 2 else e if power == 1 else te.power(e, make.const(1 / power, inside))
        return te.cast(data.dtype, taken)

    return inputs.stage("lp_pool", tags.ELEMENTWISE, total.shape, root)


def max_pool_with_indices(
    data: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    *,
    whole: bool = False,
    column_major: bool = False,
) -> tuple[Tensor, Tensor]:
    """The largest element of each window of [N, C, …] as ``ops.max_pool2d``, and its place: int64, the
    first of equals, and the last NaN.

    Places are counted row by row within the image of a channel, as torch's ``return_indices`` has them; with
    ``whole`` through the whole tensor; with ``column_major`` the first dimension of an image runs fastest.
    Two results, whose second ``ops.max_unpool`` takes.
    """
    op = "max_pool_with_indices"
    n = spatial_rank(op, data)
    data, lay, w, out = pooled(
        op, n, data, kernel_size, stride, padding, dilation, ceil_mode, f"NC{SPATIAL[n]}"
    )
    extents = [data.shape[d] for d in lay.spatial]
    behind = reach(w, extents, out, ceil_mode)
    source = padded(f"{op}.pad", data, lay.spatial, w.before, behind, lowest(data.dtype))
    axes = taps(w.kernel)
    best = windows(
        op, source, lay, out, lambda p: w.reads(p, axes), axes, te.max, source.dtype, tags.POOL_MAX
    )
    # the windows are walked twice: the maximum stays a plain reduction, as recipes know it
    again = taps(w.kernel)

    def place(*i: Any) -> Expr:
        reads = w.reads(i[2:], again)
        own = [make.sub(r, b) for r, b in zip(reads, w.before, strict=True)]
        flat = make.const(0, INT64)
        for at, m in zip(own, extents, strict=True):
            flat = flat * te.cast(INT64, m) + te.cast(INT64, at)
        value = source(*i[:2], *reads)
        # where a window holds nothing but the lowest number, its padding equals that, and has no place
        inside = te.all(*[te.all(at >= 0, at < m) for at, m in zip(own, extents, strict=True)])
        key = te.select(te.all(make.eq(value, best(*i)), inside), flat, te.max_value(INT64))
        if data.dtype.is_float:
            # NaN is the largest, as for the pool, and equals nothing; its last is the least below 0
            key = te.select(te.isnan(value), -1 - flat, key)
        return te.min(key, axis=again)

    first = inputs.stage(f"{op}.first", tags.ARG_REDUCE, best.shape, place)

    def counted(*i: Any) -> Expr:
        place: Expr = first(*i)
        if data.dtype.is_float:
            place = te.select(place < 0, -1 - place, place)
        # ONNX's storage_order = 1
        place = _turned(place, extents) if column_major else place
        if not whole:
            return place
        row = te.cast(INT64, i[0]) * te.cast(INT64, data.shape[1]) + te.cast(INT64, i[1])
        return place + row * te.cast(INT64, inputs.product(extents))

    return best, inputs.stage(f"{op}.indices", tags.ELEMENTWISE, best.shape, counted)


def _turned(place: Expr, extents: Sequence[Expr]) -> Expr:
    """A place counted row by row, counted column by column."""
    turned, rest = make.const(0, INT64), place
    for d, m in reversed(list(enumerate(extents))):
        size = te.cast(INT64, m)
        turned = turned + make.floormod(rest, size) * te.cast(INT64, inputs.product(extents[:d]))
        rest = make.floordiv(rest, size)
    return turned


def max_unpool(x: Tensor, indices: Tensor, size: Sequence[ExprLike], *, whole: bool = False) -> Tensor:
    """The way back from :func:`max_pool_with_indices`: ``[N, C, *size]`` of zeros, and each element of x at
    the place that ``indices`` gives, counted within the image of a channel, or with ``whole``
    through the result.

    Of several at one place the last stays; a place out of range is left out. Raises DeclareError unless
    ``indices`` has the shape of x and ``size`` one number for each dimension of the image.
    """
    op = "max_unpool"
    n, indices = spatial_rank(op, x), indices_of(op, indices)
    listed = tuple(size) if isinstance(size, tuple | list) else (size,)
    if len(listed) != n:
        raise DeclareError(
            f"ops.{op}: size={inputs.text(listed)} for {inputs.named(x)}", because=f"{n} numbers are needed"
        )
    if indices.ndim != x.ndim:
        raise DeclareError(
            f"ops.{op}: indices {inputs.named(indices)} for {inputs.named(x)}",
            because="there is one for each element",
        )
    for d, (a, b) in enumerate(zip(indices.shape, x.shape, strict=True)):
        inputs.same_size(op, f"dimension {d} of indices {indices.name}", a, b, f"x is {inputs.named(x)}")
    # what is at no index stays zero, so that the size has to be given: strides may leave a rest
    shape = [*x.shape[:2], *(make.as_expr(m) for m in listed)]
    rows = 0 if whole else 2
    laid = te.scatter(  # as one row: a place is computed without dividing
        0,
        x.shape,
        lambda *i: (*i[:rows], te.cast(INT64, indices(*i))),
        lambda *i: x(*i),
        "set",
        shape=(*shape[:rows], inputs.product(shape[rows:])),
        dtype=x.dtype,
        name=op,
        tag=tags.SCATTER,
    )
    return reshape(laid, shape)


def global_avg_pool(data: Tensor) -> Tensor:
    """The mean of each channel of an image of any rank: [N, C, …] gives [N, C, 1, …]. Of floats.

    >>> image = te.placeholder((1, 3, 8, 8), name="image")
    >>> ops.global_avg_pool(image)
    Tensor(mean: float32[1, 3, 1, 1])
    """
    n = spatial_rank("global_avg_pool", inputs.floating("global_avg_pool", data, "data"), any_number=True)
    return mean(data, tuple(range(2, n + 2)), keepdims=True)


def global_max_pool(data: Tensor) -> Tensor:
    """The largest element of each channel of an image of any rank: [N, C, …] gives [N, C, 1, …]."""
    n = spatial_rank("global_max_pool", data, any_number=True)
    return maximum(data, tuple(range(2, n + 2)), keepdims=True)


def global_lp_pool(data: Tensor, p: float = 2) -> Tensor:
    """``sum(|x| ** p) ** (1 / p)`` of each channel of an image of any rank: [N, C, …] gives [N, C, 1, …]. Of
    floats."""
    n = spatial_rank("global_lp_pool", inputs.floating("global_lp_pool", data, "data"), any_number=True)
    return norm(data, p, tuple(range(2, n + 2)), keepdims=True)
