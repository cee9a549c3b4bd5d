"""Convolutions some taps of which read a margin alone: by constants of the others, in whatever graph they are."""

from __future__ import annotations

import numpy as np
import pytest

from tensorlang import ops
from tensorlang.graph import Graph
from tensorlang.graph.passes import simplified
from tensorlang.te import reference

RNG = np.random.default_rng(5)


def numbers(*shape):
    return RNG.standard_normal(shape).astype("float32")


def graph(x, outputs=64, kernel=(3, 3, 3), **options):
    """A convolution, a scale for each channel, a maximum."""
    g = Graph()
    v, o = g.input(x, name="x"), (outputs, *[1] * len(kernel))
    w = g.constant(numbers(outputs, x[1] // options.get("groups", 1), *kernel))
    way = {1: ops.conv1d, 2: ops.conv2d, 3: ops.conv3d}[len(kernel)]
    y = g.call(way, v, w, g.constant(numbers(outputs)), **options)
    y = g.call(ops.add, g.call(ops.multiply, y, g.constant(numbers(*o))), g.constant(numbers(*o)))
    g.output(g.call(ops.relu, y))
    return g


def whole(g, x):
    """What the operators give one by one."""
    values = {g.inputs[0]: x}
    for n in g.nodes:
        given = [values.get(v, v.data) for v in n.inputs]
        tensors = {v.tensor: a for v, a in zip(n.inputs, given, strict=True)}
        (values[n.outputs[0]],) = reference.evaluate(n.results, tensors)
    return values[g.outputs[0]]


@pytest.mark.parametrize(
    ("x", "options", "kernel"),
    [
        ((1, 64, 1, 28, 28), {"padding": 1}, (1, 3, 3)),
        ((2, 16, 2, 14, 14), {"padding": (2, 1, 1), "kernel": (5, 3, 3)}, (3, 3, 3)),
        ((1, 16, 2, 14, 14), {"padding": 1, "stride": 2}, (2, 3, 3)),
        ((1, 16, 2, 9, 9), {"padding": (2, 1, 1), "dilation": (2, 1, 1)}, (1, 3, 3)),
        ((1, 16, 7, 1), {"padding": 1, "kernel": (3, 3)}, (3, 1)),
        ((1, 16, 3), {"padding": 4, "kernel": (9,)}, (5,)),
        ((1, 64, 1, 7, 7), {"padding": 1, "groups": 64}, (1, 3, 3)),
        ((1, 64, 1, 7, 7), {"padding": 1, "groups": 4}, (1, 3, 3)),
    ],
    ids=["a plane", "two planes", "stride", "dilation", "a column", "a line", "by itself", "groups"],
)
def test_scales_go_into_the_taps_that_are_seen(x, options, kernel):
    g = graph(x, **options)
    made = simplified(g)
    assert len(made.nodes) == 2 and not any(n.op in ("multiply", "add") for n in made.nodes)
    assert made.nodes[0].inputs[1].shape[2:] == kernel
    a = numbers(*x)
    want = whole(g, a)
    for engine in (g.compile(), g.compile(without=["seen taps"])):
        assert np.abs(engine(a) - want).max() <= 2e-5 * np.abs(want).max()


def test_minimal_filtering_sees_them():
    """Measured (Zen 5, two threads): 64 to 64 channels of 1 × 28 × 28 take 0.5 of the time."""
    g = graph((1, 64, 1, 28, 28), padding=1)
    assert simplified(g).nodes[0].op == "Winograd"
    assert "Winograd" not in [n.op for n in simplified(g, without=["seen taps"]).nodes]


def test_one_that_would_fit_more_often_stays():
    g = graph((1, 16, 3, 14, 14), padding=((1, 0), (1, 1), (1, 1)), stride=(2, 1, 1))
    kept = next(n for n in simplified(g, without=["winograd"]).nodes if n.op == "conv3d")
    a = numbers(1, 16, 3, 14, 14)
    want = whole(g, a)
    assert kept.inputs[1].shape[2:] == (3, 3, 3)
    assert np.abs(g.compile()(a) - want).max() <= 2e-5 * np.abs(want).max()
