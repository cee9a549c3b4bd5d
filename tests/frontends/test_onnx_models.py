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


@pytest.mark.parametrize("op", ["Sum", "Max", "Concat"])
def test_more_inputs_than_a_kernel_takes(op):
    names = [f"p{i}" for i in range(300)]
    attrs = {"axis": 1} if op == "Concat" else {}
    m = model(
        [helper.make_node(op, names, ["y"], **attrs)],
        [(n, TensorProto.FLOAT, ["n", 2]) for n in names],
        [("y", TensorProto.FLOAT, None)],
    )
    arrays = [np.full((2, 2), i % 7, "float32") for i in range(300)]
    wanted = {"Sum": sum(arrays), "Max": np.full((2, 2), 6), "Concat": np.concatenate(arrays, 1)}[op]
    for level in (0, 2):
        assert np.array_equal(tl.load_onnx(m).compile(level=level)(*arrays), wanted)


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


@pytest.mark.parametrize(
    ("kind", "offset", "told", "mapped"),
    [
        ("float", 0, True, True),
        ("float", 4, False, True),
        ("float16", 66, True, True),
        ("bfloat16", 8, True, True),
        ("int64", 4, True, False),
        ("bool", 0, True, False),
        ("int4", 0, True, False),
    ],
)
def test_weights_in_another_file_stay_there(tmp_path, kind, offset, told, mapped):
    """They are mapped where their elements are as they lie in memory, read otherwise."""
    w = np.array([[1, 0, 1], [0, 1, 1]] if kind == "bool" else [[1, -2, 3], [4, 5, -6]])
    tensor = helper.make_tensor("w", getattr(TensorProto, kind.upper()), w.shape, w.ravel())
    data = onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor)).raw_data
    (tmp_path / "weights").write_bytes(bytes(offset) + data)
    m = model(
        [
            helper.make_node("Cast", ["w"], ["f"], to=TensorProto.FLOAT),
            helper.make_node("Add", ["x", "f"], ["y"]),
        ],
        [("x", TensorProto.FLOAT, ["n", 3])],
        [("y", TensorProto.FLOAT, None)],
    )
    t = m.graph.initializer.add(name="w", data_type=tensor.data_type, dims=w.shape)
    t.data_location = TensorProto.EXTERNAL
    for k, v in {"location": "weights", "offset": offset, **({"length": len(data)} if told else {})}.items():
        t.external_data.add(key=k, value=str(v))
    (tmp_path / "m.onnx").write_bytes(m.SerializeToString())
    g = tl.load_onnx(tmp_path / "m.onnx")
    (found,) = (v.data for n in g.nodes for v in n.reads if v.data is not None)
    assert mapped == any(isinstance(a, np.memmap) for a in bases(found))
    assert not (mapped and found.flags.writeable)
    for level in (0, 2):
        assert np.array_equal(g.compile(level=level)(np.zeros((2, 3), "float32")), w)


def bases(a):
    """The arrays and buffers that an array is a view of."""
    while a is not None:
        yield a
        a = getattr(a, "base", None)


def test_an_engine_does_not_need_the_file_of_its_weights(tmp_path):
    """Not for kernels, functions of arrays and outputs: it may shrink, where reading a mapped page of it would
    end the process."""
    w, rows = np.arange(12, dtype="float32").reshape(4, 3), np.array([[0, 1], [1, 0]], "int64")
    m = model(
        [
            helper.make_node("MatMul", ["x", "w"], ["y"]),
            helper.make_node("NonZero", ["rows"], ["z"]),
            helper.make_node("Identity", ["w"], ["same"]),
        ],
        [("x", TensorProto.FLOAT, ["n", 4])],
        [("y", TensorProto.FLOAT, None), ("z", TensorProto.INT64, None), ("same", TensorProto.FLOAT, None)],
        {"w": w, "rows": rows},
    )
    path = tmp_path / "m.onnx"
    onnx.save(m, path, save_as_external_data=True, location="weights", size_threshold=0)
    engines = [tl.load_onnx(path).compile(level=level) for level in (0, 2)]
    (tmp_path / "weights").write_bytes(b"")
    for engine in engines:
        y, z, same = engine(np.ones((2, 4), "float32"))
        assert np.array_equal(y, np.ones((2, 4)) @ w) and np.array_equal(same, w)
        assert np.array_equal(z, np.array(np.nonzero(rows)))


@pytest.mark.parametrize(
    ("outputs", "nodes", "wanted"),
    [
        (["", "z"], [("Neg", "a", "b"), ("Abs", "b", "c")], {"z": np.abs}),  # b is read inside
        (["y", "z"], [("Neg", "a", "c")], {"y": lambda x: x, "z": np.negative}),  # a is handed on
        (["y"], [("Neg", "a", "b"), ("Abs", "b", "c")], {"y": np.negative}),
    ],
)
def test_outputs_of_functions_that_nobody_wants_or_that_are_inputs(outputs, nodes, wanted):
    named = ["b", "c"] if len(nodes) == 2 else ["a", "c"]
    body = [helper.make_node(op, [i], [o]) for op, i, o in nodes]
    own = helper.make_function("my", "F", ["a"], named, body, [helper.make_opsetid("", 17)])
    m = model(
        [helper.make_node("F", ["x"], outputs, domain="my")],
        [("x", TensorProto.FLOAT, ["n"])],
        [(n, TensorProto.FLOAT, None) for n in wanted],
    )
    m.opset_import.append(helper.make_opsetid("my", 1))
    m.functions.append(own)
    x = np.array([1, -2, 3], "float32")
    got = tl.load_onnx(m).compile().run({"x": x})
    assert all(np.array_equal(got[n], f(x)) for n, f in wanted.items())
