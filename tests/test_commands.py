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


def test_mistakes_are_one_message(file, tmp_path, capsys):
    (tmp_path / "bad.npz").write_text("no arrays")
    for argv, says in (
        (["inspect", str(tmp_path / "none.onnx")], "none.onnx"),
        (["run", str(file), str(tmp_path / "bad.npz")], "cannot be read"),
        (["run", str(tmp_path / "none.engine"), str(tmp_path / "bad.npz")], "cannot load"),
    ):
        assert main(argv) == 1
        assert says in capsys.readouterr().err
