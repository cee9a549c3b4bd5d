"""Eight image pipelines as people write them for Halide, in te: blur chain, unsharp mask, Harris corners,
bilateral grid, local Laplacian filter, camera pipe, non-local means, histogram equalisation. Knows ``te``.

Single-channel images unless the algorithm needs colours, in float32; borders are clamped, or the result is
smaller by what its windows need. The algorithms are those of the papers, simplified where a stage adds
nothing to what a schedule has to decide.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorlang import te

from .programs import Inputs

Image = te.Tensor
ROWS, COLUMNS = 256, 384


def _clamped(x: Image, name: str, border: int) -> Image:
    """The image with ``border`` rows and columns around it, those of its edge again."""
    m, n = (int(str(e)) for e in x.shape)
    at = lambda i, most: te.max(te.min(i - border, most - 1), 0)
    return te.compute(
        (m + 2 * border, n + 2 * border), lambda i, j: x[at(i, m), at(j, n)], name=f"{name}.clamped"
    )


def _across(x: Image, taps: tuple[float, ...], name: str) -> Image:
    """A filter along rows; the result is narrower."""
    m, n = (int(str(e)) for e in x.shape)
    total = lambda i, j: sum(x[i, j + k] * w for k, w in enumerate(taps))
    return te.compute((m, n - len(taps) + 1), total, name=name)


def _down(x: Image, taps: tuple[float, ...], name: str) -> Image:
    """A filter along columns; the result is lower."""
    m, n = (int(str(e)) for e in x.shape)
    total = lambda i, j: sum(x[i + k, j] * w for k, w in enumerate(taps))
    return te.compute((m - len(taps) + 1, n), total, name=name)


def _smooth(x: Image, name: str, taps: tuple[float, ...] = (0.25, 0.5, 0.25)) -> Image:
    return _down(_across(x, taps, f"{name}.across"), taps, name)


def _blurs(p: Inputs) -> Image:
    """Three box blurs of 3 × 3, one after the other."""
    x = p(ROWS, COLUMNS)
    for n in range(3):
        x = _smooth(x, f"blur{n}", (1 / 3, 1 / 3, 1 / 3))
    return x


def _unsharp(p: Inputs) -> Image:
    """An image sharpened by what a Gaussian of 7 × 7 takes away."""
    x = p(ROWS, COLUMNS)
    taps = (0.03, 0.11, 0.22, 0.28, 0.22, 0.11, 0.03)
    smooth = _smooth(_clamped(x, "x", 3), "smooth", taps)
    return te.compute((ROWS, COLUMNS), lambda i, j: x[i, j] * 2.0 - smooth[i, j], name="sharp")


def _harris(p: Inputs) -> Image:
    """Corners by Harris and Stephens: products of the derivatives, summed over 3 × 3."""
    x = p(ROWS, COLUMNS)
    slope = (-1 / 12, 0.0, 1 / 12)
    dx = _down(_across(x, slope, "dx.across"), (1.0, 2.0, 1.0), "dx")
    dy = _down(_across(x, (1.0, 2.0, 1.0), "dy.across"), slope, "dy")
    m, n = ROWS - 4, COLUMNS - 4

    def summed(a: Image, b: Image, name: str) -> Image:
        both = lambda i, j: a[i, j] * b[i, j]
        nine = lambda i, j: sum(both(i + r, j + s) for r in range(3) for s in range(3))
        return te.compute((m, n), nine, name=name)

    xx, xy, yy = summed(dx, dx, "xx"), summed(dx, dy, "xy"), summed(dy, dy, "yy")

    def corner(i: Any, j: Any) -> Any:
        trace = xx[i, j] + yy[i, j]
        return xx[i, j] * yy[i, j] - xy[i, j] * xy[i, j] - 0.04 * (trace * trace)

    return te.compute((m, n), corner, name="corners")


def _bilateral_grid(p: Inputs) -> Image:
    """Chen, Paris and Durand (2007): sums of tiles by brightness, blurred, read back at each pixel by
    trilinear interpolation."""
    tile, levels = 8, 10
    x = p(ROWS, COLUMNS)
    rows, columns = ROWS // tile, COLUMNS // tile
    level = lambda v: te.cast("int32", te.max(te.min(v, 1.0), 0.0) * (levels - 1.0) + 0.5)
    r, s = te.reduce_axis((0, tile), "r"), te.reduce_axis((0, tile), "s")

    def of(i: Any, j: Any, z: Any, weight: bool) -> Any:
        v = x[i * tile + r, j * tile + s]
        return te.sum(te.select(level(v) == z, te.const(1.0) if weight else v, 0.0), axis=(r, s))

    grids = []
    for what in ("sums", "counts"):
        g = te.compute(
            (rows, columns, levels), lambda i, j, z, w=what: of(i, j, z, w == "counts"), name=f"grid.{what}"
        )
        near = lambda i, most: te.max(te.min(i, most - 1), 0)
        z3 = te.compute(
            (rows, columns, levels),
            lambda i, j, z, g=g: sum(g[i, j, near(z + d, levels)] * w for d, w in _THREE),
            name=f"{what}.z",
        )
        x3 = te.compute(
            (rows, columns, levels),
            lambda i, j, z, g=z3: sum(g[near(i + d, rows), j, z] * w for d, w in _THREE),
            name=f"{what}.x",
        )
        grids.append(
            te.compute(
                (rows, columns, levels),
                lambda i, j, z, g=x3: sum(g[i, near(j + d, columns), z] * w for d, w in _THREE),
                name=f"{what}.y",
            )
        )

    def read(g: Image, i: Any, j: Any) -> Any:
        z = te.max(te.min(x[i, j], 1.0), 0.0) * (levels - 1.0)
        low = te.min(te.cast("int32", z), levels - 2)
        part = z - te.cast("float32", low)
        return g[i // tile, j // tile, low] * (1.0 - part) + g[i // tile, j // tile, low + 1] * part

    return te.compute(
        (ROWS, COLUMNS), lambda i, j: read(grids[0], i, j) / (read(grids[1], i, j) + 1e-3), name="filtered"
    )


_THREE = ((-1, 0.25), (0, 0.5), (1, 0.25))


def _local_laplacian(p: Inputs) -> Image:
    """Paris, Hasinoff and Kautz (2011), with three levels of a pyramid and four of brightness: each remapped
    image gives the details of the pixels near its brightness."""
    x, shades, depth = p(ROWS, COLUMNS), 4, 3

    def halved(a: Image, name: str) -> Image:
        m, n = (int(str(e)) // 2 for e in a.shape)
        quarter = lambda i, j: sum(a[2 * i + r, 2 * j + s] * 0.25 for r in range(2) for s in range(2))
        return te.compute((m, n), quarter, name=name)

    def pyramid(a: Image, name: str) -> list[Image]:
        found = [a]
        for n in range(1, depth):
            found.append(halved(found[-1], f"{name}{n}"))
        return found

    def remapped(i: Any, j: Any, shade: float) -> Any:
        off = x[i, j] - shade
        return shade + off + 0.5 * off * te.exp(off * off * -8.0)

    own = pyramid(x, "g")
    shaded = [
        pyramid(
            te.compute(
                (ROWS, COLUMNS), lambda i, j, k=k: remapped(i, j, k / (shades - 1)), name=f"remapped{k}"
            ),
            f"shade{k}.",
        )
        for k in range(shades)
    ]
    result = None
    for n in reversed(range(depth)):
        m, w = (int(str(e)) for e in own[n].shape)

        def detail(i: Any, j: Any, n: int = n) -> Any:
            layers = [s[n][i, j] - s[n + 1][i // 2, j // 2] if n + 1 < depth else s[n][i, j] for s in shaded]
            place = te.max(te.min(own[n][i, j], 1.0), 0.0) * (shades - 1.0)
            weight = lambda k: te.max(1.0 - te.abs(place - float(k)), 0.0)
            return sum(layers[k] * weight(k) for k in range(shades))

        below = result
        result = te.compute(
            (m, w),
            lambda i, j, b=below, d=detail: d(i, j) if b is None else d(i, j) + b[i // 2, j // 2],
            name=f"out{n}",
        )
    assert result is not None
    return result


def _camera_pipe(p: Inputs) -> Image:
    """Raw sensor values to colours: hot pixels suppressed, the four colours of a Bayer pattern taken apart,
    the missing ones interpolated, a matrix of colours, a curve."""
    raw, matrix = p(ROWS, COLUMNS), p(3, 3)
    calm = te.compute(
        (ROWS - 4, COLUMNS - 4),
        lambda i, j: te.min(
            raw[i + 2, j + 2],
            te.max(te.max(raw[i, j + 2], raw[i + 4, j + 2]), te.max(raw[i + 2, j], raw[i + 2, j + 4])),
        ),
        name="calm",
    )
    m, n = (ROWS - 4) // 2, (COLUMNS - 4) // 2
    parts = {
        (r, s): te.compute((m, n), lambda i, j, r=r, s=s: calm[2 * i + r, 2 * j + s], name=f"bayer{r}{s}")
        for r in range(2)
        for s in range(2)
    }
    u, v = m - 1, n - 1
    green = te.compute((u, v), lambda i, j: (parts[0, 0][i, j] + parts[1, 1][i, j]) * 0.5, name="green")
    red = te.compute((u, v), lambda i, j: (parts[0, 1][i, j] + parts[0, 1][i, j + 1]) * 0.5, name="red")
    blue = te.compute((u, v), lambda i, j: (parts[1, 0][i, j] + parts[1, 0][i + 1, j]) * 0.5, name="blue")

    def curved(c: Any, i: Any, j: Any) -> Any:
        mixed = matrix[c, 0] * red[i, j] + matrix[c, 1] * green[i, j] + matrix[c, 2] * blue[i, j]
        x = te.max(te.min(mixed, 1.0), 0.0)
        return x * x * (3.0 - 2.0 * x)

    return te.compute((3, u, v), curved, name="curved")


def _non_local_means(p: Inputs) -> Image:
    """Buades, Coll and Morel (2005): a mean of the pixels in a window of 5 × 5, weighted by how alike their
    patches of 3 × 3 are."""
    rows, columns, search, patch = 64, 96, 5, 3
    x = p(rows + search + patch - 2, columns + search + patch - 2)
    r, s = te.reduce_axis((0, patch), "r"), te.reduce_axis((0, patch), "s")
    centre = search // 2

    def apart(dy: Any, dx: Any, i: Any, j: Any) -> Any:
        off = x[i + centre + r, j + centre + s] - x[i + dy + r, j + dx + s]
        return te.sum(off * off, axis=(r, s))

    distance = te.compute((search, search, rows, columns), apart, name="distance")
    weight = te.compute(
        (search, search, rows, columns),
        lambda dy, dx, i, j: te.exp(distance[dy, dx, i, j] * -4.0),
        name="weight",
    )
    sums = []
    for name in ("total", "norm"):
        dy, dx = te.reduce_axis((0, search), "dy"), te.reduce_axis((0, search), "dx")

        def term(i: Any, j: Any, dy: Any = dy, dx: Any = dx, name: str = name) -> Any:
            w = weight[dy, dx, i, j]
            pixel = x[i + dy + patch // 2, j + dx + patch // 2]
            return te.sum(w * pixel if name == "total" else w, axis=(dy, dx))

        sums.append(te.compute((rows, columns), term, name=name))
    return te.compute((rows, columns), lambda i, j: sums[0][i, j] / sums[1][i, j], name="mean")


def _equalised(p: Inputs) -> Image:
    """Histogram equalisation: counts of 64 shades, their running sum, and each pixel's place in it."""
    x, shades = p(ROWS, COLUMNS), 64
    shade = te.compute(
        (ROWS, COLUMNS),
        lambda i, j: te.cast("int32", te.max(te.min(x[i, j], 1.0), 0.0) * (shades - 1.0)),
        name="shade",
    )
    i, j = te.reduce_axis((0, ROWS), "i"), te.reduce_axis((0, COLUMNS), "j")
    counts = te.compute(
        (shades,), lambda b: te.sum(te.select(shade[i, j] == b, 1.0, 0.0), axis=(i, j)), name="counts"
    )
    k = te.reduce_axis((0, shades), "k")
    running = te.compute(
        (shades,), lambda b: te.sum(te.select(k <= b, counts[k], 0.0), axis=k), name="running"
    )
    return te.compute(
        (ROWS, COLUMNS), lambda i, j: running[shade[i, j]] * (1.0 / (ROWS * COLUMNS)), name="equal"
    )


PIPELINES: dict[str, Callable[[Inputs], Image]] = {
    "blur chain": _blurs,
    "unsharp": _unsharp,
    "harris": _harris,
    "bilateral grid": _bilateral_grid,
    "local laplacian": _local_laplacian,
    "camera pipe": _camera_pipe,
    "non-local means": _non_local_means,
    "histogram equalisation": _equalised,
}
