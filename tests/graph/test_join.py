"""Products of one value become one product, and what follows each of them follows it."""

from __future__ import annotations

import numpy as np
import pytest

from tensorlang import ops
from tensorlang.graph import Graph
from tensorlang.graph.passes import simplified
from tensorlang.graph.passes.join import join_products
from tests.graph.random_graphs import reference

RNG = np.random.default_rng(0)


def whole(*shape):
    return RNG.integers(-2, 3, shape).astype("float32")


def names(g, **options):
    return [n.op for n in simplified(g, **options).nodes]


def same(g, *arrays):
    expected = reference(g, list(arrays))
    for found in (reference(simplified(g), list(arrays)), g.compile(cache=False, workers=1)(*arrays)):
        for a, b in zip(found, expected, strict=True):
            assert np.array_equal(a, b)


def branches(g, x, sizes, behind=lambda g, y, n: y):
    for n in sizes:
        g.output(behind(g, g.call(ops.matmul, x, g.constant(whole(6, n))), n))


def test_products_of_one_value_are_one():
    g = Graph()
    branches(g, g.input(("n", 6), name="x"), (4, 3, 5))
    assert names(g) == ["matmul", "Slice", "Slice", "Slice"]
    assert names(g, without=["products"]) == ["matmul"] * 3
    once = simplified(g)
    assert join_products(once) is once
    same(g, whole(7, 6))


def test_what_is_done_to_each_of_them_is_done_to_the_one():
    g = Graph()

    def behind(g, y, n):
        y = g.call(ops.add, y, g.constant(whole(n)))
        return g.call(ops.relu, g.call(ops.multiply, g.constant(np.float32(2)), y))

    branches(g, g.input(("n", 6), name="x"), (4, 4), behind)
    assert names(g, without=["scales"]) == ["matmul", "add", "multiply", "relu", "Slice", "Slice"]
    same(g, whole(7, 6))


@pytest.mark.parametrize("second", [ops.abs, lambda y: ops.clip(y, -1, 1)])
def test_what_differs_stays_behind(second):
    g = Graph()
    x = g.input(("n", 6), name="x")
    for fn in (ops.relu, second):
        g.output(g.call(fn, g.call(ops.matmul, x, g.constant(whole(6, 4))), op="behind"))
    assert names(g) == ["matmul", "Slice", "Slice", "behind", "behind"]
    same(g, whole(7, 6))


def test_branches_of_convolutions():
    g = Graph()
    x = g.input((1, 4, "h", "w"), name="x")
    for out, k in ((3, 1), (5, 1), (2, 3)):
        y = g.call(ops.conv2d, x, g.constant(whole(out, 4, k, k)), padding=k // 2)
        g.output(g.call(ops.relu, g.call(ops.add, y, g.constant(whole(out, 1, 1)))))
    assert sorted(names(g)) == sorted(["conv2d", "add", "relu", "Slice", "Slice", "conv2d", "add", "relu"])
    same(g, whole(1, 4, 5, 6))


@pytest.mark.parametrize("how", ["groups", "place", "output"])
def test_what_cannot_be_joined_stays(how):
    g = Graph()
    x = g.input((2, 4, 5, 6), name="x")
    for _ in range(2):
        if how == "groups":  # a channel reads its own group
            y = g.call(ops.conv2d, x, g.constant(whole(4, 2, 1, 1)), groups=2)
        else:
            y = g.call(ops.matmul, x, g.constant(whole(6, 3)))
        if how == "place":  # what is added tells rows apart, not columns
            y = g.call(ops.add, y, g.constant(whole(5, 1)))
        g.output(y)
        if how == "output":
            g.output(g.call(ops.relu, y))
    found = names(g)
    assert found.count("Slice") == (0 if how == "groups" else 2)
    assert "groups" not in how or found == ["conv2d", "conv2d"]
    same(g, whole(2, 4, 5, 6))
