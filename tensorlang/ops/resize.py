"""resize: images in another size by the nearest element or by linear interpolation, as torch's interpolate.
Knows windows; no other operator.

Where an output lies in the input is a ratio of whole numbers and is computed as such: no rounding moves it
across an element (torch computes it in float32). One stage for each dimension, the last one first; a
dimension that keeps its size costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import te
from ..core.dtype import DType
from ..errors import DeclareError, counted
from ..expr import make
from ..expr.make import ExprLike
from ..expr.nodes import Expr, const_int
from ..te import Tensor
from . import inputs, tags
from .window import SPATIAL, Layout, axis_names, image, layout_of

__all__ = ["resize"]

_LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


def resize(
    data: Tensor,
    size: ExprLike | Sequence[ExprLike],
    mode: str = "nearest",
    align_corners: bool = False,
    layout: str = "NCHW",
) -> Tensor:
    """An image [N, C, H, W] in the spatial ``size`` (one for all dimensions or one for each; numbers or
    symbols): ``[N, C, *size]``.

    ``mode="nearest"`` takes element ``floor(i H / OH)``, of any dtype. ``"linear"`` (or ``"bilinear"``,
    ``"trilinear"``) interpolates floats between neighbours at ``(i + 1/2) H / OH - 1/2``, at the border its
    element; with ``align_corners`` at ``i (H - 1) / (OH - 1)``, so that the outermost elements stay. Images
    of one and three dimensions have layouts such as NCW and NDHWC; packed ones work too. Raises DeclareError
    for another mode, a size that is not positive, integers to interpolate, ``align_corners`` of the nearest,
    and an image without elements along a dimension; kernels refuse calls with such images.

    >>> image = te.placeholder((1, 3, 8, 8), name="image")
    >>> ops.resize(image, (16, 16))
    Tensor(resize: float32[1, 3, 16, 16])
    """
    # the outermost spatial letter says how many there are
    n = {"W": 1, "H": 2, "D": 3}[next((c for c in "DHW" if isinstance(layout, str) and c in layout), "H")]
    lay = layout_of("resize", layout, n)
    data = _image(data, lay, n, mode, align_corners, layout)
    listed = tuple(size) if isinstance(size, tuple | list) else (size,) * n
    if len(listed) != n:
        raise DeclareError(
            f"ops.resize: size={inputs.text(listed)} has {counted(len(listed), 'number')} for "
            f"{counted(n, 'spatial dimension')}",
            because=f"the layout is {layout}",
        )
    x, inside = data, data.dtype if mode == "nearest" else inputs.wide(data.dtype)
    # the last one first, where neighbours in memory are vectors
    for d, wanted in reversed(list(zip(lay.spatial, listed, strict=True))):
        to = make.as_expr(wanted)
        least = const_int(to)
        if not to.dtype.is_index or (least is not None and least < 1):
            raise DeclareError(
                f"ops.resize: size {wanted} along {SPATIAL[n][lay.spatial.index(d)]}",
                try_="a whole number from 1 on, or a symbol",
            )
        if not inputs.equal(to, x.shape[d]):
            if const_int(x.shape[d]) == 0:
                raise DeclareError(
                    f"ops.resize: dimension {d} of {inputs.named(data)} is empty",
                    because="there is no element to take",
                )
            x = _along(x, d, to, mode, align_corners, inside, axis_names(lay, "c"))
    if x is data:
        return te.compute(x.shape, lambda *i: x(*i), name="resize", tag=tags.RESIZE)  # type: ignore[no-any-return]
    if x.dtype is data.dtype:
        return x
    return te.compute(
        x.shape, lambda *i: te.cast(data.dtype, x(*i)), name="resize.cast", tag=tags.ELEMENTWISE
    )  # type: ignore[no-any-return]


def _image(data: Tensor, lay: Layout, n: int, mode: str, align_corners: bool, layout: str) -> Tensor:
    """The image, which fits the mode. Raises DeclareError."""
    modes = tuple(dict.fromkeys(("nearest", "linear", _LINEAR[n])))
    if mode not in modes:
        raise DeclareError(
            f"ops.resize: mode={mode!r}", because=f"the layout is {layout}", legal=", ".join(map(repr, modes))
        )
    data = image("resize", data, lay)
    if mode == "nearest" and align_corners:
        raise DeclareError(
            "ops.resize: align_corners=True with mode='nearest'",
            because="it says where to interpolate",
            try_=f"mode={_LINEAR[n]!r}",
        )
    return data if mode == "nearest" else inputs.floating("resize", data, "data")


def _along(
    x: Tensor, d: int, to: Expr, mode: str, align_corners: bool, inside: DType, names: list[str]
) -> Tensor:
    """One dimension in its new size."""
    extent = x.shape[d]
    shape = [to if k == d else n for k, n in enumerate(x.shape)]

    def at(i: Sequence[Any], place: Expr) -> Expr:
        return te.cast(inside, x(*[place if k == d else j for k, j in enumerate(i)]))

    def linear(*i: Any) -> Expr:
        over, under = _place(i[d], extent, to, align_corners)
        below = make.floordiv(over, under)
        part = te.cast(inside, make.floormod(over, under)) / te.cast(inside, under)
        low, high = at(i, below), at(i, make.min_(make.add(below, 1), make.sub(extent, 1)))
        # one multiplication less than with both weights, and exact where both are equal
        return low + (high - low) * part

    element: Callable[..., Expr] = (
        linear
        if mode != "nearest"
        else lambda *i: at(i, make.floordiv(make.mul(make.as_expr(i[d]), extent), to))
    )
    out = te.compute(tuple(shape), element, name="resize", tag=tags.RESIZE, varargs_names=names)
    return inputs.needing("resize", out, x, d, 1)


def _place(i: Any, extent: Expr, to: Expr, align_corners: bool) -> tuple[Expr, Expr]:
    """Where output ``i`` lies in the input, as a fraction of whole numbers, the lower one positive."""
    i = make.as_expr(i)
    if align_corners:
        return make.mul(i, make.sub(extent, 1)), make.max_(make.sub(to, 1), 1)
    over = make.sub(make.mul(make.add(make.mul(i, 2), 1), extent), to)
    # before the first middle of a pixel everything is the first pixel
    return make.max_(over, 0), make.mul(to, 2)
