"""Whole numbers that are quantised again are multiplied once, bytes are picked as they are, and answers stay."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops
from tensorlang.graph.passes import simplified
from tests.graph.test_levels import numbers, powers, whole
from tests.graph.test_whole_numbers import VNNI, bytes_for, data, quantised, weight

RNG = np.random.default_rng(31)


def floats(g, q, scale=0.5, zero=3):
    return g.call(
        ops.dequantize_linear, q, g.constant(np.float32(scale)), g.constant(np.array(zero, q.dtype.name))
    )


def product(g, kind="uint8", x=None):
    w = weight(g, whole(16, 8, 3, 3), powers(16))
    return g.call(
        lambda x, w, b: ops.conv2d(x, w, b, padding=1),
        x or data(g, (1, 8, 9, 7), kind),
        w,
        g.constant(numbers(16)),
    )


def quantised_by(g, y, scale, zero, kind="uint8"):
    return g.call(ops.quantize_linear, y, g.constant(np.float32(scale)), g.constant(np.array(zero, kind)))


def limited(low, high, zero, kind="uint8"):
    def made(g):
        y = g.call(lambda x: ops.clip(x, low, high), product(g))
        return quantised_by(g, y, 0.25, zero, kind)

    return made


def added(g):
    q = quantised_by(g, product(g), 0.5, 130)
    other = g.input((1, 16, 9, 7), "int8", "other")
    return quantised_by(
        g, g.call(ops.relu, g.call(ops.add, floats(g, q, 0.5, 130), floats(g, other, 2))), 1.0, 7, "int8"
    )


def two_products(g):
    x = data(g, (1, 8, 9, 7))
    return quantised_by(g, g.call(ops.add, product(g, x=x), product(g, x=x)), 2.0, 0, "int8")


def shifted(g):
    q = g.input((3, 5, 8), "uint8", "q")
    return quantised_by(g, g.call(ops.add, floats(g, q), g.constant(numbers(8))), 0.125, 77)


STEPS = {
    "product": lambda g: quantised_by(g, product(g), 0.5, 11),
    "signed": lambda g: quantised_by(g, product(g, "int8"), 4, 0, "int8"),
    "limits that the type has": limited(0.0, 1e9, 0),
    "limits within": limited(-3.0, 5.0, 100),
    "limits within, signed": limited(-31.9, 6.0, -1, "int8"),
    "an image is added": added,
    "two products": two_products,
    "a constant is added": shifted,
}


def made(case):
    g = tl.Graph()
    g.output(case(g), "y")
    return g


def alike(g):
    given = [
        RNG.integers(-128 if v.dtype == "int8" else 0, 128, v.sizes).astype(v.dtype.name) for v in g.inputs
    ]
    # scales are powers of two, so that no float rounds, and halves are where the file has them
    assert np.array_equal(g.compile()(*given), g.compile(level=0)(*given))


@pytest.mark.parametrize("name", STEPS)
def test_a_sum_is_multiplied_once(name):
    g = made(STEPS[name])
    after = [n.op for n in simplified(g, target=VNNI).nodes]
    assert set(after) <= {"Steps", "ConvInteger"}
    assert after.count("Steps") == (2 if name == "an image is added" else 1)
    assert "Steps" not in [n.op for n in simplified(g, target=VNNI, without=["one scale"]).nodes]
    alike(g)


def test_a_scale_that_is_no_power_of_two_moves_nothing_but_what_is_near_a_half():
    g = made(lambda g: quantised_by(g, product(g), 0.37, 11))
    q = bytes_for(g)
    a, b = (f(q).astype(int) for f in (g.compile(), g.compile(level=0)))
    assert np.abs(a - b).max() <= 1 and (a != b).mean() < 0.01


def test_a_product_that_is_read_twice_stays():
    def case(g):
        y = product(g)
        return g.call(ops.add, y, floats(g, quantised_by(g, y, 0.5, 11), 0.5, 11))

    assert "Steps" not in [n.op for n in simplified(made(case), target=VNNI).nodes]


PICKS = {
    "largest of windows": lambda x: ops.max_pool2d(x, 3, 2, 1),
    "largest along an axis": lambda x: ops.max(x, axis=1),
    "smallest": lambda x: ops.min(x, axis=(2, 3), keepdims=True),
    "turned": lambda x: ops.transpose(x, (0, 2, 3, 1)),
    "reshaped": lambda x: ops.reshape(x, (2, -1)),
}


@pytest.mark.parametrize("kind", ["uint8", "int8"])
@pytest.mark.parametrize("name", PICKS)
def test_bytes_are_picked(name, kind):
    g = made(
        lambda g: quantised_by(
            g, g.call(PICKS[name], floats(g, g.input((2, 4, 9, 7), kind, "q"))), 0.5, 3, kind
        )
    )
    assert len(simplified(g).nodes) == 1
    alike(g)


def test_floats_of_picked_bytes():
    g = made(lambda g: g.call(PICKS["largest of windows"], floats(g, g.input((2, 4, 9, 7), "uint8", "q"))))
    assert simplified(g).nodes[-1].op == "dequantize_linear"
    alike(g)


@pytest.mark.parametrize(
    "what",
    [lambda x: ops.sum(x, axis=1), lambda x: ops.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], "constant", 9.0)],
)
def test_sums_and_margins_of_floats_stay(what):
    g = made(lambda g: quantised(g, g.call(what, floats(g, g.input((2, 4, 9, 7), "uint8", "q")))))
    assert simplified(g).nodes[0].op == "dequantize_linear"


def test_a_negative_scale_turns_the_order():
    g = made(
        lambda g: g.call(
            PICKS["largest of windows"], floats(g, g.input((2, 4, 9, 7), "uint8", "q"), scale=-0.5)
        )
    )
    assert simplified(g).nodes[0].op == "dequantize_linear"
    alike(g)
