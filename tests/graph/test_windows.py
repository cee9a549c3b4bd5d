"""Passes put an operator in the place of a sum of windows only where it reads the same: a function of a user may
shift, swap or reverse taps, or sum something else than products."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.analysis import window_of
from tensorlang.graph.passes import simplified
from tests.graph.test_whole_numbers import VNNI, weight

RNG = np.random.default_rng(5)
SIZES = 32, 30, 28  # of channels, rows and columns
READS = {
    "shifted": lambda i, j, a, b: (i + 1 + a, j + b),
    "swapped": lambda i, j, a, b: (i + b, j + a),
    "reversed": lambda i, j, a, b: (i + 2 - a, j + b),
}


def summed(read, product=lambda x, w: x * w):
    """Sums over 3×3 windows that are read like this, of images of which a row and a column are left."""

    def made(x, w):
        c, a, b = (te.reduce_axis((0, n)) for n in (SIZES[0], 3, 3))
        shape = (x.shape[0], w.shape[0], *(n - 3 for n in SIZES[1:]))
        return te.compute(
            shape,
            lambda n, o, i, j: te.sum(product(x[(n, c, *read(i, j, a, b))], w[o, c, a, b]), axis=[c, a, b]),
        )

    return made


def of_bytes(g, fn, w):
    x = g.call(ops.dequantize_linear, g.input((1, *SIZES), "uint8", "x"), g.constant(np.float32(0.5)))
    return g.call(fn, x, weight(g, w.astype("int8"), np.float32(0.25)))


def channels_last(g, fn, w):
    x = g.input((1, *SIZES[1:], SIZES[0]), "float32", "x")
    y = g.call(fn, g.call(lambda t: ops.transpose(t, (0, 3, 1, 2)), x), g.constant(w.astype("float32")))
    return g.call(lambda t: ops.transpose(t, (0, 2, 3, 1)), y)


def plain(g, fn, w):
    return g.call(fn, g.input((1, *SIZES), "float32", "x"), g.constant(w.astype("float32")))


@pytest.mark.each_value
@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("how", [of_bytes, channels_last, plain])
def test_windows_that_are_read_otherwise_stay(how, name):
    """Shifted and swapped taps gave wrong answers, and reversed ones ended in an error."""
    g = tl.Graph()
    g.output(how(g, summed(READS[name]), RNG.integers(-4, 5, (64, SIZES[0], 3, 3))), "y")
    (v,) = g.inputs
    x = RNG.integers(0, 9, v.sizes).astype(v.dtype.name)
    for target in (None, VNNI):
        named = [n.op for n in simplified(g, target=target).nodes]
        assert not {"ConvInteger", "Winograd", "conv2d"}.intersection(named)
    assert np.array_equal(g.compile()(x), g.compile(level=0)(x))


def test_sums_of_other_things_than_products_are_no_windows():
    x, w = te.placeholder((1, *SIZES), name="x"), te.placeholder((64, SIZES[0], 3, 3), name="w")
    plain_read = lambda i, j, a, b: (i + a, j + b)
    assert window_of(summed(plain_read)(x, w).op) is not None
    assert window_of(summed(plain_read, lambda a, b: a + b)(x, w).op) is None
    assert window_of(summed(plain_read, lambda a, b: a * b * 2)(x, w).op) is None
