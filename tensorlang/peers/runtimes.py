"""What can run an ONNX file: one function a runtime, which makes outputs by name from inputs by name. The
only file that knows the packages of others, which are imported when they are asked for."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..frontends import load_onnx
from ..frontends.onnx.proto import package
from ..runtime.threads import set_num_threads

Run = Callable[[Mapping[str, Any]], dict[str, Any]]
OURS = "tensorlang"


def tensorlang(file: str, threads: int | None, level: int = 2) -> Run:
    """This package's engine."""
    set_num_threads(threads)
    return load_onnx(file).compile(level=level).run


def onnxruntime(model: str | bytes, threads: int | None, folder: str = "", plain: bool = False) -> Run:
    """onnxruntime on the processor. ``plain``: without what it does to a graph; ``folder`` is where a model
    of bytes has its external data."""
    import onnxruntime as rt

    options = rt.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads or 0, 3
    if plain:
        options.graph_optimization_level = rt.GraphOptimizationLevel.ORT_DISABLE_ALL
    if folder:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
    session = rt.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return lambda inputs: dict(zip(names, session.run(None, dict(inputs)), strict=True))


def openvino(file: str, threads: int | None) -> Run:
    """OpenVINO on the processor, in float32 and for one call at a time. It would multiply weights that a file
    holds as integers with activations rounded to eight bits."""
    import openvino as ov

    core = ov.Core()
    how = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0",
    }
    if threads is not None:
        how["INFERENCE_NUM_THREADS"] = str(threads)
    model = core.compile_model(core.read_model(file), "CPU", how)
    request, outputs = model.create_infer_request(), [(o.any_name, o) for o in model.outputs]

    def run(inputs: Mapping[str, Any]) -> dict[str, Any]:
        made = request.infer(dict(inputs), share_inputs=True, share_outputs=True)
        return {name: made[o] for name, o in outputs}

    return run


def mnn(file: str, threads: int | None) -> Run:
    """MNN on the processor, in float32: the file is converted first. Whole numbers are of 32 bits there."""
    import _tools  # MNN's converter without its command, which reports to its makers and calls pip
    import MNN.expr as expr
    import MNN.nn as nn

    proto = package().load(file, load_external_data=False)
    constants = {t.name for t in proto.graph.initializer}
    inputs = [i.name for i in proto.graph.input if i.name not in constants]
    outputs = [o.name for o in proto.graph.output]
    how = {"backend": "CPU", "precision": "high", "numThread": threads or os.cpu_count() or 1}
    manager = nn.create_runtime_manager((how,))
    with tempfile.TemporaryDirectory() as folder:
        made = str(Path(folder, "model.mnn"))
        _tools.mnnconvert(["", "-f", "ONNX", "--modelFile", file, "--MNNModel", made])
        net = nn.load_module_from_file(made, inputs, outputs, runtime_manager=manager)

    def given(a: np.ndarray) -> Any:
        kind, wide = (expr.float, np.float32) if a.dtype.kind == "f" else (expr.int, np.int32)
        return expr.const(np.ascontiguousarray(a, wide), list(a.shape), expr.NCHW, kind)

    def run(arrays: Mapping[str, Any]) -> dict[str, Any]:
        found = net.forward([given(np.asarray(arrays[n])) for n in inputs])
        return {n: v.read() for n, v in zip(outputs, found, strict=True)}

    return run


RUNTIMES: dict[str, Callable[[str, int | None], Run]] = {
    OURS: tensorlang,
    "onnxruntime": onnxruntime,
    "openvino": openvino,
    "MNN": mnn,
}


def installed() -> list[str]:
    """The runtimes there are, ours first."""
    needs = {"MNN": ("MNN", "_tools", "onnx")}
    return [
        name
        for name in RUNTIMES
        if all(importlib.util.find_spec(n) is not None for n in needs.get(name, (name,)))
    ]
