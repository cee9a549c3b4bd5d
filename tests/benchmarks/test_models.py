"""The benchmarks of models run; nothing is asked of their figures."""

from __future__ import annotations

import numpy as np
import onnx

import tensorlang as tl
from benchmarks.models import cases, light, times


def test_a_chain_of_small_operators_is_right_and_reported(monkeypatch):
    monkeypatch.setattr(times, "OPERATORS", 5)
    assert times.chain(2).startswith(f"5 operators on {times.ELEMENTS} elements")


def test_a_light_model_gets_weights_that_are_all_different(tmp_path):
    file = tmp_path / "squeezenet.onnx"
    light.write("squeezenet", file)
    model = onnx.load(file)
    assert "ConstantOfShape" not in {n.op_type for n in model.graph.node}
    large = [onnx.numpy_helper.to_array(t) for t in model.graph.initializer if len(t.dims) == 4]
    assert len(large) == 26 and all(len(np.unique(w)) > w.size / 2 for w in large)
    graph = tl.load_onnx(file)
    (inputs,) = cases.inputs_of("squeezenet", graph)
    run = graph.compile(level=0).run
    (answer,) = run(inputs).values()
    (other,) = run({n: -x for n, x in inputs.items()}).values()
    assert np.isfinite(answer).all() and np.abs(answer - other).max() > 1e-3 * answer.max()
