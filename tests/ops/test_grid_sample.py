"""Images read between their elements, against numpy place by place: modes, borders, corners, regions of any
size, symbolic sizes."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tests.ops.arrays import compiled, near, real, sample

ops = tl.ops
RNG = np.random.default_rng(6)


def mirrored(v, low, high):
    if high == low:
        return low
    away, span = abs(v - low), high - low
    turns, rest = divmod(away, span)
    return low + rest if turns % 2 == 0 else high - rest


def kernel(u, mode):
    u = abs(u)
    if mode == "linear":
        return max(1 - u, 0.0)
    if u <= 1:
        return 1.25 * u**3 - 2.25 * u**2 + 1
    return -0.75 * (u**3 - 5 * u**2 + 8 * u - 4) if u < 2 else 0.0


def along(e, m, mode, padding, corners):
    """The elements of one dimension with their weights at a place from -1 to 1."""
    v = (e + 1) / 2 * (m - 1) if corners else ((e + 1) * m - 1) / 2
    v = float(np.rint(v)) if mode == "nearest" else v
    low, high = (0, m - 1) if corners else (-0.5, m - 0.5)
    if padding == "reflection" and not low <= v <= high:
        v = mirrored(v, low, high)
    count = {"nearest": 1, "linear": 2, "cubic": 4}[mode]
    begin = math.floor(v) - count // 2 + 1 if count > 1 else int(np.rint(v))
    taps = []
    for k in range(begin, begin + count):
        weight = 1.0 if count == 1 else kernel(v - k, mode)
        if padding == "zeros" and not 0 <= k < m:
            continue
        at = int(mirrored(k, low, high)) if padding == "reflection" else k
        taps.append((min(max(at, 0), m - 1), weight))
    return taps


def sampled(x, grid, mode, padding, corners):
    out = np.zeros((*x.shape[:2], *grid.shape[1:-1]))
    for b, *o in np.ndindex(x.shape[0], *grid.shape[1:-1]):
        place = grid[(b, *o)][::-1]
        lines = [along(e, m, mode, padding, corners) for e, m in zip(place, x.shape[2:], strict=True)]
        for taps in itertools.product(*lines):
            weight = math.prod(w for _, w in taps)
            out[(b, slice(None), *o)] += weight * x[(b, slice(None), *[k for k, _ in taps])]
    return out


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_modes(mode, padding):
    x, t = RNG.standard_normal((2, 3, 4, 5)).astype("float32"), te.placeholder((2, 3, 4, 5), name="x")
    g, s = RNG.uniform(-1.7, 1.7, (2, 3, 2, 2)).astype("float32"), te.placeholder((2, 3, 2, 2), name="g")
    got = compiled([ops.grid_sample(t, s, mode, padding, c) for c in (False, True)], {t: x, s: g})
    for corners, y in zip((False, True), got, strict=True):
        near(
            y, sampled(x.astype("float64"), g.astype("float64"), mode, padding, corners), "float32", 64, 1e-4
        )


def test_three_dimensions_and_symbolic_sizes():
    d, m = te.dim("d", 1, 9), te.dim("m", 1, 9)
    t, s = te.placeholder((1, 2, d, 3, 4), name="x"), te.placeholder((1, m, 2, 2, 3), name="g")
    f = tl.compile([t, s, ops.grid_sample(t, s, align_corners=True)])
    for depth, rows in ((3, 2), (1, 5)):
        x = RNG.standard_normal((1, 2, depth, 3, 4)).astype("float32")
        g = RNG.uniform(-1.2, 1.2, (1, rows, 2, 2, 3)).astype("float32")
        near(
            f(x, g),
            sampled(x.astype("float64"), g.astype("float64"), "linear", "zeros", True),
            "float32",
            64,
            1e-4,
        )


def test_half_floats():
    x, g = sample((1, 1, 4, 4), "float16"), RNG.uniform(-1, 1, (1, 2, 2, 2)).astype("float16")
    t, s = te.placeholder(x.shape, "float16"), te.placeholder(g.shape, "float16")
    want = sampled(real(x, "float16"), real(g, "float16"), "linear", "zeros", False)
    near(compiled(ops.grid_sample(t, s), {t: x, s: g}), want, "float16", 2, 1e-5)


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("extents", [(3, 4), (2, 3, 4)])
def test_affine_grid(extents, corners):
    n = len(extents)
    theta = RNG.standard_normal((2, n, n + 1)).astype("float32")
    t = te.placeholder(theta.shape, name="theta")
    lines = [np.linspace(-1, 1, m) if corners else (2 * np.arange(m) + 1) / m - 1 for m in extents]
    mesh = np.stack([*np.meshgrid(*lines, indexing="ij")[::-1], np.ones(extents)], -1)
    want = np.einsum("...k,brk->b...r", mesh, theta.astype("float64"))
    near(compiled(ops.affine_grid(t, (2, 1, *extents), corners), {t: theta}), want, "float32", 16, 1e-6)


def region(x, roi, out, scale, ratio, aligned, mode):
    """One region [C, *out]."""
    start = [roi[1] * scale - 0.5 * aligned, roi[0] * scale - 0.5 * aligned]
    length = [(roi[3] - roi[1]) * scale, (roi[2] - roi[0]) * scale]
    length = length if aligned else [max(v, 1.0) for v in length]
    bins = [v / m for v, m in zip(length, out, strict=True)]
    many = [ratio or math.ceil(b) for b in bins]
    y = np.zeros((x.shape[0], *out))
    for p in np.ndindex(*out):
        values = []
        for t in np.ndindex(*many):
            e = [s + q * b + (k + 0.5) * b / c for s, q, b, k, c in zip(start, p, bins, t, many, strict=True)]
            if any(v < -1 or v > m for v, m in zip(e, x.shape[1:], strict=True)):
                values.append(np.zeros((1, x.shape[0])))
                continue
            e = [min(max(v, 0), m - 1) for v, m in zip(e, x.shape[1:], strict=True)]
            terms = []
            for side in itertools.product((0, 1), repeat=2):
                low = [math.floor(v) for v in e]
                at = [min(k + q, m - 1) for k, q, m in zip(low, side, x.shape[1:], strict=True)]
                share = [v - k if q else 1 - (v - k) for v, k, q in zip(e, low, side, strict=True)]
                terms.append(share[0] * share[1] * x[:, at[0], at[1]])
            values.append(np.stack(terms))
        if values and mode == "avg":
            y[(slice(None), *p)] = sum(v.sum(0) for v in values) / len(values)
        elif values:
            y[(slice(None), *p)] = np.max([v.max(0) for v in values], axis=0)
    return y


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize(("ratio", "aligned"), [(2, True), (0, True), (0, False)])
def test_roi_align(ratio, aligned, mode):
    x = RNG.standard_normal((2, 2, 6, 7)).astype("float32")
    rois = np.array([[0, 1, 5, 4], [2.5, -1, 9, 3.5], [-3, -40, 4, 40], [3, 3, 3.2, 3.1]], "float32")
    batch = np.array([0, 1, 1, 0])
    n = te.dim("n", 1, 9)
    t, r, b = (
        te.placeholder(x.shape, name="x"),
        te.placeholder((n, 4), name="r"),
        te.placeholder((n,), "int64", name="b"),
    )
    got = compiled(ops.roi_align(t, r, b, (3, 2), 0.9, ratio, aligned, mode), {t: x, r: rois, b: batch})
    want = [
        region(x[k].astype("float64"), roi.astype("float64"), (3, 2), 0.9, ratio, aligned, mode)
        for k, roi in zip(batch, rois, strict=True)
    ]
    near(got, np.stack(want), "float32", 64, 2e-5)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x, g: ops.grid_sample(x, g, "bicubic"), "'nearest', 'linear', 'cubic'"),
        (lambda x, g: ops.grid_sample(x, g, padding_mode="wrap"), "'zeros', 'border', 'reflection'"),
        (lambda x, g: ops.grid_sample(x, x), "is 5, 2 is needed"),
        (lambda x, g: ops.affine_grid(g, (1, 1, 2, 2)), r"it is \[N, 2, 3\]"),
        (lambda x, g: ops.roi_align(x, g, g), "integers are needed"),
        (lambda x, g: ops.roi_align(x, g, te.placeholder((1,), "int64")), r"they are \[N, C, H, W\]"),
    ],
)
def test_refusals(call, text):
    with pytest.raises(tl.DeclareError, match=text):
        call(te.placeholder((1, 3, 4, 5), name="x"), te.placeholder((1, 4, 2, 2), name="g"))


def test_neighbouring_pixels_are_sampled_in_vectors():
    """Of each pixel the taps stood side by side, and it was computed by itself, in two lanes."""
    x, grid = te.placeholder((1, 6, 20, 24), name="x"), te.placeholder((1, 9, 40, 2), name="grid")
    f = tl.compile([x, grid, ops.grid_sample(x, grid)], "llvm -mcpu=skylake-avx512 -num-cores=1")
    assert "grid_sample.local: float32[1, 6, 1, 16]" in f.get_source("ir")
    assert "vgatherdps" in f.get_source("asm")


def test_few_regions_of_a_large_image_are_read_where_they_lie():
    """To put the channels of all its pixels side by side would copy more than is read."""
    x = RNG.standard_normal((1, 2, 30, 40)).astype("float32")
    rois, batch = np.array([[1.5, 2, 25, 20]], "float32"), np.array([0])
    t, r, b = (
        te.placeholder(x.shape, name="x"),
        te.placeholder((1, 4), name="r"),
        te.placeholder((1,), "int64", name="b"),
    )
    y = ops.roi_align(t, r, b, (3, 2), 0.9, 2)
    assert not any("pixels" in s.name for s in te.create_schedule(y).stages)
    want = region(x[0].astype("float64"), rois[0].astype("float64"), (3, 2), 0.9, 2, True, "avg")
    near(compiled(y, {t: x, r: rois, b: batch}), want[None], "float32", 64, 2e-5)
