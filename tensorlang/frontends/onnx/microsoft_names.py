"""Operators of the domain com.microsoft that are ONNX's under a name of their own, or small ones that ONNX
lacks. Knows ops and ONNX's operators; attention, norms and quantised numbers have files of their own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ... import ops, te
from ...errors import DeclareError, TensorLangError
from ...expr import make
from ...expr.nodes import Expr, const_int
from ...graph import Value
from ...ops.places import kept_within
from ...runtime import choices
from ...te import Tensor
from .generate import range_
from .image import grid_sample
from .index import gather_nd
from .proto import Call, Type, standard
from .shape import pad, trilu
from .table import MICROSOFT, graph_op, one, te_op
from .windows import max_pool_last

if TYPE_CHECKING:
    from .importer import Importer

te_op("GatherND", domain=MICROSOFT)(gather_nd)
te_op("GridSample", domain=MICROSOFT)(grid_sample)
te_op("Pad", values=(1,), domain=MICROSOFT)(pad)
te_op("Trilu", values=(1,), domain=MICROSOFT)(trilu)
graph_op("Range", domain=MICROSOFT)(range_)


@te_op("ExpandDims", values=(1,), domain=MICROSOFT)
def expand_dims(x: Tensor, axis: Any) -> Tensor:
    return ops.expand_dims(x, one(axis))


@graph_op("Unique", domain=MICROSOFT)
def unique(c: Importer, call: Call) -> Any:
    """The distinct elements in the order of their first places, which of them each is, how often each is."""
    x = c.tensor(call.inputs[0])
    names = [*call.outputs, "", ""][:3]
    results = [([None], x.dtype), ([None], "int64"), ([None], "int64"), ([None], "int64")]
    found, _, places, counts = c.g.host(
        choices.unique,
        [x],
        results,
        call.op,
        call.name,
        [names[0], "", *names[1:]],
        axis=None,
        in_order=False,
    )
    return found, places, counts


@te_op("CDist", domain=MICROSOFT)
def distances(a: Tensor, b: Tensor, *, metric: str = "sqeuclidean") -> Tensor:
    """Between the rows of two matrices."""
    if metric not in ("euclidean", "sqeuclidean"):
        raise DeclareError(f"CDist: metric={metric!r}", legal="'euclidean', 'sqeuclidean'")
    k = te.reduce_axis((0, a.shape[1]), "k")

    def element(i: Any, j: Any) -> Expr:
        apart = a(i, k) - b(j, k)
        return te.sum(apart * apart, axis=k)

    squares: Any = te.compute((a.shape[0], b.shape[0]), element, name="distances")
    return squares if metric == "sqeuclidean" else ops.sqrt(squares)


@te_op("UnfoldTensor", domain=MICROSOFT)
def unfold(x: Tensor, *, size: int, dim: int = -1, step: int = 1) -> Tensor:
    """Windows along a dimension; their elements are a dimension of its own at the end."""
    d = dim % x.ndim
    count = make.add(make.floordiv(make.sub(x.shape[d], size), step), 1)
    shape: list[Any] = [*(count if k == d else n for k, n in enumerate(x.shape)), size]

    def element(*i: Any) -> Expr:
        return x(*[j * step + i[-1] if k == d else j for k, j in enumerate(i[:-1])])

    return te.compute(shape, element, name="windows")  # type: ignore[return-value]


@te_op("CropAndResize", values=(3,), domain=MICROSOFT)
def crop_and_resize(
    x: Tensor,
    rois: Tensor,
    images: Tensor,
    size: Any,
    *,
    mode: str = "bilinear",
    extrapolation_value: float = 0.0,
) -> Tensor:
    """Parts of images [N, C, H, W] between corners ``(y1, x1, y2, x2)``, shares of the size, in one size."""
    if mode not in ("bilinear", "nearest"):
        raise DeclareError(f"CropAndResize: mode={mode!r}", legal="'bilinear', 'nearest'")
    inside = x.dtype

    def place(r: Any, i: Any, low: int, count: Any, extent: Expr) -> Expr:
        begin, end, last = rois(r, low), rois(r, low + 2), te.cast(inside, extent - 1)
        # the middle of the box
        if const_int(make.as_expr(count)) == 1:
            return (begin + end) * last * 0.5
        each = (end - begin) * last / te.cast(inside, make.as_expr(count) - 1)
        return begin * last + te.cast(inside, i) * each

    def element(r: Any, c: Any, i: Any, j: Any) -> Expr:
        at = [
            place(r, k, low, n, x.shape[2 + low]) for low, (k, n) in enumerate(zip((i, j), size, strict=True))
        ]
        lasts = [te.cast(inside, n - 1) for n in x.shape[2:]]
        there = te.all(*(p >= 0 for p in at), *(p <= m for p, m in zip(at, lasts, strict=True)))
        image = kept_within(te.cast("int32", images(r)), x.shape[0])

        def pixel(*corner: Expr) -> Expr:
            ys, xs = (kept_within(te.cast("int32", p), n) for p, n in zip(corner, x.shape[2:], strict=True))
            return x(image, c, ys, xs)

        if mode == "nearest":
            # halves up, where Python and C round to the even one
            value = pixel(*(te.floor(p + 0.5) for p in at))
        else:
            (y0, x0), (dy, dx) = [te.floor(p) for p in at], [p - te.floor(p) for p in at]
            top = pixel(y0, x0) * (1.0 - dx) + pixel(y0, x0 + 1.0) * dx
            bottom = pixel(y0 + 1.0, x0) * (1.0 - dx) + pixel(y0 + 1.0, x0 + 1.0) * dx
            value = top * (1.0 - dy) + bottom * dy
        return te.if_then_else(there, value, te.const(extrapolation_value, inside))

    return te.compute((rois.shape[0], x.shape[1], *size), element, name="crops")  # type: ignore[return-value]


# --- channels at the end ------------------------------------------------------------------------------------


def channels_first(x: Tensor) -> Tensor:
    return ops.transpose(x, (0, x.ndim - 1, *range(1, x.ndim - 1)))


def channels_last(x: Tensor) -> Tensor:
    return ops.transpose(x, (0, *range(2, x.ndim), 1))


@te_op("NhwcMaxPool", domain=MICROSOFT)
def nhwc_max_pool(
    x: Tensor,
    *,
    kernel_shape: Any,
    strides: Any = None,
    pads: Any = None,
    dilations: Any = None,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
) -> Tensor:
    how = {"strides": strides, "pads": pads, "dilations": dilations, "auto_pad": auto_pad}
    return max_pool_last(x, kernel_shape, ceil_mode, **how)


# --- recurrences of linear attention ------------------------------------------------------------------------

_SINCE = 27  # the version of ONNX that has them, with the same meaning


def _as_onnx(c: Importer, call: Call, allowed: dict[str, Any]) -> None:
    """The node as ONNX's of that name; ``allowed`` are the attributes beside ONNX's, with the only value."""
    for key, value in allowed.items():
        if call.attrs.get(key, value) != value:
            raise TensorLangError(f"{call!r}: {key}={call.attrs[key]} is not supported", legal=f"{value}")
    attrs = {k: x for k, x in call.attrs.items() if k not in allowed}
    values = [c.value(n) for n in call.inputs if n]
    types = [Type(str(v.dtype), v.sizes) if isinstance(v, Value) else Type("") for v in values]
    # its body is then found by the standard's name
    own = replace(call, domain="", attrs=attrs)
    body = standard(own, _SINCE, types)
    if body is None:
        raise TensorLangError(f"{call!r}: the package onnx does not define {call.op}", try_="a newer onnx")
    c.inline(body, own)


@graph_op("LinearAttention", domain=MICROSOFT)
def linear_attention(c: Importer, call: Call) -> Any:
    _as_onnx(c, call, {"state_window": 0})


@graph_op("CausalConvWithState", domain=MICROSOFT)
def causal_conv(c: Importer, call: Call) -> Any:
    _as_onnx(c, call, {"state_window": 0, "channels_last": 0, "dilation": 1, "ndim": 1})
