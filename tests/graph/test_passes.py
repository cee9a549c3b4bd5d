"""Passes: what each does to a small graph, and the laws of all of them on random ones."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

from tensorlang import ops, te
from tensorlang.errors import DeclareError
from tensorlang.graph import Graph, passes
from tensorlang.graph.passes import PASSES, simplified
from tensorlang.graph.passes.scales import scale_weights
from tests.graph import checks
from tests.graph.random_graphs import reference

RNG = np.random.default_rng(0)


def whole(*shape):
    return RNG.integers(-2, 3, shape).astype("float32")


def test_every_pass_is_in_the_list():
    """A public function from a program, with a target or without, to a program, in a file of passes, is one."""
    made = {
        x.name: x.args.args
        for p in Path(passes.__file__).parent.glob("*.py")
        for x in ast.parse(p.read_text(encoding="utf-8")).body
        if isinstance(x, ast.FunctionDef)
        and not x.name.startswith("_")
        and [ast.unparse(a.annotation or a) for a in x.args.args] in (["Program"], ["Program", "Target"])
        and ast.unparse(x.returns or x) == "Program"
    }
    listed = {p.function.__name__ for p in PASSES}
    assert made.keys() == listed, (
        f"{made.keys() ^ listed}: a pass is a function in graph/passes/, a row in PASSES"
    )
    for p in PASSES:
        assert p.by_target == (len(made[p.function.__name__]) == 2), (
            f"{p.name}: by_target says whether it takes one"
        )


def names(g, **options):
    return [n.op for n in simplified(g, **options).nodes]


def test_what_no_output_needs_is_left_out():
    g = Graph()
    x = g.input(("n", 4), name="x")
    g.call(ops.exp, g.call(ops.relu, x))
    g.output(g.call(ops.abs, x))
    assert names(g, level=1) == ["abs"] and names(g, level=0) == ["relu", "exp", "abs"]
    assert names(g, without=["dead"]) == ["relu", "exp", "abs"]
    assert len(g.nodes) == 3  # the graph itself is not touched


def test_equal_operators_on_equal_values_are_one():
    g = Graph()
    x = g.input(("n", 4), name="x")
    a, b = (g.call(ops.add, x, g.constant(np.float32(1))) for _ in range(2))
    c = g.call(ops.add, x, g.constant(np.float32(-0.0)))
    d = g.call(ops.add, x, g.constant(np.float32(0.0)))
    g.output(g.call(ops.multiply, g.call(ops.multiply, a, b), g.call(ops.multiply, c, d)))
    assert names(g) == ["add", "add", "add", "multiply", "multiply", "multiply"]


def test_functions_of_arrays_are_neither_merged_nor_folded():
    g = Graph()
    c = g.constant(whole(4))
    a, b = (g.host(lambda x: RNG.random(x.shape), [c], [((4,), "float64")], op="Random")[0] for _ in range(2))
    g.output(g.call(ops.subtract, a, b))
    assert names(g) == ["Random", "Random", "subtract"]


def test_operators_that_change_nothing_are_gone():
    g = Graph()
    x = g.input(("n", 4), name="x")
    y = g.call(ops.reshape, g.call(ops.transpose, x, axes=[0, 1]), shape=[x.shape[0], 4])
    g.output(g.call(ops.transpose, y))
    g.output(y)
    assert names(g) == ["transpose"]
    a = whole(3, 4)
    first, second = g.compile()(a)
    assert np.array_equal(first, a.T) and np.array_equal(second, a) and not np.shares_memory(second, a)


def test_constants_are_computed_once_unless_they_grow():
    g = Graph()
    x = g.input(("n", 4), name="x")
    w = g.call(ops.cast, g.constant(np.arange(4, dtype="int8")), dtype="float32")
    w = g.call(ops.add, w, g.constant(np.float32(1)))
    g.output(g.call(ops.multiply, x, w))
    large = g.call(ops.broadcast_to, g.constant(np.float32(1)), shape=[3000, 3000])
    g.output(g.call(ops.max, large))
    assert names(g) == ["multiply", "broadcast_to", "max"]
    assert np.array_equal(g.compile()(np.ones((2, 4), "float32"))[0], [[1, 2, 3, 4]] * 2)


def test_scales_of_channels_go_into_weights():
    g = Graph()
    x = g.input(("n", 3, "h", "w"), name="x")
    mean, var, scale, bias = whole(4), np.abs(whole(4)) + 1, whole(4) + 3, whole(4)
    y = g.call(ops.conv2d, x, g.constant(whole(4, 3, 3, 3)), padding=1)
    y = g.call(ops.batch_norm, y, *map(g.constant, (mean, var, scale, bias)), op="norm")
    y = g.call(ops.multiply, y, g.constant(whole(1, 4, 1, 1)))
    g.output(g.call(ops.add, y, g.constant(np.float32(2))))
    assert names(g) == ["conv2d", "Shift"] and len(names(g, without=["scales"])) == 4
    a = whole(2, 3, 5, 6)
    np.testing.assert_allclose(g.compile()(a), g.compile(level=0)(a), rtol=1e-5, atol=1e-5)


def test_a_factor_of_one_is_one():
    """Found as a difference of rounded sums it was not, and the pass never came to rest."""
    g = Graph()
    x, w = g.input(("n", 4), name="x"), whole(4, 4)
    g.output(
        g.call(ops.add, g.call(ops.matmul, x, g.constant(w)), g.constant(np.float32([0.1, 100.3, -7, 1e5])))
    )
    assert scale_weights(g) is g
    g.output(g.call(ops.multiply, g.outputs.pop(), g.constant(np.float32(3))))
    once = scale_weights(g)
    assert [n.op for n in once.nodes] == ["matmul", "Shift"] and scale_weights(once) is once
    assert np.array_equal(once.nodes[0].inputs[1].data, w * 3)


@pytest.mark.parametrize("behind", [ops.relu, lambda y: ops.multiply(y, y), lambda y: ops.cast(y, "int32")])
def test_what_is_no_scale_stays(behind):
    g = Graph()
    x = g.input(("n", 4), name="x")
    g.output(g.call(behind, g.call(ops.matmul, x, g.constant(whole(4, 4))), op="behind"))
    assert names(g) == ["matmul", "behind"]


def numbered_rows(y):
    return te.compute(y.shape, lambda i, j: y[i, j] * te.cast("float32", i + 1))


@pytest.mark.parametrize(
    "behind",
    [
        lambda y: ops.flip(y, axis=0),
        lambda y: ops.flip(y, axis=1),
        lambda y: ops.strided_slice(y, begin=[None], end=[None], strides=[-1], axes=[0]),
        lambda y: te.compute(y.shape, lambda i, j: y[i, 3 - j] * 2.0),
        numbered_rows,
    ],
)
def test_what_moves_elements_is_no_scale(behind):
    """A flip behind a product was taken for a multiplication by one, and was gone."""
    g, w, a = Graph(), whole(4, 4), whole(3, 4)
    g.output(g.call(behind, g.call(ops.matmul, g.input(("n", 4), name="x"), g.constant(w)), op="behind"))
    assert names(g) == ["matmul", "behind"]
    assert np.array_equal(g.compile(cache=False, workers=1)(a), reference(g, [a])[0])


def test_a_bias_of_rows_is_not_scaled_by_column():
    def product(x, w, b):
        k = te.reduce_axis((0, 4))
        y = te.compute((4, 4), lambda i, j: te.sum(x[i, k] * w[k, j], axis=k))
        return te.compute((4, 4), lambda i, j: y[i, j] + b[i])

    g, a = Graph(), whole(4, 4)
    y = g.call(product, g.input((4, 4), name="x"), g.constant(whole(4, 4)), g.constant(whole(4)))
    g.output(g.call(ops.multiply, y, g.constant(np.float32([1, 2, 3, 4]))))
    assert np.array_equal(reference(simplified(g), [a])[0], reference(g, [a])[0])


def test_a_weight_that_is_squared_is_not_scaled():
    def product(x, w):
        k = te.reduce_axis((0, 4))
        return te.compute((3, 4), lambda i, j: te.sum((x[i, k] * w[k, j]) * w[k, j], axis=k))

    g, a = Graph(), whole(3, 4)
    y = g.call(product, g.input((3, 4), name="x"), g.constant(whole(4, 4)))
    g.output(g.call(ops.multiply, y, g.constant(np.float32(3))))
    assert np.array_equal(reference(simplified(g), [a])[0], reference(g, [a])[0])


def test_a_weight_of_two_readers_serves_both():
    g = Graph()
    x, w = g.input(("n", 4), name="x"), g.constant(whole(4, 4))
    y = g.call(ops.multiply, g.call(ops.matmul, x, w), g.constant(np.float32(2)))
    g.output(g.call(ops.add, y, g.call(ops.matmul, g.call(ops.relu, x), w)))
    a = whole(3, 4)
    assert np.array_equal(g.compile()(a), 2 * a @ w.data + np.maximum(a, 0) @ w.data)


def test_an_unknown_name_is_refused():
    g = Graph()
    g.output(g.call(ops.relu, g.input((4,), name="x")))
    with pytest.raises(DeclareError, match="there is no pass 'fusion'"):
        simplified(g, without=["fusion"])


@pytest.mark.parametrize("seed", range(24))
def test_passes_keep_what_random_graphs_compute(seed):
    checks.passes(seed)


@pytest.mark.parametrize("seed", [3, 10, 15])
def test_every_level_computes_the_same(seed):
    checks.compiled(seed, levels=(0, 1, 2))


@pytest.mark.parametrize("name", checks.WITHOUT)
def test_each_pass_can_be_left_out(name):
    checks.compiled(7, levels=(2,), without=(name,))


@pytest.mark.fuzz
@pytest.mark.parametrize(
    "check, first, count",
    [("passes", 100_000, 20_000), ("compiled", 200_000, 2_000), ("switches", 300_000, 1_200)],
)
def test_many_random_graphs(check, first, count):
    assert checks.main([check, "--seed", str(first), "--count", str(count)]) == 0


def test_hooks_see_each_pass():
    g = Graph()
    x = g.input(("n", 4), name="x")
    g.output(g.call(ops.reshape, x, shape=x.shape))
    seen = []
    simplified(
        g, hooks=[lambda name, before, after: seen.append((name, len(before.nodes), len(after.nodes)))]
    )
    assert seen[:2] == [("dead", 1, 1), ("identities", 1, 0)]
    # the second time only what has not seen the graph as it is now
    assert [name for name, *_ in seen] == [*(p.name for p in PASSES), "dead"]


def requantised(scales, zeros, again_scales, again_zeros, kind="uint8"):
    g = Graph()
    x = g.input((2, "n", 4), kind, "x")
    of, zero = g.constant(np.asarray(scales, "float32")), g.constant(np.asarray(zeros, kind))
    again = g.constant(np.asarray(again_scales, "float32")), g.constant(np.asarray(again_zeros, kind))
    floats = g.call(ops.dequantize_linear, x, of, zero, axis=2)
    g.output(g.call(ops.quantize_linear, floats, *again, axis=2))
    return g


@pytest.mark.parametrize("kind", ["uint8", "int8"])
def test_bytes_that_are_quantised_again_by_the_same_numbers_stay(kind):
    """The quotient of a product need not be exact: it is rounded."""
    for scale in (0.0123, 1 / 3, 7e-6):
        assert names(requantised(scale, 13, scale, 13, kind), level=1) == []
    assert names(requantised([0.5], [0], 0.5, 0, kind), level=1) == []


def test_bytes_that_are_quantised_by_other_numbers_are_computed():
    both = ["dequantize_linear", "quantize_linear"]
    assert names(requantised(0.0123, 13, 0.0124, 13)) == both
    assert names(requantised(0.0123, 13, 0.0123, 14)) == both
    rows = [0.1, 0.2, 0.3, 0.4]
    assert names(requantised(rows, [0] * 4, rows, [0] * 4)) == both  # not by single numbers


def test_a_vector_along_another_axis_is_no_shift_of_the_channels():
    """Though it has as many elements as there are channels."""

    def by_rows(x, v):
        return te.compute(x.shape, lambda n, c, i, j: x(n, c, i, j) + v(i))

    g = Graph()
    x = g.input((2, 4, 7, 7), name="x")
    y = g.call(ops.conv2d, x, g.constant(whole(7, 4, 3, 3)), g.constant(whole(7)), padding=1)
    g.output(g.call(by_rows, y, g.constant(np.arange(7, dtype="float32"))))
    assert names(g, without=["channels last", "winograd"]) == ["conv2d", "by_rows"]
    a = whole(2, 4, 7, 7)
    np.testing.assert_array_equal(g.compile()(a), g.compile(level=0)(a))


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_subnormal_weights_are_zero(kind):
    """The weights of a sum of products alone, on a copy: 1.0 and the smallest normal number stay."""
    tiny = np.finfo(kind).tiny
    w = np.array([[1, tiny], [tiny / 2, -tiny / 4], [0, -tiny], [np.inf, np.nan]], kind)
    g = Graph()
    x, weight = g.input(("n", 4), kind, name="x"), g.constant(w, name="w")
    g.output(g.call(ops.matmul, x, weight))
    (n,) = simplified(g).nodes
    (left,) = [v.data for v in n.reads if v.data is not None]
    np.testing.assert_array_equal(left, [[1, tiny], [0, 0], [0, -tiny], [np.inf, np.nan]])
    assert w[1, 0] == tiny / 2 and len(simplified(g, without=["subnormals"]).nodes) == 1


def test_subnormal_terms_stay():
    g = Graph()
    x = g.input(("n", 4), name="x")
    small = np.full(4, np.finfo("float32").tiny / 2, "float32")
    g.output(g.call(ops.add, x, g.constant(small)))
    (n,) = simplified(g).nodes
    assert any(v.data is not None and (v.data == small).all() for v in n.reads)
