"""The image pipelines and six operators in Halide, scheduled by one of its autoschedulers, checked and timed:
run by the python of an environment that has ``halide`` (21) and numpy, and knows nothing else of this tree.

    python halide_side.py PIPELINE SCHEDULER THREADS INPUTS.npz OUTPUT.npy

The algorithms are those of ``images`` and ``ansor_suite``, stage by stage; Halide's first variable is the
last axis. Prints one line of JSON: the seconds of one run in each of several turns.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from typing import Any

import numpy as np

TURNS, TURN = 12, 4e-3  # turns, and the seconds of one
if __name__ == "__main__":
    import halide as hl

    x, y, z, c, i, j = hl.vars("x y z c i j")


def func(name: str, at: Any, value: Any) -> Any:
    """A stage."""
    f = hl.Func(name)
    f[at] = value
    return f


def smooth(f: Any, name: str, taps: Any) -> Any:
    across = func(f"{name}_across", (x, y), sum(f[x + k, y] * w for k, w in enumerate(taps)))
    return func(name, (x, y), sum(across[x, y + k] * w for k, w in enumerate(taps)))


def blur_chain(image: Any, rows: int, columns: int) -> tuple[Any, list[int]]:
    third = np.float32(1 / 3)
    for n in range(3):
        image = smooth(image, f"blur{n}", [hl.f32(third)] * 3)
    return image, [columns - 6, rows - 6]


def unsharp(image: Any, rows: int, columns: int) -> tuple[Any, list[int]]:
    near = lambda v, most: hl.clamp(v, 0, most - 1)
    clamped = func("clamped", (x, y), image[near(x - 3, columns), near(y - 3, rows)])
    taps = [hl.f32(w) for w in (0.03, 0.11, 0.22, 0.28, 0.22, 0.11, 0.03)]
    soft = smooth(clamped, "smooth", taps)
    return func("sharp", (x, y), image[x, y] * hl.f32(2) - soft[x, y]), [columns, rows]


def harris(image: Any, rows: int, columns: int) -> tuple[Any, list[int]]:
    image = hl.BoundaryConditions.repeat_edge(image)  # Adams2019 computes rows ahead of the first
    twelfth = hl.f32(1 / 12)
    slope = lambda f, k, n: (n - k) * twelfth
    dxa = func("dxa", (x, y), slope(image, image[x, y], image[x + 2, y]))
    dx = func("dx", (x, y), dxa[x, y] + dxa[x, y + 1] * hl.f32(2) + dxa[x, y + 2])
    dya = func("dya", (x, y), image[x, y] + image[x + 1, y] * hl.f32(2) + image[x + 2, y])
    dy = func("dy", (x, y), slope(image, dya[x, y], dya[x, y + 2]))

    def summed(a: Any, b: Any, name: str) -> Any:
        both = func(f"{name}_products", (x, y), a[x, y] * b[x, y])
        return func(name, (x, y), sum(both[x + s, y + r] for r in range(3) for s in range(3)))

    xx, xy, yy = summed(dx, dx, "xx"), summed(dx, dy, "xy"), summed(dy, dy, "yy")
    trace = xx[x, y] + yy[x, y]
    corners = xx[x, y] * yy[x, y] - xy[x, y] * xy[x, y] - hl.f32(0.04) * (trace * trace)
    return func("corners", (x, y), corners), [columns - 4, rows - 4]


def bilateral_grid(image: Any, rows: int, columns: int) -> tuple[Any, list[int]]:
    tile, levels = 8, 10
    bounded = lambda v: hl.max(hl.min(v, hl.f32(1)), hl.f32(0)) * hl.f32(levels - 1)
    r = hl.RDom([(0, tile), (0, tile)])
    grids = []
    for what in ("sums", "counts"):
        grid = hl.Func(f"grid_{what}")
        v = image[x * tile + r.x, y * tile + r.y]
        term = hl.f32(1) if what == "counts" else v
        grid[x, y, z] = hl.f32(0)
        grid[x, y, z] += hl.select(hl.i32(bounded(v) + hl.f32(0.5)) == z, term, hl.f32(0))
        near = lambda v, most: hl.clamp(v, 0, most - 1)
        three = ((-1, 0.25), (0, 0.5), (1, 0.25))
        m, n = rows // tile, columns // tile
        bz = func(f"{what}_z", (x, y, z), sum(grid[x, y, near(z + d, levels)] * hl.f32(w) for d, w in three))
        by = func(f"{what}_y", (x, y, z), sum(bz[x, near(y + d, m), z] * hl.f32(w) for d, w in three))
        grids.append(
            func(f"{what}_x", (x, y, z), sum(by[near(x + d, n), y, z] * hl.f32(w) for d, w in three))
        )
    place = bounded(image[x, y])
    low = hl.clamp(hl.i32(place), 0, levels - 2)
    part = place - hl.f32(low)
    read = lambda g: (
        g[x // tile, y // tile, low] * (hl.f32(1) - part) + g[x // tile, y // tile, low + 1] * part
    )
    return func("filtered", (x, y), read(grids[0]) / (read(grids[1]) + hl.f32(1e-3))), [columns, rows]


def local_laplacian(image: Any, rows: int, columns: int) -> tuple[Any, list[int]]:
    shades, depth = 4, 3

    def pyramid(f: Any, name: str) -> list[Any]:
        found = [f]
        for n in range(1, depth):
            a = found[-1]
            quarter = sum(a[2 * x + s, 2 * y + r] * hl.f32(0.25) for r in range(2) for s in range(2))
            found.append(func(f"{name}{n}", (x, y), quarter))
        return found

    own = pyramid(func("g0", (x, y), image[x, y]), "g")
    shaded = []
    for k in range(shades):
        off = image[x, y] - hl.f32(k / (shades - 1))
        value = hl.f32(k / (shades - 1)) + off + hl.f32(0.5) * off * hl.exp(off * off * hl.f32(-8))
        shaded.append(pyramid(func(f"remapped{k}", (x, y), value), f"shade{k}_"))
    result = None
    for n in reversed(range(depth)):
        place = hl.max(hl.min(own[n][x, y], hl.f32(1)), hl.f32(0)) * hl.f32(shades - 1)
        layers = [s[n][x, y] - s[n + 1][x // 2, y // 2] if n + 1 < depth else s[n][x, y] for s in shaded]
        weight = lambda k, place=place: hl.max(hl.f32(1) - hl.abs(place - hl.f32(k)), hl.f32(0))
        detail = sum(layers[k] * weight(k) for k in range(shades))
        result = func(f"out{n}", (x, y), detail if result is None else detail + result[x // 2, y // 2])
    return result, [columns, rows]


def camera_pipe(raw: Any, matrix: Any, rows: int, columns: int) -> tuple[Any, list[int]]:
    raw = hl.BoundaryConditions.repeat_edge(raw)
    around = [raw[x + 2, y], raw[x + 2, y + 4], raw[x, y + 2], raw[x + 4, y + 2]]
    most = hl.max(hl.max(around[0], around[1]), hl.max(around[2], around[3]))
    calm = func("calm", (x, y), hl.min(raw[x + 2, y + 2], most))
    parts = {
        (r, s): func(f"bayer{r}{s}", (x, y), calm[2 * x + s, 2 * y + r]) for r in range(2) for s in range(2)
    }
    half = hl.f32(0.5)
    green = func("green", (x, y), (parts[0, 0][x, y] + parts[1, 1][x, y]) * half)
    red = func("red", (x, y), (parts[0, 1][x, y] + parts[0, 1][x + 1, y]) * half)
    blue = func("blue", (x, y), (parts[1, 0][x, y] + parts[1, 0][x, y + 1]) * half)
    mixed = matrix[0, c] * red[x, y] + matrix[1, c] * green[x, y] + matrix[2, c] * blue[x, y]
    v = hl.max(hl.min(mixed, hl.f32(1)), hl.f32(0))
    curved = func("curved", (x, y, c), v * v * (hl.f32(3) - hl.f32(2) * v))
    return curved, [(columns - 4) // 2 - 1, (rows - 4) // 2 - 1, 3]


def non_local_means(image: Any, rows: int, columns: int) -> tuple[Any, list[int]]:
    search, patch, centre = 5, 3, 2
    r = hl.RDom([(0, patch), (0, patch)])
    distance = hl.Func("distance")
    off = image[x + centre + r.x, y + centre + r.y] - image[x + i + r.x, y + j + r.y]
    distance[x, y, i, j] = hl.f32(0)
    distance[x, y, i, j] += off * off
    weight = func("weight", (x, y, i, j), hl.exp(distance[x, y, i, j] * hl.f32(-4)))
    d = hl.RDom([(0, search), (0, search)])
    total, norm = hl.Func("total"), hl.Func("norm")
    total[x, y] = hl.f32(0)
    total[x, y] += weight[x, y, d.x, d.y] * image[x + d.x + patch // 2, y + d.y + patch // 2]
    norm[x, y] = hl.f32(0)
    norm[x, y] += weight[x, y, d.x, d.y]
    size = search + patch - 2
    return func("mean", (x, y), total[x, y] / norm[x, y]), [columns - size, rows - size]


def histogram_equalisation(image: Any, rows: int, columns: int) -> tuple[Any, list[int]]:
    shades = 64
    bounded = hl.max(hl.min(image[x, y], hl.f32(1)), hl.f32(0)) * hl.f32(shades - 1)
    shade = func("shade", (x, y), hl.clamp(hl.i32(bounded), 0, shades - 1))
    r = hl.RDom([(0, columns), (0, rows)])
    counts = hl.Func("counts")
    counts[z] = hl.f32(0)
    counts[shade[r.x, r.y]] += hl.f32(1)
    k = hl.RDom([(1, shades - 1)])
    running = hl.Func("running")
    running[z] = counts[z]
    running[k.x] = running[k.x - 1] + counts[k.x]
    return func("equal", (x, y), running[shade[x, y]] * hl.f32(1.0 / (rows * columns))), [columns, rows]


def total(name: str, at: Any, term: Any) -> Any:
    """A sum over the reduction domain that the term reads."""
    f = hl.Func(name)
    f[at] = hl.f32(0)
    f[at] += term
    return f


def result(name: str, at: Any, term: Any) -> Any:
    """A sum that is the result of a pipeline: read by a function of its own, as in Halide's own tests of
    autoschedulers, which tile and vectorize a sum where somebody reads it. Without that a product took 3.4
    times as long with Adams2019, a convolution 4.2 times, a depthwise one 1.6 times."""
    sums = total("sums", at, term)
    return func(name, at, sums[at])


def product(a: Any, b: Any, rows: int, depth: int) -> tuple[Any, list[int]]:
    """Of a square one on the right."""
    r = hl.RDom([(0, depth)])
    return result("product", (x, y), a[r.x, y] * b[x, r.x]), [depth, rows]


def batch_product(a: Any, b: Any, batch: int, rows: int, depth: int) -> tuple[Any, list[int]]:
    """The right one is written down transposed first: no scheduler vectorizes a sum, and read as it lies it
    is 14 times as slow."""
    r = hl.RDom([(0, depth)])
    columns = func("columns", (x, y, z), b[y, x, z])
    return result("product", (x, y, z), a[r.x, y, z] * columns[x, r.x, z]), [rows, rows, batch]


def padded(image: Any, *extents: int) -> Any:
    """The image with zeros around its rows and columns."""
    return hl.BoundaryConditions.constant_exterior(image, hl.f32(0), [(0, e) for e in extents])


def conv(image: Any, weight: Any, n: int, channels: int, rows: int, columns: int) -> tuple[Any, list[int]]:
    image = padded(image, columns, rows, channels, n)
    r = hl.RDom([(0, 3), (0, 3), (0, channels)])
    term = image[x + r.x - 1, y + r.y - 1, r.z, c] * weight[r.x, r.y, r.z, z]
    return result("conv", (x, y, z, c), term), [columns, rows, channels, n]


def depthwise(
    image: Any, weight: Any, n: int, channels: int, rows: int, columns: int
) -> tuple[Any, list[int]]:
    image = padded(image, columns, rows, channels, n)
    r = hl.RDom([(0, 3), (0, 3)])
    term = image[x + r.x - 1, y + r.y - 1, z, c] * weight[r.x, r.y, 0, z]
    return result("depthwise", (x, y, z, c), term), [columns, rows, channels, n]


def pointwise(
    image: Any, weight: Any, bias: Any, n: int, channels: int, rows: int, columns: int
) -> tuple[Any, list[int]]:
    r = hl.RDom([(0, channels)])
    sums = total("sums", (x, y, z, c), image[x, y, r.x, c] * weight[0, 0, r.x, z])
    relu = func("relu", (x, y, z, c), hl.max(sums[x, y, z, c] + bias[z], hl.f32(0)))
    return relu, [columns, rows, channels, n]


def softmax(image: Any, rows: int, columns: int) -> tuple[Any, list[int]]:
    r = hl.RDom([(0, columns)])
    most = hl.Func("most")
    most[y] = image[0, y]
    most[y] = hl.max(most[y], image[r.x, y])
    power = func("power", (x, y), hl.exp(image[x, y] - most[y]))
    sums = total("sums", (y,), power[r.x, y])
    return func("softmax", (x, y), power[x, y] / sums[y]), [columns, rows]


PIPELINES = {
    "blur chain": blur_chain,
    "unsharp": unsharp,
    "harris": harris,
    "bilateral grid": bilateral_grid,
    "local laplacian": local_laplacian,
    "camera pipe": camera_pipe,
    "non-local means": non_local_means,
    "histogram equalisation": histogram_equalisation,
    "GMM": product,
    "TBG": batch_product,
    "C2D": conv,
    "DEP": depthwise,
    "conv 1x1": pointwise,
    "SFM": softmax,
}


def main(name: str, scheduler: str, threads: str, inputs: str, output: str) -> None:
    """Build, run once, leave the answer, time."""
    os.environ["HL_NUM_THREADS"] = threads
    libraries = os.path.join(os.path.dirname(hl.__file__), "lib64")
    hl.load_plugin(os.path.join(libraries, f"libautoschedule_{scheduler.lower()}.so"))
    arrays = list(np.load(inputs).values())
    images = []
    for n, a in enumerate(arrays):
        image = hl.ImageParam(hl.Float(32), a.ndim, f"in{n}")
        image.set_estimates([(0, e) for e in reversed(a.shape)])
        images.append(image)
    result, extents = PIPELINES[name](*images, *arrays[0].shape)
    result.set_estimates([(0, e) for e in extents])
    pipeline = hl.Pipeline(result)
    begin = time.perf_counter()
    parameters = hl.AutoschedulerParams(scheduler, {"parallelism": int(threads)})
    pipeline.apply_autoscheduler(hl.get_host_target(), parameters)
    for image, a in zip(images, arrays, strict=True):
        image.set(hl.Buffer(a))
    out = hl.Buffer(hl.Float(32), extents)
    pipeline.compile_jit(hl.get_host_target())
    built = time.perf_counter() - begin
    pipeline.realize(out)
    np.save(output, np.asarray(out).copy())
    times = [_turn(lambda: pipeline.realize(out)) for _ in range(TURNS)]
    print(json.dumps({"seconds": times, "median": statistics.median(times), "build": built}))


def _turn(run: Any) -> float:
    begin = time.perf_counter()
    run()
    n = max(1, round(TURN / (time.perf_counter() - begin)))
    for _ in range(n // 2):
        run()
    begin = time.perf_counter()
    for _ in range(n):
        run()
    return (time.perf_counter() - begin) / n


if __name__ == "__main__":
    main(*sys.argv[1:])
