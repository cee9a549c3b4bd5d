"""Convolution by 3×3 kernels with fewer multiplications: Winograd's minimal filtering F(m×m, 3×3), after
Lavin and Gray, "Fast algorithms for convolutional neural networks", CVPR 2016, equations 8 to 13 and section
4.3. Knows windows and what products share.

The image is cut into tiles of m × m outputs. With G, B and A of ``POINTS`` each tile of outputs is Aᵀ[(G g
Gᵀ) ⊙ (Bᵀ d B)]A, summed over the channels between the brackets: (m + 2)² matrix products over all tiles of
[tiles, C] by [C, O], 2.25 (m = 2) or 4 times fewer multiplications than the direct sum. Each transform runs
over rows, then over columns, as a stage of its own; coefficients are written out, zeros and ones cost
nothing. Between the image and the result channels come last: a transform is then the same for every lane of
a vector of them, however few tiles there are.
"""

from __future__ import annotations

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
from .window import Padding, image, layout_of, padded, window

__all__ = ["conv2d_winograd", "winograd_weight"]


def conv2d_winograd(
    data: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    padding: Padding = 0,
    tile: int = 4,
    transformed: bool = False,
) -> Tensor:
    """``ops.conv2d(data, weight, bias, padding=padding)`` for [N, C, H, W] and ``weight`` [O, C, 3, 3] of
    floats, by F(tile×tile, 3×3).

    ``tile`` is 2 or 4: 4 saves more and loses about two bits of accuracy. ``transformed=True`` takes the
    weight as :func:`winograd_weight` gives it (with the same tile), so that it can be computed once. N, H and
    W may be symbolic. 16-bit floats are computed in float32, rounded once. Raises DeclareError for another
    kernel or tile, for channels that do not fit, and for integers, of which the transforms make fractions.
    """
    op = "conv2d_winograd"
    points, m = _points(op, tile), tile
    lay = layout_of(op, "NCHW", 2)
    data, weight = inputs.floating(op, image(op, data, lay), "data"), inputs.floating(op, weight, "weight")
    kernel = winograd_weight(weight, tile) if not transformed else weight
    _check_kernel(op, data, weight, kernel, tile)
    batch, channels, *extents = data.shape
    w = window(op, extents, [make.as_expr(3)] * 2, 1, padding, 1)
    w.fits(op, "the kernel", extents, "HW")
    out_type = inputs.result_type(data.dtype, weight.dtype)
    inside = inputs.wide(out_type)
    height, width = w.output(extents)
    rows, columns = make.ceildiv(height, m), make.ceildiv(width, m)  # of tiles
    behind = [
        # whole tiles, and the two columns that a kernel of 3 reaches beyond them: no tile needs a test
        make.sub(make.add(make.mul(n, m), 2), make.add(extent, before))
        for n, extent, before in zip((rows, columns), extents, w.before, strict=True)
    ]
    source = padded(f"{op}.pad", data, (2, 3), w.before, behind, 0)
    grid = (batch, rows, columns)
    seen = _data(op, source, points, m, grid, inside)
    outputs, tiles, alpha = kernel.shape[3], seen.shape[2:-1], m + 2
    rc = te.reduce_axis((0, channels), "rc")
    product = te.compute(
        (alpha, alpha, *tiles, outputs),
        lambda a, b, *p: te.sum(te.cast(inside, kernel(a, b, rc, p[-1])) * seen(a, b, *p[:-1], rc), axis=rc),
        name=f"{op}.matmul",
        tag=tags.WINOGRAD_MATMUL,
    )
    made = _inverse(op, product, points, m, grid)
    # what lies beyond the image in the last tiles is computed and not read
    result = te.compute(
        (batch, outputs, height, width), lambda n, o, y, x: made(n, y, x, o), name=op, tag=tags.WINOGRAD
    )
    return rounded(op, biased(op, result, bias, lambda i: i[1], outputs), out_type)


def _check_kernel(op: str, data: Tensor, weight: Tensor, kernel: Tensor, tile: int) -> None:
    alpha = tile + 2
    if kernel.ndim != 4 or const_int(kernel.shape[0]) != alpha or const_int(kernel.shape[1]) != alpha:
        raise DeclareError(
            f"ops.{op}: weight {inputs.named(weight)} is not transformed for tile={tile}",
            because=f"transformed=True takes ({alpha}, {alpha}, channels, outputs)",
            try_=f"ops.winograd_weight(weight, {tile})",
        )
    inputs.same_size(
        op,
        f"the number of input channels of weight {weight.name}",
        kernel.shape[2],
        data.shape[1],
        f"data is {inputs.named(data)}",
    )


def _data(
    op: str, source: Tensor, points: Points, m: int, grid: tuple[Expr, Expr, Expr], inside: DType
) -> Tensor:
    """Bᵀ d B of each tile d of the padded image, [m + 2, m + 2, tiles, C]; ``grid``: images, rows and columns
    of tiles. Tiles of an image of open size have three axes: with one, nobody could tell which rows of the
    image some of them read."""
    batch, rows, columns = grid
    alpha, channels = m + 2, source.shape[1]
    tiles = grid if _open(grid) else (make.mul(batch, make.mul(rows, columns)),)
    by_pixel = te.compute(
        (batch, *source.shape[2:], channels),
        lambda n, y, x, c: source(n, c, y, x),
        name=f"{op}.data.pixels",
        tag=tags.WINOGRAD_DATA,
    )

    def place(p: Any) -> tuple[Expr, Expr, Expr]:
        p = make.as_expr(p)
        n = make.floordiv(p, make.mul(rows, columns))
        return n, make.floormod(make.floordiv(p, columns), rows), make.floormod(p, columns)

    def rows_of(a: Any, j: Any, *at: Any) -> Expr:
        *p, c = at
        n, y, x = map(make.as_expr, p) if len(p) > 1 else place(*p)
        j = make.as_expr(j)
        return row(
            points.data, a, [te.cast(inside, by_pixel(n, y * m + i, x * m + j, c)) for i in range(alpha)]
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


def _open(grid: tuple[Expr, Expr, Expr]) -> bool:
    return any(const_int(n) is None for n in grid[1:])


def _inverse(op: str, product: Tensor, points: Points, m: int, grid: tuple[Expr, Expr, Expr]) -> Tensor:
    """Aᵀ[…]A of each tile of products in its place, [N, rows * m, columns * m, O]."""
    alpha, _, *tiles, outputs = product.shape
    batch, rows, columns = grid
    wide = m + 2
    back = te.compute(
        (m, alpha, *tiles, outputs),
        lambda i, b, *p: row(points.inverse, i, [product(a, b, *p) for a in range(wide)]),
        name=f"{op}.inverse.rows",
        tag=tags.WINOGRAD_INVERSE,
    )

    def put(n: Any, y: Any, x: Any, o: Any) -> Expr:
        n, y, x = make.as_expr(n), make.as_expr(y), make.as_expr(x)
        line = make.add(make.mul(n, rows), make.floordiv(y, m))
        number = [make.add(make.mul(line, columns), make.floordiv(x, m))]
        at = [n, make.floordiv(y, m), make.floordiv(x, m)] if _open(grid) else number
        of_rows = [back(make.floormod(y, m), b, *at, o) for b in range(wide)]
        return row(points.inverse, make.floormod(x, m), of_rows)

    return te.compute(  # type: ignore[no-any-return]
        (batch, make.mul(rows, m), make.mul(columns, m), outputs),
        put,
        name=f"{op}.inverse",
        tag=tags.WINOGRAD_INVERSE,
    )


def winograd_weight(weight: Tensor, tile: int = 4) -> Tensor:
    """G g Gᵀ: a weight [O, C, 3, 3] of floats as :func:`conv2d_winograd` multiplies by it, [tile + 2, tile +
    2, C, O]; in float32 for 16-bit floats. It depends on the weight alone, so it can be computed once. Raises
    DeclareError for other shapes and tiles."""
    op = "winograd_weight"
    points = _points(op, tile)
    weight = inputs.floating(op, weight, "weight")
    if weight.ndim != 4 or any(const_int(k) != 3 for k in weight.shape[2:]):
        raise DeclareError(
            f"ops.{op}: weight {inputs.named(weight)} is not [outputs, channels, 3, 3]",
            because="F(m×m, 3×3) is for kernels of 3 by 3",
            try_="ops.conv2d",
        )
    inside, alpha = inputs.wide(weight.dtype), tile + 2
    outputs, channels = weight.shape[:2]
    # first of all so that outputs are neighbours: the sums would gather a vector of them from as many places
    taps = te.compute(
        (channels, 3, 3, outputs),
        lambda c, i, j, o: te.cast(inside, weight(o, c, i, j)),
        name="conv2d_winograd.weight.taps",
        tag=tags.WINOGRAD_WEIGHT,
    )
    rows = te.compute(
        (alpha, 3, channels, outputs),
        lambda a, j, c, o: row(points.kernel, a, [taps(c, i, j, o) for i in range(3)]),
        name="conv2d_winograd.weight.rows",
        tag=tags.WINOGRAD_WEIGHT,
    )
    return te.compute(
        (alpha, alpha, channels, outputs),  # type: ignore[no-any-return]
        lambda a, b, c, o: row(points.kernel, b, [rows(a, j, c, o) for j in range(3)]),
        name="conv2d_winograd.weight",
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
