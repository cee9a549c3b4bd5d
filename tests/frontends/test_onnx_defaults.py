"""Initialisers that are inputs too: constants that a call may give, in engines, in files, in the shell."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.__main__ import main

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

W = np.arange(12, dtype="float32").reshape(4, 3)
B = np.array([1, -1, 2], "float32")
X = np.arange(8, dtype="float32").reshape(2, 4) - 3


def linear(ir=8, rows=4):
    """``x @ w + b``, its weights listed before and behind x; other rows of w are open unless a number."""
    f = TensorProto.FLOAT
    shapes = [("w", [rows, 3]), ("x", ["n", rows]), ("b", [3])]
    infos = [helper.make_tensor_value_info(n, f, s) for n, s in shapes]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Add", ["h", "b"], ["y"])]
    constants = [numpy_helper.from_array(W, "w"), numpy_helper.from_array(B, "b")]
    out = [helper.make_tensor_value_info("y", f, None)]
    graph = helper.make_graph(nodes, "linear", infos, out, constants)
    return helper.make_model(graph, ir_version=ir, opset_imports=[helper.make_opsetid("", 17)])


@pytest.fixture(scope="module")
def engine():
    return tl.load_onnx(linear()).compile()


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("ir", [3, 8])
def test_defaults_may_be_given(level, ir):
    e = tl.load_onnx(linear(ir)).compile(level=level)
    w, b = W[::-1] * 2, B + 5
    for _ in range(2):
        assert np.array_equal(e(X), X @ W + B)
        assert np.array_equal(e(X, w=w), X @ w + B)
        assert np.array_equal(e(X, b=b), X @ W + b)
        assert np.array_equal(e(w=w, b=b, x=X[:1]), X[:1] @ w + b)
        assert np.array_equal(e.run({"x": X, "w": w})["y"], X @ w + B)
    assert len(e.program.inputs) == 1


def test_weights_that_are_listed_are_packed_all_the_same():
    listed, plain = linear(), linear()
    del plain.graph.input[2], plain.graph.input[0]
    a, b = (tl.load_onnx(m).compile() for m in (listed, plain))
    assert [c.symbol for c in a.codes] == [c.symbol for c in b.codes]


def test_outputs_are_written_where_asked(engine):
    out = np.zeros((2, 3), "float32")
    assert engine(X, w=W + 1, out=out) is out and np.array_equal(out, X @ (W + 1) + B)


def test_defaults_of_other_sizes():
    """As the file declares them: here the rows of ``w`` are those of ``x``'s columns, and open."""
    e = tl.load_onnx(linear(rows="k")).compile()
    x, w = np.ones((3, 7), "float32"), np.arange(21, dtype="float32").reshape(7, 3)
    assert np.array_equal(e(x, w=w), x @ w + B)
    assert np.array_equal(e(x[:, :0], w=w[:0]), np.zeros((3, 3)) + B)
    assert np.array_equal(e(X), X @ W + B)


def test_a_default_that_decides_a_shape():
    f, i = TensorProto.FLOAT, TensorProto.INT64
    infos = [helper.make_tensor_value_info(n, t, s) for n, t, s in (("x", f, ["n"]), ("s", i, ["r"]))]
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "s"], ["y"])],
        "g",
        infos,
        [helper.make_tensor_value_info("y", f, None)],
        [numpy_helper.from_array(np.array([2, -1]), "s")],
    )
    e = tl.load_onnx(helper.make_model(graph)).compile()
    x = np.arange(12, dtype="float32")
    assert np.array_equal(e(x), x.reshape(2, 6))
    for shape in ([3, 4], [2, 2, -1], [-1]):
        assert np.array_equal(e(x, s=np.array(shape)), x.reshape(shape))


def test_what_does_not_fit_is_refused(engine):
    for call, says in [
        (lambda: engine(X, w=W.astype("float64")), "w, has dtype float64, declared float32"),
        (lambda: engine(X, w=W[:3]), "axis 0 is 3, not 4"),
        (lambda: engine(X, b=W), "2 axes, declared with 1"),
        (lambda: engine(X, v=W), "no argument v"),
        (lambda: engine(w=W), "x, is missing"),
        (lambda: engine(X, W, B), "3 given"),
    ]:
        with pytest.raises(tl.CallError, match=says):
            call()
    assert np.array_equal(engine(X), X @ W + B)


def test_files_have_what_was_given_or_asked_for(tmp_path):
    model = tl.load_onnx(linear())
    model.compile().save(tmp_path / "a")
    loaded = tl.Engine.load(tmp_path / "a", verify=True)
    with pytest.raises(tl.CallError, match=r"b cannot be given .*\n.*\n.*overridable=\['b'\]"):
        loaded(X, b=B)
    assert np.array_equal(loaded(X), X @ W + B)
    model.compile(overridable=["w", "b"]).save(tmp_path / "a")
    tl.Engine.load(tmp_path / "a").save(tmp_path / "b")
    for file in "ab":
        loaded = tl.Engine.load(tmp_path / file, verify=True)
        assert "may be given too: w (compiled), b (compiled)" in str(loaded)
        assert np.array_equal(loaded(X, b=B + 1), X @ W + B + 1)
        assert np.array_equal(loaded(X, b=B + 1, w=W + 1), X @ (W + 1) + B + 1)


def test_asked_for_at_compilation():
    model = tl.load_onnx(linear())
    assert list(model.defaults) == ["w", "b"] and "may be given too: w: float32[4, 3]" in str(model)
    calls = []
    e = model.compile(overridable=True, progress=lambda ready, all: calls.append(ready))
    calls.clear()
    assert np.array_equal(e(X, b=B + 1), X @ W + B + 1) and not calls
    for wrong in (["x"], ["q"], "q"):
        with pytest.raises(tl.TensorLangError, match="default"):
            model.compile(overridable=wrong)
    with pytest.raises(tl.TensorLangError, match="none in this graph"):
        tl.Graph().with_inputs("w")


def test_inputs_for_good_profiles_and_parts():
    model = tl.load_onnx(linear()).rename_dims({"n": "rows"})
    e = model.with_inputs("b").compile(profile={"rows": (1, 8)})
    assert e.program.input_names == ["x", "b"] and [d.name for d in e.program.dims] == ["rows"]
    assert np.array_equal(e(X, B + 1), X @ W + B + 1)
    e = model.compile(profile={"rows": 2}, outputs=["h"])
    assert np.array_equal(e(X, w=W + 1), X @ (W + 1)) and e.output_names == ["h"]
    with pytest.raises(tl.CallError, match="axis 0 is 1, not 2"):
        e(X[:1], w=W)
    e = model.specialised({"rows": 2}).subgraph(None, ["h"]).compile()
    assert np.array_equal(e(X, w=W + 1), X @ (W + 1))


def test_a_graph_that_was_changed_says_so():
    model = tl.load_onnx(linear())
    model.output(model.outputs[0], "again")
    e = model.compile()
    assert len(e(X)) == 2
    with pytest.raises(tl.CallError, match="other outputs since it was read"):
        e(X, b=B)


def test_files_are_read_again_and_not_kept(tmp_path, monkeypatch):
    """An engine holds no weights as they came: neither those that are listed nor any others."""
    file = tmp_path / "m.onnx"
    file.write_bytes(linear().SerializeToString())
    monkeypatch.chdir(tmp_path)
    model = tl.load_onnx("m.onnx")
    monkeypatch.chdir("/")
    w = weakref.ref(model.defaults["w"])
    e = model.compile()
    del model
    gc.collect()
    assert w() is None
    assert np.array_equal(e(X, w=W + 1), X @ (W + 1) + B)
    file.write_bytes(b"")
    assert np.array_equal(e(X, w=W + 2), X @ (W + 2) + B)
    with pytest.raises(tl.TensorLangError, match="is not there as it was"):
        e(X, b=B)
    file.unlink()
    with pytest.raises(tl.TensorLangError, match="is not there as it was"):
        e(X, b=B)


def test_state_begins_with_its_default():
    f = TensorProto.FLOAT
    infos = [helper.make_tensor_value_info(n, f, [3]) for n in ("state", "x", "new", "y")]
    graph = helper.make_graph(
        [helper.make_node("Add", ["state", "x"], ["new"]), helper.make_node("Neg", ["new"], ["y"])],
        "g",
        infos[:2],
        infos[2:],
        [numpy_helper.from_array(B, "state")],
    )
    bound = tl.load_onnx(helper.make_model(graph)).compile().bind(new="state")
    x = np.ones(3, "float32")
    for k in range(1, 4):
        assert np.array_equal(bound(x), -(B + k))


def test_profiles_and_reports_of_calls_that_give_some(engine, tmp_path):
    assert engine.profile(X, w=W, seconds=0.01).rows
    engine.report(tmp_path / "page.html", X, b=B, seconds=0.01)
    assert (tmp_path / "page.html").stat().st_size > 1000


def test_from_the_shell(tmp_path, capsys):
    file = tmp_path / "m.onnx"
    file.write_bytes(linear().SerializeToString())
    assert main(["compile", str(file), "--workers", "1", "--overridable", "b"]) == 0
    capsys.readouterr()
    np.savez(tmp_path / "in.npz", x=X, b=B * 2)
    for model in (file, file.with_suffix(".engine")):
        assert main(["inspect", str(model)]) == 0
        assert "may be given too: w" in capsys.readouterr().out
        assert main(["run", str(model), str(tmp_path / "in.npz"), "-o", str(tmp_path / "out.npz")]) == 0
        assert np.array_equal(np.load(tmp_path / "out.npz")["y"], X @ W + B * 2)


def test_hostile_files_of_overrides_are_refused(tmp_path):
    e = tl.load_onnx(linear()).compile(overridable=["b"])
    e.save(tmp_path / "good")
    data = (tmp_path / "good").read_bytes()
    from tensorlang.runtime import engine_file

    begin = data.index(b"\n") + 1
    table = data[begin : begin + engine_file._TABLE]
    n, code, start, weights = (int(x, 16) for x in table.split(b" ")[1:5])
    head = begin + engine_file._TABLE + 1
    header, rest = data[head : head + n], data[head + n : head + n + code]
    at = header.index(b'"given":')
    for bad in (b'"given":[["b"],[["b",99]],[[["b"],1]]]}', b'"given":[["b"],[["b",0]],[[["b"],0]]]}',
                b'"given":[["w"],[["w",0]],[[["w"],1]]]}', b'"given":3}'):  # fmt: skip
        file = engine_file.assembled(header[:at] + bad, rest, data[start : start + weights])
        (tmp_path / "bad").write_bytes(file)
        with pytest.raises(tl.TensorLangError, match="makes no sense"):
            tl.Engine.load(tmp_path / "bad")
