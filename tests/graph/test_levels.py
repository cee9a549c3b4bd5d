"""Weights and tables of quantised numbers stay whole numbers, and answers stay."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops
from tensorlang.graph.passes import simplified
from tensorlang.graph.passes.levels import keep_levels

RNG = np.random.default_rng(4)


def whole(*shape: int, kind: str = "int8") -> np.ndarray:
    low, high = (0, 256) if kind == "uint8" else (-128, 128)
    return RNG.integers(low, high, shape).astype(kind)


def powers(*shape: int) -> np.ndarray:
    """Scales with which no product rounds."""
    return np.float32(2.0) ** RNG.integers(-7, 1, shape).astype("float32")


def numbers(*shape: int) -> np.ndarray:
    return RNG.integers(-3, 4, shape).astype("float32")


def linear(q, scale, zero=None, axis=1):
    """As ``DequantizeLinear`` has it."""

    def made(g):
        given = [g.constant(a) for a in (q, scale, zero) if a is not None]
        return g.call(ops.dequantize_linear, *given, axis=axis)

    return made


def spelled(q, scale, zero=None):
    """As a cast, perhaps a subtraction, and a product."""

    def made(g):
        w = g.call(ops.cast, g.constant(q), dtype="float32")
        w = w if zero is None else g.call(ops.subtract, w, g.constant(zero.astype("float32")))
        return g.call(ops.multiply, w, g.constant(scale))

    return made


def turned(inner):
    """Transposed behind."""
    return lambda g: g.call(ops.transpose, inner(g))


def product(g, w):
    return g.call(ops.matmul, g.input(("n", 96), "float32", "x"), w)


def with_bias(g, w):
    return g.call(ops.add, product(g, w), g.constant(numbers(128)))


def left(g, w):
    return g.call(ops.matmul, w, g.input((128, "n"), "float32", "x"))


def conv(g, w):
    x = g.input(("n", 32, 6, 7), "float32", "x")
    y = g.call(lambda *t: ops.conv2d(*t, padding=1), x, w, g.constant(numbers(33)))
    return g.call(ops.relu, y)


def rows(g, w):
    i = g.input(("n", 3), "int64", "i")
    return g.call(lambda t, at: ops.take(t, at, axis=0), w, i)


def tied(g, w):
    """A table whose rows are picked, and which is multiplied by."""
    return g.call(ops.relu, g.call(ops.matmul, rows(g, w), g.call(ops.transpose, w)))


HIGH = np.full((), 128, "uint8")
EACH = whole(128)
CASES = {
    "product, one scale": (product, linear(whole(96, 128), powers()), 1),
    "product, a scale a column": (product, linear(whole(96, 128), powers(128)), 1),
    "bias behind": (with_bias, linear(whole(96, 128), powers(128)), 1),
    "unsigned around 128": (with_bias, linear(whole(96, 128, kind="uint8"), powers(128), HIGH), 1),
    "zero points of columns": (product, linear(whole(96, 128), powers(128), EACH), 2),
    "16 bits": (product, linear(whole(96, 128).astype("int16") * 8, powers(128)), 2),
    "spelled": (product, spelled(whole(96, 128), powers(1, 128)), 1),
    "spelled with zeros": (
        product,
        spelled(whole(96, 128, kind="uint8"), powers(1), np.full((1, 1), 128)),
        1,
    ),
    "transposed": (product, turned(linear(whole(128, 96), powers(128), axis=0)), 1),
    "constant on the left": (left, linear(whole(96, 128), powers(96), axis=0), 1),
    "convolution with a bias": (conv, linear(whole(33, 32, 3, 3), powers(33), axis=0), 1),
    "rows, one scale": (rows, linear(whole(100, 128), powers()), 1),
    "rows, each a scale": (rows, spelled(whole(100, 128), powers(100, 1)), 1),
    "rows, a scale a column": (rows, linear(whole(100, 128), powers(128)), 1),
    "rows of a table and products with it": (tied, spelled(whole(100, 128), powers(100, 1)), 1),
}
FOLDED = {
    "scales along what is summed": (product, linear(whole(96, 128), powers(96), axis=0)),
    "blocks": (product, lambda g: linear_blocks(g, whole(96, 128), powers(3, 128))),
    "few": (product, linear(whole(96, 4), powers(4))),
    "a scale of 0": (product, linear(whole(96, 128), np.zeros(128, "float32"))),
    "not whole steps": (
        product,
        lambda g: g.call(ops.add, spelled(whole(96, 128), powers(128) * 8)(g), g.constant(np.float32(1.25))),
    ),
    "a square": (product, lambda g: squared(g, spelled(whole(96, 128), powers(128))(g))),
}


def linear_blocks(g, q, scale):
    return g.call(ops.dequantize_linear, g.constant(q), g.constant(scale), axis=0, block_size=32)


def squared(g, w):
    return g.call(ops.multiply, w, w)


def made(read, constant):
    g = tl.Graph()
    g.output(read(g, constant(g)), "y")
    return g


def inputs(g):
    (v,) = g.inputs
    shape = [5 if n is None else n for n in v.sizes]
    return RNG.integers(-100, 100, shape) if v.dtype == "int64" else numbers(*shape)


def largest(engine) -> np.ndarray:
    return max(engine.constants, key=lambda a: a.size)


@pytest.mark.parametrize("case", CASES)
def test_whole_numbers_stay_whole(case):
    read, constant, width = CASES[case]
    g = made(read, constant)
    after = simplified(g, without=["winograd"])
    assert keep_levels(after) is after
    engine = g.compile(without=["winograd"])
    assert largest(engine).dtype.itemsize == width
    x = inputs(g)
    assert np.array_equal(engine(x), g.compile(level=0)(x))


@pytest.mark.parametrize("case", FOLDED)
def test_what_no_reader_can_scale_is_folded(case):
    g = made(*FOLDED[case])
    assert keep_levels(g) is g
    x = inputs(g)
    np.testing.assert_allclose(g.compile()(x), g.compile(level=0)(x), rtol=1e-5, atol=1e-3)


def test_joined_products_keep_them():
    """Three products of one value with their scales and biases: one of the weights side by side."""
    g = tl.Graph()
    x = g.input(("n", 96), "float32", "x")
    for i in range(3):
        y = g.call(ops.matmul, x, linear(whole(96, 128), powers(128) if i else powers())(g))
        g.output(g.call(ops.add, y, g.constant(numbers(128))), f"y{i}")
    assert [n.op for n in simplified(g).nodes].count("matmul") == 1
    engine = g.compile()
    assert largest(engine).dtype == np.int8 and largest(engine).size == 96 * 3 * 128
    a = numbers(5, 96)
    for mine, theirs in zip(engine(a), g.compile(level=0)(a), strict=True):
        assert np.array_equal(mine, theirs)


def test_a_file_has_the_bytes_of_the_whole_numbers(tmp_path):
    q, scale = whole(512, 512), powers(512)
    g = made(lambda g, w: g.call(ops.matmul, g.input(("n", 512), "float32", "x"), w), linear(q, scale))
    g.compile().save(tmp_path / "a.engine")
    assert (tmp_path / "a.engine").stat().st_size < 3 * q.nbytes // 2
    a = numbers(3, 512)
    assert np.array_equal(tl.Engine.load(tmp_path / "a.engine")(a), a @ (q * scale))
