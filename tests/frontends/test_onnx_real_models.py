"""Real models beside onnxruntime, at three sizes each, with nothing compiled for a size. They are fetched by
``python -m benchmarks.models.fetch``; without them the tests are skipped."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
import tensorlang as tl  # noqa: E402
from benchmarks.models.cases import CASES, inputs_of  # noqa: E402
from benchmarks.models.fetch import path  # noqa: E402
from tensorlang.graph.kernels import Compiler  # noqa: E402
from tensorlang.graph.to_engine import compiled  # noqa: E402

QUICK = ("silero-16k", "magika")
MODELS = [m if m in QUICK else pytest.param(m, marks=pytest.mark.fuzz) for m in CASES]


@pytest.mark.parametrize("model", MODELS)
def test_a_real_model_answers_as_onnxruntime(model):
    file = path(model)
    if file is None:
        pytest.skip(f"{model} is not here, python -m benchmarks.models.fetch brings it")
    graph, compiler = tl.load_onnx(file), Compiler()
    assert (graph.rest is None) == (model != "silero"), "only a rate that is an input is known late"
    engine = compiled(graph, compiler)
    peer = runtime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    seen: dict[int, int] = {}
    for given in inputs_of(model, graph):
        for a, b in zip(engine.run(given).values(), peer.run(None, given), strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-4 * max(1.0, float(np.abs(b).max())))
        kernels = seen.setdefault(int(given.get("sr", 0)), len(compiler.made))
        assert len(compiler.made) == kernels, "a size was compiled for"
