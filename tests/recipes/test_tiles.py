"""Register tiles of reductions that no family knows: right on odd shapes, and what the windows of neighbours
share is loaded once."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import default_schedule
from tests.codegen.test_assembly import AVX2, AVX512, inner_loop
from tests.ops.arrays import exact
from tests.ops.images import small

RNG = np.random.default_rng(3)
TARGETS = pytest.mark.parametrize("target", [AVX512, AVX2], ids=["avx512", "avx2"])


def depthwise(rows: int, columns: int, channels: int, taps: int, stride: int) -> list[te.Tensor]:
    """Of one image with channels last, as people write it, without a margin."""
    high, wide = (n * stride + taps - stride for n in (rows, columns))
    x, w = te.placeholder((high, wide, channels), name="x"), te.placeholder((taps, taps, channels), name="w")
    a, b = te.reduce_axis((0, taps), name="a"), te.reduce_axis((0, taps), name="b")
    at = lambda i, j, c: te.sum(x[stride * i + a, stride * j + b, c] * w[a, b, c], axis=[a, b])
    return [x, w, te.compute((rows, columns, channels), at, name="o")]


@pytest.mark.each_value
@TARGETS
@pytest.mark.parametrize(
    ("rows", "columns", "channels", "taps", "stride"),
    [
        (3, 5, 16, 3, 1),
        (4, 13, 37, 3, 1),
        (2, 9, 40, 5, 2),
        (3, 7, 64, 7, 1),
        (2, 17, 8, 3, 3),
        (1, 20, 33, 2, 1),
    ],
)
def test_depthwise_with_channels_last(rows, columns, channels, taps, stride, target):
    x, w, o = depthwise(rows, columns, channels, taps, stride)
    a, b = (small(RNG, [int(n) for n in t.shape]) for t in (x, w))
    windows = np.lib.stride_tricks.sliding_window_view(a, (taps, taps), (0, 1))[::stride, ::stride]
    want = np.einsum("ijcab,abc->ijc", windows, b)
    func, got = tl.lower(default_schedule(o, target), [x, w, o]), np.full(want.shape, np.nan, "float32")
    interpret(func, a, b, got)
    exact(got, want, "float32")
    exact(tl.compile([x, w, o])(a, b), want, "float32")


@pytest.mark.parametrize(
    ("taps", "target", "written"), [(3, AVX512, True), (5, AVX512, True), (3, AVX2, True), (5, AVX2, False)]
)
def test_the_taps_of_a_row_read_pixels_that_stay_in_registers(taps, target, written):
    """Each tap loaded all of its pixels: 1.3 to 1.6 times as long."""
    x, w, o = depthwise(28, 28, 64, taps, 1)
    s = default_schedule(o, target)
    assert (re.search(r"loop o.local.b +0\.\.\d  reduce  unrolled", str(s.tree())) is not None) == written
    inner = inner_loop(tl.build(s, [x, w, o], target=target).get_source("asm"), "vfmadd")
    sums, loads = (sum(word in line for line in inner) for word in ("vfmadd", "(%r"))
    assert loads < (1.0 if written else 1.5) * sums


@pytest.mark.each_value
@TARGETS
@pytest.mark.parametrize(("kind", "taps"), [("max", 3), ("sum", 5), ("min", 3)])
@pytest.mark.parametrize("shape", [(4, 9, 40), (13, 3, 16), (2, 30, 70)], ids=str)
def test_pools_with_channels_last_and_windows_of_rows(kind, taps, shape, target):
    rows, columns, channels = shape
    x = te.placeholder((rows + taps - 1, columns + 2, channels), name="x")
    a, b = te.reduce_axis((0, taps), name="a"), te.reduce_axis((0, 3), name="b")
    pool = te.compute(shape, lambda i, j, c: getattr(te, kind)(x[i + a, j + b, c], axis=[a, b]), name="pool")
    k = te.reduce_axis((0, taps), name="k")
    lines = (rows, columns + 2, channels)
    tall = te.compute(lines, lambda i, j, c: getattr(te, kind)(x[i + k, j, c], axis=k), name="tall")
    data = small(RNG, [int(n) for n in x.shape])
    for out, window, axes in ((pool, (taps, 3), (0, 1)), (tall, (taps,), (0,))):
        windows = np.lib.stride_tricks.sliding_window_view(data, window, axes)
        want = getattr(np, kind)(windows, axis=tuple(range(3, windows.ndim)))
        got = np.full(want.shape, np.nan, "float32")
        interpret(tl.lower(default_schedule(out, target), [x, out]), data, got)
        exact(got, want, "float32")
        exact(tl.compile([x, out])(data), want, "float32")


@TARGETS
@pytest.mark.parametrize("columns", [5, 40, 150])
def test_sums_of_squares_of_windows_are_vectors_of_neighbours(columns, target):
    """Windows of 9 of one image only were summed along memory, one at a time, 2.5 times as slow."""
    x = te.placeholder((20, columns + 8), name="x")
    a, b = te.reduce_axis((0, 9), name="a"), te.reduce_axis((0, 9), name="b")
    square = lambda i, j: te.sum(x[i + a, j + b] * x[i + a, j + b], axis=[a, b])
    o = te.compute((12, columns), square, name="o")
    data = small(RNG, (20, columns + 8))
    want = (np.lib.stride_tricks.sliding_window_view(data, (9, 9)) ** 2).sum((2, 3))
    assert ".rf" not in str(default_schedule(o, target).tree())
    exact(tl.compile([x, o])(data), want, "float32")


@TARGETS
@pytest.mark.parametrize(
    ("images", "channels", "high", "wide", "taps", "stride"),
    [(2, 3, 5, 20, 3, 1), (1, 2, 4, 33, 5, 1), (2, 2, 3, 17, 2, 2)],
)
def test_few_neighbours_of_long_sums_are_summed_along_memory(
    images, channels, high, wide, taps, stride, target
):
    """As the gradients of the weights of a depthwise convolution are: a vector of a row of taps is nearly empty."""
    x = te.placeholder((images, channels, (high - 1) * stride + taps, (wide - 1) * stride + taps), name="x")
    g = te.placeholder((images, channels, high, wide), name="g")
    n, h, w = (
        te.reduce_axis((0, size), name=name) for size, name in ((images, "n"), (high, "h"), (wide, "w"))
    )
    at = lambda c, i, j: te.sum(x[n, c, h * stride + i, w * stride + j] * g[n, c, h, w], axis=[n, h, w])
    o = te.compute((channels, taps, taps), at, name="o")
    a, b = (small(RNG, [int(size) for size in t.shape]) for t in (x, g))
    windows = np.lib.stride_tricks.sliding_window_view(a, (taps, taps), (2, 3))[:, :, ::stride, ::stride]
    want = np.einsum("nchwij,nchw->cij", windows, b)
    func, got = tl.lower(default_schedule(o, target), [x, g, o]), np.full(want.shape, np.nan, "float32")
    interpret(func, a, b, got)
    exact(got, want, "float32")
    exact(tl.compile([x, g, o])(a, b), want, "float32")
    assert "reduction along memory" in str(tl.compile([x, g, o], target=target).explain())


def of_a_grid(rows: int, columns: int, points: int) -> list[te.Tensor]:
    """The distance of each point of a grid from the nearest of some."""
    p = te.placeholder((points, 2), name="p")
    k, at = te.reduce_axis((0, points), name="k"), lambda i: te.cast("float32", i)
    off = lambda i, d: (at(i) * 0.5 - p[k, d]) * (at(i) * 0.5 - p[k, d])
    return [p, te.compute((rows, columns), lambda i, j: te.min(off(i, 0) + off(j, 1), axis=k), name="o")]


@TARGETS
@pytest.mark.parametrize(
    ("rows", "columns", "points"), [(3, 40, 5), (1, 16, 1), (7, 33, 11), (5, 3, 4), (1, 1, 2)]
)
def test_neighbours_that_read_the_same_and_differ_by_their_place(rows, columns, points, target):
    p, o = of_a_grid(rows, columns, points)
    a = small(RNG, (points, 2))
    off = lambda n, d: (np.arange(n, dtype="float32")[:, None] * 0.5 - a[:, d]) ** 2
    want = (off(rows, 0)[:, None] + off(columns, 1)[None]).min(axis=-1)
    s = default_schedule(o, target)
    func, got = tl.lower(s, [p, o]), np.full(want.shape, np.nan, "float32")
    interpret(func, a, got)
    assert np.array_equal(got, want)
    vectors = any(step.name == "vectorize" for step in s.trace.steps)
    assert vectors == (columns > 1)
    if not tl.Target(target).why_not_here():
        assert np.array_equal(tl.compile([p, o], target=target)(a), want)


def test_long_sums_along_memory_stay_sums():
    x = te.placeholder((500,), name="x")
    k = te.reduce_axis((0, 500), name="k")
    o = te.compute((20,), lambda b: te.sum(te.exp(x[k] * te.cast("float32", b)), axis=k), name="o")
    text = str(tl.lower(default_schedule(o, AVX512), [x, o]))
    assert "o.rf[" in text
