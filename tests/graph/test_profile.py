"""Bounds of open sizes: checked at calls, numbers where there is one value, memory planned at the largest."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops

WEIGHTS = np.random.default_rng(0).integers(-1, 2, (4, 24, 24)).astype("float32")


@pytest.fixture(scope="module")
def layers():
    """Four layers, with a row of sums at the end."""
    g = tl.Graph("layers")
    x = h = g.input(("rows", 24), "float32", "x")
    for w in WEIGHTS:
        h = g.call(
            ops.reshape, g.call(ops.relu, g.call(ops.matmul, h, g.constant(w))), shape=[x.shape[0], -1]
        )
    g.output(g.call(ops.transpose, h, axes=[1, 0]), "y")
    return g


def expected(a):
    for w in WEIGHTS:
        a = np.maximum(a @ w, 0)
    return a.T


def rows(n):
    return np.random.default_rng(n).integers(-2, 3, (n, 24)).astype("float32")


@pytest.fixture(scope="module")
def bounded(layers):
    return layers.compile(profile={"rows": (1, 4, 16)})


def test_sizes_within_are_served_and_others_refused(bounded):
    for n in (1, 5, 16):
        assert np.array_equal(bounded(rows(n)), expected(rows(n)))
    for n, says in ((0, "rows = 0 is too small"), (17, "rows = 17 is too large")):
        with pytest.raises(tl.CallError, match=says):
            bounded(rows(n))


def test_memory_is_planned_once_at_the_largest(bounded, tmp_path):
    bounded.save(tmp_path / "e.engine")
    for engine in (bounded, tl.Engine.load(tmp_path / "e.engine")):
        (run,) = engine.steps
        plans = [run.planned((n,)) for n in (1, 7, 16)]
        assert {p.arena for p in plans} == {2 * 16 * 24 * 4}  # two layers live at once
        assert len({tuple(tuple(s.buffers) for s in p.steps) for p in plans}) == 1
        assert np.array_equal(engine(rows(7)), expected(rows(7)))


def test_one_value_is_a_number_in_the_graph(layers):
    for profile in ({"rows": 8}, {"x": [8, 24]}, {"x": [(8, 8), None]}, {"rows": np.int64(8)}):
        g = layers.specialised(profile)
        assert not g.dims and all(n.attrs.get("shape", [8, -1]) == [8, -1] for n in g.nodes)
    engine = g.compile()
    assert np.array_equal(engine(rows(8)), expected(rows(8)))
    with pytest.raises(tl.CallError, match="axis 0 is 7, not 8"):
        engine(rows(7))
    assert layers.dims and layers.specialised({}) is layers


def test_the_usual_size_guides_schedules(layers):
    (d,) = layers.specialised({"rows": (1, 4, 16)}).dims
    assert (d.lo, d.hint, d.hi) == (1, 4, 16)
    (d,) = layers.specialised({"rows": (2, 8), "x": [(4, 5, 16), 24]}).dims
    assert (d.lo, d.hint, d.hi) == (4, 5, 8)


def test_names_of_users_and_other_outputs(layers):
    g = layers.rename_dims({"rows": "lines"})
    assert "x: float32[lines, 24]" in str(g.specialised({"lines": (1, 9)}))
    assert "x: float32[3, 24]" in str(g.specialised({"lines": 3}))
    assert np.array_equal(
        g.compile(profile={"lines": 3}, outputs=["relu"])(rows(3)), np.maximum(rows(3) @ WEIGHTS[0], 0)
    )


@pytest.mark.parametrize(
    ("profile", "says"),
    [
        (3, "a mapping or None is needed"),
        ({"row": 3}, "'row' is neither an open size nor an input"),
        ({"rows": (5, 3)}, "not in order"),
        ({"rows": -1}, r"'rows'\] = -1: less than 0\n *because +sizes are at least 0.*\n *try +0"),
        ({"rows": 2**40}, "rows is counted in int32, so it is at most 2147483647"),
        ({"rows": (1, 2**31)}, "rows is counted in int32, so it is at most 2147483647"),
        ({"rows": "a"}, "neither a size nor bounds of one"),
        ({"rows": True}, "neither a size nor bounds of one"),
        ({"rows": (1, 2, 3, 4)}, "neither a size nor bounds of one"),
        ({"x": [3]}, "does not have the form of the input"),
        ({"x": 3}, "does not have the form of the input"),
        ({"x": [3, 25]}, "the graph says 24"),
        ({"rows": (1, 4), "x": [7, 24]}, "no number is in 1..4 and in 7..7"),
    ],
)
def test_contradictions_are_one_error(layers, profile, says):
    with pytest.raises(tl.DeclareError, match=says):
        layers.compile(profile=profile)


def test_bounds_outside_those_of_the_graph():
    g = tl.Graph()
    x = g.input((tl.te.dim("n", 4, 64, multiple_of=4), tl.te.dim("m") * 2), "float32", "x")
    g.output(g.call(ops.relu, x))
    for profile, says in (
        ({"n": 6}, "at least 4, at most 64, a multiple of 4"),
        ({"n": (4, 65)}, "at most 64"),
        ({"x": [None, 6]}, "bounds of m"),
    ):
        with pytest.raises(tl.DeclareError, match=says):
            g.specialised(profile)
    assert g.specialised({"n": (4, 8, 32), "m": 3}).inputs[0].sizes == (None, 6)


def test_a_model_of_a_file_is_imported_anew():
    """Shapes computed in the file become numbers, and conditions on sizes are decided."""
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    ints = lambda name, *v: helper.make_tensor(name, onnx.TensorProto.INT64, [len(v)], v)
    info = lambda n, shape: helper.make_tensor_value_info(n, 1, shape)
    branch = lambda op: helper.make_graph([helper.make_node(op, ["x"], ["r"])], op, [], [info("r", None)])
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["n"]),
        helper.make_node("Equal", ["n", "three"], ["is"]),
        helper.make_node("If", ["is"], ["y"], then_branch=branch("Relu"), else_branch=branch("Neg")),
    ]
    graph = helper.make_graph(
        nodes, "g", [info("x", ["n", 2])], [info("y", ["n", 2])], [ints("zero", 0), ints("three", 3)]
    )
    g = tl.load_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
    for n, op in ((3, "Relu"), (4, "Neg")):
        part = g.specialised({"n": n})
        assert [m.op for m in part.nodes] == [op] and not part.assumed and part.rest is None
    x = -np.ones((4, 2), "float32")
    assert np.array_equal(g.compile(profile={"x": [(1, 8), 2]})(x), -x)


def test_an_engine_for_another_processor_is_saved_and_not_run(layers, tmp_path):
    engine = layers.compile(target="llvm -mtriple=aarch64-linux-gnu", profile={"rows": (1, 4)})
    with pytest.raises(tl.TargetError, match="it is for aarch64"):
        engine(rows(2))
    assert "layers(x: float32[rows, 24])" in repr(engine)
    engine.save(tmp_path / "e.engine")
    with pytest.raises(tl.TargetError):
        tl.Engine.load(tmp_path / "e.engine")
