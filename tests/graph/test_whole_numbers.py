"""Operators between dequantised numbers sum the bytes themselves, and answers stay."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops
from tensorlang.graph.passes import simplified
from tensorlang.graph.passes.whole_numbers import multiply_whole_numbers
from tensorlang.target import as_target
from tests.graph.test_levels import numbers, powers, whole

VNNI = as_target("llvm -mcpu=cascadelake -mtriple=x86_64-linux-gnu -num-cores=2")
PLAIN = as_target("llvm -mcpu=haswell -mtriple=x86_64-linux-gnu -num-cores=2")
RNG = np.random.default_rng(12)


def data(g, shape, kind="uint8", scale=0.25, zero=117):
    """An input of bytes as floats."""
    q = g.input(shape, kind, "q")
    at = np.array(zero if kind == "uint8" else zero - 128, kind)
    return g.call(ops.dequantize_linear, q, g.constant(np.float32(scale)), g.constant(at))


def weight(g, q, scale, zero=None, axis=0):
    given = [g.constant(a) for a in (q, scale, zero) if a is not None]
    return g.call(ops.dequantize_linear, *given, axis=axis)


def quantised(g, y, kind="uint8"):
    return g.call(ops.quantize_linear, y, g.constant(np.float32(32)), g.constant(np.array(100, kind)))


def conv(op, shape, of, kind="uint8", bias=True, scale=None, **options):
    def made(g):
        w = weight(g, whole(*of), powers(of[0]) if scale is None else scale)
        given = [data(g, shape, kind), w, *([g.constant(numbers(of[0]))] if bias else [])]
        return quantised(g, g.call(lambda *t: op(*t, **options), *given))

    return made


def behind_a_relu(g):
    """Its zero point is 0, and so is that of its margin."""
    w = weight(g, whole(16, 8, 3, 3), powers(16))
    return quantised(g, g.call(lambda x, w: ops.conv2d(x, w, padding=1), data(g, (1, 8, 9, 7), zero=0), w))


def bias_of_whole_numbers(g):
    """As files write it: int32 with a scale."""
    w = weight(g, whole(16, 8, 3, 3), powers(16))
    b = weight(g, RNG.integers(-999, 999, 16).astype("int32"), np.float32(0.125))
    return quantised(g, g.call(ops.conv2d, data(g, (1, 8, 9, 7)), w, b))


def product(turned, kind="uint8", zero=None, bias=True):
    def made(g):
        shape = (20, 48) if turned else (48, 20)
        q = whole(*shape, kind="int8" if zero is None else "uint8")
        w = weight(g, q, powers(20), None if zero is None else np.full(20, zero, "uint8"), axis=1 - turned)
        w = g.call(ops.transpose, w) if turned == 2 else w
        y = g.call(lambda a, b: ops.matmul(a, b, transpose_b=turned == 1), data(g, ("n", 3, 48), kind), w)
        return quantised(g, g.call(ops.add, y, g.constant(numbers(20))) if bias else y)

    return made


CASES = {
    "3×3": conv(ops.conv2d, (1, 8, 9, 7), (16, 8, 3, 3), padding=1),
    "signed, no bias": conv(ops.conv2d, (1, 8, 9, 7), (16, 8, 3, 3), "int8", bias=False, padding=1),
    "first layer": conv(ops.conv2d, (1, 3, 17, 19), (20, 3, 7, 7), stride=2, padding=3),
    "1×1, open batch": conv(ops.conv2d, ("n", 16, 6, 6), (32, 16, 1, 1), stride=2),
    "groups": conv(ops.conv2d, (2, 8, 9, 7), (24, 2, 3, 3), groups=4, dilation=2, padding=(2, 1)),
    "depthwise": conv(ops.conv2d, (1, 16, 9, 7), (16, 1, 3, 3), groups=16, padding=1, stride=(1, 2)),
    "one row": conv(ops.conv1d, (1, 8, 33), (16, 8, 5), padding=2),
    "one row without a margin": conv(ops.conv1d, (1, 8, 33), (16, 8, 5), stride=2),
    "volumes without a margin": conv(ops.conv3d, (1, 16, 5, 6, 7), (16, 16, 1, 1, 1)),
    "three dimensions": conv(ops.conv3d, (1, 4, 5, 6, 7), (16, 4, 3, 1, 3), padding=(1, 0, 1)),
    "open height, a margin below": conv(ops.conv2d, (1, 8, "h", 7), (16, 8, 3, 3), padding=((0, 1), (1, 0))),
    "one scale": conv(ops.conv2d, (1, 8, 9, 7), (16, 8, 3, 3), scale=np.float32(0.5)),
    "behind a relu": behind_a_relu,
    "a bias of whole numbers": bias_of_whole_numbers,
    "product": product(0),
    "product, outputs first": product(1),
    "product, signed, around 128": product(0, "int8", zero=128),
    "product without a shift": product(0, bias=False),
}


def made(case):
    g = tl.Graph()
    g.output(case(g), "y")
    return g


def bytes_for(g):
    (v,) = g.inputs
    low, high = np.iinfo(v.dtype.name).min, np.iinfo(v.dtype.name).max
    return RNG.integers(low, high + 1, [5 if n is None else n for n in v.sizes]).astype(v.dtype.name)


@pytest.mark.parametrize("name", CASES)
def test_bytes_are_multiplied(name):
    g = made(CASES[name])
    after = [n.op for n in simplified(g, target=VNNI).nodes]
    assert "ConvInteger" in after or "MatMulInteger" in after
    assert after.count("dequantize_linear") == 0
    q = bytes_for(g)
    assert np.array_equal(g.compile()(q), g.compile(level=0)(q))  # no float rounds: scales are powers of two


def test_each_is_switched_off_by_name_and_by_target():
    g = made(CASES["3×3"])
    for after in (simplified(g, target=VNNI, without=["whole numbers"]), simplified(g, target=PLAIN)):
        assert "ConvInteger" not in [n.op for n in after.nodes]


def between(what):
    def made(g):
        return quantised(g, what(g, g.input((1, 8, 9, 7), "uint8", "q"), whole(16, 8, 3, 3)))

    return made


def scaled_data(g, q, w):
    """A scale for each channel of the data."""
    x = g.call(ops.dequantize_linear, q, g.constant(powers(8)), axis=1)
    return g.call(ops.conv2d, x, weight(g, w, powers(16)))


def scaled_channels(g, q, w):
    """A scale for each channel that is summed over."""
    x = g.call(ops.dequantize_linear, q, g.constant(np.float32(0.5)))
    return g.call(ops.conv2d, x, weight(g, w, powers(8), axis=1))


def wide(g, q, w):
    x = g.call(ops.dequantize_linear, q, g.constant(np.float32(0.5)))
    return g.call(ops.conv2d, x, weight(g, w.astype("int16") * 8, powers(16)))


def margin_of_ones(g, q, w):
    x = g.call(ops.dequantize_linear, q, g.constant(np.float32(0.5)), g.constant(np.uint8(7)))
    x = g.call(lambda t: ops.pad(t, [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=1.0), x)
    return g.call(ops.conv2d, x, weight(g, w, powers(16)))


@pytest.mark.parametrize("what", [scaled_data, scaled_channels, wide, margin_of_ones])
def test_what_no_sum_of_bytes_is_stays(what):
    g = made(between(what))
    assert "ConvInteger" not in [n.op for n in simplified(g, target=VNNI).nodes]
    q = bytes_for(g)
    assert np.array_equal(g.compile()(q), g.compile(level=0)(q))


def test_nobody_asks_what_the_nodes_of_a_graph_without_bytes_compute(monkeypatch):
    g = tl.Graph("floats")
    x = g.input((1, 8, 9, 7), "float32", "x")
    g.output(g.call(ops.conv2d, x, g.constant(numbers(16, 8, 3, 3)), padding=1), "y")
    for n in g.nodes:
        n.memo.clear()
    monkeypatch.setattr(type(g.nodes[0]), "of", lambda *_: pytest.fail("te was made to find no bytes"))
    assert multiply_whole_numbers(g, VNNI) is g
