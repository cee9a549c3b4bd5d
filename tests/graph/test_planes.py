"""Height and width, or batch and length, as one axis: where a region passes them side by side, and only
there."""

from __future__ import annotations

import numpy as np
import pytest

from tensorlang import ops, te
from tensorlang.graph import Graph
from tensorlang.graph.declare import declare
from tensorlang.graph.regions import regions
from tensorlang.te import serialize

RNG = np.random.default_rng(3)
SHAPES = [(1, 1, 1), (2, 3, 5), (1, 7, 16), (3, 4, 9), (0, 2, 2), (1, 0, 3), (1, 33, 3)]


def whole(*shape):
    return RNG.integers(-2, 3, shape).astype("float32")


def pointwise(g, x, outputs=12, **options):
    return g.call(ops.conv2d, x, g.constant(whole(outputs, 8, 1, 1)), g.constant(whole(outputs)), **options)


def with_maps():
    """Bias, an activation, a factor of each channel, and an addend of the same place."""
    g = Graph()
    x, z = g.input(("n", 8, "h", "w"), name="x"), g.input(("n", 12, "h", "w"), name="z")
    y = g.call(ops.multiply, g.call(ops.relu, pointwise(g, x)), g.constant(whole(12, 1, 1)))
    g.output(g.call(ops.add, y, z))
    return g, 12


def half_open():
    g = Graph()
    g.output(g.call(ops.relu, pointwise(g, g.input((2, 8, "h", 5), name="x"))))
    return g, 0


def scaled():
    """Maps alone, a factor of each image and channel among them."""
    g = Graph()
    x, z = g.input(("n", 8, "h", "w"), name="x"), g.input(("n", 8, 1, 1), name="z")
    g.output(g.call(ops.relu, g.call(ops.multiply, x, z)))
    return g, 2


def shuffled():
    """Channels of two groups in turns, joined with others."""
    g = Graph()
    x, z = g.input(("n", 8, "h", "w"), name="x"), g.input(("n", 3, "h", "w"), name="z")
    n, _, h, w = x.shape
    y = g.call(ops.reshape, x, shape=(n, 2, 4, h, w))
    y = g.call(ops.reshape, g.call(ops.transpose, y, axes=(0, 2, 1, 3, 4)), shape=(n, 8, h, w))
    g.output(g.call(lambda *parts: ops.concatenate(parts, 1), y, z))
    return g, 3


def of_known_rows():
    """Vectors of a row of 64 need no masks."""
    g = Graph()
    x = g.input(("n", "m", "t", 64), name="x")
    g.output(g.call(ops.relu, x))
    return g, 0


def taps():
    g = Graph()
    x = g.input(("n", 8, "h", "w"), name="x")
    g.output(g.call(ops.conv2d, x, g.constant(whole(4, 8, 3, 3)), padding=1))
    return g, 0


def thinned():
    g = Graph()
    g.output(pointwise(g, g.input(("n", 8, "h", "w"), name="x"), stride=2))
    return g, 0


def of_rows():
    """An addend of each row tells rows apart."""
    g = Graph()
    x, z = g.input(("n", 8, "h", "w"), name="x"), g.input((1, 1, "h", 1), name="z")
    g.output(g.call(ops.add, pointwise(g, x), z))
    return g, 1


def place(x, w):
    """Each element is multiplied by its column."""
    y = ops.conv2d(x, w)
    return te.compute(y.shape, lambda n, c, i, j: y[n, c, i, j] * te.cast("float32", j))


def of_places():
    g = Graph()
    g.output(g.call(place, g.input(("n", 8, "h", "w"), name="x"), g.constant(whole(4, 8, 1, 1))))
    return g, 0


def first(g):
    (r,) = regions(g)
    return declare(r.nodes, r.outputs).args[0].shape


def inputs(case, given, n, h, w):
    x = whole(2 if case is half_open else n, 8, h, 5 if case is half_open else w)
    if case is scaled:
        return x, whole(n, 8, 1, 1)
    if case is of_known_rows:
        return (whole(n, 8, h, 64),)
    if case is of_rows:
        return x, whole(1, 1, h, 1)
    return (x, whole(n, given, h, w)) if given else (x,)


@pytest.mark.parametrize("case", [with_maps, half_open, scaled, shuffled], ids=lambda c: c.__name__)
def test_single_pixels_maps_and_moved_channels_see_one_axis(case):
    g, given = case()
    shape = first(g)
    assert str(shape[-2]) == "1" and len(shape) == 4
    fused, apart = (g.compile(level=n) for n in (2, 0))
    assert len(fused.kernels) == 1
    for n, h, w in SHAPES:
        a = inputs(case, given, n, h, w)
        found = fused(*a)
        assert found.shape[-2:] == a[0].shape[-2:] and np.array_equal(found, apart(*a))


@pytest.mark.parametrize("case", [taps, thinned, of_rows, of_places, of_known_rows], ids=lambda c: c.__name__)
def test_what_tells_rows_or_columns_apart_keeps_both(case):
    g, given = case()
    assert str(first(g)[-2]) != "1"
    fused, apart = (g.compile(level=n) for n in (2, 0))
    for n, h, w in SHAPES[1:4]:
        a = inputs(case, given, n, h, w)
        assert np.array_equal(fused(*a), apart(*a))


def by_weights(g, x, outputs=12):
    return g.call(ops.matmul, x, g.constant(whole(8, outputs)))


def with_bias():
    """A bias, an addend of the same place, and one of each row."""
    g = Graph()
    x, y = g.input(("b", "n", 8), name="x"), g.input(("b", "n", 12), name="y")
    z = g.input(("b", "n", 1), name="z")
    made = g.call(ops.relu, g.call(ops.add, by_weights(g, x), g.constant(whole(12))))
    g.output(g.call(ops.multiply, g.call(ops.add, made, y), z))
    return g, ((12,), (1,))


def gated():
    """Two products of one sequence."""
    g = Graph()
    x = g.input(("b", "n", 8), name="x")
    g.output(g.call(ops.multiply, g.call(ops.relu, by_weights(g, x)), by_weights(g, x)))
    return g, ()


def of_positions():
    """An addend of each place in a sequence."""
    g = Graph()
    x, y = g.input(("b", "n", 8), name="x"), g.input((1, "n", 12), name="y")
    g.output(g.call(ops.add, by_weights(g, x), y))
    return g, ("position",)


def of_both():
    """Weights of each sequence."""
    g = Graph()
    x, w = g.input(("b", "n", 8), name="x"), g.input(("b", 8, 12), name="w")
    g.output(g.call(ops.matmul, x, w))
    return g, ("weights",)


def of_a_known_length():
    g = Graph()
    g.output(by_weights(g, g.input(("b", 20, 8), name="x")))
    return g, "known"


ROWS = [(1, 1), (2, 5), (7, 1), (3, 9), (0, 2), (2, 0), (5, 33)]


def rows(given, b, n):
    x = whole(b, 20 if given == "known" else n, 8)
    if given == "known":
        return (x,)
    others = {"position": (1, n, 12), "weights": (b, 8, 12)}
    return (x, *(whole(*(others[o] if isinstance(o, str) else (b, n, *o))) for o in given))


@pytest.mark.parametrize("case", [with_bias, gated], ids=lambda c: c.__name__)
def test_rows_of_all_sequences_are_those_of_one_product(case):
    """Of two rows of each of 20 sequences a tile had two."""
    g, given = case()
    for r in regions(g):
        shape = declare(r.nodes, r.outputs).args[0].shape
        assert str(shape[0]) == "1" and len(shape) == 3
    fused, apart = (g.compile(level=n) for n in (2, 0))
    for b, n in ROWS:
        a = rows(given, b, n)
        found = fused(*a)
        assert found.shape[:2] == (b, n) and np.array_equal(found, apart(*a))


@pytest.mark.parametrize("case", [of_positions, of_both, of_a_known_length], ids=lambda c: c.__name__)
def test_what_tells_sequences_apart_keeps_both(case):
    g, given = case()
    assert str(first(g)[0]) != "1"
    fused, apart = (g.compile(level=n) for n in (2, 0))
    for b, n in ROWS[:4]:
        a = rows(given, b, n)
        assert np.array_equal(fused(*a), apart(*a))


def test_a_batch_of_open_images_as_rows():
    """The product of three sizes below 10⁹ is no bound that a kernel can hold."""
    g = Graph()
    b, h, w = (te.dim(d, 0, 10**9) for d in "bhw")
    x = g.input((b, 8, h, w), name="x")
    rows = g.call(ops.transpose, g.call(ops.reshape, x, shape=(b, 8, h * w)), axes=(0, 2, 1))
    g.output(g.call(ops.relu, by_weights(g, rows)))
    fused, apart = (g.compile(level=n) for n in (2, 0))
    for shape in ((1, 8, 3, 5), (3, 8, 2, 2)):
        a = whole(*shape)
        assert np.array_equal(fused(a), apart(a))


def test_layers_at_half_and_a_quarter_of_an_open_image_are_one_kernel():
    """The bound of a computed size, where it is far from any that a call has, decides no code: kernels of
    both layers have one text. A near bound is known as it is."""

    def text(most, by):
        g = Graph()
        x = g.input(("n", 8, te.dim("h", 1, most), te.dim("w", 1, most)), name="x")
        small = g.call(ops.avg_pool2d, x, kernel_size=by, stride=by)
        g.output(g.call(ops.sum, small, axis=(2, 3)))
        (region,) = [r for r in regions(g, 0) if r.outputs[0] is g.outputs[0]]
        return serialize.to_json(declare(region.nodes, region.outputs).args)

    assert text(10**9, 2) == text(10**9, 4)
    assert text(512, 2) != text(512, 4)
