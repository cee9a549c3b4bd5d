"""The image classifiers of the package ``onnx``, with weights. Its own files keep one number for all weights
of a layer, which no runtime should be timed with: a sum of equal numbers can be had for less. So each tensor
is drawn by a seed, by what reads it, such that signals keep their size from layer to layer. Knows onnx.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np

SIZE = 224
MODELS = ("resnet50", "densenet121", "squeezenet", "shufflenet", "inception_v1", "inception_v2", "vgg19")


def write(name: str, file: Path) -> None:
    """Write a model with weights to ``file``; the folder is made."""
    import onnx
    from onnx import helper, numpy_helper

    model = onnx.load(str(Path(onnx.__file__).parent / f"backend/test/data/light/light_{name}.onnx"))
    graph = model.graph
    known = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    filled = [n for n in graph.node if n.op_type == "ConstantOfShape" and n.input[0] in known]
    readers = _readers(graph)
    growth = 2.0 if any(n.op_type == "Sum" for n in graph.node) else 1.0
    weights = []
    for n in filled:
        shape, drawn = known[n.input[0]], np.random.default_rng(zlib.crc32(n.output[0].encode()))
        made = _weights(*readers[n.output[0]], tuple(int(d) for d in shape), growth, drawn)
        weights.append(numpy_helper.from_array(made.astype("float32"), n.output[0]))
    gone = {n.input[0] for n in filled}
    kept = [t for t in graph.initializer if t.name not in gone]
    inputs = [i for i in graph.input if i.name not in known]
    nodes = [n for n in graph.node if n not in filled]
    made = helper.make_graph(nodes, name, inputs, list(graph.output), [*kept, *weights])
    opsets = [helper.make_opsetid(o.domain, o.version) for o in model.opset_import]
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    onnx.save(helper.make_model(made, opset_imports=opsets, ir_version=8), str(part))
    part.replace(file)


def _readers(graph: Any) -> dict[str, tuple[str, int]]:
    """The operator that reads a value and its position there; looked up through Unsqueeze."""
    found: dict[str, tuple[str, int]] = {}
    for n in reversed(graph.node):
        for at, i in enumerate(n.input):
            found[i] = found[n.output[0]] if n.op_type == "Unsqueeze" else (n.op_type, at)
    return found


def _weights(
    reader: str, at: int, shape: tuple[int, ...], growth: float, drawn: np.random.Generator
) -> np.ndarray:
    """Weights of a layer (He et al., Delving Deep into Rectifiers, section 2.2), variances about ``growth``,
    that of a residual sum over its summands', scales near one, and small offsets."""
    noise = drawn.standard_normal(shape)
    match reader, at:
        case (("Conv" | "Gemm"), 1):
            return noise * np.sqrt(2 / np.prod(shape[1:]))
        case "BatchNormalization", 4:
            return growth * (1 + 0.2 * np.abs(noise))
        case ("BatchNormalization", 1) | ("Mul", _):
            return 1 + 0.1 * noise
    return 0.02 * noise
