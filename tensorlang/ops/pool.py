"""Pooling: the largest element or the mean of windows, of parts that cover the image, and of all of it. Knows
windows; no other operator.

Layouts as for the convolutions. Batch, channels and extents may be symbolic. 16-bit floats are summed in
float32 and rounded once.
"""

from __future__ import annotations

from typing import Any

from .. import te
from ..core.dtype import DType
from ..errors import DeclareError
from ..expr import make
from ..expr.make import ExprLike
from ..expr.nodes import Expr, const_int
from ..te import Tensor
from . import inputs, tags
from .window import (
    SPATIAL,
    Layout,
    Padding,
    Sizes,
    Window,
    axis_names,
    image,
    layout_of,
    padded,
    sizes,
    taps,
    window,
)

__all__ = [
    "adaptive_avg_pool2d",
    "adaptive_max_pool2d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "global_avg_pool2d",
    "global_max_pool2d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
]


def max_pool1d(
    data: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    layout: str = "NCW",
) -> Tensor:
    """:func:`max_pool2d` over one dimension. Layouts NCW, NWC, NCW8c."""
    return _max_pool("max_pool1d", 1, data, kernel_size, stride, padding, dilation, ceil_mode, layout)


def max_pool2d(
    data: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    layout: str = "NCHW",
) -> Tensor:
    """The largest element of each window, as torch's max_pool2d; integers too. What is padded never wins.

    ``stride`` is ``kernel_size`` when left out. ``ceil_mode`` counts a last window that is cut off at the end
    but begins inside. Raises DeclareError for a window larger than the padded input (with ``ceil_mode``: by a
    stride or more), and for padding in which a whole window lies.

    >>> image = te.placeholder((1, 3, 8, 8), name="image")
    >>> ops.max_pool2d(image, 2)
    Tensor(max_pool2d: float32[1, 3, 4, 4])
    """
    return _max_pool("max_pool2d", 2, data, kernel_size, stride, padding, dilation, ceil_mode, layout)


def max_pool3d(
    data: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    layout: str = "NCDHW",
) -> Tensor:
    """:func:`max_pool2d` over three dimensions. Layouts NCDHW, NDHWC, NCDHW8c."""
    return _max_pool("max_pool3d", 3, data, kernel_size, stride, padding, dilation, ceil_mode, layout)


def avg_pool1d(
    data: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    dilation: Sizes = 1,
    layout: str = "NCW",
) -> Tensor:
    """:func:`avg_pool2d` over one dimension. Layouts NCW, NWC, NCW8c."""
    return _avg_pool(
        "avg_pool1d", 1, data, kernel_size, stride, padding, ceil_mode, count_include_pad, dilation, layout
    )


def avg_pool2d(
    data: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    dilation: Sizes = 1,
    layout: str = "NCHW",
) -> Tensor:
    """The mean of each window, as torch's avg_pool2d; of floats.

    The divisor is the number of taps of the window inside the padded input, or with
    ``count_include_pad=False`` inside the input. Otherwise as :func:`max_pool2d`.

    >>> image = te.placeholder((1, 3, 8, 8), name="image")
    >>> ops.avg_pool2d(image, 2)
    Tensor(avg_pool2d: float32[1, 3, 4, 4])
    """
    return _avg_pool(
        "avg_pool2d", 2, data, kernel_size, stride, padding, ceil_mode, count_include_pad, dilation, layout
    )


def avg_pool3d(
    data: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    dilation: Sizes = 1,
    layout: str = "NCDHW",
) -> Tensor:
    """:func:`avg_pool2d` over three dimensions. Layouts NCDHW, NDHWC, NCDHW8c."""
    return _avg_pool(
        "avg_pool3d", 3, data, kernel_size, stride, padding, ceil_mode, count_include_pad, dilation, layout
    )


def adaptive_max_pool2d(data: Tensor, output_size: Sizes, layout: str = "NCHW") -> Tensor:
    """The largest elements of ``output_size`` parts that cover the image: part ``i`` of ``n`` runs from
    ``floor(i H / n)`` to ``ceil((i + 1) H / n)``, as in torch."""
    return _adaptive("adaptive_max_pool2d", data, output_size, layout, False)


def adaptive_avg_pool2d(data: Tensor, output_size: Sizes, layout: str = "NCHW") -> Tensor:
    """The means of ``output_size`` parts that cover the image, which are those of
    :func:`adaptive_max_pool2d`. Of floats."""
    return _adaptive("adaptive_avg_pool2d", data, output_size, layout, True)


def global_max_pool2d(data: Tensor, layout: str = "NCHW") -> Tensor:
    """The largest element of each channel: [N, C, H, W] gives [N, C, 1, 1]."""
    return _global("global_max_pool2d", data, layout, False)


def global_avg_pool2d(data: Tensor, layout: str = "NCHW") -> Tensor:
    """The mean of each channel: [N, C, H, W] gives [N, C, 1, 1]. Of floats."""
    return _global("global_avg_pool2d", data, layout, True)


# --- windows that slide -------------------------------------------------------------------------------------


def pooled(
    op: str,
    n: int,
    data: Any,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Padding,
    dilation: Sizes,
    ceil_mode: bool,
    layout: str,
) -> tuple[Tensor, Layout, Window, tuple[Expr, ...]]:
    """The arguments checked: data, layout, window and how often it fits."""
    lay = layout_of(op, layout, n)
    data = image(op, data, lay)
    extents = [data.shape[d] for d in lay.spatial]
    kernel = sizes(op, "kernel_size", kernel_size, n, 1)
    w = window(
        op,
        extents,
        [make.as_expr(k) for k in kernel],
        kernel if stride is None else stride,
        padding,
        dilation,
    )
    for d, k in enumerate(kernel):
        for p in (w.before[d], w.after[d]):
            # a window that lies in the margin alone would have no elements: no largest one, and a mean of
            # nothing
            if not isinstance(padding, str) and int(p) > w.dilation[d] * (k - 1):  # type: ignore[arg-type]
                raise DeclareError(
                    f"ops.{op}: padding={padding} of a window of {k}",
                    because="a window would lie in the padding alone",
                    try_=f"padding={w.dilation[d] * (k - 1)} or less",
                )
    w.fits(op, "the window", extents, SPATIAL[n], ceil_mode)
    return data, lay, w, w.output(extents, ceil_mode)


def reach(w: Window, extents: list[Expr], out: tuple[Expr, ...], ceil_mode: bool) -> list[Expr]:
    """The margin behind: what was asked for, and with ceil_mode as much as the last window needs."""
    if not ceil_mode:
        return [make.as_expr(a) for a in w.after]
    ends = [make.add(make.mul(make.sub(m, 1), w.stride[d]), w.span(d)) for d, m in enumerate(out)]
    return [
        make.max_(make.sub(e, make.add(n, w.before[d])), w.after[d])
        for d, (e, n) in enumerate(zip(ends, extents, strict=True))
    ]


def _max_pool(
    op: str,
    n: int,
    data: Any,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Padding,
    dilation: Sizes,
    ceil_mode: bool,
    layout: str,
) -> Tensor:
    data, lay, w, out = pooled(op, n, data, kernel_size, stride, padding, dilation, ceil_mode, layout)
    behind = reach(w, [data.shape[d] for d in lay.spatial], out, ceil_mode)
    # the lowest number and not zero, which would win over negative elements
    source = padded(f"{op}.pad", data, lay.spatial, w.before, behind, lowest(data.dtype))
    axes = taps(w.kernel)
    return windows(
        op, source, lay, out, lambda place: w.reads(place, axes), axes, te.max, source.dtype, tags.POOL_MAX
    )


def lowest(t: DType) -> Expr:
    """What no element is below: the value of margins and of no elements."""
    # an infinity: the least finite number would beat a window that holds only -inf
    return make.neg(te.infinity(t)) if t.is_float else te.min_value(t)


def _avg_pool(
    op: str,
    n: int,
    data: Any,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Padding,
    ceil_mode: bool,
    count_include_pad: bool,
    dilation: Sizes,
    layout: str,
) -> Tensor:
    inputs.floating(op, data, "data")
    data, lay, w, out = pooled(op, n, data, kernel_size, stride, padding, dilation, ceil_mode, layout)
    extents = [data.shape[d] for d in lay.spatial]
    behind = reach(w, extents, out, ceil_mode)
    source = padded(f"{op}.pad", data, lay.spatial, w.before, behind, 0)
    axes = taps(w.kernel)
    total = windows(
        f"{op}.sum",
        source,
        lay,
        out,
        lambda place: w.reads(place, axes),
        axes,
        te.sum,
        inputs.wide(data.dtype),
        tags.POOL_SUM,
    )

    def count(place: tuple[Any, ...]) -> Expr:
        number = make.as_expr(1)
        for d, i in enumerate(place):
            # all windows are whole: every count is the same number
            if count_include_pad and not ceil_mode:
                number = make.mul(number, w.kernel[d])
                continue
            low, high = (
                # with ceil_mode the last windows reach beyond the padding, which torch does not count
                (0, make.add(make.add(extents[d], w.before[d]), w.after[d]))
                if count_include_pad
                else (w.before[d], make.add(extents[d], w.before[d]))
            )
            start = make.mul(make.as_expr(i), w.stride[d])
            number = make.mul(number, _within(w, d, start, low, high))
        return number

    return divided(op, total, lay, data.dtype, count)


def _within(w: Window, d: int, start: Expr, low: ExprLike, high: ExprLike) -> Expr:
    """How many taps of the window that begins at ``start`` lie from ``low`` to ``high``."""
    apart = w.dilation[d]
    if apart == 1:
        return make.sub(make.min_(make.add(start, w.kernel[d]), high), make.max_(start, low))
    # counted in taps, of which a dilated window has fewer than elements
    before = make.max_(make.ceildiv(make.sub(low, start), apart), 0)
    return make.sub(make.min_(make.ceildiv(make.sub(high, start), apart), w.kernel[d]), before)


def windows(
    name: str,
    source: Tensor,
    lay: Layout,
    out: Any,
    reads: Any,
    axes: list[te.IterVar],
    reducer: Any,
    inside: DType,
    tag: str,
    where: Any = None,
) -> Tensor:
    """One reduction for each window; ``reads`` and ``where`` take the place of the window."""
    batch, channel, _ = lay.parts(source.shape)

    def element(*i: Any) -> Expr:
        n, c, place = lay.parts(i)
        # the cast belongs to the element, or a sum of halves would be rounded at every step
        value = te.cast(inside, source(*lay.arranged(n, c, reads(place))))
        return reducer(value, axis=axes, where=None if where is None else where(place))  # type: ignore[no-any-return]

    return te.compute(
        lay.arranged(batch, channel, out), element, name=name, tag=tag, varargs_names=axis_names(lay, "c")
    )  # type: ignore[no-any-return]


def divided(op: str, total: Tensor, lay: Layout, result: DType, count: Any) -> Tensor:
    """The totals of windows, each divided by the ``count`` of its place."""

    def element(*i: Any) -> Expr:
        return te.cast(result, total(*i) / te.cast(total.dtype, count(lay.parts(i)[2])))

    return te.compute(total.shape, element, name=op, tag=tags.POOL_AVG, varargs_names=axis_names(lay, "c"))  # type: ignore[no-any-return]


# --- parts that cover the image -----------------------------------------------------------------------------


def _adaptive(op: str, data: Any, output_size: Sizes, layout: str, mean: bool) -> Tensor:
    lay = layout_of(op, layout, 2)
    data = image(op, data if not mean else inputs.floating(op, data, "data"), lay)
    out = sizes(op, "output_size", output_size, 2, 1)
    extents = [data.shape[d] for d in lay.spatial]
    begins = [
        # m and n by default values: a closure would see the last ones of the loop
        lambda i, m=m, n=n: make.floordiv(make.mul(make.as_expr(i), m), n)
        for m, n in zip(extents, out, strict=True)
    ]
    ends = [
        lambda i, m=m, n=n: make.ceildiv(make.mul(make.as_expr(i) + 1, m), n)
        for m, n in zip(extents, out, strict=True)
    ]
    known = [const_int(m) for m in extents]
    even = [m is not None and m % n == 0 for m, n in zip(known, out, strict=True)]
    # a part of m / n elements that does not begin at a border touches one more
    axes = taps(
        [
            make.floordiv(m, n) if e else make.add(make.floordiv(make.sub(m, 1), n), 2)
            for m, n, e in zip(extents, out, even, strict=True)
        ]
    )

    def reads(place: Any) -> list[Expr]:
        return [make.add(begin(i), make.as_expr(t)) for begin, i, t in zip(begins, place, axes, strict=True)]

    def where(place: Any) -> Expr:
        return te.all(
            *[at < end(i) for at, end, i, e in zip(reads(place), ends, place, even, strict=True) if not e]
        )

    inside = inputs.wide(data.dtype) if mean else data.dtype
    total = windows(
        f"{op}.sum" if mean else op,
        data,
        lay,
        out,
        reads,
        axes,
        te.sum if mean else te.max,
        inside,
        tags.POOL_SUM if mean else tags.POOL_MAX,
        None if all(even) else where,
    )
    if not mean:
        return total

    def count(place: Any) -> Expr:
        return inputs.product([end(i) - begin(i) for begin, end, i in zip(begins, ends, place, strict=True)])

    return divided(op, total, lay, data.dtype, count)


def _global(op: str, data: Any, layout: str, mean: bool) -> Tensor:
    lay = layout_of(op, layout, 2)
    data = image(op, data if not mean else inputs.floating(op, data, "data"), lay)
    axes = taps([data.shape[d] for d in lay.spatial])
    inside = inputs.wide(data.dtype) if mean else data.dtype
    total = windows(
        f"{op}.sum" if mean else op,
        data,
        lay,
        (1, 1),
        lambda _: axes,
        axes,
        te.sum if mean else te.max,
        inside,
        tags.POOL_SUM if mean else tags.POOL_MAX,
    )
    return (
        divided(op, total, lay, data.dtype, lambda _: inputs.product([data.shape[d] for d in lay.spatial]))
        if mean
        else total
    )
