"""Tensors made of nothing or of a shape: random numbers, dropout, ranges."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tensorlang as tl

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from .test_onnx_models import model  # noqa: E402


def engine(node: onnx.NodeProto, *inputs: tuple, outputs: tuple = ("y",)) -> tl.Engine:
    return tl.load_onnx(model([node], inputs, [(n, 1, None) for n in outputs])).compile(level=0)


X = ("x", TensorProto.FLOAT, ["n", 1000])
Y = ("y", TensorProto.FLOAT, None)


def test_random_numbers_have_their_distribution_and_follow_the_seed():
    x = np.zeros((3, 1000), "float32")
    normal = engine(helper.make_node("RandomNormalLike", ["x"], ["y"], mean=2.0, scale=3.0, seed=7.0), X)(x)
    assert normal.shape == x.shape and abs(normal.mean() - 2) < 0.2 and abs(normal.std() - 3) < 0.2
    again = engine(helper.make_node("RandomNormalLike", ["x"], ["y"], mean=2.0, scale=3.0, seed=7.0), X)
    assert np.array_equal(again(x), normal)
    uniform = engine(
        helper.make_node("RandomUniform", [], ["y"], low=1.0, high=3.0, shape=[20, 100], dtype=11)
    )()
    assert uniform.dtype == np.float64 and uniform.min() >= 1 and uniform.max() < 3
    assert abs(uniform.mean() - 2) < 0.1


def test_random_numbers_without_a_seed_differ_from_call_to_call():
    f = engine(helper.make_node("RandomUniformLike", ["x"], ["y"]), X)
    x = np.zeros((1, 1000), "float32")
    assert not np.array_equal(f(x), f(x))


def test_classes_are_drawn_by_their_probabilities():
    p = np.array([[0.1, 0.9], [0.75, 0.25]])
    f = engine(
        helper.make_node("Multinomial", ["x"], ["y"], sample_size=4000, seed=1.0),
        ("x", TensorProto.DOUBLE, [2, 2]),
    )
    found = f(np.log(p))
    assert found.dtype == np.int32
    assert np.allclose(found.mean(1), p[:, 1], atol=0.03)
    coin = engine(helper.make_node("Bernoulli", ["x"], ["y"], seed=1.0), X)(
        np.full((4, 1000), 0.25, "float32")
    )
    assert set(np.unique(coin)) == {0, 1} and abs(coin.mean() - 0.25) < 0.03


def test_dropout_keeps_the_mean_and_tells_what_it_dropped():
    node = helper.make_node("Dropout", ["x", "ratio", "training"], ["y", "mask"], seed=3)
    f = engine(
        node, X, ("ratio", TensorProto.FLOAT, []), ("training", TensorProto.BOOL, []), outputs=("y", "mask")
    )
    x = np.ones((2, 1000), "float32")
    y, mask = f(x, np.float32(0.75), np.bool_(True))
    assert np.array_equal(y, np.where(mask, 4, 0)) and abs(mask.mean() - 0.25) < 0.05
    y, mask = f(x, np.float32(0.75), np.bool_(False))
    assert np.array_equal(y, x) and mask.all()


def test_a_range_over_sizes_stays_open():
    nodes = [
        helper.make_node("Size", ["x"], ["n"]),
        helper.make_node("Constant", [], ["zero"], value_int=0),
        helper.make_node("Constant", [], ["step"], value_int=3),
        helper.make_node("Range", ["zero", "n", "step"], ["y"]),
    ]
    m = model(nodes, [("x", TensorProto.FLOAT, ["n", 4])], [("y", TensorProto.INT64, None)])
    graph = tl.load_onnx(m)
    assert graph.rest is None
    f = graph.compile(level=0)
    for n in (1, 5):
        assert np.array_equal(f(np.zeros((n, 4), "float32")), np.arange(0, 4 * n, 3))


def counted(kind):
    """A file that counts up to a number it is given, and adds the numbers to what has their size."""
    nodes = [
        helper.make_node("Range", ["zero", "n", "step"], ["r"]),
        helper.make_node("Shape", ["r"], ["s"]),
        helper.make_node("Expand", ["x", "s"], ["wide"]),
        helper.make_node("Cast", ["r"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["wide", "f"], ["y"]),
    ]
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    constants = {"zero": np.array(0, dtype), "step": np.array(2, dtype)}
    m = model(nodes, [("n", kind, []), ("x", TensorProto.FLOAT, [1])], [Y])
    m.graph.initializer.extend(numpy_helper.from_array(a, name) for name, a in constants.items())
    return m


@pytest.mark.parametrize("kind", [TensorProto.INT64, TensorProto.INT32, TensorProto.FLOAT])
def test_a_range_up_to_a_number_of_a_call_is_a_size_like_others(kind):
    """One graph for each number, however many there are, even none."""
    graph = tl.load_onnx(counted(kind))
    assert graph.rest is None and graph.nodes[0].kind == "host"
    f = graph.compile()
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    for n in (5, 8, 1, 0, -3):
        y = f(np.array(n, dtype), np.float32([10]))
        assert np.array_equal(y, 10 + np.arange(0, n, 2, "float32")), n


def test_a_range_of_floats_up_to_a_size_is_counted_in_whole_numbers():
    """What exporters write for a mask: the size cast to the type of the mask, then a range of it."""
    nodes = [
        helper.make_node("Size", ["x"], ["n"]),
        helper.make_node("Cast", ["n"], ["stop"], to=TensorProto.FLOAT),
        helper.make_node("Constant", [], ["zero"], value_float=0.0),
        helper.make_node("Constant", [], ["one"], value_float=1.0),
        helper.make_node("Range", ["zero", "stop", "one"], ["r"]),
        helper.make_node("Mul", ["x", "r"], ["y"]),
    ]
    graph = tl.load_onnx(model(nodes, [("x", TensorProto.FLOAT, ["n"])], [Y]))
    assert graph.rest is None and not any(n.kind == "host" for n in graph.nodes)
    x = np.random.default_rng(0).standard_normal(7).astype("float32")
    assert np.array_equal(graph.compile()(x), x * np.arange(7, dtype="float32"))


def test_a_range_of_a_call_that_cannot_be_is_an_error_of_the_call():
    nodes = [helper.make_node("Range", ["a", "b", "c"], ["y"])]
    f = tl.load_onnx(
        model(nodes, [(k, TensorProto.INT64, []) for k in "abc"], [("y", TensorProto.INT64, None)])
    ).compile()
    assert f(np.int64(9), np.int64(0), np.int64(-4)).tolist() == [9, 5, 1]
    for numbers, message in (((0, 5, 0), "^Range y: .* no end"), ((0, 10**18, 1), "^Range y: .* memory")):
        with pytest.raises(tl.TensorLangError, match=message):
            f(*map(np.int64, numbers))


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "int16"])
def test_a_range_of_every_type_that_onnx_has_for_it(kind):
    """bfloat16 is no float to numpy: ends of a call were counted as whole numbers."""
    t = helper.np_dtype_to_tensor_dtype(np.dtype(kind if kind != "bfloat16" else ml_dtypes.bfloat16))
    nodes = [helper.make_node("Range", ["a", "b", "c"], ["y"])]
    f = tl.load_onnx(model(nodes, [(k, t, []) for k in "abc"], [("y", t, None)])).compile()
    numpy = helper.tensor_dtype_to_np_dtype(t)
    found = f(*(np.array(n, numpy) for n in (1, 9, 3)))
    assert found.dtype == numpy and found.astype(float).tolist() == [1, 4, 7]
