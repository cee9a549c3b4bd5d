"""ONNX's operators of images: other sizes, samples at computed places. Knows ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import ops
from ...errors import DeclareError
from ...expr import make
from ...expr.nodes import Expr, const_int
from ...te import Tensor
from .shape import dimensions
from .table import te_op


@te_op("Resize", values=(1, 2, 3))
def resize(
    x: Tensor,
    roi: Any = None,
    scales: Any = None,
    sizes: Any = None,
    *,
    mode: str = "nearest",
    coordinate_transformation_mode: str = "half_pixel",
    nearest_mode: str = "round_prefer_floor",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    antialias: int = 0,
    axes: Any = None,
    keep_aspect_ratio_policy: str = "stretch",
    opset: int = 11,
) -> Tensor:
    if opset < 11:  # inputs were (x, scales), and places i / scale
        return _resize_10(x, roi, mode)
    where = dimensions(x, axes)
    if sizes and keep_aspect_ratio_policy != "stretch":
        sizes = _in_one_scale(x, where, sizes, keep_aspect_ratio_policy == "not_larger")
    return ops.resample(
        x,
        list(sizes) if sizes else None,
        [_as_written(s) for s in scales] if scales else None,
        where,
        mode,
        coordinate_transformation_mode,
        nearest_mode,
        roi=list(roi) if roi and coordinate_transformation_mode == "tf_crop_and_resize" else None,
        cubic_coeff=cubic_coeff_a,
        exclude_outside=bool(exclude_outside),
        extrapolation_value=extrapolation_value,
        antialias=bool(antialias),
    )


def _resize_10(x: Tensor, scales: Any, mode: str) -> Tensor:
    """The nearest element is that after the place where a dimension shrinks, else that before it."""
    # twice, since one call has one rounding
    for rounding, shrinks in (("floor", False), ("ceil", True)):
        where = [d for d, s in enumerate(scales) if (s < 1) == shrinks and s != 1]
        factors = [_as_written(scales[d]) for d in where]
        x = ops.resample(x, None, factors, where, mode, "asymmetric", rounding) if where else x
    return x


def _as_written(scale: Any) -> Any:
    """A factor that a file holds as float32, as the decimal that it was: places half way between two elements
    are just there."""
    return float(str(np.float32(scale))) if isinstance(scale, float) else scale


def _in_one_scale(x: Tensor, where: Sequence[int], sizes: Sequence[Any], smallest: bool) -> list[int]:
    """All sizes of these dimensions times one scale, so that none is larger (or smaller) than asked for."""
    have = [_known(x.shape[d]) for d in where]
    ratios = [_known(n) / m for n, m in zip(sizes, have, strict=True)]
    scale = min(ratios) if smallest else max(ratios)
    # halves up, as ONNX says; Python's round would go to the even one
    return [int(m * scale + 0.5) for m in have]


def _known(n: Any) -> int:
    found = const_int(make.as_expr(n)) if isinstance(n, Expr) else n
    if found is None:
        raise DeclareError(f"the size {n} is open, an aspect ratio is to be kept")
    return int(found)


@te_op("Upsample", values=(1,))
def upsample(x: Tensor, scale: Any = None, *, scales: Any = None, mode: str = "nearest") -> Tensor:
    factors = [_as_written(s) for s in (scales if scale is None else scale)]
    return ops.resample(x, None, factors, None, {"bilinear": "linear"}.get(mode, mode), "asymmetric", "floor")


_MODES = {"bilinear": "linear", "bicubic": "cubic"}  # their names before opset 20


@te_op("GridSample")
def grid_sample(
    x: Tensor, grid: Tensor, *, mode: str = "linear", padding_mode: str = "zeros", align_corners: int = 0
) -> Tensor:
    return ops.grid_sample(x, grid, _MODES.get(mode, mode), padding_mode, bool(align_corners))


@te_op("AffineGrid", values=(1,))
def affine_grid(theta: Tensor, size: Any, *, align_corners: int = 0) -> Tensor:
    return ops.affine_grid(theta, list(size), bool(align_corners))


@te_op("RoiAlign")
def roi_align(
    x: Tensor,
    rois: Tensor,
    images: Tensor,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
    opset: int = 16,
) -> Tensor:
    """Before opset 16 no half element was taken off."""
    aligned = opset >= 16 and coordinate_transformation_mode == "half_pixel"
    size = (output_height, output_width)
    return ops.roi_align(x, rois, images, size, spatial_scale, sampling_ratio, aligned, mode)
