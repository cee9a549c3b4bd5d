"""ONNX's convolutions and pools. Knows ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import ops, te
from ...errors import DeclareError, counted
from ...expr import make
from ...expr.nodes import Expr, const_int
from ...ops.pool import lowest
from ...ops.take import pixels_of
from ...ops.window import padded
from ...te import Tensor
from ..words import constant_like
from .table import plain, te_op

Margins = list[tuple[Any, Any]]
_CONV = {1: ops.conv1d, 2: ops.conv2d, 3: ops.conv3d}
_TRANSPOSED = {1: ops.conv_transpose1d, 2: ops.conv_transpose2d, 3: ops.conv_transpose3d}
_MAX = {1: ops.max_pool1d, 2: ops.max_pool2d, 3: ops.max_pool3d}
_AVG = {1: ops.avg_pool1d, 2: ops.avg_pool2d, 3: ops.avg_pool3d}


_LAST = {1: "NWC", 2: "NHWC", 3: "NDHWC"}


class _Window:
    """The attributes that all of them share, with their defaults, and the margins they ask for. Channels
    stand behind the image with ``channels_last``."""

    def __init__(
        self,
        x: Tensor,
        kernel: Sequence[Any],
        strides: Any = None,
        pads: Any = None,
        dilations: Any = None,
        auto_pad: str = "NOTSET",
        channels_last: bool = False,
    ) -> None:
        n = self.n = x.ndim - 2
        self.first = 1 if channels_last else 2
        if not 1 <= n <= 3:
            raise DeclareError(
                f"an image of {counted(n, 'dimension')}", legal="one to three beside batch and channels"
            )
        self.kernel: tuple[int, ...] = tuple(_number(k) if isinstance(k, Expr) else k for k in kernel)
        self.strides = tuple(strides or [1] * n)
        self.dilations = tuple(dilations or [1] * n)
        self.margins: Margins = [(0, 0)] * n
        if auto_pad in ("NOTSET", ""):
            self.margins = _pairs(pads, n) if pads else self.margins
        elif auto_pad != "VALID":
            self.margins = [
                self._same(x.shape[self.first + d], d, auto_pad == "SAME_UPPER") for d in range(n)
            ]

    def span(self, d: int) -> int:
        """From the first tap to the last, both counted."""
        return int(self.dilations[d] * (self.kernel[d] - 1) + 1)

    def _same(self, extent: Expr, d: int, upper: bool) -> tuple[Any, Any]:
        """So that there are extent / stride windows, rounded up; an odd margin is larger behind (upper)."""
        # so many windows that the last begins at or before the last element (ONNX's formula for SAME)
        last = make.mul(make.sub(make.ceildiv(extent, self.strides[d]), 1), self.strides[d])
        total = (
            make.as_expr(self.span(d) - 1)
            if self.strides[d] == 1
            # never negative: a stride beyond the kernel leaves elements out, it does not cut the image
            else make.max_(make.sub(make.add(last, self.span(d)), extent), 0)
        )
        small = make.floordiv(total, 2)
        pair = (small, make.sub(total, small))
        before, after = (_number(e) for e in (pair if upper else pair[::-1]))
        return before, after

    @property
    def known(self) -> bool:
        """Whether the margins are numbers, which they are not where they depend on open sizes."""
        return all(isinstance(m, int) for pair in self.margins for m in pair)

    def placed(self, x: Tensor, fill: Any) -> tuple[Tensor, Margins]:
        """``x`` with its margins and none left, where they depend on open sizes; as it is otherwise."""
        # the operators of ``ops`` take margins that are numbers; others become a stage that pads
        if self.known:
            return x, self.margins
        before, after = zip(*self.margins, strict=True)
        axes = range(self.first, self.first + self.n)
        return padded("pad", x, axes, before, after, fill), [(0, 0)] * self.n

    def nowhere(self, x: Tensor, ceil_mode: int) -> list[int]:
        """The axes along which the window misses one place by no more than a stride: there are none of the
        output there, for ONNX, where ``ops`` refuses. The margins behind become wide enough for one, to be
        cut off again."""
        out = []
        for d, (before, after) in enumerate(self.margins):
            extent = const_int(make.as_expr(x.shape[self.first + d]))
            if extent is None or not self.known:
                continue
            room = extent + before + after - self.span(d)
            if (-(-room // self.strides[d]) if ceil_mode else room // self.strides[d]) == -1:
                self.margins[d] = before, after - room
                out.append(self.first + d)
        return out

    @property
    def layout(self) -> dict[str, str]:
        """What tells a pool of ``ops`` where the channels are."""
        return {"layout": _LAST[self.n]} if self.first == 1 else {}


def _without(y: Tensor, axes: list[int]) -> Tensor:
    """Nothing of ``y`` along these axes; as it is without any."""
    return ops.strided_slice(y, [0] * len(axes), [0] * len(axes), axes=axes) if axes else y


def _pairs(pads: Sequence[Any], n: int) -> Margins:
    """ONNX's margins, all before and then all behind, as pairs."""
    return [(pads[d], pads[d + n]) for d in range(n)]


def _number(e: Expr) -> Any:
    n = const_int(e)
    return e if n is None else n


def convolved(
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    strides: Any = None,
    pads: Any = None,
    dilations: Any = None,
    group: int = 1,
    auto_pad: str = "NOTSET",
) -> Tensor:
    """ONNX's Conv."""
    v = _Window(x, w.shape[2:], strides, pads, dilations, auto_pad)
    x, margins = v.placed(x, 0)
    return _CONV[v.n](x, w, b, v.strides, tuple(margins), v.dilations, group)


@te_op("Conv")
def conv(
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    *,
    kernel_shape: Any = None,
    strides: Any = None,
    pads: Any = None,
    dilations: Any = None,
    group: int = 1,
    auto_pad: str = "NOTSET",
) -> Tensor:
    return convolved(x, w, b, strides, pads, dilations, group, auto_pad)


@te_op("ConvInteger", stored=(2, 1, 3, 0))
def conv_integer(
    x: Tensor,
    w: Tensor,
    x_zero: Tensor | None = None,
    w_zero: Tensor | None = None,
    *,
    kernel_shape: Any = None,
    strides: Any = None,
    pads: Any = None,
    dilations: Any = None,
    group: int = 1,
    auto_pad: str = "NOTSET",
) -> Tensor:
    v = _Window(x, w.shape[2:], strides, pads, dilations, auto_pad)
    return ops.conv_integer(x, w, x_zero, w_zero, v.strides, tuple(v.margins), v.dilations, group)


@te_op("QLinearConv", stored=(2, 3, 5, 0))
def qlinear_conv(
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor | None,
    w: Tensor,
    w_scale: Tensor,
    w_zero: Tensor | None,
    y_scale: Tensor,
    y_zero: Tensor,
    b: Tensor | None = None,
    *,
    kernel_shape: Any = None,
    strides: Any = None,
    pads: Any = None,
    dilations: Any = None,
    group: int = 1,
    auto_pad: str = "NOTSET",
) -> Tensor:
    v = _Window(x, w.shape[2:], strides, pads, dilations, auto_pad)
    scales = (x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, b)
    return ops.qlinear_conv(x, *scales, v.strides, tuple(v.margins), v.dilations, group)


@te_op("ConvTranspose")
def conv_transpose(
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    *,
    kernel_shape: Any = None,
    strides: Any = None,
    pads: Any = None,
    dilations: Any = None,
    group: int = 1,
    auto_pad: str = "NOTSET",
    output_padding: Any = None,
    output_shape: Any = None,
) -> Tensor:
    # SAME of a transposed convolution speaks of the output, and is worked out below
    v = _Window(x, w.shape[2:], strides, pads, dilations, "NOTSET" if auto_pad != "VALID" else auto_pad)
    extra = list(output_padding or [0] * v.n)
    if output_shape or auto_pad.startswith("SAME"):
        # older files list the batch and the channels too
        wanted = list(output_shape or [])[-v.n :]
        for d in range(v.n):
            # beyond (extent - 1) * stride, and what of it is to go
            room = extra[d] + v.span(d)
            goal = make.as_expr(wanted[d]) if wanted else make.mul(x.shape[2 + d], v.strides[d])
            last = make.mul(make.sub(x.shape[2 + d], 1), v.strides[d])
            total = const_int(make.add(make.sub(last, goal), room))
            if total is None:
                raise DeclareError(
                    f"output_shape={output_shape}",
                    because=f"the size of the input, {x.shape[2 + d]}, is open",
                )
            # the output may be larger than what the taps reach: the rest is zeros, as output_padding gives
            extra[d] += max(0, -total)
            small = max(0, total) // 2
            # an odd one more is taken away behind for SAME_UPPER, else in front
            pair = (small, max(0, total) - small)
            v.margins[d] = pair if auto_pad == "SAME_UPPER" else pair[::-1]
    return _TRANSPOSED[v.n](x, w, b, v.strides, tuple(v.margins), tuple(extra), group, v.dilations)


# --- pools --------------------------------------------------------------------------------------------------


@te_op("MaxPool")
def max_pool(
    x: Tensor,
    *,
    kernel_shape: Any,
    strides: Any = None,
    pads: Any = None,
    dilations: Any = None,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    storage_order: int = 0,
    results: int = 1,
) -> Any:
    """Indices count through the whole tensor."""
    v = _Window(x, kernel_shape, strides, pads, dilations, auto_pad)
    if results == 1:
        return _largest(x, v, ceil_mode)
    none = v.nowhere(x, ceil_mode)
    largest, where = ops.max_pool_with_indices(
        x,
        v.kernel,
        v.strides,
        tuple(v.margins),
        v.dilations,
        bool(ceil_mode),
        whole=True,
        column_major=bool(storage_order),
    )
    return _without(largest, none), _without(where, none)


def max_pool_last(x: Tensor, kernel: Any, ceil_mode: int = 0, **how: Any) -> Tensor:
    """MaxPool of an image with its channels last; ``how`` are strides, pads, dilations, auto_pad."""
    return _largest(x, _Window(x, kernel, channels_last=True, **how), ceil_mode)


def _largest(x: Tensor, v: _Window, ceil_mode: int) -> Tensor:
    none = v.nowhere(x, ceil_mode)
    x, margins = v.placed(x, lowest(x.dtype))
    y = _MAX[v.n](x, v.kernel, v.strides, tuple(margins), v.dilations, bool(ceil_mode), **v.layout)
    return _without(y, none)


@te_op("MaxUnpool", values=(2,))
def max_unpool(
    x: Tensor,
    indices: Tensor,
    output_shape: Any = None,
    *,
    kernel_shape: Any,
    strides: Any = None,
    pads: Any = None,
) -> Tensor:
    """Indices count through the tensor that was pooled; a larger ``output_shape`` has zeros behind it."""
    v = _Window(x, kernel_shape, strides, pads)
    size = [
        make.sub(make.add(make.mul(make.sub(n, 1), s), k), b + a)
        for n, s, k, (b, a) in zip(x.shape[2:], v.strides, v.kernel, v.margins, strict=True)
    ]
    y = ops.max_unpool(x, indices, size, whole=True)
    if output_shape is None:
        return y
    behind = [_number(make.sub(make.as_expr(n), m)) for n, m in zip(output_shape[2:], size, strict=True)]
    return padded("pad", y, range(2, x.ndim), [0] * v.n, behind, 0)


@te_op("AveragePool")
def average_pool(
    x: Tensor,
    *,
    kernel_shape: Any,
    strides: Any = None,
    pads: Any = None,
    dilations: Any = None,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
) -> Tensor:
    v = _Window(x, kernel_shape, strides, pads, dilations, auto_pad)
    return _mean(x, v, ceil_mode, count_include_pad)


def average_pool_last(
    x: Tensor, kernel: Any, ceil_mode: int = 0, count_include_pad: int = 0, **how: Any
) -> Tensor:
    """AveragePool of an image with its channels last, as :func:`max_pool_last`."""
    return _mean(x, _Window(x, kernel, channels_last=True, **how), ceil_mode, count_include_pad)


def _mean(x: Tensor, v: _Window, ceil_mode: int, count_include_pad: int) -> Tensor:
    if v.known:
        none = v.nowhere(x, ceil_mode)
        return _without(_average(x, v, v.margins, ceil_mode, count_include_pad), none)
    placed, margins = v.placed(x, 0)
    y = _average(placed, v, margins, ceil_mode, 1)
    if count_include_pad:
        return y
    # the number of elements of each window, counted by the same windows over ones
    ones = te.compute(x.shape, lambda *_: te.const(1, x.dtype), name="ones")
    return ops.divide(y, _average(v.placed(ones, 0)[0], v, margins, ceil_mode, 1))


def _average(x: Tensor, v: _Window, margins: Margins, ceil_mode: int, count_include_pad: int) -> Tensor:
    how: dict[str, Any] = {"dilation": v.dilations, **v.layout}
    return _AVG[v.n](x, v.kernel, v.strides, tuple(margins), bool(ceil_mode), bool(count_include_pad), **how)


@te_op("LpPool")
def lp_pool(
    x: Tensor,
    *,
    kernel_shape: Any,
    strides: Any = None,
    pads: Any = None,
    dilations: Any = None,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    p: int = 2,
) -> Tensor:
    v = _Window(x, kernel_shape, strides, pads, dilations, auto_pad)
    none = v.nowhere(x, ceil_mode)
    x, margins = v.placed(x, 0)
    y = ops.lp_pool(x, v.kernel, p, v.strides, tuple(margins), v.dilations, bool(ceil_mode))
    return _without(y, none)


plain(ops.global_avg_pool, "GlobalAveragePool")
plain(ops.global_max_pool, "GlobalMaxPool")
plain(ops.global_lp_pool, "GlobalLpPool", p=2)


@te_op("MaxRoiPool")
def max_roi_pool(
    x: Tensor, rois: Tensor, *, pooled_shape: Sequence[int], spatial_scale: float = 1.0
) -> Tensor:
    """The largest element of each of ``pooled_shape`` parts of boxes (image, x1, y1, x2, y2), 0 of none."""
    parts = [int(n) for n in pooled_shape]
    image = pixels_of("max_roi_pool.pixels", x, make.mul(rois.shape[0], parts[0] * parts[1]))

    def ends(d: int) -> tuple[Tensor, Tensor]:
        """Of each box and part the first element of the image along dimension ``d``, and the number."""
        extent = x.shape[2 + d]

        def kept(place: Expr) -> Expr:
            return make.max_(make.min_(te.cast("int32", place), extent), 0)

        def both(r: Any, k: Any) -> tuple[Expr, Expr]:
            first, last = (
                # halves up, which is C's round for corners that are not negative
                te.cast("int32", te.floor(rois(r, c) * spatial_scale + 0.5))
                for c in (2 - d, 4 - d)
            )
            # corners belong to the box, and an inverted one is a pixel large
            size = te.cast("float32", make.max_(last - first + 1, 1)) / float(parts[d])
            begin = kept(te.cast("int32", te.floor(te.cast("float32", k) * size)) + first)
            end = kept(te.cast("int32", te.ceil(te.cast("float32", k + 1) * size)) + first)
            return begin, make.max_(end - begin, 0)

        names = [f"max_roi_pool.{what}{d}" for what in ("first", "number")]
        shape: Any = (rois.shape[0], parts[d])
        return tuple(te.compute(shape, lambda r, k, n=n: both(r, k)[n], name=names[n]) for n in (0, 1))  # type: ignore[misc,return-value]

    (top, rows), (left, columns) = ends(0), ends(1)

    def most(r: Any, i: Any, j: Any, c: Any) -> Expr:
        axes, at = [], []
        for d, (begin, number, k) in enumerate(((top, rows, i), (left, columns, j))):
            extent = x.shape[2 + d]
            axes.append(te.reduce_axis((0, make.min_(number(r, k), extent)), ("row", "column")[d]))
            at.append(make.max_(make.min_(axes[d].var + begin(r, k), make.sub(extent, 1)), 0))
        return te.max(image(te.cast("int32", rois(r, 0)), c, *at), axis=axes)  # type: ignore[no-any-return]

    shape: Any = (rois.shape[0], *parts, x.shape[1])
    found: Any = te.compute(shape, most, name="max_roi_pool")
    # channels were last, side by side in memory; a part without elements is left at -inf by the maximum
    return ops.transpose(ops.where(ops.isinf(found), constant_like(found, 0), found), (0, 3, 1, 2))


@te_op("DeformConv")
def deform_conv(
    x: Tensor,
    w: Tensor,
    offset: Tensor,
    b: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    kernel_shape: Any = None,
    strides: Any = None,
    pads: Any = None,
    dilations: Any = None,
    group: int = 1,
    offset_group: int = 1,
) -> Tensor:
    v = _Window(x, w.shape[2:], strides, pads, dilations)
    margins = tuple(v.margins)
    return ops.deform_conv(x, w, offset, b, mask, v.strides, margins, v.dilations, group, offset_group)


@te_op("Col2Im", values=(1, 2))
def col2im(
    x: Tensor,
    image_shape: Any,
    block_shape: Any,
    *,
    dilations: Any = None,
    pads: Any = None,
    strides: Any = None,
) -> Tensor:
    n = len(block_shape)
    margins = tuple(_pairs(pads, n)) if pads else 0
    apart, steps = tuple(dilations or [1] * n), tuple(strides or [1] * n)
    return ops.col2im(x, list(image_shape), list(block_shape), apart, margins, steps)
