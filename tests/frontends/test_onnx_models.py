"""ONNX models made here, imported and run, beside numpy."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402


def model(nodes, inputs, outputs, constants=(), opset=17):
    """A ModelProto: inputs and outputs are (name, type, shape), constants a mapping of arrays."""
    infos = [[helper.make_tensor_value_info(*x) for x in xs] for xs in (inputs, outputs)]
    graph = helper.make_graph(
        nodes, "g", *infos, [numpy_helper.from_array(a, n) for n, a in dict(constants).items()]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def test_a_reshape_by_its_own_shape_stays_open():
    """The target follows from sizes: no value need be known, and every length is served."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Unsqueeze", ["n", "axes"], ["n1"]),
        helper.make_node("Concat", ["n1", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["y"]),
    ]
    constants = {"zero": np.array(0), "axes": np.array([0]), "rest": np.array([2, -1])}
    m = model(nodes, [("x", TensorProto.FLOAT, ["n", 6])], [("y", TensorProto.FLOAT, None)], constants)
    graph = tl.load_onnx(m)
    assert graph.rest is None
    engine = graph.compile()
    for n in (1, 4):
        x = np.arange(6 * n, dtype="float32").reshape(n, 6)
        assert np.array_equal(engine(x), x.reshape(n, 2, 3))


def test_a_reshape_by_an_input_is_made_for_each_value():
    m = model(
        [helper.make_node("Reshape", ["x", "s"], ["y"]), helper.make_node("Neg", ["y"], ["z"])],
        [("x", TensorProto.FLOAT, ["n"]), ("s", TensorProto.INT64, [2])],
        [("z", TensorProto.FLOAT, None)],
    )
    engine = tl.load_onnx(m).compile()
    x = np.arange(12, dtype="float32")
    for target in ([3, 4], [2, -1], [3, 4]):
        assert np.array_equal(engine(x, np.array(target)), -x.reshape(target))


def test_the_branches_of_an_if_may_differ_in_rank():
    def branch(name, node):
        return helper.make_graph(
            [node], name, [], [helper.make_tensor_value_info("r", TensorProto.FLOAT, None)]
        )

    then = branch("then", helper.make_node("Neg", ["x"], ["r"]))
    other = branch("else", helper.make_node("ReduceSum", ["x"], ["r"], keepdims=0))
    m = model(
        [helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)],
        [("x", TensorProto.FLOAT, [2, 3]), ("c", TensorProto.BOOL, [])],
        [("y", TensorProto.FLOAT, None)],
    )
    engine = tl.load_onnx(m).compile()
    x = np.arange(6, dtype="float32").reshape(2, 3)
    assert np.array_equal(engine(x, np.array(True)), -x)
    assert np.array_equal(engine(x, np.array(False)), x.sum())


def test_missing_operators_are_told_at_once():
    nodes = [helper.make_node("Nope", ["x"], ["y"]), helper.make_node("Never", ["y"], ["z"])]
    m = model(nodes, [("x", TensorProto.FLOAT, [2])], [("z", TensorProto.FLOAT, None)])
    with pytest.raises(tl.TensorLangError, match=r"2 operators are not supported: Nope, Never"):
        tl.load_onnx(m)


def test_what_a_file_says_of_itself_is_kept():
    m = model([helper.make_node("Neg", ["x"], ["y"])], [("x", 1, [2])], [("y", 1, [2])])
    helper.set_model_props(m, {"character": "a\nb"})
    assert tl.load_onnx(m).metadata == {"character": "a\nb"}


def test_what_is_not_zero_has_a_size_of_its_own_and_others_read_it():
    m = model(
        [helper.make_node("NonZero", ["x"], ["p"]), helper.make_node("Neg", ["p"], ["y"])],
        [("x", TensorProto.FLOAT, ["n", 3])],
        [("y", TensorProto.INT64, None)],
    )
    engine = tl.load_onnx(m).compile()
    for x in (np.eye(3, dtype="float32"), np.zeros((2, 3), "float32"), np.ones((5, 3), "float32")):
        assert np.array_equal(engine(x), -np.array(np.nonzero(x)))
