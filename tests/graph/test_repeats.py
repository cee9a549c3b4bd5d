"""What is repeated at many places is multiplied at one."""

from __future__ import annotations

import numpy as np
import pytest

from tensorlang import ops, te
from tensorlang.graph import Graph
from tensorlang.graph.passes import simplified
from tensorlang.graph.passes.repeats import multiply_repeated_once
from tests.graph.random_graphs import reference

RNG = np.random.default_rng(0)


def whole(*shape):
    return RNG.integers(-2, 3, shape).astype("float32")


def joined(*parts, axis):
    return ops.concatenate(parts, axis)


def same(g, *arrays):
    (expected,) = reference(g, list(arrays))
    for found in (*reference(simplified(g), list(arrays)), g.compile(cache=False, workers=1)(*arrays)):
        assert np.array_equal(found, expected)


def names(g, **options):
    return [n.op for n in simplified(g, **options).nodes]


def points(order, *, behind=None, size=64):
    """Features of points beside those of the cloud, [b, 2 size, n], through a convolution of one point."""
    g = Graph()
    x = g.input(("b", size, "n"), name="x")
    cloud = g.input(("b", size, 1), name="cloud")
    wide = g.call(ops.broadcast_to, cloud, shape=x.shape, op="Expand")
    y = g.call(joined, *((x, wide) if order == "behind" else (wide, x)), axis=1)
    g.output(g.call(behind or convolved, y, g.constant(whole(96, 2 * size, 1)), g.constant(whole(96))))
    return g


def convolved(x, w, b):
    y = ops.conv1d(x, w)
    return te.compute(y.shape, lambda n, c, i: y[n, c, i] + b[c])


@pytest.mark.parametrize("order", ["behind", "before"])
def test_a_convolution_of_one_point_multiplies_the_cloud_once(order):
    g = points(order)
    assert names(g) == ["convolved", "convolved", "Add"]
    assert {str(n.outputs[0].shape) for n in simplified(g).nodes[:2]} == {"(b, 96, n)", "(b, 96, 1)"}
    once = simplified(g)
    assert multiply_repeated_once(once) is once
    same(g, whole(2, 64, 30), whole(2, 64, 1))


def test_a_state_beside_every_step_is_multiplied_once():
    """Additive attention: the state of a decoder, between two features of the steps."""
    g = Graph()
    a, b = g.input((3, 50, 40), name="a"), g.input((3, 50, 24), name="b")
    state = g.input((3, 1, 64), name="state")
    wide = g.call(ops.broadcast_to, state, shape=(3, 50, 64), op="Expand")
    y = g.call(joined, a, wide, b, axis=2)
    g.output(g.call(ops.matmul, y, g.constant(whole(128, 48))))
    assert names(g) == ["joined", "matmul", "matmul", "Add"]
    same(g, whole(3, 50, 40), whole(3, 50, 24), whole(3, 1, 64))


def joined_three(a, b, c, *, axis):
    return ops.concatenate([a, b, c], axis)


@pytest.mark.parametrize("at", [0, 1, 2])
def test_the_others_are_joined_where_a_function_takes_three_only(at):
    """As a join of torch does, whose arguments are in place: the network that scores what a user saw
    beside one thing to buy, which was refused."""
    g = Graph()
    parts = [g.input((3, 50, 40), name="a"), g.input((3, 50, 24), name="b")]
    one = g.input((3, 1, 64), name="one")
    parts.insert(at, g.call(ops.broadcast_to, one, shape=(3, 50, 64), op="Expand"))
    g.output(g.call(ops.matmul, g.call(joined_three, *parts, axis=2), g.constant(whole(128, 48))))
    assert names(g) == ["joined_three", "matmul", "matmul", "Add"]
    same(g, whole(3, 50, 40), whole(3, 50, 24), whole(3, 1, 64))


def test_what_is_not_the_same_at_each_place_of_the_product_stays():
    """Windows reach over the edge of what is repeated; a repeated channel is summed along; little is not
    worth a kernel."""

    def windows(x, w, b):
        return ops.conv1d(x, ops.concatenate([w, w, w], 2), padding=1)

    assert "Add" not in names(points("behind", behind=windows))
    assert "Add" not in names(points("behind", size=8))
    g = Graph()
    x, one = g.input((9, 64, 64), name="x"), g.input((9, 64, 1), name="one")
    wide = g.call(ops.broadcast_to, one, shape=(9, 64, 64), op="Expand")
    g.output(g.call(ops.matmul, g.call(joined, x, wide, axis=2), g.constant(whole(128, 64))))
    assert "Add" not in names(g)
