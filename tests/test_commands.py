"""Models from the shell: looked at, compiled to a file, run on arrays."""

from __future__ import annotations

import numpy as np
import pytest

from tensorlang.__main__ import main


@pytest.fixture
def file(tmp_path):
    helper = pytest.importorskip("onnx").helper
    infos = [helper.make_tensor_value_info(n, 1, ["n", 3]) for n in "xy"]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "negated", infos[:1], infos[1:])
    path = tmp_path / "model.onnx"
    path.write_bytes(helper.make_model(graph).SerializeToString())
    return path


def test_inspect_compile_run(file, tmp_path, capsys):
    assert main(["inspect", str(file)]) == 0
    assert "input x: float32[n, 3]" in capsys.readouterr().out
    assert main(["compile", str(file), "--workers", "1"]) == 0
    x, outputs = np.arange(6, dtype="float32").reshape(2, 3), tmp_path / "out.npz"
    np.savez(tmp_path / "in.npz", x=x)
    for model in (file, file.with_suffix(".engine")):
        assert main(["run", str(model), str(tmp_path / "in.npz"), "-o", str(outputs)]) == 0
        assert "y: float32[2, 3]" in capsys.readouterr().out
        assert np.array_equal(np.load(outputs)["y"], -x)
        outputs.unlink()


def test_outputs_of_any_name_and_in_sequences(tmp_path):
    helper = pytest.importorskip("onnx").helper
    infos = [helper.make_tensor_value_info("x", 1, ["n", 3]), helper.make_tensor_value_info("file", 1, None)]
    parts = helper.make_tensor_sequence_value_info("parts", 1, None)
    nodes = [
        helper.make_node("Neg", ["x"], ["file"]),
        helper.make_node("SplitToSequence", ["x"], ["parts"], axis=1),
    ]
    graph = helper.make_graph(nodes, "g", infos[:1], [infos[1], parts])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    x = np.arange(6, dtype="float32").reshape(2, 3)
    np.savez(tmp_path / "in.npz", x=x)
    assert main(["run", str(tmp_path / "m.onnx"), str(tmp_path / "in.npz"), "-o", str(tmp_path / "out")]) == 0
    found = np.load(tmp_path / "out.npz")
    assert np.array_equal(found["file"], -x)
    assert all(np.array_equal(found[f"parts.{k}"], x[:, k : k + 1]) for k in range(3))


def test_mistakes_are_one_message(file, tmp_path, capsys):
    """Of files that are no archive, too: numpy would tell of pickles and of a keyword of its own."""
    (tmp_path / "bad.npz").write_text("no arrays")
    np.savez(tmp_path / "in.npz", x=np.ones((2, 3), "float32"))
    (tmp_path / "short.npz").write_bytes((tmp_path / "in.npz").read_bytes()[:100])
    np.save(tmp_path / "one.npy", np.ones(3))
    for argv, says in (
        (["inspect", str(tmp_path / "none.onnx")], "none.onnx"),
        (["run", str(file), str(tmp_path / "bad.npz")], "not a zip file"),
        (["run", str(tmp_path / "none.engine"), str(tmp_path / "bad.npz")], "cannot load"),
        (["run", str(file), str(tmp_path / "short.npz")], "cannot be read"),
        (["run", str(file), str(tmp_path / "one.npy")], "not a zip file"),
        (
            ["run", str(file), str(tmp_path / "in.npz"), "-o", str(tmp_path / "no" / "y.npz")],
            "cannot be written",
        ),
    ):
        assert main(argv) == 1
        assert says in capsys.readouterr().err
