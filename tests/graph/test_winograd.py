"""Convolutions by fewer multiplications: which a graph takes, that the answers stay, and the switch."""

from __future__ import annotations

import numpy as np
import pytest

from tensorlang import ops, te
from tensorlang.graph import Graph
from tensorlang.graph.passes import simplified
from tensorlang.target import Target
from tests.ops import images

RNG = np.random.default_rng(3)


def graph(x=(1, 128, 28, 28), outputs=128, kernel=(3, 3), bias=True, **options):
    g = Graph()
    v = g.input(x, name="x")
    w = RNG.standard_normal((outputs, x[1] // options.get("groups", 1), *kernel)).astype("float32")
    b = RNG.standard_normal(outputs).astype("float32")
    y = g.call(ops.conv2d, v, g.constant(w), *([g.constant(b)] if bias else []), **options)
    g.output(g.call(ops.relu, y))
    return g, w, b if bias else np.zeros_like(b)


def names(g, **options):
    return [n.op for n in simplified(g, **options).nodes]


@pytest.mark.parametrize("padding", [1, 0, ((2, 1), (0, 1))], ids=str)
@pytest.mark.parametrize("bias", [True, False])
def test_answers_stay_within_2e_5_of_the_largest(padding, bias):
    g, w, b = graph(bias=bias, padding=padding)
    assert names(g) == ["Winograd", "relu"] and names(g, without=["winograd"]) == ["conv2d", "relu"]
    x = RNG.standard_normal((1, 128, 28, 28)).astype("float32")
    want = np.maximum(images.conv(x.astype("float64"), w.astype("float64"), b, padding=padding), 0)
    y = g.compile()(x)
    assert np.abs(y - want).max() <= 2e-5 * want.max()


def test_taps_that_lie_apart():
    g, w, b = graph(padding=2, dilation=2)
    assert names(g) == ["Winograd", "relu"] and names(g, without=["winograd"]) == ["conv2d", "relu"]
    x = RNG.standard_normal((1, 128, 28, 28)).astype("float32")
    want = np.maximum(images.conv(x.astype("float64"), w.astype("float64"), b, padding=2, dilation=2), 0)
    assert np.abs(g.compile()(x) - want).max() <= 2e-5 * want.max()


@pytest.mark.parametrize("bias", [True, False])
def test_halves_are_summed_in_float32_and_rounded_once(bias):
    x, w, b = (RNG.standard_normal(s).astype("float16") for s in ((2, 64, 21, 30), (64, 64, 3, 3), (64,)))
    g = Graph()
    v = g.input(("n", 64, "h", "w"), "float16", "x")
    g.output(g.call(ops.conv2d, v, g.constant(w), *([g.constant(b)] if bias else []), padding=1))
    assert names(g) == ["Winograd"] and names(g, without=["winograd"]) == ["conv2d"]
    wide = [a.astype("float64") for a in (x, w, b if bias else np.zeros(64))]
    want, y = images.conv(*wide, padding=1), g.compile()(x)
    assert y.dtype == np.float16
    assert (np.abs(y - want) <= 2e-5 * np.abs(want).max() + np.abs(want) * 2.0**-11).all()


def test_a_sum_of_halves_that_are_no_products_stays():
    g = Graph()
    v, w = g.input((1, 64, 28, 28), "float16", "x"), g.constant(np.ones((64, 64, 3, 3), "float16"))

    def sums(x, weight):
        c, i, j = (te.reduce_axis((0, n)) for n in (64, 3, 3))
        return te.compute(
            (1, 64, 26, 26),
            lambda n, o, y, z: te.sum(
                te.cast("float32", x[n, c, y + i, z + j]) + te.cast("float32", weight[o, c, i, j]),
                axis=[c, i, j],
            ),
        )

    g.output(g.call(sums, v, w))
    assert "Winograd" not in names(g)


@pytest.mark.parametrize("bias", [True, False])
def test_a_weight_that_comes_with_the_call(bias):
    x = (16, 64, 28, 28)  # of fewer pixels its transform takes longer than it saves, on some processors
    _, w, b = graph(x, 64, padding=1, bias=bias)
    given = Graph()
    v, weight = given.input(x, name="x"), given.input(w.shape, name="w")
    more = [given.input(b.shape, name="b")] if bias else []
    given.output(given.call(ops.conv2d, v, weight, *more, padding=1))
    assert names(given) == ["Winograd"]
    image = RNG.standard_normal(x).astype("float32")
    want = images.conv(image.astype("float64"), w.astype("float64"), b, padding=1)
    y = given.compile()(image, w, *([b] if bias else []))
    assert np.abs(y - want).max() <= 2e-5 * want.max()


def test_an_open_batch():
    g, w, b = graph(("n", 128, 28, 28), padding=1)
    assert names(g) == ["Winograd", "relu"]
    x = RNG.standard_normal((2, 128, 28, 28)).astype("float32")
    want = np.maximum(images.conv(x.astype("float64"), w.astype("float64"), b, padding=1), 0)
    assert np.abs(g.compile()(x) - want).max() <= 2e-5 * want.max()


def test_an_image_of_open_size():
    g, w, b = graph(("n", 32, "h", "w"), 32, padding=1)
    assert names(g) == ["Winograd", "relu"]
    engine = g.compile()
    for shape in ((1, 32, 20, 33), (2, 32, 5, 1)):
        x = RNG.standard_normal(shape).astype("float32")
        want = np.maximum(images.conv(x.astype("float64"), w.astype("float64"), b, padding=1), 0)
        assert np.abs(engine(x) - want).max() <= 2e-5 * want.max()


@pytest.mark.parametrize(
    ("x", "options"),
    [
        ((1, 128, 56, 56), {"padding": 1, "stride": 2}),
        ((1, 128, 28, 28), {"padding": 1, "groups": 2}),
        ((1, 128, 28, 28), {"kernel": (1, 3)}),
        ((1, 128, 4, 4), {"padding": 1}),
        ((1, 3, 28, 28), {"outputs": 8, "padding": 1}),
    ],
    ids=["stride", "groups", "1x3", "few tiles", "few channels"],
)
def test_others_are_summed_directly(x, options):
    assert "Winograd" not in names(graph(x, **options)[0])


def test_a_margin_of_another_value_is_no_margin_of_zeros():
    def framed(x, w):
        return ops.conv2d(ops.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), "constant", 2.0), w)

    g = Graph()
    x, w = g.input((1, 128, 28, 28), name="x"), g.constant(np.ones((128, 128, 3, 3), "float32"))
    g.output(g.call(framed, x, w))
    assert names(g) == ["framed"]


def test_the_target_of_the_compile_decides_not_this_machine():
    """The direct sum gains by wide vectors, and a weight that comes from memory does not. The same graph is
    compiled for both: what was found for one target says nothing about the other."""
    g, _, _ = graph((1, 256, 7, 7), 256, padding=1)
    for cpu, taken in [("haswell", True), ("skylake-avx512", False), ("haswell", True)]:
        engine = g.compile(target=f"llvm -mcpu={cpu}", cache=False, workers=1)
        assert ("Winograd" in str(engine.explain())) == taken, cpu


def test_what_follows_is_computed_in_the_same_kernel():
    g, _, _ = graph(padding=1)
    assert "Winograd → relu" in str(g.compile().explain())


def tile_of(g, **options):
    (made,) = (n for n in simplified(g, **options).nodes if n.op == "Winograd")
    return made.attrs["tile"]


@pytest.mark.parametrize(
    ("channels", "pixels", "tile"), [(256, 14, 2), (128, 28, 4), (320, 13, 2), (64, 56, 4)]
)
def test_few_pixels_take_small_tiles(channels, pixels, tile):
    """Their weight comes from memory, and that of small tiles is less than half as large."""
    g, _, _ = graph((1, channels, pixels, pixels), channels, padding=1)
    assert tile_of(g, target=Target("llvm -mcpu=sapphirerapids")) == tile


@pytest.mark.parametrize(
    ("padding", "size"), [(1, (14, 13)), (0, (16, 15)), (((2, 1), (0, 1)), (13, 14))], ids=str
)
def test_answers_of_small_tiles_stay_close(padding, size):
    g, w, b = graph((1, 192, *size), 208, padding=padding)
    assert tile_of(g, target=Target("llvm -mcpu=sapphirerapids")) == 2
    x = RNG.standard_normal((1, 192, *size)).astype("float32")
    want = np.maximum(images.conv(x.astype("float64"), w.astype("float64"), b, padding=padding), 0)
    assert np.abs(g.compile()(x) - want).max() <= 2e-5 * want.max()
