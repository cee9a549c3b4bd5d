"""Parts of graphs between images with channels last: which are computed that way, with the same numbers."""

import numpy as np
import pytest

from tensorlang import ops, te
from tensorlang.graph import Graph
from tensorlang.graph.passes import simplified
from tensorlang.target import as_target

FIRST, LAST = (0, 3, 1, 2), (0, 2, 3, 1)
RNG = np.random.default_rng(0)


def whole(*shape):
    return RNG.integers(-2, 3, shape).astype("float32")


def image(g, size=7, channels=4, batch=2):
    x = g.input((batch, size, size, channels), name="x")
    return g.call(ops.transpose, x, axes=FIRST)


def conv(g, x, outputs, taps=3, groups=1, bias=True, **how):
    channels = int(x.shape[1].value)
    w = g.constant(whole(outputs, channels // groups, taps, taps))
    b = g.constant(whole(outputs)) if bias else None
    return g.call(ops.conv2d, x, w, b, groups=groups, **how)


def last(g, x):
    return g.output(g.call(ops.transpose, x, axes=LAST))


def names(g, **options):
    return [n.op for n in simplified(g, **options).nodes]


def same_numbers(g, *arrays):
    """The graph with the pass and without; small integers, so to the bit."""
    found, wanted = (g.compile(without=w)(*arrays) for w in ([], ["channels last", "winograd"]))
    for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (found, wanted)), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "how",
    [
        {"outputs": 6, "padding": 1},
        {"outputs": 5, "taps": 1, "bias": False},
        {"outputs": 6, "taps": 2, "stride": (2, 1), "padding": ((0, 1), (1, 0)), "groups": 2},
        {"outputs": 4, "groups": 4, "dilation": (1, 2), "padding": 2},
        {"outputs": 8, "groups": 2, "padding": 1},
    ],
    ids=str,
)
def test_a_convolution_between_images_with_channels_last_is_computed_there(how):
    g = Graph()
    last(g, conv(g, image(g), **how))
    assert names(g) == ["conv2d"] and names(g, without=["channels last"])[0] == "transpose"
    same_numbers(g, whole(2, 7, 7, 4))


def test_what_works_on_each_element_goes_along_with_its_constants():
    g = Graph()
    x = image(g, size=9)
    first = g.call(ops.relu, conv(g, x, 4, padding=1))
    each = g.call(ops.multiply, first, g.constant(whole(4, 1, 1)))
    plane = g.call(ops.add, each, g.constant(whole(9, 9)))
    both = g.call(ops.add, plane, x)
    last(g, g.call(ops.minimum, both, g.constant(np.float32(3))))
    assert "transpose" not in names(g)
    same_numbers(g, whole(2, 9, 9, 4))


def test_what_somebody_reads_with_channels_first_stays_so():
    g = Graph()
    y = conv(g, image(g), 6, padding=1)
    last(g, g.call(ops.relu, y))
    g.output(y)  # the convolution, and with it what follows
    assert names(g) == names(g, without=["channels last"])
    g = Graph()
    y = conv(g, image(g), 6, padding=1)
    last(g, g.call(ops.relu, y))
    last(g, g.call(ops.softmax, y, axis=1))  # which is neither
    assert names(g) == names(g, without=["channels last"])
    same_numbers(g, whole(2, 7, 7, 4))


def test_what_depends_on_the_order_of_dimensions_stays():
    """By the place of an element, by a vector along an axis of its own."""

    def by_place(x):
        return te.compute(x.shape, lambda n, c, i, j: x(n, c, i, j) + te.cast("float32", c))

    def by_axis(x, v):
        return te.compute(x.shape, lambda n, c, i, j: x(n, c, i, j) + v(i))

    for made in (
        lambda g, y: g.call(by_place, y),
        lambda g, y: g.call(by_axis, y, g.constant(whole(7))),
        lambda g, y: g.call(ops.transpose, y, axes=(0, 2, 1, 3)),
    ):
        g = Graph()
        last(g, made(g, conv(g, image(g), 7, padding=1)))
        assert names(g).count("transpose") >= 2
        same_numbers(g, whole(2, 7, 7, 4))


def test_how_large_a_weight_may_be_is_told_by_the_target_of_the_compile():
    g = Graph()
    last(g, conv(g, image(g, 3, 512, 1), 384, taps=1))  # 768 KiB
    for cpu, left in [("skylake", 2), ("skylake-avx512", 0), ("skylake", 2)]:
        found = names(g, target=as_target(f"llvm -mcpu={cpu}"))
        assert found.count("transpose") == left, cpu


def test_large_weights_open_sizes_and_fewer_multiplications_keep_channels_first():
    g = Graph()
    last(g, conv(g, image(g, 3, 512, 1), as_target(None).l2_bytes // 2048 + 8, taps=1))
    large = names(g)
    g = Graph()
    last(g, conv(g, image(g, te.dim("n", 8, 64)), 4))
    opened = names(g)
    g = Graph()
    last(g, conv(g, image(g, 28, 128, 1), 128, padding=1))
    fewer = names(g)
    assert all(n.count("transpose") == 2 for n in (large, opened, fewer)) and "Winograd" in fewer


def test_a_maximum_of_products_is_no_convolution():
    """It was taken for one of each channel by itself, and summed."""

    def largest(x, w):
        n, c, h, wide = x.shape
        i, j = te.reduce_axis((0, 3), "i"), te.reduce_axis((0, 3), "j")
        shape = (n, c, h - 2, wide - 2)
        return te.compute(
            shape, lambda b, ch, y, z: te.max(x(b, ch, y + i, z + j) * w(ch, 0, i, j), axis=[i, j])
        )

    g = Graph()
    last(g, g.call(largest, image(g), g.constant(whole(4, 1, 3, 3))))
    assert names(g).count("transpose") == 2
    same_numbers(g, whole(2, 7, 7, 4))
