"""Files that are corrupt, cut short or made to harm: each is answered by one error of ours that says what is
wrong."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import numpy as np
import pytest

import tensorlang as tl

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

from tests.frontends.mutants import B, F, I, _f, answer, model, mutant  # noqa: E402

N = helper.make_node
X, Y = [("x", F, [2, 3])], [("y", F, None)]


def refused(source, pattern):
    with pytest.raises(tl.TensorLangError, match=pattern):
        tl.load_onnx(source)


# -- no models at all


@pytest.mark.parametrize("data", [b"", b"\0", b"hello world", bytes(1000), b"\xff" * 50, b"{}\n" * 10])
def test_bytes_that_are_no_model(data, tmp_path):
    refused(data, "no ONNX model|no graph")
    (tmp_path / "m.onnx").write_bytes(data)
    refused(tmp_path / "m.onnx", "no ONNX model|no graph")


@pytest.mark.parametrize("part", [b"Softplus", b"weight_7", b"value_in", b"axis"])
def test_names_that_are_no_text(part):
    node = N("Softmax", ["value_in"], ["y"], axis=1, name="Softplus")
    m = model([N("Add", ["x", "weight_7"], ["value_in"]), node], X, Y, {"weight_7": _f(3)})
    refused(m.SerializeToString().replace(part, b"\xff" * len(part)), "is not text in UTF-8")


def test_random_bytes():
    for seed in range(200):
        r = random.Random(seed)
        answer(r.randbytes(r.randrange(200)))


def test_things_that_are_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "pipe", "not a regular file")
    refused("/dev/zero", "not a regular file")
    refused(tmp_path, "not a regular file")
    for name in (tmp_path / "nothing.onnx", "a\0b", "x" * 5000):
        refused(name, "cannot be read")
    for source in (None, 3, [1]):
        refused(source, "takes a path, bytes or an onnx.ModelProto")


def test_no_graph_is_answered_twice_alike():
    m = model([N("Neg", ["x"], ["y"])], X, Y).SerializeToString()
    assert answer(m) == ""
    assert answer(m[: len(m) // 2])


# -- names


@pytest.mark.parametrize(
    ("nodes", "pattern"),
    [
        (
            [N("Add", ["x", "b"], ["a"]), N("Add", ["x", "a"], ["b"]), N("Neg", ["b"], ["y"])],
            "there is a cycle",
        ),
        ([N("Add", ["x", "y"], ["y"])], "there is a cycle"),
        ([N("Neg", ["nobody"], ["y"])], "reads 'nobody', which is not there"),
        ([N("Neg", ["x"], ["y"]), N("Abs", ["x"], ["y"])], "'y' is made in the graph 'g' more than once"),
        ([N("Neg", ["x"], ["x"]), N("Neg", ["x"], ["y"])], "'x' is made in the graph 'g' more than once"),
        ([N("Neg", ["x"], ["z"])], "has an output 'y' that no node makes"),
        ([N("Neg", ["x", "x"], ["y"])], "has 2 inputs, Neg has 1"),
        ([N("Add", ["x"], ["y"])], "has 1 inputs, Add has 2"),
        ([N("Concat", [], ["y"], axis=0)], "has 0 inputs, Concat has 1 or more"),
        ([N("Neg", ["x"], ["y", "z"])], "has 2 outputs, Neg has 1"),
        ([N("Concat", ["x"], ["y"])], "the attribute axis is missing"),
        ([N("Concat", ["x"], ["y"], axis="one")], "the attribute axis is 'one', not a whole number"),
        ([N("Transpose", ["x"], ["y"], perm=[0.5, 1.5])], "the attribute perm is .*, not a list of whole"),
        ([N("If", ["x"], ["y"], then_branch=3, else_branch=4)], "_branch is [34], not a graph"),
        ([N("Relu", [""], ["y"])], "Relu y: input 0 is left out, Relu needs it"),
        ([N("Constant", [], ["y"])], "Constant y has 0 attributes"),
        ([N("Scan", ["x"], ["y"], num_scan_inputs=1)], "the attribute body is missing"),
        ([N("Split", ["x"], ["y"], num_outputs=2**63 - 1)], "num_outputs is 9223372036854775807"),
        ([N("Transpose", ["x"], ["y"], perm=[0, 5])], "Transpose y"),
        ([N("Cast", ["x"], ["y"], to=99)], "Cast y"),
        ([N("FusedGelu", ["x"], ["y"], domain="nowhere")], "1 operator is not supported"),
        ([N("FusedMatMul", ["x"], ["y"], domain="com.microsoft")], "has 1 inputs"),
    ],
)
def test_nodes_that_do_not_fit(nodes, pattern):
    refused(model(nodes, X, Y), pattern)


def test_outputs_and_initialisers_that_stand_twice():
    m = model([N("Neg", ["x"], ["y"])], X, [*Y, *Y])
    refused(m, "'y' is an output of the graph 'g' more than once")
    m = model([N("Add", ["x", "c"], ["y"])], X, Y, {"c": _f(3)})
    m.graph.initializer.add().CopyFrom(m.graph.initializer[0])
    refused(m, "two initialisers of the graph 'g' have one name")


def test_a_branch_with_inputs_or_other_outputs():
    info = helper.make_tensor_value_info
    right = helper.make_graph([N("Neg", ["x"], ["r"])], "right", [], [info("r", F, None)])
    none = helper.make_graph([N("Neg", ["x"], ["r"])], "none", [], [])
    more = helper.make_graph([N("Neg", ["i"], ["r"])], "more", [info("i", F, None)], [info("r", F, None)])
    inputs = [*X, ("c", TensorProto.BOOL, [])]
    for other, pattern in ((none, "has 0 outputs, the node 1"), (more, "has inputs")):
        refused(model([N("If", ["c"], ["y"], then_branch=right, else_branch=other)], inputs, Y), pattern)


# -- numbers


@pytest.mark.parametrize(
    ("dims", "pattern"),
    [
        ([10**18], "elements"),
        ([2**40, 2**40], "elements"),
        ([0, 2**62], "elements"),
        ([-1], "negative"),
        ([4], "cannot be read"),
        ([2], "cannot be read"),
        ([3, 3], "cannot be read"),
    ],
)
def test_dims_that_the_data_does_not_have(dims, pattern):
    m = model([N("Add", ["x", "c"], ["y"])], X, Y, {"c": _f(3)})
    m.graph.initializer[0].dims[:] = dims
    refused(m, pattern)


def test_types_that_nobody_knows():
    m = model([N("Add", ["x", "c"], ["y"])], X, Y, {"c": _f(3)})
    m.graph.initializer[0].data_type = 99
    refused(m, "the constant 'c' cannot be read")
    refused(model([N("Neg", ["x"], ["y"])], [("x", 99, [2])], Y), "input x is of no declared type")


@pytest.mark.parametrize("version", [0, -1, -(2**63)])
def test_versions_that_are_none(version):
    m = model([N("Neg", ["x"], ["y"])], X, Y)
    m.opset_import[0].version = version
    refused(m, "the operator set 'ai.onnx' has the version")


def test_a_sparse_constant_of_absurd_size():
    m = model([N("Add", ["x", "c"], ["y"])], X, Y)
    s = m.graph.sparse_initializer.add()
    s.values.CopyFrom(onnx.numpy_helper.from_array(_f(1), "c"))
    s.indices.CopyFrom(onnx.numpy_helper.from_array(np.array([5]), "i"))
    for dims, pattern in (([10**18], "elements"), ([-3], "negative"), ([3], "out of bounds")):
        s.dims[:] = dims
        refused(m, pattern)


@pytest.mark.parametrize("n", [-3, 10**9, 10**18, 2**63 - 1])
@pytest.mark.parametrize(
    "nodes",
    [
        [N("Range", ["zero", "n", "one"], ["y"])],
        [N("ConstantOfShape", ["ns"], ["y"])],
        [N("Expand", ["x", "ns"], ["y"])],
        [N("Tile", ["x", "ns"], ["y"])],
        [N("Reshape", ["x", "ns"], ["y"])],
        [N("Gather", ["x", "n"], ["y"])],
        [N("TopK", ["x", "n1"], ["y", "at"])],
        [N("Split", ["x", "ns"], ["y", "z"])],
        [N("Unsqueeze", ["x", "n1"], ["y"])],
        [N("Pad", ["x", "pads"], ["y"])],
        [N("OneHot", ["i", "n", "x1"], ["y"])],
    ],
    ids=lambda nodes: nodes[0].op_type,
)
def test_numbers_from_nowhere(nodes, n):
    """An error, or an engine whose call says that there is not so much memory: no plain exception."""
    constants = {
        "n": np.array(n),
        "n1": np.array([n]),
        "ns": np.array([n, n]),
        "pads": np.array([n] * 4),
        "zero": np.array(0),
        "one": np.array(1),
        "x1": _f(2),
        "i": np.array([1]),
    }
    answer(model(nodes, X, [("y", F, None)], constants))


@pytest.mark.parametrize(
    "nodes",
    [
        [N("Tile", ["x", "r"], ["y"])],
        [N("Tile", ["x", "r"], ["a"]), N("Tile", ["a", "r"], ["y"])],
        [N("Concat", ["x"] * 4, ["a"], axis=0)]
        + [N("Concat", [f"{'a' * k}"] * 4, ["a" * (k + 1)], axis=0) for k in range(1, 20)]
        + [N("Neg", ["a" * 20], ["y"])],
    ],
    ids=("at once", "twice", "bit by bit"),
)
def test_known_sizes_beyond_32_bits(nodes):
    """They do not begin anew at 0, or below."""
    m = model(nodes, [("x", F, [65536])], Y, {"r": np.array([65536])})
    refused(m, "a size comes to .*, beyond int32")


# -- depth


def test_graphs_nested_2000_deep():
    m = model([N("Neg", ["x"], ["y"])], [*X, ("c", TensorProto.BOOL, [])], Y)
    branch = m.graph
    for _ in range(2000):
        node = branch.node.add()
        node.CopyFrom(N("If", ["c"], ["r"]))
        a = node.attribute.add()
        a.name, a.type = "then_branch", onnx.AttributeProto.GRAPH
        branch = a.g
    refused(m, "is in 50 others|no ONNX model")


def _calling(names):
    """A model of functions, each with nodes that call others."""
    domains = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]

    def nodes(called):
        ends = ["a", *(f"v{k}" for k in range(len(called) - 1)), "b"]
        pairs = zip(called, ends[:-1], ends[1:], strict=True)
        return [N(f, [i], [o], domain="" if f == "Neg" else "own") for f, i, o in pairs]

    made = [
        helper.make_function("own", f, ["a"], ["b"], nodes(called), domains) for f, called in names.items()
    ]
    return model([N(next(iter(names)), ["x"], ["y"], domain="own")], X, Y, (), made)


def test_functions_that_call_themselves():
    refused(_calling({"f": ["f"]}), "the function 'f' calls itself")
    refused(_calling({"f": ["g"], "g": ["Neg", "h"], "h": ["f"]}), "calls itself")


def test_functions_that_multiply():
    names = {f"f{k}": [f"f{k + 1}"] * 4 for k in range(40)}
    refused(_calling({**names, "f40": ["Neg"]}), "stands for .* nodes")


def test_a_long_chain_of_functions_is_no_mistake():
    names = {f"f{k}": [f"f{k + 1}"] for k in range(1500)}
    assert len(tl.load_onnx(_calling({**names, "f1500": ["Neg"]})).nodes) == 1


# -- data in other files


def _external(folder, location, **told):
    m = model([N("Add", ["x", "c"], ["y"])], X, Y, {"c": _f(3)})
    t = m.graph.initializer[0]
    t.ClearField("raw_data")
    t.data_location = TensorProto.EXTERNAL
    for k, v in {"location": location, **told}.items():
        t.external_data.add(key=k, value=str(v))
    (folder / "m.onnx").write_bytes(m.SerializeToString())
    return folder / "m.onnx"


def test_external_data_stays_in_the_folder(tmp_path):
    folder = tmp_path / "inside"
    folder.mkdir()
    secret = tmp_path / "secret"
    secret.write_bytes(_f(3).tobytes())
    (folder / "link").symlink_to(secret)
    (folder / "data").write_bytes(_f(3).tobytes())
    os.mkfifo(folder / "pipe")
    for location in (str(secret), "../secret", "link", "", "data/../../secret", str(folder / "data")):
        refused(_external(folder, location), "outside the folder of the model")
    for location in ("missing", "pipe"):
        refused(_external(folder, location), "which is not a file there")
    for told in ({"offset": 8}, {"length": 4}, {"offset": -4}, {"offset": 2**70}, {"length": "x"}):
        refused(_external(folder, "data", **told), "constant 'c'")
    (folder / "short").write_bytes(_f(2).tobytes())
    for told in ({}, {"offset": 2}, {"offset": 8}):
        refused(_external(folder, "short", **told), "constant 'c'")
    assert tl.load_onnx(_external(folder, "data")).nodes
    refused(_external(folder, "data").read_bytes(), "bytes have no folder")


# -- anything else

WATCHED = """
import os, subprocess
from tests.frontends.watched import Den, Watch
den = Den()
watch = Watch([den.folder])
with watch:
    (den.folder / "data").read_bytes()
    os.rename(den.folder / "data", den.folder / "moved")
print(len(watch.strays))
with watch:
    for harm in (
        lambda: open(den.folder / "link"),
        lambda: open(den.folder / "../secret"),
        lambda: open("/etc/passwd"),
        lambda: open("/dev/zero"),
        lambda: open(os.__file__, "a"),
        lambda: os.rename(den.folder / "moved", den.folder / "../moved"),
        lambda: os.remove(den.secret),
        lambda: subprocess.Popen(["/nothing/there"]),
    ):
        before = len(watch.strays)
        try:
            harm()
        except OSError:
            pass
        print(len(watch.strays) > before)
den.end()
"""


def test_what_watches_sees_files_elsewhere():
    done = subprocess.run([sys.executable, "-c", WATCHED], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0"] + ["True"] * 8


@pytest.mark.parametrize("block", range(4))
def test_mutants_of_models(block):
    for seed in range(15 * block, 15 * block + 15):
        answer(mutant(seed), 2 * (seed % 2))


@pytest.mark.fuzz
@pytest.mark.parametrize("block", range(40))
def test_many_mutants_of_models(block):
    for seed in range(1000 + 50 * block, 1050 + 50 * block):
        answer(mutant(seed), 2 * (seed % 2))


def test_a_condition_that_holds_behind_the_end():
    """Compress: what is kept must be there; a condition that is longer and does not hold there is none."""
    m = model([N("Compress", ["x", "keep"], ["y"], axis=0)], [("x", F, ["n"]), ("keep", B, ["m"])], Y)
    engine = tl.load_onnx(m).compile()
    x, keep = _f(2), np.array([True, False, True])
    with pytest.raises(tl.CallError, match=r"the condition keeps element 2 of 2\n.*3 long.*\n.*at most 2"):
        engine(x, keep)
    assert np.array_equal(engine(x, keep[:2]), x[:1]) and np.array_equal(engine(x, keep[[0, 1, 1]]), x[:1])
