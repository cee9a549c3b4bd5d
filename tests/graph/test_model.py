"""Parts of graphs, other outputs, other names of sizes, operators of users."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.graph.model import _target


@pytest.fixture(scope="module")
def chain():
    g = tl.Graph("chain")
    x, y = g.input(("n", "m"), "float32", "x"), g.input(("n", "m"), "float32", "y")
    a = g.call(ops.add, x, y, outputs=["a"])
    b = g.call(ops.multiply, a, a, outputs=["b"])
    g.output(g.call(ops.subtract, b, x, outputs=["c"]), "out")
    return g


X, Y = np.full((2, 3), 3, "float32"), np.full((2, 3), 2, "float32")


def test_any_value_is_an_output(chain):
    engine = chain.compile(outputs=["b", "out", "x", "a"])
    b, out, x, a = engine(X, Y)
    assert (a == 5).all() and (b == 25).all() and (out == 22).all() and (x == 3).all()
    assert engine.output_names == ["b", "out", "x", "a"]


def test_a_part_of_a_graph(chain):
    part = chain.subgraph(["a", "x"], ["out"])
    assert [n.op for n in part.nodes] == ["multiply", "subtract"]
    assert (part.compile()(Y, X) == 1).all()
    assert [v.name for v in chain.subgraph(None, ["a"]).inputs] == ["x", "y"]
    assert len(chain.nodes) == 3 and [v.name for v in chain.inputs] == ["x", "y"]


def test_parts_that_there_are_not(chain):
    for call, says in (
        (lambda: chain.subgraph(None, ["d"]), "no value 'd'"),
        (lambda: chain.subgraph(["a"], ["out"]), "needs x too"),
        (lambda: chain.compile(outputs=["ou"]), "one of out"),
    ):
        with pytest.raises(tl.DeclareError, match=says):
            call()


def test_sizes_get_other_names(chain):
    g = chain.rename_dims({"n": "rows"})
    assert "x: float32[rows, m]" in str(g) and "[n, m]" in str(chain)
    with pytest.raises(tl.CallError, match="declared \\(rows, m\\)"):
        g.compile()(X, Y[:1].copy())
    assert "[lines, m]" in str(g.rename_dims({"rows": "lines"}))
    for names, says in (({"k": "a"}, "k is not an open size"), ({"n": "m"}, "two m")):
        with pytest.raises(tl.DeclareError, match=says):
            chain.rename_dims(names)


def test_a_function_of_tensors_is_traced():
    """Operators become nodes wherever tensors stand among their arguments; sizes can be fixed afterwards."""

    def net(x, w):
        a, b = ops.split(relu(ops.matmul(x, w)), 2, 1)
        c = ops.concatenate([b, a], axis=1)
        e = ops.einsum("ij,jk->ik", c - x, w)
        return -ops.reshape(e, (x.shape[0], 2, 4)), 2.0 - c

    relu, w = ops.relu, np.arange(64, dtype="float32").reshape(8, 8) % 5 - 2
    x = te.placeholder((te.dim("n"), 8), name="x")
    g = tl.Graph.trace(net, x, w)
    wanted = [
        "matmul",
        "relu",
        "split",
        "concatenate",
        "subtract",
        "einsum",
        "reshape",
        "negative",
        "subtract",
    ]
    assert [n.op for n in g.nodes] == wanted
    a = np.arange(24, dtype="float32").reshape(3, 8) % 7 - 3
    h = np.maximum(a @ w, 0)
    c = np.concatenate([h[:, 4:], h[:, :4]], 1)
    for engine in (g.compile(level=0), g.compile(), g.compile(profile={"n": 3})):
        first, second = engine(a)
        assert np.array_equal(first, -((c - a) @ w).reshape(3, 2, 4))
        assert np.array_equal(second, 2 - c)


def test_what_declares_by_itself_is_traced_as_one_node():
    x = te.placeholder((te.dim("n"), 2), name="x")
    twice = lambda x: te.compute(x.shape, lambda i, j: x[i, j] * 2, name="twice")
    g = tl.Graph.trace(lambda x: ops.relu(twice(ops.negative(x))), x, name="own")
    assert len(g.nodes) == 1
    a = np.array([[1, -2]], "float32")
    assert np.array_equal(g.compile()(a), np.maximum(-2 * a, 0))
    with pytest.raises(tl.DeclareError, match="input 0 is int"):
        tl.Graph.trace(ops.relu, 3)
    with pytest.raises(tl.DeclareError, match="multiplied by"):
        tl.Graph.trace(lambda x: ops.matmul(x, x), x)
    assert tl.Graph.trace(ops.relu, x).nodes[0].op == "relu"


def test_an_operator_of_a_user():
    onnx = pytest.importorskip("onnx")
    helper, table = onnx.helper, __import__("tensorlang.frontends.onnx.table", fromlist=["OPERATORS"])

    @tl.onnx_op("tests.domain", "Twice")
    def twice(x, *, plus=0.0):
        return ops.add(ops.add(x, x), plus)

    try:
        infos = [helper.make_tensor_value_info(n, 1, ["n"]) for n in "xy"]
        node = helper.make_node("Twice", ["x"], ["y"], domain="tests.domain", plus=1.0)
        graph = helper.make_graph([node], "g", infos[:1], infos[1:])
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid("tests.domain", 1)]
        engine = tl.load_onnx(helper.make_model(graph, opset_imports=opsets)).compile()
        assert np.array_equal(engine(np.arange(3, dtype="float32")), [1, 3, 5])
    finally:
        del table.OPERATORS["tests.domain", "Twice"]


def test_a_copy_is_a_graph_of_its_own_and_compiling_changes_none():
    g = tl.Graph()
    x = g.input(("n",), "float32", "x")
    h = g.call(ops.add, g.call(ops.exp, x), g.constant(np.zeros(1, "float32")))
    g.output(g.call(ops.relu, h), "y")
    before, text = list(g.nodes), str(g)
    for other in (copy.copy(g), copy.deepcopy(g), g.rename_dims({"n": "rows"})):
        assert other is not g
        other.output(h, "z")
        other.call(ops.relu, x)
    for level in (0, 1, 2):
        g.compile(level=level, workers=1)
    assert g.nodes == before and str(g) == text and g.output_names == ["y"]


def test_kernels_are_made_for_as_many_threads_as_are_set():
    """As those of ``tl.compile``; they were made for all cores, and one thread got the schedules of two."""
    threads = tl.num_threads()
    try:
        tl.set_num_threads(1)
        assert _target(None).num_cores == 1
        assert _target("llvm -mcpu=znver3 -num-cores=8").num_cores == 8
    finally:
        tl.set_num_threads(threads)
    assert _target(None).num_cores == min(threads, tl.Target.host().num_cores)
