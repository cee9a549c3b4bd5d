"""Convolution by 3×3 kernels with fewer multiplications: Winograd's minimal filtering F(m×m, 3×3), after
Lavin and Gray, "Fast algorithms for convolutional neural networks", CVPR 2016, equations 8 to 13 and section
4.3. Knows windows and what products share.

The image is cut into tiles of m × m outputs. With G, B and A of ``POINTS`` each tile of outputs is Aᵀ[(G g
Gᵀ) ⊙ (Bᵀ d B)]A, summed over the channels between the brackets: (m + 2)² matrix products over all tiles of
[tiles, C] by [C, O], 2.25 (m = 2) or 4 times fewer multiplications than the direct sum. Each transform runs
over rows, then over columns, as a stage of its own; coefficients are written out, zeros and ones cost
nothing. Between the image and the result channels come last: a transform is then the same for every lane of
a vector of them, however few tiles there are.

Of a volume the planes are transformed, each once, and the taps along its depth are summed as they are, with
the channels between the brackets.

Taps that lie apart read pixels of one phase alone: every phase of the image is an image by itself, with taps
beside each other, and the results are put in order behind.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import te
from ..core.dtype import DType
from ..errors import DeclareError
from ..expr import make
from ..expr.nodes import Expr, const_int
from ..te import Tensor
from ..te.minimal_filtering import POINTS, Points, row
from . import inputs, tags
from .matmul import biased, rounded
from .window import Layout, Padding, Sizes, Window, image, layout_of, padded, window

__all__ = ["conv2d_winograd", "conv3d_winograd", "winograd_weight"]


def conv2d_winograd(
    data: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    padding: Padding = 0,
    tile: int = 4,
    transformed: bool = False,
    dilation: Sizes = 1,
) -> Tensor:
    """``ops.conv2d(data, weight, bias, padding=padding, dilation=dilation)`` for [N, C, H, W] and ``weight``
    [O, C, 3, 3] of floats, by F(tile×tile, 3×3).

    ``tile`` is 2 or 4: 4 saves more and loses about two bits of accuracy. ``transformed=True`` takes the
    weight as :func:`winograd_weight` gives it (with the same tile), so that it can be computed once. N, H and
    W may be symbolic. 16-bit floats are computed in float32, rounded once. Raises DeclareError for another
    kernel or tile, for channels that do not fit, and for integers, of which the transforms make fractions.
    """
    return _convolution("conv2d_winograd", "NCHW", data, weight, bias, padding, tile, transformed, dilation)


def conv3d_winograd(
    data: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    padding: Padding = 0,
    tile: int = 4,
    transformed: bool = False,
    dilation: Sizes = 1,
) -> Tensor:
    """``ops.conv3d(data, weight, bias, padding=padding, dilation=dilation)`` for [N, C, D, H, W] and
    ``weight`` [O, C, KD, 3, 3] of floats: F(tile×tile, 3×3) over the last two axes, a direct sum along the
    depth. Otherwise :func:`conv2d_winograd`; D may be symbolic too."""
    return _convolution("conv3d_winograd", "NCDHW", data, weight, bias, padding, tile, transformed, dilation)


def _convolution(
    op: str,
    layout: str,
    data: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    padding: Padding,
    tile: int,
    transformed: bool,
    dilation: Sizes,
) -> Tensor:
    _points(op, tile)
    rank = len(layout) - 2
    lay = layout_of(op, layout, rank)
    data, weight = inputs.floating(op, image(op, data, lay), "data"), inputs.floating(op, weight, "weight")
    kernel = winograd_weight(weight, tile) if not transformed else weight
    _check_kernel(op, data, weight, kernel, tile)
    extents = data.shape[2:]
    *deep, _, outputs = kernel.shape[2:]  # taps along the depth, where they are more than one
    along = [] if rank == 2 else deep or [make.as_expr(1)]
    w = window(op, extents, [*along, *[make.as_expr(3)] * 2], 1, padding, dilation)
    w.fits(op, "the kernel", extents, layout[2:])
    out_type = inputs.result_type(data.dtype, weight.dtype)
    if max(w.dilation) == 1:
        result = _filtered(op, data, kernel, w, tile, inputs.wide(out_type))
    else:
        result = _by_phase(op, lay, data, kernel, w, tile, inputs.wide(out_type))
    return rounded(op, biased(op, result, bias, lambda i: i[1], outputs), out_type)


def _by_phase(
    op: str, lay: Layout, data: Tensor, kernel: Tensor, w: Window, tile: int, inside: DType
) -> Tensor:
    """The sum of a kernel whose taps lie apart: the phases of an image, as many images, and their results put
    in order."""
    batch, channels, *extents = data.shape
    apart, sizes = w.dilation, w.output(extents)
    phases = [make.ceildiv(n, d) for n, d in zip(sizes, apart, strict=True)]  # outputs of the longest one
    margins = list(zip(extents, apart, w.before, strict=True))

    def seen(q: Any, c: Any, *at: Any) -> Expr:
        q = make.as_expr(q)
        places: list[Expr] = []
        for i, (_, d, before) in reversed(list(zip(at, margins, strict=True))):
            places.insert(0, make.sub(make.add(make.mul(i, d), make.floormod(q, d)), before))
            q = make.floordiv(q, d)
        within = te.all(*[te.all(p >= 0, p < n) for p, n in zip(places, extents, strict=True)])
        return te.if_then_else(within, data(q, c, *places), te.cast(data.dtype, 0))

    many = math.prod(apart)
    images = te.compute(
        (
            make.mul(batch, many),
            channels,
            *[make.add(n, make.sub(k, 1)) for n, k in zip(phases, w.kernel, strict=True)],
        ),
        seen,
        name=f"{op}.phases",
        tag=tags.PAD,
        varargs_names=[*"dhw"[3 - len(extents) :]],
    )
    beside = window(op, images.shape[2:], w.kernel, 1, 0, 1)
    made = _filtered(f"{op}.of_phases", images, kernel, beside, tile, inside)

    def in_order(n: Any, o: Any, *at: Any) -> Expr:
        q = make.as_expr(n)
        for i, d in zip(at, apart, strict=True):
            q = make.add(make.mul(q, d), make.floormod(i, d))
        return made(q, o, *[make.floordiv(i, d) for i, d in zip(at, apart, strict=True)])  # type: ignore[no-any-return]

    return te.compute(  # type: ignore[no-any-return]
        (batch, kernel.shape[-1], *sizes), in_order, name=op, tag=tags.INJECTIVE
    )


def _filtered(op: str, data: Tensor, kernel: Tensor, w: Window, tile: int, inside: DType) -> Tensor:
    """The sum, of a kernel that is transformed and whose taps lie beside each other."""
    points, m, rank = POINTS[tile], tile, data.ndim - 2
    batch, channels, *extents = data.shape
    *deep, _, outputs = kernel.shape[2:]
    *planes, height, width = w.output(extents)
    rows, columns = make.ceildiv(height, m), make.ceildiv(width, m)  # of tiles
    behind = [
        # whole tiles, and the two columns that a kernel of 3 reaches beyond them: no tile needs a test
        make.sub(make.add(make.mul(n, m), 2), make.add(extent, before))
        for n, extent, before in zip((rows, columns), extents[-2:], w.before[-2:], strict=True)
    ]
    source = padded(f"{op}.pad", data, range(2, rank + 2), w.before, [*w.after[:-2], *behind], 0)
    seen = _data(op, source, points, m, (batch, *source.shape[2:-2], rows, columns), inside)
    grid, alpha = (batch, *planes, rows, columns), m + 2
    rk, rc = [te.reduce_axis((0, k), "rk") for k in deep], te.reduce_axis((0, channels), "rc")

    def products(a: Any, b: Any, *p: Any) -> Expr:
        *at, o = p
        if rk:
            at[1] = at[1] + rk[0]
        found: Expr = te.sum(te.cast(inside, kernel(a, b, *rk, rc, o)) * seen(a, b, *at, rc), axis=[*rk, rc])
        return found

    product = te.compute(
        (alpha, alpha, *_tiles(grid), outputs), products, name=f"{op}.matmul", tag=tags.WINOGRAD_MATMUL
    )
    made = _inverse(op, product, points, m, grid)
    # what lies beyond the image in the last tiles is computed and not read
    return te.compute(  # type: ignore[no-any-return]
        (batch, outputs, *planes, height, width),
        lambda n, o, *at: made(n, *at, o),
        name=op,
        tag=tags.WINOGRAD,
    )


def _check_kernel(op: str, data: Tensor, weight: Tensor, kernel: Tensor, tile: int) -> None:
    alpha = tile + 2
    # of volumes with a dimension for the taps along the depth, where those are more than one
    ranks, taps = ((4,), "") if data.ndim == 4 else ((4, 5), "taps, ")
    if kernel.ndim not in ranks or any(const_int(n) != alpha for n in kernel.shape[:2]):
        raise DeclareError(
            f"ops.{op}: weight {inputs.named(weight)} is not transformed for tile={tile}",
            because=f"transformed=True takes ({alpha}, {alpha}, {taps}channels, outputs)",
            try_=f"ops.winograd_weight(weight, {tile})",
        )
    inputs.same_size(
        op,
        f"the number of input channels of weight {weight.name}",
        kernel.shape[-2],
        data.shape[1],
        f"data is {inputs.named(data)}",
    )


def _data(op: str, source: Tensor, points: Points, m: int, grid: tuple[Expr, ...], inside: DType) -> Tensor:
    """Bᵀ d B of each tile d of the padded image, [m + 2, m + 2, tiles, C]; ``grid``: images, planes of a
    volume, rows and columns of tiles."""
    alpha, channels, tiles = m + 2, source.shape[1], _tiles(grid)
    by_pixel = te.compute(
        (grid[0], *source.shape[2:], channels),
        lambda n, *at: source(n, at[-1], *at[:-1]),
        name=f"{op}.data.pixels",
        tag=tags.WINOGRAD_DATA,
        varargs_names=[*"zyx"[5 - source.ndim :], "c"],
    )

    def rows_of(a: Any, j: Any, *at: Any) -> Expr:
        *p, c = at
        *front, y, x = _place(grid, p)
        j = make.as_expr(j)
        return row(
            points.data, a, [te.cast(inside, by_pixel(*front, y * m + i, x * m + j, c)) for i in range(alpha)]
        )

    half = te.compute(
        (alpha, alpha, *tiles, channels), rows_of, name=f"{op}.data.rows", tag=tags.WINOGRAD_DATA
    )
    return te.compute(  # type: ignore[no-any-return]
        (alpha, alpha, *tiles, channels),
        lambda a, b, *p: row(points.data, b, [half(a, j, *p) for j in range(alpha)]),
        name=f"{op}.data",
        tag=tags.WINOGRAD_DATA,
    )


def _tiles(grid: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The axes of tiles: one for all of a batch of images, and for those of a plane behind the axes of a
    volume. Those of an image of open size have an axis each: with one, nobody could tell which rows of the
    image some of them read."""
    *front, rows, columns = grid
    if any(const_int(n) is None for n in (rows, columns)):
        return grid
    plane = make.mul(rows, columns)
    return (make.mul(front[0], plane),) if len(front) == 1 else (*front, plane)


def _place(grid: tuple[Expr, ...], tile: Sequence[Any]) -> list[Expr]:
    """Images, planes, row and column of a tile by its axes."""
    *front, p = map(make.as_expr, tile)
    *_, rows, columns = grid
    if len(tile) == len(grid):
        return [*front, p]
    if not front:
        front = [make.floordiv(p, make.mul(rows, columns))]
    return [*front, make.floormod(make.floordiv(p, columns), rows), make.floormod(p, columns)]


def _inverse(op: str, product: Tensor, points: Points, m: int, grid: tuple[Expr, ...]) -> Tensor:
    """Aᵀ[…]A of each tile of products in its place, [N, planes, rows * m, columns * m, O]."""
    alpha, _, *tiles, outputs = product.shape
    *front, rows, columns = grid
    wide = m + 2
    back = te.compute(
        (m, alpha, *tiles, outputs),
        lambda i, b, *p: row(points.inverse, i, [product(a, b, *p) for a in range(wide)]),
        name=f"{op}.inverse.rows",
        tag=tags.WINOGRAD_INVERSE,
    )

    def put(*place: Any) -> Expr:
        *ahead, y, x, o = map(make.as_expr, place)
        line, column = make.floordiv(y, m), make.floordiv(x, m)
        if len(tiles) == len(grid):
            at = [*ahead, line, column]
        elif len(tiles) == 1:
            at = [make.add(make.mul(make.add(make.mul(ahead[0], rows), line), columns), column)]
        else:
            at = [*ahead, make.add(make.mul(line, columns), column)]
        of_rows = [back(make.floormod(y, m), b, *at, o) for b in range(wide)]
        return row(points.inverse, make.floormod(x, m), of_rows)

    return te.compute(  # type: ignore[no-any-return]
        (*front, make.mul(rows, m), make.mul(columns, m), outputs),
        put,
        name=f"{op}.inverse",
        tag=tags.WINOGRAD_INVERSE,
        varargs_names=["n", *"zyx"[4 - len(grid) :], "o"],
    )


def winograd_weight(weight: Tensor, tile: int = 4) -> Tensor:
    """G g Gᵀ: a weight [O, C, 3, 3] of floats as :func:`conv2d_winograd` multiplies by it, [tile + 2, tile +
    2, C, O], or one of volumes, [O, C, KD, 3, 3], as :func:`conv3d_winograd` does, [tile + 2, tile + 2, KD,
    C, O], without a dimension for a single tap; in float32 for 16-bit floats. It depends on the weight alone,
    so it can be computed once. Raises DeclareError for other shapes and tiles."""
    op = "winograd_weight"
    points = _points(op, tile)
    weight = inputs.floating(op, weight, "weight")
    if weight.ndim not in (4, 5) or any(const_int(k) != 3 for k in weight.shape[-2:]):
        raise DeclareError(
            f"ops.{op}: weight {inputs.named(weight)} is not [outputs, channels, 3, 3]",
            because="F(m×m, 3×3) is for kernels of 3 by 3",
            try_="ops.conv2d",
        )
    inside, alpha = inputs.wide(weight.dtype), tile + 2
    outputs, channels, *deep = weight.shape[:-2]
    single = len(deep) == 1 and const_int(deep[0]) == 1
    deep, only = ([], (0,)) if single else (deep, ())
    name = f"conv{weight.ndim - 2}d_winograd.weight"
    # first of all so that outputs are neighbours: the sums would gather a vector of them from as many places
    taps = te.compute(
        (*deep, channels, 3, 3, outputs),
        lambda *at: te.cast(inside, weight(at[-1], at[-4], *at[:-4], *only, at[-3], at[-2])),
        name=f"{name}.taps",
        tag=tags.WINOGRAD_WEIGHT,
        varargs_names=[*"kcijo"[1 - len(deep) :]],
    )
    rows = te.compute(
        (alpha, 3, *deep, channels, outputs),
        lambda a, j, *at: row(points.kernel, a, [taps(*at[:-1], i, j, at[-1]) for i in range(3)]),
        name=f"{name}.rows",
        tag=tags.WINOGRAD_WEIGHT,
    )
    return te.compute(
        (alpha, alpha, *deep, channels, outputs),  # type: ignore[no-any-return]
        lambda a, b, *at: row(points.kernel, b, [rows(a, j, *at) for j in range(3)]),
        name=name,
        tag=tags.WINOGRAD_WEIGHT,
    )


def _points(op: str, tile: Any) -> Points:
    if not isinstance(tile, int) or tile not in POINTS:
        raise DeclareError(
            f"ops.{op}: tile={tile!r}",
            because="tile × tile outputs are computed together",
            legal=", ".join(map(str, POINTS)),
        )
    return POINTS[tile]
