"""What can run an ONNX file: one function a runtime, which makes outputs by name from inputs by name. The
only file that knows the packages of others, which are imported when they are asked for."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

from ..frontends import load_onnx
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


RUNTIMES: dict[str, Callable[[str, int | None], Run]] = {
    OURS: tensorlang,
    "onnxruntime": onnxruntime,
    "openvino": openvino,
}


def installed() -> list[str]:
    """The runtimes there are, ours first."""
    return [name for name in RUNTIMES if importlib.util.find_spec(name) is not None]
