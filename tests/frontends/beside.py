"""One ONNX node on arrays, beside onnx's reference in numpy. Sizes are open unless asked for."""

from __future__ import annotations

import numpy as np
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import tensorlang as tl


def ran(op, arrays, outputs=1, opset=23, known=(), domain="", closed=(), **attrs):
    """(graph, results of ours) for one node; ``known`` are the positions of inputs that are constants,
    ``closed`` those whose sizes are numbers. An input of None is left out."""
    model = made(op, arrays, outputs, opset, known, domain, closed, **attrs)
    graph = tl.load_onnx(model)
    given = {f"x{i}": a for i, a in enumerate(arrays) if a is not None and i not in known}
    return graph, list(graph.compile().run(given).values()), model, given


def made(op, arrays, outputs=1, opset=23, known=(), domain="", closed=(), **attrs):
    """The model of that node."""
    names = ["" if a is None else f"x{i}" for i, a in enumerate(arrays)]
    inputs = [
        helper.make_tensor_value_info(
            f"x{i}",
            helper.np_dtype_to_tensor_dtype(a.dtype),
            list(a.shape) if i in closed else [f"x{i}_{d}" for d in range(a.ndim)],
        )
        for i, a in enumerate(arrays)
        if a is not None and i not in known
    ]
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, results, domain=domain, **attrs)
    infos = [helper.make_empty_tensor_value_info(n) for n in results]
    constants = [numpy_helper.from_array(arrays[i], f"x{i}") for i in known]
    opsets = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    return helper.make_model(helper.make_graph([node], "g", inputs, infos, constants), opset_imports=opsets)


def agree(op, arrays, outputs=1, *, rtol=1e-5, atol=1e-6, whole=False, **how):
    """Ours is what onnx's reference says; with no continuation unless ``whole``."""
    graph, got, model, given = ran(op, arrays, outputs, **how)
    assert whole or graph.rest is None
    for a, b in zip(got, ReferenceEvaluator(model).run(None, given), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


def floats(*shape, seed=0):
    """Some normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")
